-- sections_speed.lua: how fast capl is on the GPU: training steps, engines, inference, layers, data.
-- SPDX-License-Identifier: Apache-2.0
local record = require "record"
local run = require "run"

local sections = {}
local IMAGES, EPOCHS, WANTED_S, WANTED_FLOOR = 50030, 150, 75, 0.6

-- "1.234 ms (1.230 to 1.240)" of a bench's blocks.
local function block_text(f)
  local _, low, high = run.median(f.blocks_ms or {f.step_ms})
  return ("%.4f ms (%.4f to %.4f), %.1f images/s"):format(f.step_ms, low, high, f.images_per_s)
end

-- Where a program lists what runs its records (engine/backend/cuda/dnn.h).
local function plan_file(section, what)
  local path = ("%s/plans-%s-%s.jsonl"):format(run.out, section, what:gsub("[^%w]+", "-"))
  os.remove(path)
  return path
end

-- The list, a line for each record, and how many were found how: "20 tuned, 3 loaded".
local function plans_of(path)
  local of, list, counts, words = {}, {}, {}, {}
  for _, line in ipairs(path and record.lines(path) or {}) do
    of[line.record] = of[line.record] or #list + 1
    list[of[line.record]] = line
  end
  for _, line in ipairs(list) do counts[line.how] = (counts[line.how] or 0) + 1 end
  for _, how in ipairs{"tuned", "loaded", "first", "faster", "untimed", "none"} do
    if counts[how] then words[#words + 1] = ("%d %s"):format(counts[how], how) end
  end
  return list, #words > 0 and "; engines: " .. table.concat(words, ", ") or ""
end

-- What is kept of a bench: not the table of ops.
local function kept(f, plans)
  local out = {plans = plans}
  for key, value in pairs(f) do
    if key ~= "ops" and key ~= "by_op" then out[key] = value end
  end
  return out
end

-- Why a bench that was to be captured was not, or not always.
local function not_captured(f)
  if (f.captured_steps or 0) == f.steps then return nil end
  return ("%d of %d steps were captured: %s"):format(f.captured_steps or 0, f.steps, f.capture_refused
    or "nobody said why not")
end

-- The row of a program that printed metrics. -> them, nil where they are missing or nothing was captured
local function timed(section, what, out, o)
  local f = run.objects(out)[1]
  if not f or not f.step_ms then record.row(section, what, "failed", "it printed no metrics") return nil end
  local refused, plans, engines = o.captured and not_captured(f), plans_of(o.plans)
  local value = (o.ops and ("%.4f ms summed over all ops"):format(f.floor_sum_ms) or block_text(f)) .. engines
  record.row(section, what, refused and "failed" or "passed", refused or value,
    {ms = o.ops and f.floor_sum_ms or f.step_ms, metrics = kept(f, plans)})
  return not refused and f or nil
end

-- `capl bench` as a row.
local function bench(section, what, words, o)
  local steps = run.o.steps * run.o.rounds
  local all = {"bench", words[1], "--json", ("--steps=%d"):format(steps), ("--warmup=%d"):format(run.o.warmup or 8)}
  if not o.ops then all[#all + 1] = ("--blocks=%d"):format(run.o.rounds) end
  for i = 2, #words do all[#all + 1] = words[i] end
  o.plans = plan_file(section, what)
  local out = run.capl_program(section, what, all, {needs = o.needs or 25, env = {CAPL_DNN_PLANS = o.plans}})
  return out and timed(section, what, out, o)
end

-- A target that a card shall reach, as a row: what it is, and whether it is met. nil: it was not measured.
local function target(what, value, met, text)
  if value == nil then
    record.row("bench", "target: " .. what, "not run", "what it is made of was not measured") return
  end
  record.row("bench", "target: " .. what,
    met and "passed" or "failed", text .. (met and ", met" or ", not met"), {metrics = {value = value}})
end

-- The share of the floor and the time of a whole training, of the case that they are about.
local function targets()
  local step, floor = record.find("bench", "bf16-1024 captured"), record.find("bench", "bf16-1024 floor")
  local share = step and floor and floor.ms / step.ms
  target("60 % of the summed floor", share, share and share >= WANTED_FLOOR, share and ("%.1f %%"):format(100 * share))
  local data = record.find("bench", "bf16-1024 with data")
  local seconds = data and IMAGES * EPOCHS / data.metrics.images_per_s
  target(("%d images x %d epochs in %d s (H200)"):format(IMAGES, EPOCHS, WANTED_S), seconds, seconds
    and seconds <= WANTED_S, seconds and ("%.1f s"):format(seconds))
end

function sections.bench()
  local recipe = run.root .. "/recipes/captcha_cnn.lua"
  for _, precision in ipairs(run.o.precisions) do
    for _, batch in ipairs(run.o.batches) do
      local name = precision .. "-" .. batch
      local words = {recipe, "--fixed", "--precision=" .. precision, "--batch=" .. batch}
      for _, mode in ipairs(run.o.modes) do
        local captured = mode == "captured"
        local flags = {unpack(words)}
        flags[#flags + 1] = "--capture=" .. tostring(captured)
        bench("bench", name .. " " .. mode, flags, {captured = captured})
      end
      if not run.o.quick then -- the rates are measured with products that take a GPU
        local flags = {unpack(words)}
        flags[#flags + 1], flags[#flags + 2] = "--capture=false", "--ops"
        bench("bench", name .. " floor", flags, {ops = true})
      end
      if precision == "bf16" then
        bench("bench", name .. " with data",
          {run.root .. "/recipes/a100_ddp.lua", "--device=cuda:0", "--precision=bf16",
          "--batch=" .. batch}, {captured = true, needs = 30})
      end
      if run.stopped then return end
    end
  end
  if not run.o.quick then targets() end
end

-- ---- engines ----

-- Rows of the list of dnn.h: for each record what is chosen, beside the best of the others and their number.
local function engine_rows(path)
  local of, order = {}, {}
  for _, line in ipairs(record.lines(path)) do
    if not of[line.record] then
      of[line.record] = {}
      order[#order + 1] = line.record
    end
    table.insert(of[line.record], line)
  end
  for _, name in ipairs(order) do
    local parts, ms = {}, nil
    table.sort(of[name], function(a, b) return (a.ms or math.huge) < (b.ms or math.huge) end)
    for _, line in ipairs(of[name]) do
      local took = line.ms and ("%.4f ms"):format(line.ms) or "failed"
      parts[#parts + 1] = ("%s%s %s, %.0f MB"):format(line.chosen and "*" or "", line.engine, took,
        line.workspace / 1e6)
      if line.chosen then ms = math.min(ms or math.huge, line.ms or math.huge) end
    end
    record.row("engines", name, ms and "passed" or "failed", table.concat(parts, "; "),
      {ms = ms, metrics = {engines = of[name]}})
  end
  return #order
end

local function listed(what, words, file)
  local path = run.out .. "/" .. file
  os.remove(path)
  local out = run.capl_program("engines", what, words, {needs = 60, env = {CAPL_DNN_ENGINES = path}})
  if not out then return end
  local n = engine_rows(path)
  record.row("engines", what, n > 0 and "passed" or "failed", n > 0 and n .. " records"
    or "cuDNN was asked for nothing: " .. path)
end

function sections.engines()
  local precision, batch = run.o.precisions[1], run.o.batches[1]
  listed("captcha_cnn", {"bench", run.root .. "/recipes/captcha_cnn.lua", "--json", "--fixed", "--steps=1",
    "--warmup=1",
    "--capture=false", "--precision=" .. precision, "--batch=" .. batch}, "engines.jsonl")
  if run.stopped then return end
  listed("with and without bias, C = 1 and 8",
    {run.root .. "/bench/gpu/convs.lua", "--precision=" .. precision, "--batch=" .. batch}, "engines-convs.jsonl")
  record.row("engines", "convolution + GENSTATS", "not run", "capl has no record of it")
end

-- ---- inference, layers, data ----

function sections.infer()
  for _, precision in ipairs(run.o.precisions) do
    for _, batch in ipairs(run.o.quick and {1} or {1, 64, 1024}) do
      local what = ("%s-%d"):format(precision, batch)
      local plans = plan_file("infer", what)
      local out = run.capl_program("infer", what, {run.root .. "/bench/gpu/infer.lua", "--precision=" .. precision,
        ("--batch=%d"):format(batch), ("--steps=%d"):format(run.o.steps), ("--rounds=%d"):format(run.o.rounds)},
        {needs = 15, env = {CAPL_DNN_PLANS = plans}})
      if out then timed("infer", what, out, {captured = true, plans = plans}) end
      if run.stopped then return end
    end
  end
end

local function layer_row(f)
  local what = f.precision .. " " .. f.layer
  if (f.captured_steps or 0) < 1 then record.row("layers", what, "failed",
    "no step was captured: " .. tostring(f.refused))
  else record.row("layers", what, "passed", ("%.4f ms"):format(f.ms), {ms = f.ms, metrics = f}) end
end

function sections.layers()
  for _, precision in ipairs(run.o.precisions) do
    local words = {run.root .. "/bench/gpu/layers.lua", "--precisions=" .. precision,
      ("--times=%d"):format(run.o.steps),
      ("--rounds=%d"):format(run.o.rounds)}
    if run.o.quick then words[#words + 1] = "--small" end
    local path = plan_file("layers", precision)
    local out = run.capl_program("layers", precision, words, {needs = 20, env = {CAPL_DNN_PLANS = path}})
    for _, f in ipairs(out and run.objects(out) or {}) do
      if f.layer then layer_row(f) end
    end
    local plans, engines = plans_of(path)
    if out then
      record.row("layers", precision .. " engines", "passed", #plans .. " records" .. engines,
        {metrics = {plans = plans}})
    end
    if run.stopped then return end
  end
  if not run.stopped then require("sections_peer").layers() end
end

function sections.data()
  local floor = record.find("bench", "bf16-1024 floor")
  local rate = floor and floor.metrics.rates and floor.metrics.rates.gb_per_s
  local words = {run.root .. "/bench/gpu/augment.lua"}
  if rate then words[2] = ("--copy_gb_s=%.10g"):format(rate) end
  for _, word in ipairs(run.o.quick and {"--images=2", "--side=64", "--times=2"} or {}) do words[#words + 1] = word end
  local out = run.capl_program("data", "augment", words, {needs = 40})
  for _, f in ipairs(out and run.objects(out) or {}) do
    if f.case then
      record.row("data", ("%s, %s, %s"):format(f.case, f.dtype, f.normalize), "passed",
        ("%.4f ms, %.1f GB/s%s"):format(f.ms, f.gb_s, f.ratio and (", %.2f times the floor"):format(f.ratio) or ""),
        {ms = f.ms, metrics = f})
    end
  end
end

function sections.monitor()
  local out = run.capl_program("monitor", "readings", {"monitor", "--count=3", "--json"}, {needs = 10})
  if out then record.row("monitor", "readings", out:find('"power_w"') and "passed" or "not run", run.last(out)) end
  if run.o.quick or run.stopped then return end
  out = run.capl_program("monitor", "precision=fp32,bf16",
    {"bench", run.root .. "/recipes/captcha_cnn.lua", "--ab", "precision=fp32,bf16",
    "--fixed", "--batch=" .. run.o.batches[1], ("--steps=%d"):format(run.o.steps)}, {needs = 60})
  for name, text in (out or ""):gmatch("\n  (precision=%w+)%s+([^\n]+)") do
    record.row("monitor", name, "passed", text)
  end
end

function sections.ncu()
  if not run.has("ncu") then record.row("ncu", "plain step", "not run", "ncu is not on the PATH") return end
  local file = run.out .. "/step"
  if run.program("ncu", "plain step",
    {"ncu", "-f", "-o", file, "--target-processes", "all", "--launch-count", "400", run.capl, "--trust",
    "bench", run.root .. "/recipes/captcha_cnn.lua", "--fixed", "--steps=1", "--warmup=1", "--capture=false",
    "--precision=" .. run.o.precisions[1], "--batch=" .. run.o.batches[1]}, {needs = 120}) then
    record.row("ncu", "plain step", "passed", file .. ".ncu-rep")
  end
end

return sections
