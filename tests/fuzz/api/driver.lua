-- driver.lua: calls what recipes can call with anything, or repeats calls from a file.
--
--   fuzz_api LOG driver.lua random SEED CALLS       fuzz_api LOG driver.lua replay FILE
--
-- Lines of the log: S a statement, before it runs; F kind, place, text of a finding; C how many had no error; D the end.
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

-- A collector that never rests: what C code does not hold is gone at once.
local GREEDY = "--greedy"
local function greedy()
  collectgarbage("setpause", 0)
  collectgarbage("setstepmul", 200)
end

-- Settings of the process that would make all later calls fail alike.
local AFRESH = "capl.device('cpu') capl.deterministic(false) capl.fuse(true)"

local through = 0 -- calls without an error

local function run(text)
  if text == GREEDY then
    fuzz.say("S " .. text)
    return greedy()
  end
  local fn = fuzz.load(text, "=call")
  if type(fn) ~= "function" then return end
  fuzz.say("S " .. text:gsub("\n", " "))
  local ok, message, code, verbose = fuzz.try(fn)
  if ok then
    through = through + 1
    return
  end
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
    if line == GREEDY or not line:match("^%-%-") then out[#out + 1] = line end
  end
  return out
end

local function random(seed, calls)
  fuzz.docs = fuzz.names.docs()
  for _, code in ipairs(lines_of(fuzz.folder .. "/examples.lua")) do table.insert(fuzz.docs.examples, code) end
  fuzz.paths = fuzz.names.paths(fuzz.env)
  fuzz.values = fuzz.import "values"
  fuzz.scenes = fuzz.import "scenes"
  fuzz.op_calls = fuzz.import "ops"
  fuzz.ops = fuzz.env.capl.ops()
  fuzz.cases = fuzz.op_calls.cases(fuzz.ops)
  fuzz.statements = fuzz.import "statements"
  fuzz.random.seed(seed)
  for _, text in ipairs(fuzz.scenes.objects(fuzz.values.slots - 6)) do run(text) end
  if seed % 4 == 1 then run(GREEDY) end
  for i = 1, calls do
    if i % 25 == 0 then run(AFRESH) end
    run(fuzz.statements.one())
  end
end

local mode = fuzz[1]
prelude()
if mode == "random" then
  random(tonumber(fuzz[2]), tonumber(fuzz[3]))
else
  for _, text in ipairs(lines_of(fuzz[2])) do run(text) end
end
fuzz.say("C " .. through)
collectgarbage()
fuzz.say("D")
