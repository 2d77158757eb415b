-- sections_peer.lua: the same in PyTorch, and the ratios; the same statistic on both sides (bench/gpu/torch_peer.py).
-- SPDX-License-Identifier: Apache-2.0
local record = require "record"
local run = require "run"

local peer = {}
local WANTED = 1.3 -- of PyTorch's best, for captcha_cnn in bf16 at batch 1024

local function flags(list)
  list[#list + 1] = ("--steps=%d"):format(run.o.steps)
  list[#list + 1] = ("--rounds=%d"):format(run.o.rounds)
  table.insert(list, 1, run.root .. "/bench/gpu/torch_peer.py")
  return list
end

-- One case of PyTorch as a row: the last that it prints. -> milliseconds, nil without
local function case(section, what, words, needs)
  local out = run.torch(section, what, flags(words), {needs = needs})
  local cases = out and run.objects(out) or {}
  local f = cases[#cases]
  if not f then return nil end
  if f.error then record.row(section, what, "failed", f.error, {metrics = f}) return nil end
  record.row(section, what, "passed", ("%.4f ms (%.4f to %.4f)"):format(f.step_ms, f.min_ms, f.max_ms),
    {ms = f.step_ms, metrics = f})
  return f.step_ms
end

-- A row "ratio": how many times as fast capl is as the best of PyTorch. wanted: below that it fails
local function ratio(section, what, capl, best, wanted)
  local row = "ratio, " .. what
  if not capl or not best then
    record.row(section, row, "not run", ("%s was not measured"):format(capl and "PyTorch" or "capl"))
    return
  end
  local times = best / capl
  local met = not wanted and "" or times >= wanted and (", target %.1f met"):format(wanted)
    or (", target %.1f not met"):format(wanted)
  record.row(section, row, wanted and times < wanted and "failed" or "passed",
    ("capl %.4f ms, PyTorch at its best %.4f ms: %.2f times%s"):format(capl, best, times, met),
    {metrics = {ratio = times}})
end

local function least(a, b) return a and b and math.min(a, b) or a or b end

-- All modes of a case: eager first, compile last, which takes a minute.
local function modes(name, words)
  local best
  for _, mode in ipairs{"eager", "graph", "compile"} do
    local asked = {unpack(words)}
    asked[#asked + 1] = "--modes=" .. mode
    best = least(best, case("torch", name .. " " .. mode, asked, mode == "compile" and 90 or 25))
    if run.stopped then return best end
  end
  return best
end

-- The same with a data set on the GPU, augmented there: beside capl's row "with data".
local function with_data(name, words)
  local best
  for _, mode in ipairs{"eager", "graph"} do
    local asked = {unpack(words)}
    asked[#asked + 1], asked[#asked + 2] = "--data", "--modes=" .. mode
    best = least(best, case("torch", name .. " with data " .. mode, asked, 60))
    if run.stopped then return best end
  end
  return best
end

local function ms_of(section, what)
  local row = record.find(section, what)
  return row and row.ms
end

function peer.torch()
  if not run.has_torch() then
    record.row("torch", "all", "not run", run.python .. " has no PyTorch that sees a GPU") return
  end
  for _, precision in ipairs(run.o.precisions) do
    for _, batch in ipairs(run.o.batches) do
      local name, words = precision .. "-" .. batch, {"--precisions=" .. precision, "--batches=" .. batch}
      local best = modes(name, words)
      if run.stopped then return end
      ratio("torch", name .. " step", ms_of("bench", name .. " captured"), best, name == "bf16-1024" and WANTED or nil)
      if precision == "bf16" then
        best = with_data(name, words)
        if run.stopped then return end
        ratio("torch", name .. " with data", ms_of("bench", name .. " with data"), best)
      end
    end
    for _, batch in ipairs(run.o.quick and {1} or {1, 64, 1024}) do
      local name = ("%s-%d"):format(precision, batch)
      local best = modes("infer " .. name, {"--infer", "--precisions=" .. precision, ("--batches=%d"):format(batch)})
      if run.stopped then return end
      ratio("torch", "infer " .. name, ms_of("infer", name), best)
    end
  end
end

--- PyTorch's layers beside those of the section layers.
function peer.layers()
  if not run.has_torch() then
    record.row("layers", "PyTorch", "not run", run.python .. " has no PyTorch that sees a GPU") return
  end
  for _, precision in ipairs(run.o.precisions) do
    local words = {"--layers", "--precisions=" .. precision}
    if run.o.quick then words[#words + 1] = "--small" end
    local out = run.torch("layers", "PyTorch " .. precision, flags(words), {needs = 40})
    for _, f in ipairs(out and run.objects(out) or {}) do
      local name = precision .. " " .. f.layer
      if f.error then record.row("layers", "PyTorch " .. name, "failed", f.error) end
      ratio("layers", name, ms_of("layers", name), f.ms)
    end
    if run.stopped then return end
  end
end

return peer
