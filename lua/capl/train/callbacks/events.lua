-- events.lua: what changes on the way, as lines of metrics.jsonl: a resume from a checkpoint, a stage that begins, an
-- early end.
-- SPDX-License-Identifier: Apache-2.0
local Events = {}
Events.__index = Events

local function new(fit)
  return setmetatable({fit = fit, schedule = fit.o.train.schedule, written = 0}, Events)
end

function Events:add(text) self.fit.record:event(self.fit:at(), text) end

function Events:begin()
  local again = self.fit.run.restart
  if again then
    self:add(("restart %d of %d after the loss of a rank (exit status %d)%s"):format(again.number, again.of, again.status,
      self.fit.resumed and ", resumed" or ""))
  elseif self.fit.resumed then
    self:add("resumed")
  end
  self.written = self.schedule and #self.schedule:history() or 0
end

function Events:after_step()
  if not self.schedule then return end
  local begun = self.schedule:history()
  for i = self.written + 1, #begun do
    self:add(("stage %d%s begins"):format(begun[i].stage, begun[i].name and ": " .. begun[i].name or ""))
  end
  self.written = #begun
end

function Events:finish()
  local stopping = self.fit.stopping
  if stopping then self:add(("%s: %s"):format(stopping.reason, stopping.sentence)) end
end

function Events:stopped() self:add("interrupted") end

return {name = "events", new = new}
