-- sections_right.lua: whether the GPU computes what it should: ops, the same bits, captured steps, collectives,
-- trainings.
-- SPDX-License-Identifier: Apache-2.0
local record = require "record"
local run = require "run"

local sections = {}
local QUICK_TRAIN = {"--batch=2", "--channels=8"}

-- list, then the words of another one where `really`.
local function with(list, more, really)
  local out = {unpack(list)}
  for _, word in ipairs(really == false and {} or more) do out[#out + 1] = word end
  return out
end

function sections.info()
  local out = run.capl_program("info", "libraries", {"info"}, {needs = 5})
  if not out then return end
  for line in (out:match("\ncuda\n(.-)\nenvironment") or ""):gmatch("[^\n]+") do print(line) end
  record.row("info", "libraries", "passed", out:match("\n  cuDNN%s+([^\n]+)") or "no cuDNN",
    {metrics = {text = out:match("\ncuda\n(.-)\nenvironment"), sandbox = out:match("\nsandbox\n(.-)\n%l")}})
  local device, done = run.capl_program("info", "device", {"-e", "print(capl.zeros(1).device)"}, {needs = 5})
  if device then record.row("info", "device", "passed", run.last(device), {metrics = {card = run.card()}})
  elseif done and done.status then error(run.NO_GPU, 0) end
end

function sections.ops()
  -- the GPU in the words of cuDNN
  local env = {CAPL_DNN_DEVICE = run.out .. "/device.json", CAPL_TEST_BACKENDS = "cuda"}
  for _, op in ipairs(run.o.op[1] and run.o.op or {false}) do
    env.CAPL_OP = op
    local what = op or "against ref"
    local out = run.program("ops", what, {run.luajit, run.root .. "/tests/op/run.lua"}, {env = env, needs = 20})
    if out then record.row("ops", what, "passed", run.last(out)) end
  end
end

-- What tests/gpu/train.lua prints of its numbers, and the milliseconds of a step; nil after a row that failed.
local function train_once(section, what, words, o)
  local script = run.root .. "/tests/gpu/train.lua"
  words = with({script}, with(words, QUICK_TRAIN, run.o.quick == true))
  if o and o.trust then table.insert(words, 1, "--trust") end
  local out = run.capl_program(section, what, words, {env = o and o.env, needs = 15})
  if not out then return nil end
  local numbers = {}
  for line in out:gmatch("[^\n]+") do
    if line:match("^loss ") or line:match("^weights ") then numbers[#numbers + 1] = line end
  end
  return table.concat(numbers, "\n"), tonumber(out:match("ms ([%d.]+)")), tonumber(out:match("captured (%d+)"))
end

-- The row of two runs that should have printed the same numbers.
local function same(section, what, a, b, more)
  if a == b and a ~= "" then record.row(section, what, "passed", "the same bits, " .. run.last(a), more) return end
  local theirs = {}
  for line in b:gmatch("[^\n]+") do theirs[#theirs + 1] = line end
  local n = 0
  for line in a:gmatch("[^\n]+") do
    n = n + 1
    if line ~= theirs[n] then
      record.row(section, what, "failed", ("other numbers: %s, %s"):format(line, theirs[n] or "nothing"), more)
      return
    end
  end
  record.row(section, what, "failed", "no numbers", more)
end

local function twice(section, second)
  for _, precision in ipairs(run.o.precisions) do
    local words = {"--precision=" .. precision, "--deterministic=true", "--steps=" .. (run.o.quick and 6 or 12)}
    local a = train_once(section, precision, words)
    local b, ms, captured
    if a then b, ms, captured = train_once(section, precision, with(words, second)) end
    if b and second[1] and (captured or 0) < 1 then record.row(section, precision, "failed", "no step was captured")
    elseif b then same(section, precision, a, b, {ms = ms, metrics = {captured_steps = captured}}) end
    if run.stopped then return end
  end
end

function sections.twice() twice("twice", {}) end
function sections.graph() twice("graph", {"--graph=true"}) end

-- A missing layer also stops the compiler of Lua (docs/sandbox.md), so these are all combinations there are.
local settings = {
  {"Landlock and seccomp, JIT"}, {"--trust, JIT", trust = true},
  {"seccomp only, no JIT", env = {CAPL_ASSUME = "landlock=0"}},
  {"Landlock only, no JIT", env = {CAPL_ASSUME = "seccomp=none"}},
  {"neither, no JIT", env = {CAPL_ASSUME = "landlock=0,seccomp=none"}},
}

function sections.sandbox()
  local first
  for _, setting in ipairs(settings) do
    local words = {"--graph=true", "--deterministic=true", "--precision=" .. run.o.precisions[1],
      run.o.quick and "--steps=6" or "--steps=24"}
    local numbers, ms, captured = train_once("sandbox", setting[1], words, setting)
    if numbers and (captured or 0) < 1 then record.row("sandbox", setting[1], "failed", "no step was captured")
    elseif numbers then
      first = first or numbers
      same("sandbox", setting[1], first, numbers, {ms = ms, metrics = {captured_steps = captured}})
    end
    if run.stopped then return end
  end
end

-- One run of tests/gpu/nccl.lua. -> whether it went well
local function nccl_once(what, words)
  local script = with({run.root .. "/tests/gpu/nccl.lua"}, {"--mb=0.1", "--times=1", "--steps=4", "--batch=1"},
    run.o.quick == true)
  -- NCCL of one GPU begins with the first exchange, when the sandbox stands; of several, before the recipe.
  if not words[1] then table.insert(script, 1, "--trust") end
  local out = run.capl_program("nccl", what, with(script, words), {env = {CAPL_COLLECTIVES = "nccl"}, needs = 30})
  if not out then return false end
  local f = run.objects(out)[1]
  if not f then record.row("nccl", what, "failed", "it printed no metrics") return false end
  record.row("nccl", what, "passed", ("%d answers right, captured steps too; %g MB in %.4f ms, bus %.2f GB/s"):format(
    f.checked, f.mb, f.ms, f.bus_gb_s), {ms = f.ms, metrics = f})
  return true
end

local function nccl_torch(gpus)
  local what = ("PyTorch, %d GPUs"):format(gpus)
  if not run.has_torch() then record.row("nccl", what, "not run", "no PyTorch that sees a GPU") return end
  local out = run.torch("nccl", what, {run.root .. "/bench/gpu/torch_nccl.py", "--ranks=" .. gpus}, {needs = 40})
  local f = out and run.objects(out)[1]
  if f then
    record.row("nccl", what, "passed", ("%g MB in %.4f ms, bus %.2f GB/s"):format(f.mb, f.ms, f.bus_gb_s), {ms = f.ms})
  end
end

function sections.nccl()
  local info = run.capl_program("nccl", "library", {"info"}, {needs = 5})
  if not info then return end
  local version, gpus = info:match("\n  NCCL%s+([^\n]+)"), select(2, info:gsub("\n  cuda:%d+ ", ""))
  if not (version or ""):match("^%d") then record.row("nccl", "library", "not run", version or "no NCCL") return end
  if not nccl_once("one GPU", {}) then return end
  if gpus < 2 then record.row("nccl", "several GPUs", "not run", "there is one") return end
  if nccl_once(gpus .. " GPUs", {"--ranks=gpus"}) then nccl_torch(gpus) end
end

local SANITIZED = {"conv2d", "bn_act_pool", "max_pool2d", "softmax", "cross_entropy", "sum", "linear", "adam_step",
  "conv_transpose2d", "lstm", "gru", "ctc_loss", "layer_norm", "group_norm", "scaled_dot_product_attention",
  "grid_sample", "interpolate", "scatter_add", "embedding"}

function sections.sanitizer()
  if not run.has("compute-sanitizer") then
    record.row("sanitizer", "all", "not run", "compute-sanitizer is not on the PATH") return
  end
  for _, tool in ipairs(run.o.tool) do
    for _, op in ipairs(run.o.op[1] and run.o.op or SANITIZED) do
      local what = tool .. " " .. op
      local words = {"compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--kernel-name-exclude",
        "kernel_substring=cudnn", run.luajit, run.root .. "/tests/op/run.lua"}
      if run.program("sanitizer", what, words, {env = {CAPL_OP = op, CAPL_TEST_BACKENDS = "cuda"}, needs = 40}) then
        record.row("sanitizer", what, "passed", "no errors")
      end
      if run.stopped then return end
    end
  end
end

local function trained(what, words, least)
  local out = run.capl_program("train", what, words, {needs = 60 * (run.o.quick and 0.2 or run.o.minutes) + 30})
  if not out then return false end
  local final = out:match("\n(final [^\n]*)") or "no final line"
  local exact = tonumber(final:match("exact=([%d.]+)"))
  local fine = exact and exact >= least
  record.row("train", what, fine and "passed" or "failed",
    final:sub(1, 100) .. (fine and "" or (", wanted %g %%"):format(least)))
  return fine
end

function sections.train()
  local flags = {("--max_time=%gm"):format(run.o.minutes)}
  local recipes = run.root .. "/recipes/"
  if run.o.quick then
    trained("captcha.lua", {recipes .. "captcha.lua", "--samples=16", "--batch=8", "--val=8", "--test=8", "--files=4"},
      0)
    trained("crnn_ctc.lua", {recipes .. "crnn_ctc.lua", "--preset=lepture", "--steps=2", "--batch=2", "--val_images=2",
      "--test_images=2"}, 0)
    return
  end
  trained("captcha.lua", {recipes .. "captcha.lua", flags[1]}, 97)
  trained("crnn_ctc.lua", {recipes .. "crnn_ctc.lua", "--preset=lepture", flags[1]}, 0)
end

return sections
