-- diff.lua: `capl diff RUN RUN`: what two runs did differently, and whether it made a difference.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local compare = require "report.compare"
local curves = require "report.curves"
local folder = require "report.folder"
local html = require "report.html"
local options = require "cli.options"
local plot = require "plot"
local screen = require "report.screen"
local value = require "report.value"

local spec = {
  {name = "out", type = "text", value = "FILE",
    doc = "file for the plot of the curves (default: diff-A-B.png beside the first run); none: no plot"},
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

local function say(text) core.sys.out(text .. "\n") end

local function say_table(rows, columns, right)
  for _, line in ipairs(screen.lines(rows, columns, right, "  ")) do say(line) end
end

-- ---- parts ----

local function heads(a, b)
  local rows = {}
  for i, r in ipairs{a, b} do
    local recipe = value.text(r.settings, "recipe") or "-"
    rows[i] = {i == 1 and "a" or "b", r.path, r.state, recipe:match("[^/]+$") or recipe,
      value.text(r.settings, "started")}
  end
  for _, line in ipairs(screen.lines(rows, 5)) do say(line) end
end

local function differing(title, list, equal)
  local note = equal and (" (%d others are equal)"):format(equal) or ""
  if #list == 0 then return say(("%s: no difference%s"):format(title, note)) end
  say(("%s that differ%s"):format(title, note))
  local rows = {{"", "a", "b"}}
  for i, d in ipairs(list) do rows[i + 1] = {d.key, d.a, d.b} end
  say_table(rows, 3)
end

local function count_text(count) return count and html.number(count) .. " samples" or "samples not counted" end

local function data_line(d)
  if d.same then return {d.role, "the same", ("%s, hash %s"):format(count_text(d.a_count), d.a)} end
  if d.same == false then
    return {d.role, "DIFFERENT", ("a: %s, hash %s; b: %s, hash %s"):format(count_text(d.a_count), d.a,
      count_text(d.b_count), d.b)}
  end
  return {d.role, "not known", ("a: %s; b: %s"):format(d.a or "no hash", d.b or "no hash")}
end

local function data_lines(list)
  if #list == 0 then return say("data: the runs say nothing about it") end
  say("data")
  local rows = {}
  for i, d in ipairs(list) do rows[i] = data_line(d) end
  say_table(rows, 3)
end

-- ---- metrics ----

local function metric_text(f, side)
  local x, low, high = f[side], f[side .. "_low"], f[side .. "_high"]
  local text = f.share and html.percent(x) or html.number(x)
  if low and high and f.share then return ("%s [%.2f, %.2f]"):format(text, 100 * low, 100 * high) end
  return low and high and ("%s [%.4g, %.4g]"):format(text, low, high) or text
end

local function chance_text(p) return p < 0.0001 and "p < 0.0001" or ("p = %.2g"):format(p) end

local function verdict(f)
  local step = f.share and ("%+.2f points"):format(100 * (f.b - f.a)) or ("%+.4g"):format(f.b - f.a)
  if not f.p then return step end
  if f.test == "equal" then return step .. ", no difference" end
  return ("%s, %s (%s): %s"):format(step, chance_text(f.p), f.test, f.significant and "significant" or "may be chance")
end

local function same_images(c)
  for _, d in ipairs(c.data) do
    if c.role and d.role == c.role:match("^%a+") then return d.same end
  end
end

local function metric_lines(c)
  if #c.metrics == 0 then return say("metrics: none that both runs have") end
  say(("metrics (%s)"):format(c.role))
  local rows = {{"", "a", "b", "b - a"}}
  for i, f in ipairs(c.metrics) do
    rows[i + 1] = {curves.name_of(f.key), metric_text(f, "a"), metric_text(f, "b"), verdict(f)}
  end
  say_table(rows, 4)
  if same_images(c) == false then say("  note: the runs were tested on different images") end
end

-- ---- curves ----

local function cell(key, x)
  if not x then return nil end
  return curves.is_share(key:gsub("^val_", "")) and html.percent(x) or ("%.4f"):format(x)
end

local function curve_lines(c)
  if #c.rows == 0 then return say("curves: none that both runs have") end
  say(("curves at equal %s"):format(c.x))
  local rows, right = {{c.x}}, {[1] = true}
  for k, column in ipairs(c.columns) do
    rows[1][2 * k], rows[1][2 * k + 1] = column.key .. " a", "b"
    right[2 * k], right[2 * k + 1] = true, true
  end
  for i, row in ipairs(c.rows) do
    rows[i + 1] = {html.number(row.x)}
    for k, column in ipairs(c.columns) do
      rows[i + 1][2 * k], rows[i + 1][2 * k + 1] = cell(column.key, row[k].a), cell(column.key, row[k].b)
    end
  end
  say_table(rows, 1 + 2 * #c.columns, right)
end

local NAN = 0 / 0

local function gaps(list)
  local out = {}
  for i, y in ipairs(list) do out[i] = y or NAN end
  return out
end

local function picture(c, a, b, path)
  local panels = {}
  for i, column in ipairs(c.columns) do
    local is_share = curves.is_share(column.key:gsub("^val_", ""))
    local smooth = column.key == "loss" and 0.5 or nil
    panels[i] = {y_label = column.key, percent = is_share and true or nil, log = not is_share or nil, series = {
      {name = screen.clean("a " .. a.name), x = column.a.x, y = gaps(column.a.y), smooth = smooth},
      {name = screen.clean("b " .. b.name), x = column.b.x, y = gaps(column.b.y), smooth = smooth},
    }}
  end
  plot.lines{path = path, title = screen.clean(("%s and %s"):format(a.name, b.name)), x_label = c.x, panels = panels}
end

-- ---- the command ----

local function picture_path(o, a, b)
  if o.out == "none" then return nil end
  return o.out or ("%s/diff-%s-%s.png"):format(a.path:match("^(.+)/[^/]+$") or ".", a.name, b.name)
end

local function as_json(c, a, b, path)
  local columns = {}
  for i, column in ipairs(c.columns) do columns[i] = column.key end
  c.columns, c.picture = columns, path
  c.a, c.b = {path = a.path, state = a.state}, {path = b.path, state = b.state}
  say(core.json_encode(c, true))
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "diff"})
  if #words ~= 2 then
    core.error{code = "value", message = "capl diff takes the folders of two runs; usage: " .. job.usage}
  end
  local a, b = folder.read(words[1]), folder.read(words[2])
  local c = compare.runs(a, b)
  local path = #c.columns > 0 and picture_path(o, a, b) or nil
  if path then picture(c, a, b, path) end
  if o.json then return as_json(c, a, b, path) end
  heads(a, b)
  differing("settings", c.settings, c.equal_settings)
  data_lines(c.data)
  differing("facts of the model", c.model)
  differing("facts of the machine", c.machine)
  if c.versions.a ~= c.versions.b then
    say(("capl: a %s, b %s"):format(c.versions.a or "not known", c.versions.b or "not known"))
  end
  metric_lines(c)
  curve_lines(c)
  if path then say("picture: " .. path) end
end

return {main = function(job) main(job) end, options = spec, examples = {
  {"capl diff runs/mine runs/mine-2", "compares two runs"},
}}
