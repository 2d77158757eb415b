-- Gradient checkpointing: the same bits with less memory, and what it refuses.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text = support.error_text

local function block(inputs, outputs)
  return nn.Sequential{nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU(),
    nn.Dropout(0.3)}
end

local function small_model()
  capl.manual_seed(3)
  return nn.Sequential{block(1, 4), block(4, 4), block(4, 4), block(4, 4), nn.Flatten(), nn.Linear(4 * 6 * 8, 5)}
end

-- Gradients, statistics and the last loss after two steps of a model that wrap has changed; bytes at their peak.
local function trained(wrap, precision)
  local model = small_model()
  wrap(model)
  local opt = optim.SGD(model:parameters(), {lr = 0.1})
  capl.manual_seed(9)
  local x, labels = capl.randn(4, 1, 6, 8), capl.tensor({0, 1, 2, 4}, {dtype = "i32"})
  local out = {}
  for step = 1, 2 do
    local loss = capl.autocast(precision, function() return nn.cross_entropy(model(x), labels) end)
    loss:backward()
    for name, p in model:named_parameters() do out[step .. name] = p.grad:tolist() end
    opt:step()
    opt:zero_grad()
    out[step] = loss:item()
  end
  for name, tensor in pairs(model:state_dict()) do out[name] = tensor:tolist() end
  return out
end

local wraps = {
  blocks = function(model) for i = 1, 4 do nn.Checkpoint(model[i]) end end,
  segments = function(model) nn.Checkpoint(model, {segments = 3}) end,
  nested = function(model)
    for i = 1, 4 do nn.Checkpoint(model[i]) end
    nn.Checkpoint(model)
  end,
}

