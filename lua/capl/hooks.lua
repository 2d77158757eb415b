-- hooks.lua: where commands hang on: the end of a step, of an epoch, and the registered model.
--
-- A step ends at opt:step or opt:backward_step; an epoch when its loader has given the last batch.
-- SPDX-License-Identifier: Apache-2.0
local hooks = {
  on_step = {}, -- functions(opt)
  on_epoch = {}, -- functions(loader, epoch)
  on_model = {}, -- functions(model, opts)
  model = nil, -- the model given to capl.model
  model_options = nil,
}

--- Called by optimisers when a step has ended.
function hooks.step(opt)
  for _, fn in ipairs(hooks.on_step) do fn(opt) end
end

--- Called by loaders when an epoch has ended.
function hooks.epoch(loader, epoch)
  for _, fn in ipairs(hooks.on_epoch) do fn(loader, epoch) end
end

--- Registers the model that training is about.
function hooks.set_model(model, opts)
  hooks.model, hooks.model_options = model, opts
  for _, fn in ipairs(hooks.on_model) do fn(model, opts) end
end

return hooks
