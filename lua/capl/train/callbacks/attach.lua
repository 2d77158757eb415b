-- attach.lua: a person's prompt between two steps of train.fit: `capl attach`; run/attach.lua does the rest.
-- SPDX-License-Identifier: Apache-2.0
local sync = require "dist.sync"
local attach = require "run.attach"
local loops = require "run.loops"

local Attach = {}
Attach.__index = Attach

local function new(fit)
  if fit.run.mode ~= "run" then return nil end
  return setmetatable({fit = fit, run = fit.run}, Attach)
end

function Attach:begin() self.fit.run.fits = self.fit.run.fits + 1 end

function Attach:close() self.fit.run.fits = math.max(self.fit.run.fits - 1, 0) end

function Attach:between_steps() attach.point(self) end

function Attach:finish(result) result.held_seconds = self.seconds end

Attach.stopped = Attach.finish

-- ---- as run/loops.lua says ----

function Attach:loss() return self.fit.loss and self.fit.loss:item() end

function Attach:lr() return loops.lr_of{self.fit.optimizer} end

function Attach:line()
  local fit = self.fit
  local steps = fit.span.steps and ("/%d"):format(fit.span.steps) or ""
  local val = fit.progress.note and ", " .. fit.progress.note or ""
  return ("step %d%s, loss %.4f, lr %s%s"):format(fit.step, steps, self:loss(), loops.rate_text(self:lr()), val)
end

function Attach:set_lr(value)
  local override = self.fit.callbacks:get("override")
  if override then override:set_lr(value) else loops.own(self.fit.run):set_lr(value) end
end

--- The newest of the run's checkpoints, made now.
function Attach:save()
  local part = self.fit.callbacks:get("checkpoint")
  if part then return part:save_now() end
  sync.by_main("saving the model", function() self.fit:save_model("attach.capl") end)
  return self.fit:path("attach.capl")
end

function Attach:stop() self.fit:stop("stopped", "stopped by attach") end

function Attach:report_held(seconds)
  local text = ("held %.0f s by attach"):format(seconds)
  self.seconds = (self.seconds or 0) + seconds
  self.fit.run:print(("%s, at step %d"):format(text, self.fit.step))
  self.fit.record:event(self.fit:at(), text)
  sync.hold(60)
end

return {name = "attach", new = new}
