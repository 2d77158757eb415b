-- generalization_gap.lua: at the end, a note when the loss on val is far above that in training, or has risen since it
-- was least.
-- SPDX-License-Identifier: Apache-2.0

local RATIO = 1.5 -- of val loss to training loss, from which on there is a note
local RISE = 1.1 -- of the last val loss to the least one
local RECENT = 0.1 -- share of the curve's points that the training loss is the mean of

local Gap = {}
Gap.__index = Gap

local function new(fit) return fit.o.val and not fit.o.overfit and setmetatable({fit = fit}, Gap) or nil end

function Gap:evaluated(e)
  if not e.loss then return end
  self.last = e.loss
  if not self.least or e.loss < self.least then self.least, self.step = e.loss, e.step end
end

-- Mean of the last points of the training curve.
local function recent_loss(record)
  local losses = record.train and record.train.loss or {}
  local first, sum = math.floor(#losses * (1 - RECENT)) + 1, 0
  first = math.min(first, #losses)
  if first < 1 then return nil end
  for i = first, #losses do sum = sum + losses[i] end
  return sum / (#losses - first + 1)
end

local function rose(self) return self.last > RISE * self.least and self.step < self.fit.step end

function Gap:finish(result)
  local run = self.fit.run
  local trained = recent_loss(self.fit.record)
  if not trained or not self.last then return end
  local ratio = trained > 0 and self.last / trained or nil
  result.val_to_train_loss = ratio
  if rose(self) then
    run:print(("note: the val loss was least at step %d (%.4g) and is %.4g now: the model overfits; " ..
      "more images, augmentation or early_stop help"):format(self.step, self.least, self.last))
  elseif ratio and ratio > RATIO then
    run:print(("note: the val loss is %.1f times the training loss (%.4g to %.4g): more training images or " ..
      "augmentation would help"):format(
      ratio, self.last, trained))
  end
end

function Gap:state() return {last = self.last, least = self.least, step = self.step} end
function Gap:set_state(state)
  if not (state.last and state.least and state.step) then return end -- nothing was evaluated
  self.last, self.least, self.step = state.last, state.least, state.step
end

function Gap.state_shape() return {last = "number?", least = "number?", step = "count?"} end

return {name = "gap", new = new}
