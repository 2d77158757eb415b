-- callbacks: the features of train.fit, one file each; this list is the one place that knows them all.
--
-- A callback is {name =, spec = its keys of train.fit, prepare = function(o, run), which may exchange loaders before
-- the length of the run is known, read = function(o, run) that checks the keys, new = function(fit) -> object or nil
-- when this run does not use it}. The methods that an object has are called, in the order of the list:
--   begin()               before the first step, after a saved state was put back
--   lines()               -> lines for the header of the run
--   moments(per_epoch)    -> list of {x = step, label}: where something begins or ends, for schedule.png
--   resume()              before begin, for the callback that loads saved states
--   between_steps()       after a step and its evaluation, when another step follows
--   before_step(batch)    after_step(loss): loss lives on the device, so reading it costs a wait; with accumulate,
--                         batch is a list of batches that has their count
--   epoch_ended(epoch)
--   before_evaluation()   evaluated(e)   after_evaluation(); e = {step, images, seconds, metrics, meter, loss, better}
--   point(at)             a point of the curve: what is added to at = {step, images, …} becomes part of its line
--   finish(result)        after the last step, before the test; stopped(result) instead after Ctrl-C, failed() after an
--                         error
--   keep()                after those two: the model takes the values that it is kept with, e.g. averages
--   close()               always, last
--   state()               -> a tree of numbers, texts, booleans and tensors; set_state(tree) puts it back
--   state_shape()         -> what such a tree has to be (train/saved_state.lua)
-- SPDX-License-Identifier: Apache-2.0
local callbacks = {}

local list = {
  require "train.callbacks.time", -- the first: its clock ends a step before others work on it
  require "train.callbacks.active_settings", -- its lines come before those of others
  require "train.callbacks.weights", -- before all that copy the model
  require "train.callbacks.limit",
  require "train.callbacks.overfit",
  require "train.callbacks.shards", -- after all that exchange the train loader
  require "train.callbacks.freeze",
  require "train.callbacks.sanity",
  require "train.callbacks.recompute",
  require "train.callbacks.accumulate",
  require "train.callbacks.clip",
  require "train.callbacks.lr_rule",
  require "train.callbacks.plan",
  require "train.callbacks.anomaly",
  require "train.callbacks.initial_loss",
  require "train.callbacks.curve",
  require "train.callbacks.ctc", -- behind the curve, which says what a point is
  require "train.callbacks.record",
  require "train.callbacks.histograms",
  require "train.callbacks.ema", -- before all that save or copy the model in after_evaluation
  require "train.callbacks.ema_compare",
  require "train.callbacks.best",
  require "train.callbacks.early_stop",
  require "train.callbacks.cooldown",
  require "train.callbacks.plateau",
  require "train.callbacks.generalization_gap",
  require "train.callbacks.ctc_blanks",
  require "train.callbacks.curriculum",
  require "train.callbacks.events",
  require "train.callbacks.ranks",
  require "train.callbacks.monitor",
  require "train.callbacks.replicas",
  require "train.callbacks.scaling",
  require "train.callbacks.override",
  require "train.callbacks.attach", -- after override, which records its learning rates, and before callbacks that save
  require "train.callbacks.checkpoint", -- last: it saves what the others have made of a step
  require "train.callbacks.dry_run", -- after all that write files
}

local events = {"resume", "begin", "before_step", "after_step", "between_steps", "epoch_ended", "before_evaluation",
  "evaluated", "after_evaluation", "point", "finish", "stopped", "failed", "keep", "close"}

--- Adds the keys of all callbacks to a spec of options.
function callbacks.add_keys(spec)
  for _, callback in ipairs(list) do
    for _, entry in ipairs(callback.spec or {}) do spec[#spec + 1] = entry end
  end
  return spec
end

--- Lets every callback exchange the loaders that it changes.
function callbacks.prepare(o, run)
  for _, callback in ipairs(list) do
    if callback.prepare then callback.prepare(o, run) end
  end
end

--- Lets every callback check and settle its own keys.
function callbacks.read(o, run)
  for _, callback in ipairs(list) do
    if callback.read then callback.read(o, run) end
  end
end

-- ---- the callbacks of one run ----

local Callbacks = {}
Callbacks.__index = Callbacks

--- The callbacks that a run uses. fit: the loop they belong to.
function callbacks.new(fit)
  local self = setmetatable({list = {}, by_name = {}, heard = {}}, Callbacks)
  for _, callback in ipairs(list) do
    local object = callback.new(fit)
    if object then
      table.insert(self.list, object)
      self.by_name[callback.name] = object
    end
  end
  for _, event in ipairs(events) do
    self.heard[event] = {}
    for _, object in ipairs(self.list) do
      if object[event] then table.insert(self.heard[event], object) end
    end
  end
  return self
end

--- Calls that method of all callbacks which have it.
function Callbacks:notify(event, what)
  for _, object in ipairs(self.heard[event]) do object[event](object, what) end
end

--- The callback of that name, nil when this run does not use it.
function Callbacks:get(name) return self.by_name[name] end

--- Lines for the header of the run.
function Callbacks:lines()
  local lines = {}
  for _, object in ipairs(self.list) do
    for _, line in ipairs(object.lines and object:lines() or {}) do lines[#lines + 1] = line end
  end
  return lines
end

--- {name = state} of all callbacks that have one.
function Callbacks:state()
  local out = {}
  for name, object in pairs(self.by_name) do out[name] = object.state and object:state() or nil end
  return out
end

--- Puts states back; a callback that the saved run did not use begins anew.
function Callbacks:set_state(state)
  state.cooldown = state.cooldown or state.settle -- the name in older checkpoints
  for name, object in pairs(self.by_name) do
    if state[name] ~= nil and object.set_state then object:set_state(state[name]) end
  end
end

--- What the states of all callbacks have to be; each may be missing.
function Callbacks:state_shape()
  local out = {}
  for name, object in pairs(self.by_name) do
    local shape = object.state_shape and object:state_shape()
    if type(shape) == "table" then shape["?"] = true end
    out[name] = shape or nil
  end
  return out
end

return callbacks
