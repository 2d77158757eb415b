-- journal.lua: runs/NAME/override.json, what a person wants changed in a running training, and journal.jsonl: what was
-- changed at which step, so that a run that goes on does the same again at the same steps.
--
-- override.json is data: {"lr": 1e-4}. It says all that is to differ from the recipe; a key that is taken out, or the file,
-- means the recipe's own value again. A line of the journal is on the disk before its change holds.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local agreed = require "run.agreed"
local json = require "run.json"
local lines = require "train.lines"

local Journal = {}
Journal.__index = Journal

local LOOK_SECONDS = 0.25 -- between two looks at the file

--- folder: of the run.
local function new(folder)
  return setmetatable({
    override = folder .. "/override.json", path = folder .. "/journal.jsonl", entries = {}, done = 0, next_look = 0,
  }, Journal)
end

--- Goes on behind the first `done` lines of the journal; the others come at their steps again.
function Journal:go_on(done)
  local all = lines.read(self.path)
  if all then lines.cut(self.path, math.huge) end -- half a line of a machine that went down
  self.entries, self.done = all or {}, math.min(done, all and #all or 0)
  local last = self.entries[#self.entries]
  self.hash = last and last.sha256
end

--- Changes that the journal has for this step or an earlier one, and that have not been made yet; nil when there is none.
function Journal:replay(step)
  local entry = self.entries[self.done + 1]
  if not entry or entry.step > step then return nil end
  self.done = self.done + 1
  return entry.changes or {}
end

-- The file's text when it is another one than before, "" when it went away; nil: as before.
function Journal:read()
  local stamp = core.sys.stamp(self.override) or "none"
  if stamp == self.stamp then return nil end
  self.stamp = stamp
  local text = stamp ~= "none" and core.sys.read(self.override) or ""
  local hash = text ~= "" and core.sha256(text) or nil
  if hash == self.hash then return nil end
  self.hash = hash
  return text
end

function Journal:look_alone()
  local now = core.clock()
  if now < self.next_look then return nil end
  self.next_look = now + LOOK_SECONDS
  return self:read()
end

-- Rank 0 looks, all hear of it at the same step.
function Journal:look_together()
  if self.looked and not agreed.met() then return nil end
  self.looked = true
  return agreed.of_main(function() return self:read() end)
end

--- What the file newly says, at most four times a second; nil: nothing new. Nothing new is looked at while old lines wait.
-- out  table of changes; nil and a sentence when it is no JSON object
function Journal:look()
  if self.done < #self.entries then return nil end
  local text
  if agreed.world() then text = self:look_together() else text = self:look_alone() end
  if not text then return nil end
  if text == "" then return {} end
  local ok, value = pcall(core.json_decode, text)
  if ok and type(value) == "table" and #value == 0 then return value end
  return nil, ("%s is no JSON object, so nothing changes"):format(self.override)
end

--- Writes down that changes hold from this step on.
-- errs io: then they must not be made
function Journal:note(step, changes)
  local entry = {step = step, at = core.sys.date(), changes = changes, sha256 = self.hash}
  local done, why = core.sys.append(self.path, json.encode(entry) .. "\n", true)
  if not done then core.error{code = "io", message = why, path = false} end
  table.insert(self.entries, entry)
  self.done = #self.entries
end

return {new = new}
