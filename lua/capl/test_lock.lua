-- test_lock.lua: the test images are read once, with the weights that were chosen without them.
--
-- What is chosen on a set of images fits that set: its metric says nothing about others any more. So a source that a
-- loader with role = "test" serves is locked as soon as it was read: it opens again for the same weights only.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...


local lock = {}

lock.HINT = 'choose on a loader with role = "val"; read the test loader once, at the end, with the weights that ' ..
  'were chosen'

local opened = setmetatable({}, {__mode = "k"}) -- source -> {step =, weights =}
local evaluating = false -- a whole evaluation is running: it asks for itself, and knows the weights

local function steps_made() return observer.optimizer_steps end

local function key_of(loader) return loader.source or loader end

local function refuse(op, message)
  core.error{code = "value", op = op, path = false, message = message, hint = lock.HINT}
end

local whole = {i32 = true, i64 = true, u8 = true, bool = true} -- counters, not weights

-- A text that differs when any tensor of the model does.
local function weights_of(model)
  return core.no_grad(function()
    local sums = {}
    for _, t in pairs(model:state_dict()) do
      if not whole[t.dtype] then
        local x = t:to("f32"):reshape(-1)
        sums[#sums + 1] = x:sum():reshape(1)
        sums[#sums + 1] = (x * x):sum():reshape(1)
      end
    end
    if #sums == 0 then return "" end
    local numbers = core.op.concat(sums, {dim = 1}):tolist()
    for i, number in ipairs(numbers) do numbers[i] = ("%.9g"):format(number) end
    table.sort(numbers) -- the order of state_dict's keys is no one's business
    return table.concat(numbers, " ")
  end)
end

--- An epoch of a test loader begins.
-- errs value: it was read before, and steps were made since
function lock.epoch(loader)
  if evaluating then return end
  local before = opened[key_of(loader)]
  if before and before.step ~= steps_made() then
    refuse("loader:epoch", ("the test images were read at step %d already, and %d steps were made since"):format(
      before.step, steps_made() - before.step))
  end
  opened[key_of(loader)] = before or {step = steps_made()}
end

--- Before a training that ends with reading a test loader: the weights will be others than those it was read with.
-- errs value: it was read before
function lock.training(op, loader)
  local before = opened[key_of(loader)]
  if not before then return end
  refuse(op, ("the test images were read at step %d already, before this training"):format(before.step))
end

--- fn(), during which all images of a test loader are read with a model.
-- errs value: they were read before with other weights
function lock.evaluation(op, loader, model, fn)
  if loader.role == "test" then
    local before, weights = opened[key_of(loader)], weights_of(model)
    if before and (before.step ~= steps_made() or before.weights and before.weights ~= weights) then
      refuse(op, ("the test images were read at step %d already, with other weights"):format(before.step))
    end
    opened[key_of(loader)] = {step = steps_made(), weights = weights}
  end
  local outer = evaluating
  evaluating = true
  local ok, err = pcall(fn)
  evaluating = outer
  if not ok then error(err, 0) end
end

--- Raises when metrics, as of meter:result(), are of test images: weights, learning rates, the length of a run and
-- stages of a schedule are never chosen by them.
function lock.choose(op, metrics)
  if type(metrics) == "table" and metrics.role == "test" then
    refuse(op, "these metrics are of the test images; a selection by them would bias the test")
  end
end

return lock
