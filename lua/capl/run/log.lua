-- log.lua: the lines of a run: metrics.jsonl, metrics.csv and a TensorBoard file, written together and cut together.
--
-- Lines wait in memory for a second at most and are then appended whole, so that a killed run leaves files that can be
-- read. A resumed run cuts what came after its checkpoint: the files are those of a run that was never killed.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local csv = require "run.csv"
local events = require "run.events"
local json_file = require "json_file"
local output = require "output"

local Log = {}
Log.__index = Log

local WAIT = 1 -- seconds that a line may wait
local HELD = 256 -- lines that may wait
local DEEPEST = 4 -- tables in each other
local DIGITS = 10 -- of a number: enough for what was measured

--- train.Log{…}: writes metrics of a run into a folder: metrics.jsonl (a JSON object per line), metrics.csv,
-- events.out.tfevents.….
-- opts  folder; tensorboard = "auto" (where its library is there) | true (or an error) | false
-- out   log: log:line{step = 10, loss = 0.5, time = {load = 0.1}}, log:flush(), log:state(), log:set_state(state),
--       log:close()
-- errs  value: unknown option; io: a file that cannot be written; unsupported: no library for TensorBoard's files
local function new(opts)
  local o = check.options("train.Log", {{"folder", "string", required = true},
    {"tensorboard", "boolean", "string", default = "auto"}}, opts)
  local self = setmetatable({folder = o.folder, path = o.folder .. "/metrics.jsonl", waiting = {},
    written = core.clock()}, Log)
  if type(o.tensorboard) == "string" and o.tensorboard ~= "auto" then
    check.unknown("train.Log", "tensorboard", o.tensorboard, {"auto", "true", "false"})
  end
  -- files are written by real runs only
  self.idle = observer.mode == "check" or observer.mode == "bench"
  if self.idle then return self end
  if o.tensorboard then self:open_events(o.tensorboard == true) end
  local made, why = core.sys.mkdir(o.folder)
  if not made then core.error{code = "io", message = why, path = false} end
  self.csv = csv.new(o.folder .. "/metrics.csv")
  return self
end

function Log:open_events(must)
  local fine, err = pcall(core.event)
  if not fine and (must or not core.is_error(err) or err.code ~= "unsupported") then error(err, 0) end
  if fine then self.events = events.new(self.folder) else self.without = err.message end
end

-- ---- lines ----

-- What of a table of metrics is known: a number that is none is left out like everything that is not known, nil when
-- nothing is left. flat gets {["time.load"] = 1} of {time = {load = 1}}.
local function known(values, prefix, flat, level)
  local out
  if level > DEEPEST then
    check.fail("train.Log", ("metrics are nested at most %d tables deep, not under %s"):format(DEEPEST, prefix),
      "a table that contains itself?")
  end
  for key, value in pairs(values) do
    if type(key) ~= "string" then
      check.fail("train.Log", ("a metric has a name, not the key %s"):format(tostring(key)))
    end
    if type(value) == "table" then
      value = known(value, prefix .. key .. ".", flat, level + 1)
    elseif value ~= value or value == math.huge or value == -math.huge then
      value = nil
    else
      flat[prefix .. key] = value
    end
    if value ~= nil then
      out = out or {}
      out[key] = value
    end
  end
  return out
end

--- Adds a line. values: {step =, …}; metrics, texts, and tables of them.
function Log:line(values)
  check.arg(1, "line", "table", values)
  check.arg(1, "line (step)", "whole", values.step)
  if self.idle then return end
  local flat = {}
  local text = core.json_encode(known(values, "", flat, 0), false, DIGITS)
  output.line(text)
  self.waiting[#self.waiting + 1] = text .. "\n"
  self.csv:row(flat)
  if self.events then self.events:metrics(values.step, flat) end
  if #self.waiting >= HELD or core.clock() - self.written >= WAIT then self:flush() end
end

--- Adds texts, pictures or histograms for TensorBoard alone: a list of {tag =, text = | png = | tensor =, scale =}.
function Log:add(step, values)
  if self.events then self.events:add(step, values) end
end

--- Writes buffered lines to the files.
function Log:flush()
  if self.idle then return end
  self.written = core.clock()
  if #self.waiting > 0 then
    local text = table.concat(self.waiting)
    local done, why = core.sys.append(self.path, text)
    if not done then core.error{code = "io", message = why, path = false} end
    self.waiting = {}
  end
  self.csv:flush()
  if self.events then self.events:flush() end
end

--- The end of the last step's lines; more may follow.
function Log:close() self:flush() end

-- ---- resume ----

--- The length of the files, for a checkpoint.
function Log:state()
  if self.idle then return {} end
  self:flush()
  return {bytes = core.sys.size(self.path) or 0, csv = self.csv:state(), events = self.events and self.events:state()}
end

--- Truncates the files to a state and appends from there.
-- out  list of sentences about files that are not as they were: those have a gap
function Log:set_state(state)
  local notes = {}
  if self.idle then return notes end
  self.waiting = {}
  if state.bytes > 0 then
    local done, why = core.sys.cut(self.path, state.bytes)
    if not done then notes[1] = why end
  end
  self.csv:set_state(state.csv)
  if self.events and state.events then notes[#notes + 1] = self.events:set_state(state.events) end
  return notes
end

--- What set_state takes, as train/saved_state.lua reads it.
function Log.state_shape()
  local added = {name = "name", bytes = "count", ["?"] = true}
  return {bytes = "count", csv = {rows = "count"}, events = added, ["?"] = true}
end

--- The lines in metrics.jsonl, as tables; without what cannot be read.
function Log:read()
  self:flush()
  return json_file.lines(core.sys.kind(self.path) == "file" and core.sys.read(self.path))
end

return {new = new}
