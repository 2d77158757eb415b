-- observer.lua: whom models, loaders and optimizers tell what they do: a run (run/init.lua), else one that only passes
-- it on.
--
-- What stands here is all that the library below train knows of a run. A step ends at opt:step or opt:backward_step; an
-- epoch when its loader has given the last batch: docs/contract.md.
-- SPDX-License-Identifier: Apache-2.0
local Observer = {
  mode = "none", -- of a run: "run", "check", "bench"
  fixed = false, -- loaders repeat their first training batch
  model = nil, -- the model given to capl.model, and its options
  model_options = nil,
  optimizer_steps = 0, -- of all optimizers
  loaders = nil, -- in order of their making: {loader =, role =, augment =}
}
Observer.__index = Observer

local events = {"loss", "gradients", "step", "phase", "epoch", "loader", "model", "fit", "settings", "finish"}

function Observer.new()
  local self = setmetatable({listeners = {}, loaders = {}}, Observer)
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

function Observer:tell(event, ...)
  for _, fn in ipairs(self.listeners[event]) do fn(...) end
end

-- ---- a step ----

--- The loss that a backward pass of optimizer opt starts from, before that pass.
function Observer:loss(opt, loss) self:tell("loss", opt, loss) end

--- A part of the step begins: "forward", "backward".
function Observer:phase(name) self:tell("phase", name) end

--- The gradients of a step are there and no weight has changed yet.
function Observer:gradients(opt) self:tell("gradients", opt) end

--- A step has ended.
function Observer:step(opt)
  self.optimizer_steps = self.optimizer_steps + 1
  self:tell("step", opt)
end

-- ---- data ----

--- A loader is made; augment: its first ops, nil without.
function Observer:loader_made(loader, role, augment)
  table.insert(self.loaders, {loader = loader, role = role, augment = augment})
  self:tell("loader", loader, role)
end

--- A loader hands out a batch.
function Observer:batch(loader, batch) end

--- A batch is handed out once more, by a loader that repeats it.
function Observer:repeated(batch) end

--- A loader has given the last batch of an epoch.
function Observer:epoch(loader, number) self:tell("epoch", loader, number) end

-- ---- the run around it ----

--- Registers the model that training is about.
function Observer:set_model(model, opts)
  self.model, self.model_options = model, opts
  self:tell("model", model, opts)
end

--- A line for whoever follows what happens.
function Observer:print(text) require("output").text(text) end

--- Value and origin of a setting of the recipe; nil: there is none of that name.
function Observer:setting(key) end

--- Its value for whoever uses it, so that it counts as read.
function Observer:take_setting(key) end

return {class = Observer, current = Observer.new()}
