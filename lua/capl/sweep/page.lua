-- page.lua: report.html of a sweep: what was best, the charts, a row for each trial with a link to that run's own page.
--
-- One file without a network, in the style of a run's report; it is made from the plan and the results alone.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local charts = require "sweep.charts"
local html = require "report.html"
local shell = require "report.shell"
local show = require "sweep.show"

local page = {}

local ROWS = 1000 -- of the table; results.csv has them all

local template = [[
{best_html}
{means_html}
{charts_html}
<section aria-labelledby="h-trials"><h2 id="h-trials">Trials</h2>{table_html}</section>]]

local best_template = [[
<section aria-labelledby="h-best"><h2 id="h-best">Best: trial {trial}</h2>
<p>{metric} <strong>{value}</strong>{interval}, with {settings}</p>
<pre>{command}</pre>
{notes_html}</section>]]

-- A path inside the sweep's folder as an address relative to it; nil for one that lies elsewhere.
local function address(folder, path)
  if path:sub(1, #folder.path + 1) ~= folder.path .. "/" then return nil end
  return (path:sub(#folder.path + 2):gsub("[^%w/._~-]", function(c) return ("%%%02X"):format(c:byte()) end))
end

local function interval(plan, r)
  if not r.low or not r.high then return "" end
  return ("%s to %s"):format(show.value(plan.metric, r.low), show.value(plan.metric, r.high))
end

local function best_html(plan, results)
  local best, notes = results[1], {}
  if not best or best.status ~= "done" then return '<section><h2>No trial has a metric yet</h2></section>' end
  local none = show.none_better(plan, results)
  if none then return "<section><h2>No best trial</h2><p>" .. html.text(none) .. "</p></section>" end
  for _, line in ipairs(show.unlike(plan, results)) do notes[#notes + 1] = "<p>" .. html.text(line) .. "</p>" end
  local doubt = show.doubt(plan, results)
  if doubt then notes[#notes + 1] = "<p>" .. html.text(doubt) .. "</p>" end
  local range = interval(plan, best)
  return html.fill(best_template,
    {trial = best.trial, metric = plan.metric, value = show.value(plan.metric, best.value), interval = range ~= ""
    and (" (95 %% interval %s)"):format(range) or "", settings = show.settings(plan.keys, best.settings),
      command = best.command, notes_html = table.concat(notes)})
end

-- Means over seeds, if several were tried.
local function means_html(plan, results)
  local _, rows = show.means(plan, results)
  if not rows then return "" end
  local columns = {}
  for i, title in ipairs(table.remove(rows, 1)) do columns[i] = {title, "n"} end
  return '<section aria-labelledby="h-means"><h2 id="h-means">Over the seeds</h2>' ..
    html.table("means over the seeds, best first", columns, rows) .. "</section>"
end

local function columns_of(plan)
  local columns = {{"trial", "n"}}
  for _, key in ipairs(plan.keys) do columns[#columns + 1] = {key, "n"} end
  if plan.kind == "halving" then columns[#columns + 1] = {plan.budget, "n"} end
  for _, name in ipairs{plan.metric, "95 % interval", "at step", "time", "memory"} do
    columns[#columns + 1] = {name, "n"}
  end
  columns[#columns + 1] = {"what went wrong", "wide"}
  return columns
end

local function row_of(plan, folder, r)
  local link = address(folder, r.folder .. "/report.html")
  local there = link and core.sys.kind(r.folder .. "/report.html") == "file"
  local row = {there and {html = ('<a href="%s">%d</a>'):format(link, r.trial)} or ("%d"):format(r.trial)}
  local function add(text) row[#row + 1] = text ~= "" and text or {html = '<span class="none">–</span>'} end
  for _, key in ipairs(plan.keys) do add(tostring(r.settings[key])) end
  if plan.kind == "halving" then add(plan.rungs[r.rung] and plan.rungs[r.rung].budget or "") end
  add(r.status == "done" and show.value(plan.metric, r.value) or "failed")
  add(r.status == "done" and interval(plan, r) or "")
  add(r.step and ("%d"):format(r.step) or "")
  add(r.seconds and html.seconds(r.seconds) or "")
  add(r.peak_memory_bytes and html.bytes(r.peak_memory_bytes) or "")
  add(r.error or "")
  return row
end

local function table_html(plan, folder, results)
  local rows = {}
  for i = 1, math.min(#results, ROWS) do rows[i] = row_of(plan, folder, results[i]) end
  local more = #results > ROWS and ("<p>%d more in results.csv</p>"):format(#results - ROWS) or ""
  return html.table("trials, best first", columns_of(plan), rows) .. more
end

local function summary(plan, folder, results)
  local parts = {plan.recipe, ("%d of %d trials (%s)"):format(#results, folder.total, plan.kind),
    "started " .. plan.started, ("%d at a time, %d thread%s each"):format(plan.jobs, plan.threads, plan.threads == 1
    and "" or "s")}
  local mode
  for _, r in ipairs(results) do mode = mode or r.mode end
  parts[#parts + 1] = mode
  return table.concat(parts, " · ")
end

--- The page. results: best first; folder.total: trials there will be
function page.html(plan, folder, results)
  local name, state = folder.path, #results >= folder.total and "finished" or "stopped"
  return shell.frame{
    title = name .. " – capl sweep", name = name, state = state, path = name, summary = summary(plan, folder, results),
    main_html = html.fill(template, {best_html = best_html(plan, results), means_html = means_html(plan, results),
      charts_html = charts.of(plan.metric, plan.keys, results), table_html = table_html(plan, folder, results)}),
  }
end

return page
