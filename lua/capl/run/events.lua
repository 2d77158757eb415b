-- events.lua: events.out.tfevents.…: metrics, texts, pictures and histograms of a run for TensorBoard.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local Events = {}
Events.__index = Events

--- A file of records. folder: where it will lie; its name contains the start time, as TensorBoard expects.
local function new(folder)
  return setmetatable({path = ("%s/events.out.tfevents.%d.capl"):format(folder, core.sys.time()), bytes = 0,
    waiting = {}}, Events)
end

local skipped = {step = true, seconds = true, images = true, event = true}

-- val_exact -> val/exact, plain_val_exact -> plain_val/exact, time.load -> time/load, loss -> train/loss
local tags = setmetatable({}, {__index = function(self, name)
  local tag = "train/" .. name
  if name:find("^plain_val_") then tag = "plain_val/" .. name:sub(11) end
  if name:find("^val_") then tag = "val/" .. name:sub(5) end
  if name:find(".", 1, true) then tag = name:gsub("%.", "/", 1) end
  self[name] = tag
  return tag
end})

local function put(self, step, values)
  if self.bytes == 0 and #self.waiting == 0 then self.waiting[1] = core.event() end
  self.waiting[#self.waiting + 1] = core.event(step, values)
end

--- Adds the metrics of a line {name = number}; texts go under "events".
function Events:metrics(step, flat)
  local values = {}
  for name, value in pairs(flat) do
    if not skipped[name] and type(value) == "number" then values[tags[name]] = value end
  end
  if next(values) then put(self, step, values) end
  if flat.event then put(self, step, {{tag = "events", text = flat.event}}) end
end

--- Adds values {tag =, text = …| png = bytes of a file | tensor = …, scale =} of a step.
function Events:add(step, values)
  if #values > 0 then put(self, step, values) end
end

--- Writes the records that wait, whole ones only.
function Events:flush()
  if #self.waiting == 0 then return end
  local text = table.concat(self.waiting)
  local done, why = core.sys.append(self.path, text)
  if not done then core.error{code = "io", message = why, path = false} end
  self.bytes, self.waiting = self.bytes + #text, {}
end

function Events:state()
  self:flush()
  return {name = self.path:match("[^/]+$"), bytes = self.bytes}
end

--- Goes on in the file of a state, behind the records it had then; a file that is gone begins anew.
-- out  nil, or what is wrong with that file
function Events:set_state(state)
  local path = self.path:match("^.*/") .. state.name
  self.waiting, self.bytes = {}, 0
  if state.bytes == 0 then return end
  local done, why = core.sys.cut(path, state.bytes)
  if not done then return why end
  self.path, self.bytes = path, state.bytes
end

return {new = new}
