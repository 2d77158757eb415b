-- hooks.lua: where commands hang on: the end of a step, of an epoch, and the registered model.
--
-- A step ends at opt:step or opt:backward_step; an epoch when its loader has given the last batch.
-- SPDX-License-Identifier: Apache-2.0
local hooks = {
  on_loss = {}, -- functions(opt, loss), before the backward pass
  on_gradients = {}, -- functions(opt)
  on_fit = {}, -- functions(options), before train.fit does anything with them
  on_step = {}, -- functions(opt)
  on_epoch = {}, -- functions(loader, epoch)
  on_model = {}, -- functions(model, opts)
  model = nil, -- the model given to capl.model
  model_options = nil,
  fitting = nil, -- options of train.fit, once it has been called
  before = nil, -- function(fn, a, b) instead of fn(a, b), in such a step
  phase = nil, -- function(name): a part of a step begins: "forward", "backward"
  planned = nil, -- {kind, precision, gigabytes, name} of devices that are not here: what a plan on meta takes them for
  parallel = nil, -- dist.parallel in a world of more than one rank: averages gradients
  reduced = nil, -- true while gradients of a step were averaged over the ranks by somebody else
  checkpoint = nil, -- the train.Checkpoint of a loop of one's own
  again = nil, -- while a step is being captured: list of {fn, a, b} that its replays have to do in Lua
}

--- Does fn(a, b), which counts something of a step in Lua; in a step that is being captured it is done when the step has
--- really run, and at every replay.
function hooks.each_time(fn, a, b)
  if hooks.again then table.insert(hooks.again, {fn, a, b}) else fn(a, b) end
end

--- Does fn(a, b), which writes numbers that change from step to step into device memory: no part of a step that is watched
--- or captured, but done before each launch of it.
function hooks.before_launch(fn, a, b)
  if hooks.before then hooks.before(fn, a, b) else fn(a, b) end
end

--- Called by train.fit with its checked options.
function hooks.fit(o)
  hooks.fitting = o
  for _, fn in ipairs(hooks.on_fit) do fn(o) end
end

--- Called by optimisers with the loss that a backward pass starts from.
function hooks.loss(opt, loss)
  for _, fn in ipairs(hooks.on_loss) do fn(opt, loss) end
end

--- Called by optimisers when the gradients of a step are there and no weight has changed yet.
function hooks.gradients(opt)
  for _, fn in ipairs(hooks.on_gradients) do fn(opt) end
end

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
