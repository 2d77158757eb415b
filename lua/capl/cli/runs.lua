-- runs.lua: `capl runs [FOLDER]`: the runs in a folder, with their state and what came out.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local curves = require "report.curves"
local facts = require "report.facts"
local folder = require "report.folder"
local html = require "report.html"
local options = require "cli.options"
local screen = require "report.screen"
local value = require "report.value"

local sorts = {"started", "name", "state", "steps", "best", "time"}

local spec = {
  {name = "sort", type = "text", value = "KEY", open = true, choices = sorts, default = "started",
    doc = "started (newest first), name, state, steps, best or time"},
  {name = "json", type = "flag", default = false, doc = "prints a JSON list"},
}

-- ---- one run ----

local function greatest(rows, key)
  local best
  for _, row in ipairs(rows) do
    local found = value.number(row, key)
    if found and (not best or found > best) then best = found end
  end
  return best
end

-- The metric that says how good a run is, and what it is of.
local function best_of(r)
  local main, found = value.text(r.evaluation, "main"), value.number(r.evaluation, "value")
  if main and found then return found, main, value.text(r.evaluation, "role") or "val" end
  local metrics, role = facts.metrics(r)
  local key = metrics and facts.metric_keys(metrics)[1]
  if key then return metrics[key], key, role:match("^%a+") end
  found = greatest(r.evaluations, "val_exact")
  if found then return found, "exact", "val" end
end

-- "max" or "min"; what no evaluation has said is guessed by the metric's name.
local function better_of(r, metric)
  if not metric then return nil end
  return value.text(r.evaluation, "better") or (curves.is_share(metric) or metric == "r2") and "max" or "min"
end

local function entry(path, name)
  local r = folder.read(path, {brief = true})
  local best, metric, role = best_of(r)
  local recipe = value.text(r.settings, "recipe") or value.text(r.result, "recipe")
  return {
    ranks = value.number(r.settings, "machine", "ranks"), name = name, path = path,
    recipe = recipe and recipe:match("[^/]+$"), state = r.state, started = value.text(r.settings, "started"),
    steps = facts.steps(r), time = r.seconds or value.number(r.result, "seconds"),
    best = best, metric = metric, role = role, better = better_of(r, metric), error = r.error
    and value.text(r.error, "message") or nil,
  }
end

-- ---- all runs ----

local function is_run(path)
  for _, name in ipairs{"settings.json", "metrics.jsonl", "result.json"} do
    if core.sys.kind(path .. "/" .. name) == "file" then return true end
  end
  return false
end

-- Folders with runs below them, such as those of a sweep.
local function count_inside(path)
  local count = 0
  for _, name in ipairs(core.sys.list(path) or {}) do
    if is_run(path .. "/" .. name) then count = count + 1 end
  end
  return count
end

local function find(where)
  local names, why = core.sys.list(where)
  if not names then
    core.error{code = "io", message = why, hint = "'capl RECIPE' makes the folder runs/ where it is started"}
  end
  local runs, groups = {}, {}
  for _, name in ipairs(names) do
    local path = where .. "/" .. name
    if is_run(path) then
      runs[#runs + 1] = entry(path, name)
    elseif core.sys.kind(path) == "folder" and count_inside(path) > 0 then
      groups[#groups + 1] = {name = name, path = path, count = count_inside(path)}
    end
  end
  return runs, groups
end

-- ---- order ----

-- Numbers and dates: the greatest first; of metrics that are better when small, the least.
local function before(key)
  return function(a, b)
    local x, y = a[key], b[key]
    if x == y or (x == nil and y == nil) then return a.name < b.name end
    if x == nil or y == nil then return y == nil end
    if key == "name" or key == "state" then return x < y end
    -- an accuracy and an error are not compared
    if key == "best" and a.metric ~= b.metric then return a.metric < b.metric end
    if key == "best" and a.better ~= b.better then return a.better < b.better end
    if key == "best" and a.better == "min" then return x < y end
    return x > y
  end
end

local function check_sort(key)
  for _, name in ipairs(sorts) do
    if name == key then return end
  end
  local near = core.nearest(key, sorts)
  core.error{code = "value", message = ("runs cannot be sorted by '%s'%s"):format(key, near
    and "; did you mean " .. near .. "?" or ""),
    hint = "--sort=" .. table.concat(sorts, ", ")}
end

-- ---- telling ----

local function best_text(e)
  if not e.best then return nil end
  local shown = curves.is_share(e.metric) and html.percent(e.best) or html.number(e.best)
  return ("%s %s %s"):format(shown, e.metric, e.role and "(" .. e.role .. ")" or "")
end

-- Whether any of them had several ranks, which is then shown for all.
local function has_ranks(runs)
  for _, e in ipairs(runs) do
    if e.ranks then return true end
  end
  return false
end

local function print_table(runs)
  local rows = {{"name", "recipe", "state", "started", "steps", "time", "best"}}
  local with_ranks = has_ranks(runs)
  if with_ranks then rows[1][8] = "ranks" end
  for i, e in ipairs(runs) do
    rows[i + 1] = {e.name, e.recipe, e.state, e.started and e.started:gsub("T", " "):gsub("Z$", ""), e.steps
      and html.number(e.steps), e.time and html.seconds(e.time), best_text(e), with_ranks
        and ("%d"):format(e.ranks or 1) or nil}
  end
  for _, line in ipairs(screen.lines(rows, with_ranks and 8 or 7, {[5] = true, [6] = true, [8] = true})) do
    core.sys.out(line .. "\n")
  end
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "runs"})
  if words[2] then core.error{code = "value", message = "capl runs takes one folder; usage: " .. job.usage} end
  check_sort(o.sort)
  local where = (words[1] or "runs"):gsub("(.)/+$", "%1")
  local runs, groups = find(where)
  table.sort(runs, before(o.sort))
  if o.json then return core.sys.out((#runs > 0 and core.json_encode(runs, true) or "[]") .. "\n") end
  if #runs == 0 and #groups == 0 then core.sys.out(("%s holds no runs\n"):format(screen.clean(where))) end
  if #runs > 0 then print_table(runs) end
  for _, g in ipairs(groups) do
    local line = ("%s: %d run%s more; 'capl runs %s' lists them"):format(g.name, g.count, g.count > 1 and "s" or "",
      g.path)
    core.sys.out(screen.clean(line) .. "\n")
  end
end

return {main = function(job) main(job) end, options = spec, examples = {
  {"capl runs --sort=best", "sorts by the best metric"},
}}
