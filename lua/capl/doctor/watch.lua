-- watch.lua: what the rules want to know of a recipe with a loop of its own: its first steps are looked at as they
-- happen, then some at rising learning rates.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local initial_loss = require "train.callbacks.initial_loss"
local lr_find = require "train.lr_find"
local lr_sweeps = require "train.lr_sweeps"
local units = require "doctor.units"

local LOOK = 4 -- steps that are looked at
local RATES = 60 -- steps of a sweep of rising learning rates after them; there are two

local Watch = {}
Watch.__index = Watch

-- ---- the first steps ----

local function length(t) return core.no_grad(function() return (t * t):sum():sqrt():item() end) end

function Watch:note_gradients()
  local model = self.run.model
  if self.steps >= LOOK or not model then return end
  for name, p in model:named_parameters() do
    local grad = p.grad
    -- frozen, perhaps for these steps only
    if not p.requires_grad then self.gradients[name] = self.gradients[name] or false end
    if grad then self.gradients[name] = math.max(self.gradients[name] or 0, length(grad)) end
  end
end

-- Results of layers as they run.
function Watch:note_layers()
  self.fuse, observer.fuse = observer.fuse, false
  local function noted(module, y, ...)
    self.units:note(module, y)
    return y, ...
  end
  observer.watch = function(module, ...) return noted(module, module:forward(...)) end
end

function Watch:forget_layers()
  if self.fuse == nil then return end
  observer.fuse, observer.watch, self.fuse = self.fuse, nil, nil
end

local function waited(run)
  for _, entry in ipairs(run.loaders) do
    if entry.role == "train" then return entry.loader:stats().wait_seconds end
  end
end

function Watch:looked()
  self.steps = self.steps + 1
  if self.steps == 1 then
    self.first = self.initial:finish()
    self.started, self.waited = core.clock(), waited(self.run)
  elseif self.steps == LOOK then
    self:forget_layers()
    self.seconds = core.clock() - self.started
    self.waited = self.waited and waited(self.run) - self.waited
    self.sweeps:rewind()
  end
end

-- ---- rising learning rates ----

function Watch:note_loss(opt, loss)
  if not self.peaks then
    self.optimizer, self.peaks = opt, lr_find.peaks_of(opt)
    self.sweeps:begin(self.run.model, opt)
  end
  if self.steps < LOOK then return end
  if opt ~= self.optimizer then return end
  self.loss = loss:item()
  lr_find.set_rates(opt, self.peaks, self.sweeps:next_lr())
end

function Watch:step()
  if self.steps < LOOK then return self:looked() end
  if not self.loss then return self.done() end -- nobody sees its losses
  local over = self.sweeps:add(self.loss)
  self.loss = nil
  if over then self.done() end
end

--- Begins. done: called when all has been seen.
local function begin(run, done)
  local self = setmetatable({run = run, steps = 0, gradients = {}, units = units.new(),
    sweeps = lr_sweeps.new{steps = RATES}, done = done}, Watch)
  self.initial = initial_loss.begin()
  self:note_layers()
  run:on("gradients", function() if not self.ended then self:note_gradients() end end)
  run:on("loss", function(opt, loss) if not self.ended then self:note_loss(opt, loss) end end)
  run:on("step", function() if not self.ended then self:step() end end)
  return self
end

--- Ends it: the rules take over.
function Watch:finish()
  self.ended = true
  self:forget_layers()
  observer.on_loss_value = nil
  if self.sweeps.results[1] then
    self.rates = self.sweeps:result(self.peaks[1][1])
    self.rates.text = lr_sweeps.words(self.rates)
  end
  return self
end

return {begin = begin, LOOK = LOOK}