describe("checkpoints", function()
  it("leave losses, gradients, statistics and weights as they are, bit for bit, also nested and under autocast",
    function()
    for _, precision in ipairs{"fp32", "bf16"} do
      local plain = trained(function() end, precision)
      for _, wrap in pairs(wraps) do assert.same(plain, trained(wrap, precision)) end
    end
  end)

  it("sum gradients of an input with several uses in the same order as without", function()
    local function gradient(call)
      capl.manual_seed(5)
      local w, x = capl.randn(7, 7, {requires_grad = true}), capl.randn(7, 7)
      local y = x:matmul(w):tanh()
      local z = call(function(a, b) return (a:matmul(b) + a):tanh() * a end, y, w)
      local sum = (z * y + w):sum()
      sum:backward()
      return w.grad:tolist()
    end
    assert.same(gradient(function(fn, ...) return fn(...) end), gradient(capl.checkpoint))
  end)

  it("refuse a function that gives something else when it is called again", function()
    for _, other in ipairs{function(v) return v:view(4) end, function(v) return v:to("f16") end, function(v)
      return v, v end} do
      local calls = 0
      local y = capl.checkpoint(function(v)
        calls = calls + 1
        return (calls > 1 and other or function(same) return same * 2 end)(v)
      end, capl.ones(2, 2, {requires_grad = true}))
      assert.matches("checkpoint: ", error_text(function() y:sum():backward() end))
      assert.equal(2, calls)
    end
  end)

  it("take less memory at the peak", function()
    local function peak(wrap)
      local layers = {}
      for i = 1, 8 do layers[i] = block(4, 4) end
      local model = nn.Sequential(layers)
      wrap(model)
      local x = capl.randn(4, 4, 20, 20)
      support.live_bytes()
      local before = capl.memory().live
      capl.memory_reset_peak()
      model(x):mean():backward()
      return capl.memory().peak - before
    end
    local plain = peak(function() end)
    local cheap = peak(function(model) for i = 1, 8 do nn.Checkpoint(model[i]) end end)
    assert.is_true(cheap < 0.7 * plain, ("%d bytes with, %d without"):format(cheap, plain))
  end)

  it("leave nothing behind, also when the backward pass never comes", function()
    support.no_leak(function()
      local model = nn.Checkpoint(block(1, 2))
      local y = model(capl.ones(1, 1, 4, 4)):mean()
      y:backward()
      local z = model(capl.ones(1, 1, 4, 4)):mean()
      assert.is_true(z:item() == z:item())
    end)
  end)

  it("give several tensors, take other values too, and run plainly without gradients", function()
    local w = capl.full({3}, 2, {requires_grad = true})
    local calls = 0
    local function both(a, factor)
      calls = calls + 1
      return a * factor, a + factor
    end
    local p, q = capl.checkpoint(both, w, 3)
    local sum = (p * q):sum()
    sum:backward()
    assert.same({21, 21, 21}, w.grad:tolist()) -- of 3w (w + 3)
    assert.equal(2, calls)
    local plain = capl.no_grad(capl.checkpoint, both, w, 3)
    assert.is_false(plain.requires_grad)
    assert.same({6, 6, 6}, plain:tolist())
    local x = capl.ones(2)
    assert.is_true((capl.checkpoint(both, x, 1)).is_leaf) -- nothing in it wants a gradient
  end)

  it("raise errors of the second run, and what they cannot do", function()
    local w = capl.ones(2, 2, {requires_grad = true})
    local outside = w * 2
    local y = capl.checkpoint(function(a) return a * outside end, w):sum()
    assert.matches("backward: checkpoint: a tensor made before it by affine is used in it", error_text(y.backward, y))
    local second = false
    local z = capl.checkpoint(function(a)
      if second then return a:matmul(capl.ones(3, 3)) end
      return a * 2
    end, w):sum()
    second = true
    assert.matches("inner sizes differ: a has 2 columns, b has 3 rows", error_text(z.backward, z))
    assert.matches("returns tensors alone, got table", error_text(capl.checkpoint, function(a) return {a} end, w))
    assert.matches("returns 1 to 6 tensors, got 0", error_text(capl.checkpoint, function() end, w))
    assert.matches("bad argument #1 to 'checkpoint' %(function expected", error_text(capl.checkpoint, 3))
    assert.matches("segments: 2 to 2, the number of layers; got 3", error_text(nn.Checkpoint,
      nn.Sequential{nn.ReLU(), nn.ReLU()}, {segments = 3}))
    assert.matches("segments are of a Sequential, not of a Linear",
      error_text(nn.Checkpoint, nn.Linear(2, 2), {segments = 2}))
  end)

  it("go into captured steps", function()
    local function losses(wrap, captured)
      local model = small_model()
      wrap(model)
      local opt = optim.AdamW(model:parameters(), {lr = 0.01})
      local function step(x, labels)
        local loss = nn.cross_entropy(model(x), labels)
        opt:backward_step(loss)
        return loss
      end
      if captured then step = capl.capture(step) end
      capl.manual_seed(9)
      local out = {}
      for k = 1, 5 do out[k] = step(capl.randn(4, 1, 6, 8), capl.tensor({0, 1, 2, 4}, {dtype = "i32"})):item() end
      return out
    end
    assert.same(losses(function() end, false), losses(wraps.blocks, true))
  end)

  it("are let go when the coroutine that called last is garbage already", function()
    local layer = nn.Checkpoint(nn.Linear(4, 2))
    for _ = 1, 200 do
      local y = layer(capl.zeros(3, 4))
      coroutine.wrap(function() return capl.zeros(1) * 2 end)()
      collectgarbage()
      local filler = {}
      for i = 1, 100 do filler[i] = coroutine.create(function() end) end
      assert.same({3, 2}, y:size())
      y = nil
      collectgarbage()
    end
  end)

  it("name no file of the library where a function yields", function()
    local x = capl.ones(2):requires_grad_()
    local status, why = pcall(coroutine.wrap(function() capl.checkpoint(coroutine.yield, x) end))
    assert.is_false(status)
    assert.is_nil(tostring(why):find("recompute.lua", 1, true))
  end)

  it("keep the names of parameters", function()
    local names = {}
    for name in nn.Checkpoint(nn.Sequential{nn.Linear(2, 2)}):named_parameters() do names[#names + 1] = name end
    assert.same({"0.weight", "0.bias"}, names)
  end)
end)
