-- sweep.lua: a sweep from its files alone: its page at any time.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local page = require "sweep.page"
local value = require "report.value"

local sweep = {}

function sweep.is_one(path) return core.sys.kind(path .. "/sweep.json") == "file" end

-- ---- reading ----

local function read_plan(path)
  local plan = json_file.read(path .. "/sweep.json")
  if plan then return plan end
  core.error{code = "format", message = path .. "/sweep.json holds no plan of a sweep",
    hint = "capl sweep writes it; start the sweep again"}
end

-- Lines of results.jsonl; one that was cut is left out.
local function read_results(path)
  local out = {}
  for _, result in ipairs(json_file.lines(core.sys.read(path .. "/results.jsonl"))) do
    if value.number(result, "trial") then out[#out + 1] = result end
  end
  return out
end

-- Those that went furthest first, the best of them in front; those without a value last.
local function rank(results, goal)
  table.sort(results, function(a, b)
    local x, y = value.number(a, "value"), value.number(b, "value")
    local p, q = value.number(a, "rung") or 0, value.number(b, "rung") or 0
    if (x == nil) ~= (y == nil) then return y == nil end
    if p ~= q then return p > q end
    if x ~= y then
      if goal == "min" then return x < y end
      return x > y
    end
    return a.trial < b.trial
  end)
end

-- ---- the page ----

-- Trials there will be, by the plan.
local function total_of(plan, results)
  local total = 0
  for _, rung in ipairs(value.table(plan, "rungs")) do total = total + (value.number(rung, "trials") or 0) end
  return math.max(total, #results)
end

--- The page of the sweep in a folder, which may be running or stopped.
-- errs format: sweep.json or results.jsonl cannot be read
function sweep.page(path)
  local plan, results = read_plan(path), read_results(path)
  rank(results, value.text(plan, "goal"))
  local about = {path = path, total = total_of(plan, results), file = function(self, name)
    return self.path .. "/" .. name end}
  local fine, text = pcall(page.html, plan, about, results)
  if fine then return text end
  core.error{code = "format", message = ("the files of the sweep in %s are damaged"):format(path),
    context = tostring(text), hint = "sweep.json holds the plan, results.jsonl a line for each trial"}
end

return sweep
