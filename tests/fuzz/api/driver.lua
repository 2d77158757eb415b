-- driver.lua: calls what recipes can call with anything, or repeats calls from a file.
--
--   fuzz_api LOG driver.lua random SEED CALLS       fuzz_api LOG driver.lua replay FILE
--
-- Lines of the log: S a statement, before it runs; F kind, place, text of a finding; D the end. Each is one line.
-- SPDX-License-Identifier: Apache-2.0
local fuzz = ...

fuzz.random = fuzz.import "random"
fuzz.names = fuzz.import "names"
fuzz.env = fuzz.environment()
local judge = fuzz.import "judge"

local function one_line(text) return (text:gsub("[%z\1-\8\11-\31\127]", "?"):gsub("\n", "\\n")) end

local function finding(kind, place, text)
  fuzz.say(("F %s\t%s\t%s"):format(kind, one_line(place):sub(1, 200), one_line(text):sub(1, 2000)))
end

-- Calls that came through, and which functions: what the fuzzer reaches.
local through, reached = 0, {}
local function count(text)
  through = through + 1
  for name in text:gmatch("[%w_.:]+%f[({]") do reached[name] = true end
end

local function run(text)
  local fn = fuzz.load(text, "=call")
  if type(fn) ~= "function" then return end
  fuzz.say("S " .. text:gsub("\n", " "))
  local ok, message, code, verbose = fuzz.try(fn)
  if ok then return count(text) end
  local kind, place = judge.error(message, code)
  if kind then finding(kind, place, verbose) end
end

local function prelude()
  local fn = fuzz.load(fuzz.read(fuzz.folder .. "/prelude.lua"), "=prelude")
  local ok, why = fuzz.try(fn)
  if not ok then error("the prelude fails: " .. why) end
end

local function lines_of(path)
  local out = {}
  for line in fuzz.read(path):gmatch("[^\n]+") do
    if not line:match("^%-%-") then out[#out + 1] = line end
  end
  return out
end

local function random(seed, calls)
  fuzz.docs = fuzz.names.docs()
  fuzz.paths = fuzz.names.paths(fuzz.env)
  fuzz.values = fuzz.import "values"
  fuzz.scenes = fuzz.import "scenes"
  fuzz.op_calls = fuzz.import "ops"
  fuzz.ops = fuzz.env.capl.ops()
  fuzz.cases = fuzz.op_calls.cases(fuzz.ops)
  fuzz.statements = fuzz.import "statements"
  fuzz.random.seed(seed)
  if fuzz[4] == "names" then for _, p in ipairs(fuzz.paths) do fuzz.say("P "..p) end end
  for _, text in ipairs(fuzz.scenes.objects(fuzz.values.slots - 6)) do run(text) end
  for _ = 1, calls do run(fuzz.statements.one()) end
end

local mode = fuzz[1]
prelude()
if mode == "random" then
  random(tonumber(fuzz[2]), tonumber(fuzz[3]))
else
  for _, text in ipairs(lines_of(fuzz[2])) do run(text) end
end
local n = 0
for _ in next, reached do n = n + 1 end
fuzz.say(("C %d %d"):format(through, n))
if fuzz[4] == "names" then for k in next, reached do fuzz.say("N "..k) end end
collectgarbage()
fuzz.say("D")
