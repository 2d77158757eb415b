-- Lua's collector runs at every call while a step is recorded: what it lets go must not void the recording, and must
-- not change the numbers. What is let go: tensors of the step itself, losses being fetched, other recordings. (Loaders
-- are kept by the run.)
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn, optim = capl.nn, capl.optim

local RECORDED = 3 -- the call that is recorded

jit.off(true, true) -- compiled code calls no hooks

-- Calls fn with a full collection at each call of a function.
local function collecting(fn, ...)
  local running = false
  debug.sethook(function()
    if running then return end
    running = true
    collectgarbage()
    running = false
  end, "c")
  local function ended(...)
    debug.sethook()
    return ...
  end
  return ended(fn(...))
end

-- A small training, captured or not -> its losses, the captured step. garbage: is made before each call and dropped in
-- it.
local function train(captured, garbage)
  capl.manual_seed(3)
  local model = nn.Sequential{nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Dropout(0.25), nn.Linear(4 * 2 * 3, 5)}
  local opt = optim.AdamW(model:parameters(), {lr = 0.01, clip_norm = 1})
  local held
  local function step(x)
    if held then held = nil end
    local loss = (model(x) * model(x)):mean()
    opt:backward_step(loss)
    return loss
  end
  local run = captured and capl.capture(step) or step
  local x, losses = capl.randn(2, 1, 4, 6, {seed = 7, stream = {1, 2, 3}}), {}
  for i = 1, 5 do
    held = garbage and garbage()
    losses[i] = captured and i == RECORDED and collecting(run, x) or run(x)
    if captured then assert.equal(i >= RECORDED and 1 or 0, run:state().captured) end
  end
  for i, loss in ipairs(losses) do losses[i] = loss:item() end
  return losses, run
end

local garbage = {
  ["what the step itself leaves"] = false,
  ["a loss that is being fetched"] = function()
    local progress = capl.progress{steps = 1000}
    progress:step(1, capl.ones(1):sum(), 0.1)
    assert(progress.due)
    return progress
  end,
  ["another recording"] = function()
    local step = capl.capture(function(x) return x * 2 end)
    for _ = 1, 4 do step(capl.ones(3)) end
    assert.equal(1, step:state().captured)
    return step
  end,
}

describe("a collection at every call while a step is recorded", function()
  local plain = train(false)
  for what, make in pairs(garbage) do
    it("lets go " .. what, function()
      local losses, run = train(true, make or nil)
      assert.same(plain, losses)
      assert.is_nil(run:state().eager)
      assert.equal(3, run:state().replays)
    end)
  end
end)
