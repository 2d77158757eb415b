-- observer.lua: to whom models, loaders and optimizers report: a run (run/init.lua), else one that only passes
-- it on.
--
-- Every Lua state has one, made before the library's other files, which get it as their second argument. The program
-- makes a run of it. What stands here is all that the library below train knows of a run. A step ends at opt:step or
-- opt:backward_step; an epoch when its loader has given the last batch: docs/contract.md.
-- SPDX-License-Identifier: Apache-2.0
local Observer = {
  mode = "none", -- of a run: "run", "check", "bench"
  fixed = false, -- loaders repeat their first training batch
  model = nil, -- the model given to capl.model, and its options
  model_options = nil,
  optimizer_steps = 0, -- of all optimizers
  loaders = nil, -- in order of their making: {loader =, role =, augment =}
  planned = nil, -- {kind, precision, gigabytes, name} of devices that are not here: what a plan on meta takes them for
  hosts = nil, -- of each rank, once preflight has asked
  wants_visit = nil, -- function() -> whether somebody waits to attach
  gradients_reduced = false, -- all ranks have the sum already: nobody is to reduce it again
  -- of layers
  fuse = true, -- capl.fuse: Sequential fuses
  recomputing = nil, -- true while a checkpoint runs its part again: statistics are not to be counted twice
  on_loss_value = nil, -- function(name, value, x, target, options[, more]) called with each loss that is computed
  on_ctc = nil, -- function(infeasible (N) u8) called with each CTC loss that is computed
  watch = nil, -- function(module, …) called instead of module:forward(…); it must call that itself
  -- of captured steps
  captured_work = nil, -- while a step is being captured: list of {fn, a, b} that its replays have to do in Lua
  put_before_launch = nil, -- function(fn, a, b) instead of fn(a, b), in a step that is watched or captured
}
Observer.__index = Observer

local events = {"loss", "gradients", "step", "phase", "epoch", "loader", "model", "fit", "loop", "settings", "finish"}

function Observer.new()
  local self = setmetatable({listeners = {}, loaders = {}}, Observer)
  self.console = { -- how output.lua speaks
    mode = "lines", -- "lines", "quiet" or "json"
    silent = false, -- another rank speaks for all
    live = false, -- standard output is a terminal that takes a line back
    utf8 = false, -- and shows more than ASCII
  }
  for _, event in ipairs(events) do self.listeners[event] = {} end
  return self
end

--- Calls fn at every event of that name, after the observer itself. -> fn
function Observer:on(event, fn)
  table.insert(self.listeners[event], fn)
  return fn
end

--- No longer.
function Observer:off(event, fn)
  local list = self.listeners[event]
  for i, other in ipairs(list) do
    if other == fn then return table.remove(list, i) end
  end
end

function Observer:notify(event, ...)
  for _, fn in ipairs(self.listeners[event]) do fn(...) end
end

-- ---- a step ----

--- The loss that a backward pass of optimizer opt starts from, before that pass.
function Observer:loss(opt, loss) self:notify("loss", opt, loss) end

--- A part of the step begins: "forward", "backward".
function Observer:phase(name) self:notify("phase", name) end

--- The gradients of a step are there and no weight has changed yet.
function Observer:gradients(opt) self:notify("gradients", opt) end

--- A step has ended.
function Observer:step(opt)
  self.optimizer_steps = self.optimizer_steps + 1
  self:notify("step", opt)
end

-- ---- what a captured step does in Lua: a GPU replays it without ----

--- Does fn(a, b), which counts something of a step; in a step that is being captured it is done when the step has
-- really run, and at every replay.
function Observer:each_time(fn, a, b)
  if self.captured_work then table.insert(self.captured_work, {fn, a, b}) else fn(a, b) end
end

--- Does fn(a, b), which writes numbers that change from step to step into device memory: no part of a step that is
-- watched or captured, but done before each launch of it.
function Observer:before_launch(fn, a, b)
  if self.put_before_launch then self.put_before_launch(fn, a, b) else fn(a, b) end
end

-- ---- data ----

--- A loader is made; augment: its first ops, nil without.
function Observer:loader_made(loader, role, augment)
  table.insert(self.loaders, {loader = loader, role = role, augment = augment})
  self:notify("loader", loader, role)
end

--- A loader hands out a batch.
function Observer:batch(loader, batch) end

--- A batch is handed out once more, by a loader that repeats it.
function Observer:repeated(batch) end

--- A loader has given the last batch of an epoch.
function Observer:epoch(loader, number) self:notify("epoch", loader, number) end

-- ---- the run around it ----

--- Registers the model to train.
function Observer:set_model(model, opts)
  self.model, self.model_options = model, opts
  self:notify("model", model, opts)
end

--- A line for whoever follows what happens.
function Observer:print(text) require("output").text(text) end

--- Value and origin of a setting of the recipe; nil: there is none of that name.
function Observer:setting(key) end

--- Its value for whoever uses it, so that it counts as read.
function Observer:take_setting(key) end

return Observer.new()
