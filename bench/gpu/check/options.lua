-- options.lua: the arguments of scripts/gpu-check.
-- SPDX-License-Identifier: Apache-2.0
local options = {}

options.usage = [[
usage: scripts/gpu-check [SECTION...] [--call=N] [--out=DIR] [--seconds=N] [--KEY=…]
       scripts/gpu-check --report=DIR
       scripts/gpu-check --compare FILE FILE
  (nothing)   every section but sanitizer and ncu, in this order:
  info        driver, libraries, GPUs
  sandbox     20 captured steps under each setting of the sandbox, with and without JIT: the same numbers, and their
              times
  ops         every op on cuda against ref, in f32, f16 and bf16
  twice       deterministic = true: the same bits twice, in every precision
  graph       a captured step gives the bits of a plain one
  bench       captcha_cnn's training step, plain and captured, with floors and
              targets
  engines     all engines of cuDNN for each record of captcha_cnn, beside capl's own kernels: workspace, ms, which is
              chosen
  infer       captcha_cnn's network in eval mode, captured, at batch 1, 64 and 1024
  torch       the same steps in PyTorch: eager, one CUDA graph, compiled; and the ratios
  layers      LSTM, GRU, CTC loss, layer norm, attention, depthwise and transposed convolution, beside PyTorch's
  data        how fast batches are made of a resident set
  train       recipes/captcha.lua for --minutes: at least 97 % of 10,000 fresh captchas; then recipes/crnn_ctc.lua
  nccl        collectives between GPUs: right, recorded with a step, and how fast
  monitor     power, load and clocks; bf16 against fp32, turn by turn
  ncu         one plain step under Nsight Compute, only when asked
  sanitizer   own kernels under compute-sanitizer, only when asked
  --call=N    what one call of ten minutes on a rented card is for, to be made in this order with the same --out:
              1 info sandbox ops twice graph, bench of bf16 at 1024   2 engines infer, bench of the rest
              3 torch layers data   4 train nccl monitor   5 ncu, memcheck of a few own kernels
  --out=DIR   results.jsonl (a row as soon as it is measured), report.json, logs; DIR.tar.gz has all (gpu-check-out)
  --seconds=N the time there is (540): what no longer fits is "not run", and not green
  --precisions=bf16,fp16,tf32,fp32  --batches=1024,512  --modes=captured,plain  --op=NAME,…  --tool=memcheck,racecheck
  --steps=N --rounds=N  a time is the median of N blocks of N steps (50, 5), each timed by two events of the device
  --minutes=N of each training (2);  --quick: tiny sizes, to try this script
Status: 0 all that was asked for ran and passed, 1 something failed, 3 something did not run. Needs no network.]]

options.sections = {"info", "sandbox", "ops", "twice", "graph", "bench", "engines", "infer", "torch", "layers", "data",
  "train", "nccl", "monitor", "ncu", "sanitizer"}
local asked_only = {ncu = true, sanitizer = true}

local calls = {
  {sections = "info,sandbox,ops,twice,graph,bench", precisions = "bf16", batches = "1024"},
  {sections = "engines,infer,bench"},
  {sections = "torch,layers,data"},
  {sections = "train,nccl,monitor"},
  {sections = "ncu,sanitizer", tool = "memcheck", op = "conv2d,bn_act_pool,max_pool2d,adam_step,sum"},
}

local quick = {precisions = "fp32", batches = "1", steps = 1, rounds = 1, warmup = 4}

local defaults = {out = "gpu-check-out", seconds = 540, minutes = 2, steps = 50, rounds = 5, warmup = 8,
  precisions = "bf16,fp16,tf32,fp32", batches = "1024,512", modes = "captured,plain", tool = "memcheck,racecheck",
  op = ""}
local choices = {precisions = {"bf16", "fp16", "tf32", "fp32"}, modes = {"captured", "plain"},
  tool = {"memcheck", "racecheck"}}

function options.list(text)
  local out = {}
  for word in tostring(text):gmatch("[^,]+") do out[#out + 1] = word end
  return out
end

local function set_of(list)
  local out = {}
  for _, x in ipairs(list) do out[x] = true end
  return out
end

local function check(key, value)
  local known = choices[key] and set_of(choices[key])
  for _, word in ipairs(known and options.list(value) or {}) do
    if not known[word] then
      error(("--%s: '%s' is none of %s"):format(key, word, table.concat(choices[key], ", ")), 0)
    end
  end
  if type(defaults[key]) ~= "number" then return value end
  local n = tonumber(value)
  if not n or n <= 0 then error(("--%s=%s is no number above 0"):format(key, value), 0) end
  return n
end

-- Sections in the order of the list.
local function ordered(asked)
  local known, out = set_of(options.sections), {}
  for name in pairs(asked) do
    if not known[name] then
      error(("no section '%s'; there are: %s"):format(name, table.concat(options.sections, " ")), 0)
    end
  end
  for _, name in ipairs(options.sections) do
    if asked[name] or (not next(asked) and not asked_only[name]) then out[#out + 1] = name end
  end
  return out
end

-- given[key] of the words; sections and files into the list.
local function words_of(arguments, given, plain)
  for _, word in ipairs(arguments) do
    local key, value = word:match("^%-%-([%a_]+)=(.*)$")
    if word == "--quick" or word == "--compare" then given[word:sub(3)] = true
    elseif key and (defaults[key] or key == "call" or key == "report") then given[key] = check(key, value)
    elseif key == "compare" then given.compare, plain[#plain + 1] = true, value
    elseif word:match("^%-") then error(("unknown argument '%s'"):format(word), 0)
    else plain[#plain + 1] = word end
  end
end

--- {sections = list, …} or {report = DIR} or {compare = {FILE, FILE}}; errors name the word that is wrong.
function options.read(arguments)
  local given, plain = {}, {}
  words_of(arguments, given, plain)
  if given.report then return {report = given.report} end
  if given.compare then
    if #plain ~= 2 then error("--compare takes two records", 0) end
    return {compare = plain}
  end
  local call = given.call and (calls[tonumber(given.call)] or error("--call is 1 to " .. #calls, 0)) or {}
  local o = {quick = given.quick}
  for key, value in pairs(defaults) do o[key] = given[key] or call[key] or given.quick and quick[key] or value end
  o.sections = ordered(set_of(plain[1] and plain or options.list(call.sections or "")))
  for _, key in ipairs{"precisions", "batches", "modes", "tool", "op"} do o[key] = options.list(o[key]) end
  return o
end

return options
