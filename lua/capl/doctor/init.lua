-- doctor: rules that look for what keeps a recipe from learning, or went wrong in a run; one file each, these lists
-- know them.
--
-- A rule is {name =, check = function(ctx)}. It reports what it finds by ctx:error, ctx:warn or ctx:note, what it could
-- not look at by ctx:skip, and nothing when all is well; what it returns is then a line about that. ctx of a recipe: o
-- = options of train.fit (nil for custom training loops), loaders by role, path and text of the recipe; ctx of a run: r
-- as of report.folder.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local doctor = {}

doctor.of_recipe = {
  require "doctor.labels",
  require "doctor.charset",
  require "doctor.case",
  require "doctor.balance",
  require "doctor.copies",
  require "doctor.output",
  require "doctor.first_loss",
  require "doctor.gradients",
  require "doctor.dead_units",
  require "doctor.starvation",
  require "doctor.rate",
  require "doctor.one_batch",
}

doctor.of_run = {
  require "doctor.run_end",
  require "doctor.run_curve",
  require "doctor.run_gap",
  require "doctor.run_small",
  require "doctor.run_readings",
  require "doctor.run_starvation",
  require "doctor.run_heat",
}

-- ---- what rules report ----

local Context = {}
Context.__index = Context

--- fields: what the rules may look at
function doctor.context(fields)
  local self = setmetatable({findings = {}}, Context)
  for key, value in pairs(fields) do self[key] = value end
  return self
end

local function add(severity)
  return function(self, text, how)
    how = how or {}
    table.insert(self.findings, {rule = self.rule, severity = severity, text = text, where = how.where,
      write = how.write})
  end
end

--- text: what is wrong, with numbers; how: {where = "recipe.lua:12", write = what to write there}
Context.error, Context.warn, Context.note, Context.skip, Context.ok = add "error", add "warning", add "note",
  add "skipped", add "ok"

-- A line of a recipe without its comment.
local function code_of(line) return (line:gsub("%-%-.*$", "")) end

--- "recipe.lua:12" of the first line whose code matches one of the patterns; the recipe alone when none does.
function Context:line(...)
  if not self.text then return self.path end
  for _, pattern in ipairs{...} do
    local number = 0
    for line in (self.text .. "\n"):gmatch("(.-)\n") do
      number = number + 1
      if code_of(line):find(pattern) then return ("%s:%d"):format(self.path, number) end
    end
  end
  return self.path
end

--- Line and text for a setting of the recipe, "recipe.lua:5" and "workers = 4 (or --workers=4)"; without such a setting
-- the
--- line of the patterns.
function Context:setting(key, value, ...)
  for _, s in ipairs(self.run.settings) do
    if s.key == key then
      return {where = self:line("^%s*" .. key .. "%s*="),
        write = ("%s = %s, or give --%s=%s"):format(key, value, key, value)}
    end
  end
  return {where = self:line(...), write = ("%s = %s"):format(key, value)}
end

-- ---- looking ----

local function run_rule(rule, ctx)
  ctx.rule = rule.name
  local before = #ctx.findings
  local ok, said = pcall(rule.check, ctx)
  if not ok then
    ctx:error("could not be checked: " .. tostring(said):gsub("\n.*", ""))
  elseif #ctx.findings == before then
    ctx:ok(said or "nothing found")
  end
end

--- Runs all rules -> list of {rule, severity = "error" | "warning" | "note" | "skipped" | "ok", text, where, write}
function doctor.look(rules, ctx, progress)
  for _, rule in ipairs(rules) do
    if progress then progress(rule.name) end
    run_rule(rule, ctx)
    core.collect()
  end
  return ctx.findings
end

--- Numbers of findings by severity.
function doctor.count(findings)
  local out = {error = 0, warning = 0, note = 0, skipped = 0, ok = 0}
  for _, f in ipairs(findings) do out[f.severity] = out[f.severity] + 1 end
  return out
end

return doctor
