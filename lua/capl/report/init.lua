-- report: report.html of a run: one file that holds everything, made from the files of the run's folder alone.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local curves = require "report.curves"
local facts = require "report.facts"
local folder = require "report.folder"
local html = require "report.html"
local mistakes = require "report.mistakes"
local ranks = require "report.ranks"
local shell = require "report.shell"
local sweep = require "report.sweep"
local value = require "report.value"

local report = {}

-- PNG data in one page, before base64 makes a third more of it: a page is to stay under 1 MB.
local SAMPLE_BYTES, CHART_BYTES = 340000, 240000

-- ---- pictures of the page ----

local Page = {}
Page.__index = Page

--- An <img> of PNG bytes; nil when the page has no room for it, or when it is no PNG. Samples do not take the room of
-- charts.
function Page:picture(bytes, alt, class)
  if bytes:sub(1, 8) ~= "\137PNG\r\n\26\n" then return nil end
  local kind = class == "paper" and "charts" or "samples"
  if #bytes > self.room[kind] then
    self.left_out = self.left_out + 1
    return nil
  end
  self.room[kind] = self.room[kind] - #bytes
  return html.png(bytes, alt, class)
end

--- Bytes of a file of the run's folder; names that lead out of it are not followed.
function Page:file(name)
  if name:find("^/") or name:find("..", 1, true) or name:find("%z") then return nil end
  local path = self.run.path .. "/" .. name
  return core.sys.kind(path) == "file" and core.sys.read(path) or nil
end

function Page:file_picture(name, alt)
  local bytes = self:file(name)
  return bytes and self:picture(bytes, alt, "paper")
end

-- ---- sections ----

local function learning(r)
  local charts = curves.learning(r)
  return charts and facts.first_loss(r) .. charts
end

-- In the order of the page: id, title, function(run, page) -> HTML or nil, what is missing then (nothing, where there
-- is no word).
local sections = {
  {"outcome", "Outcome", facts.outcome, "no metrics and no steps have been written"},
  {"curves", "Curves", learning, "metrics.jsonl has no points"},
  {"mistakes", "What it gets wrong", mistakes.section, "the run has not written the readings of an evaluation"},
  {"schedule", "Schedule", facts.schedule, "no learning rates were written"},
  {"time", "Where the time went", facts.time, "no times were written"},
  {"hardware", "Hardware", facts.hardware, "no readings of the hardware were written"},
  {"ranks", "Ranks", ranks.section},
  {"settings", "Settings", facts.settings, "settings.json has none"},
  {"switches", "Switches", facts.switches, "no switch of this run counts what it does"},
  {"data", "Data and model", facts.data, "settings.json does not contain them"},
  {"machine", "Machine", facts.machine, "the run has not written it"},
  {"recipe", "Recipe", facts.recipe, "recipe.lua is not in the folder"},
  {"events", "Events", facts.events, "nothing out of the ordinary was written"},
}

local function body(r, page)
  local shown, absent = {}, {}
  for _, s in ipairs(sections) do
    local text = s[3](r, page)
    if text then
      shown[#shown + 1] = {id = s[1], title = s[2], html = text}
    elseif s[4] then
      absent[#absent + 1] = ("%s: %s"):format(s[2], s[4])
    end
  end
  for _, text in ipairs(r.notes) do absent[#absent + 1] = text end
  if page.left_out > 0 then
    absent[#absent + 1] = ("%d picture%s, so that this page stays small"):format(page.left_out, page.left_out > 1
      and "s" or "")
  end
  return shown, absent
end

-- "captcha.lua, started 2026-11-20 …, on cpu"
local function summary(r)
  local parts = {}
  local recipe = value.text(r.settings, "recipe") or value.text(r.result, "recipe")
  if recipe then parts[1] = recipe:match("[^/]+$") or recipe end
  local started, device = value.text(r.settings, "started"), value.text(r.result, "device")
  if started then parts[#parts + 1] = "started " .. started end
  if device then parts[#parts + 1] = "on " .. device end
  parts[#parts + 1] = r.why
  return table.concat(parts, " · ")
end

--- The page of a run that report.folder has read.
function report.page(r)
  local page = setmetatable({run = r, room = {samples = SAMPLE_BYTES, charts = CHART_BYTES}, left_out = 0}, Page)
  local shown, absent = body(r, page)
  return shell.page{name = r.name, state = r.state, summary = summary(r), command = value.text(r.settings, "command"),
    path = r.path, sections = shown, absent = absent}
end

--- Writes the page of the run, or of the sweep, in a folder, whole or not at all.
-- in   path of the folder; out = path of the page, report.html in that folder when left out; ending = true when it
--      is the run of this process, which has come to its end
-- out  the path written, bytes
-- errs io: not the folder of a run; the file cannot be written
function report.write(path, out, ending)
  path = path:gsub("(.)/+$", "%1")
  out = out or path .. "/report.html"
  local text = sweep.is_one(path) and sweep.page(path) or report.page(folder.read(path, {ending = ending}))
  local written, why = core.sys.write(out, text)
  if not written then core.error{code = "io", message = why} end
  return out, #text
end

return report
