-- change_log.lua: runs/NAME/override.json contains changes to a running training; overrides.jsonl records each one with
-- its step, so that a resumed run makes the same changes at the same steps.
--
-- override.json is data: {"lr": 1e-4}. It lists everything that differs from the recipe. A key that is removed, or a
-- removed file, restores the recipe's value. A file that cannot be read changes nothing.
-- A line of overrides.jsonl is on the disk before its change takes effect.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local sync = require "dist.sync"
local lines = require "train.lines"

local Log = {}
Log.__index = Log

local POLL_SECONDS = 0.25 -- between two polls of the file
local MOST = 1e6 -- bytes that it may have

-- A run of an older version keeps the file that it began.
local function path_in(folder)
  local old = folder .. "/journal.jsonl"
  return core.sys.kind(old) == "file" and old or folder .. "/overrides.jsonl"
end

--- folder: of the run.
local function new(folder)
  return setmetatable({
    override = folder .. "/override.json", path = path_in(folder), entries = {}, done = 0, next_poll = 0,
  }, Log)
end

-- Lines that this program has written, and no others that somebody put between them.
local function sound(entries)
  local out = {}
  for _, entry in ipairs(entries) do
    local changes = entry.changes == nil or type(entry.changes) == "table"
    if type(entry.step) == "number" and changes then out[#out + 1] = entry end
  end
  return out
end

--- Continues after the first `done` lines of the log; the others apply again at their steps.
function Log:continue_from(done)
  local all = lines.read(self.path)
  if all then lines.cut(self.path, math.huge) end -- half a line of a machine that went down
  all = all and sound(all)
  self.entries, self.done = all or {}, math.min(done, all and #all or 0)
  local last = self.entries[#self.entries]
  self.hash = last and last.sha256
end

--- Changes that the log has for this step or an earlier one and that are not applied yet; nil when there is none.
function Log:replay(step)
  local entry = self.entries[self.done + 1]
  if not entry or entry.step > step then return nil end
  self.done = self.done + 1
  return entry.changes or {}
end

-- What f(…) gives, or nil and why not: also where the sandbox refuses the path, as of a link that leads elsewhere.
local function attempt(f, ...)
  local ok, value, why = pcall(f, ...)
  if ok then return value, why end
  return nil, core.is_error(value) and value.message or tostring(value)
end

-- The text of a file that is there; nil and why it cannot be taken.
local function text_of(path)
  local size, why = attempt(core.sys.size, path)
  if size and size > MOST then return nil, ("%s has %.0f bytes, more than %.0f"):format(path, size, MOST) end
  if why then return nil, why end
  return attempt(core.sys.read, path)
end

-- {text =} when it is another one than before, {gone = true} when the file went away, {why =} when it cannot be read;
-- nil: as before.
function Log:read()
  local stamp, why = attempt(core.sys.stamp, self.override)
  stamp = stamp or why or "none"
  if stamp == self.stamp then return nil end
  self.stamp = stamp
  local text
  if not why and stamp ~= "none" then text, why = text_of(self.override) end
  if why then return {why = why} end
  local hash = text and core.sha256(text) or nil
  if hash == self.hash then return nil end
  self.hash = hash
  return text and {text = text} or {gone = true}
end

function Log:poll_alone()
  local now = core.clock()
  if now < self.next_poll then return nil end
  self.next_poll = now + POLL_SECONDS
  return self:read()
end

-- Rank 0 reads, all ranks receive the result at the same step.
function Log:poll_together()
  if self.polled and not sync.met() then return nil end
  self.polled = true
  return sync.of_main(function() return self:read() end)
end

--- The new content of the file, polled at most four times a second; nil: nothing new. No poll while old lines wait.
-- out  table of changes; nil and a sentence when it cannot be read, or is no JSON object
function Log:poll()
  if self.done < #self.entries then return nil end
  local seen
  if sync.world() then seen = self:poll_together() else seen = self:poll_alone() end
  if not seen then return nil end
  if seen.why then return nil, "nothing changes: " .. seen.why end
  if seen.gone then return {} end
  local value = json_file.decode(seen.text)
  if value and #value == 0 then return value end
  return nil, ("%s is no JSON object, so nothing changes"):format(self.override)
end

--- Records that changes apply from this step on.
-- errs io: then they must not be made
function Log:record(step, changes)
  local entry = {step = step, at = core.sys.date(), changes = changes, sha256 = self.hash}
  sync.by_main("writes down what changes", function()
    local done, why = core.sys.append(self.path, core.json_encode(entry) .. "\n", true)
    if not done then core.error{code = "io", message = why, path = false} end
  end)
  table.insert(self.entries, entry)
  self.done = #self.entries
end

return {new = new}
