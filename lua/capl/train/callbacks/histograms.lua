-- histograms.lua: the key histograms of train.fit: how weights and gradients are spread, at each evaluation, for
-- TensorBoard.
--
-- Gradients live within a step alone: those of the first step and of the one after each evaluation are counted, before
-- the optimizer uses them. Reading them waits for the device, which nothing else in a step does.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local Histograms = {}
Histograms.__index = Histograms

local function read(o)
  if o.histograms and o.tensorboard == false then
    check.fail("train.fit", "histograms go to TensorBoard's file, and tensorboard is false", "give one of them")
  end
  if o.histograms then o.tensorboard = true end -- which is an error where that cannot be
end

local function new(fit)
  local run = fit.run
  if not fit.o.histograms or run.mode ~= "run" then return nil end
  local self = setmetatable({fit = fit, written = 0, wanted = true}, Histograms)
  run:add_feature{name = "histograms", what = "histograms of weights and gradients", count = function()
    return self.written end}
  return self
end

-- Adds those of the tensors of named parameters. of: tensor of a parameter, or nil.
function Histograms:write(step, kind, of, scale)
  local values = {}
  for name, parameter in self.fit.model:named_parameters() do
    local tensor = of(parameter)
    if tensor then values[#values + 1] = {tag = kind .. "/" .. name, tensor = tensor:detach(), scale = scale} end
  end
  self.fit.record:log():add(step, values)
  self.written = self.written + #values
end

-- Where the loss was scaled, so are the gradients. A step that is watched or captured may read nothing.
function Histograms:gradients(opt)
  if not self.wanted or type(self.fit.make_step.call) == "table" then return end
  self.wanted = false
  self:write(self.fit.step + 1, "gradients", function(p) return p.grad end, opt.scaled and 1 / opt.loss_scale or 1)
end

function Histograms:begin()
  self.listener = function(opt)
    if opt == self.fit.optimizer then self:gradients(opt) end
  end
  self.fit.run:on("gradients", self.listener)
end

function Histograms:evaluated()
  if self.wanted and not self.noted then
    self.noted = true
    self.fit.run:print("note: histograms: a step that a GPU replays shows no gradients; capture = false in " ..
      "train.fit does")
  end
  self:write(self.fit.step, "weights", function(p) return p end)
  self.wanted = true
end

function Histograms:close() self.fit.run:off("gradients", self.listener) end

function Histograms:state() return {written = self.written, wanted = self.wanted} end
function Histograms:set_state(state) self.written, self.wanted = state.written, state.wanted end
function Histograms.state_shape() return {written = "count", wanted = "boolean"} end

return {name = "histograms", spec = {{"histograms", "boolean", default = false}}, read = read, new = new}
