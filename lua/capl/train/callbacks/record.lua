-- record.lua: keeps the lines, curves and the progress of a run in step with its checkpoints, and closes its files.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local Record = {}
Record.__index = Record

local function read(o)
  local value = o.tensorboard
  if type(value) == "string" and value ~= "auto" then check.unknown("train.fit", "tensorboard", value, {"auto", "true", "false"}) end
end

local function new(fit)
  fit.record.tensorboard = fit.o.tensorboard
  return setmetatable({fit = fit, record = fit.record}, Record)
end

-- Files that cannot be written are told before the first step.
function Record:begin()
  local fit = self.fit
  self.record:log()
  if fit.step > 0 then fit.progress:go_on(fit.step, fit.images, fit.span.position) end
end

-- Points of the curve whose losses a device still has come first: they belong before the state.
function Record:state()
  self.fit.parts:get("curve"):note(true)
  return self.record:state()
end

function Record:set_state(state) self.record:set_state(state) end
function Record:close() self.record:close() end

return {name = "record", spec = {{"tensorboard", "boolean", "string", default = "auto"}}, read = read, new = new}
