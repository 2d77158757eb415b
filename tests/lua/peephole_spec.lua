-- Batch norms whose result goes into relu or silu next, in a forward() of one's own: one op, the same numbers.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local close, error_text, no_leak = support.close, support.error_text, support.no_leak

local function conv(inputs, outputs) return nn.Conv2d(inputs, outputs, 3, {padding = 1, bias = false}) end

local BasicBlock = nn.class("BasicBlock") -- as torchvision writes it

function BasicBlock:init(inputs, channels)
  self.conv1, self.bn1, self.relu = conv(inputs, channels), nn.BatchNorm2d(channels), nn.ReLU()
  self.conv2, self.bn2 = conv(channels, channels), nn.BatchNorm2d(channels)
  if inputs ~= channels then self.downsample = nn.Sequential{conv(inputs, channels), nn.BatchNorm2d(channels)} end
end

function BasicBlock:forward(x)
  local identity = x
  local out = self.relu(self.bn1(self.conv1(x)))
  out = self.bn2(self.conv2(out))
  if self.downsample then identity = self.downsample(x) end
  out = out + identity
  return self.relu(out)
end

local ResNet = nn.class("ResNet")

function ResNet:init()
  self.conv1, self.bn1 = conv(3, 4), nn.BatchNorm2d(4)
  self.layer1 = nn.Sequential{BasicBlock(4, 4), BasicBlock(4, 4)}
  self.layer2 = nn.Sequential{BasicBlock(4, 8), BasicBlock(8, 8)}
  self.fc, self.bn = nn.Linear(8, 6), nn.BatchNorm1d(6)
end

function ResNet:forward(x)
  x = self.bn1(self.conv1(x)):relu()
  x = self.layer2(self.layer1(x))
  return self.bn(self.fc(x:mean{3, 4})):relu()
end

local FUSABLE = 2 + 4 -- the first and the last batch norm, and the first one of each block

local function images() return capl.randn({4, 3, 6, 8}, {seed = 1, stream = {0, 0, 0}}) end

-- fn() with capl.fuse on or off -> its result, and how many fused ops it ran.
local function counted(on, fn, ...)
  capl.fuse(on)
  finally(function() capl.fuse(true) end)
  local before = capl.counters().fused_ops
  local result = fn(...)
  return result, capl.counters().fused_ops - before
end

-- Values, gradients and running statistics of a step of a new model.
local function step(training, precision)
  capl.manual_seed(3)
  local model = ResNet()
  model:train(training)
  local x = images():requires_grad_()
  local y = capl.autocast(precision or "fp32", function() return model(x) end)
  y:float():sum():backward()
  local out = {y:float():tolist(), x.grad:tolist()}
  for _, p in ipairs(model:parameters()) do table.insert(out, p.grad:tolist()) end
  for name, buffer in model:named_buffers() do
    if not name:match("num_batches") then table.insert(out, buffer:tolist()) end
  end
  return out
end

local function predict()
  capl.manual_seed(3)
  local model = ResNet():eval()
  return capl.no_grad(function() return model(images()):tolist() end)
end

describe("batch norm and relu in a forward of one's own", function()
  it("are one op in training, forward and backward", function()
    local want, none = counted(false, step, true)
    local got, fused = counted(true, step, true)
    assert.same({0, 2 * FUSABLE}, {none, fused})
    assert.is_true(close(want, got, 1e-4))
  end)

  it("are one op in evaluation, with gradients or without", function()
    local want, none = counted(false, step, false)
    local got, fused = counted(true, step, false)
    assert.same({0, 2 * FUSABLE}, {none, fused})
    assert.is_true(close(want, got, 1e-4))
    want, none = counted(false, predict)
    got, fused = counted(true, predict)
    assert.same({0, FUSABLE}, {none, fused})
    assert.is_true(close(want, got, 1e-5))
  end)

  it("are one op under autocast", function()
    local _, fused = counted(true, step, true, "bf16")
    assert.equal(2 * FUSABLE, fused)
  end)
end)

describe("batch norm and silu", function()
  local function run(training, sequential)
    capl.manual_seed(3)
    local bn, silu, x = nn.BatchNorm2d(3), nn.SiLU(), images():requires_grad_()
    bn:train(training)
    local y = sequential and nn.Sequential{nn.Identity(), bn, silu}(x) or silu(bn(x));
    (y * y):sum():backward()
    return {y:tolist(), x.grad:tolist(), bn.weight.grad:tolist(), bn.bias.grad:tolist(), bn.running_var:tolist()}
  end

  it("are one op, in a forward of one's own and in Sequential", function()
    for _, training in ipairs{true, false} do
      local want, none = counted(false, run, training)
      for _, sequential in ipairs{false, true} do
        local got, fused = counted(true, run, training, sequential)
        assert.same({0, 2}, {none, fused})
        assert.is_true(close(want, got, 1e-4))
      end
    end
  end)
end)

describe("a batch norm whose result is looked at before relu", function()
  local function norm() return nn.BatchNorm2d(3), images():requires_grad_() end

  it("is run alone", function()
    local bn, x = norm()
    for _, look in ipairs{
      function(y) return y.shape end,
      function(y) return tostring(y) end,
      function() return bn.running_mean:tolist() end,
      function(_, other) return other + 1 end,
    } do
      local _, fused = counted(true, function()
        local y = bn(x)
        look(y, x)
        return y:relu()
      end)
      assert.equal(0, fused)
    end
  end)

  it("is run where it was called: without recording", function()
    local bn, x = norm()
    local y = capl.no_grad(bn, x)
    assert.is_false(y:relu().requires_grad)
    y = bn(x)
    assert.is_false(capl.no_grad(function() return y:relu() end).requires_grad)
    assert.is_true(y.requires_grad)
  end)

  it("counts its batch, also if nobody wants the result", function()
    local kept, dropped, freed, left = nn.BatchNorm2d(3), nn.BatchNorm2d(3), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    local x = images()
    kept(x):relu()
    dropped(x)
    freed(x):free()
    capl.scope(function() left(x) end)
    for _, bn in ipairs{dropped, freed, left} do
      assert.same(kept.running_mean:tolist(), bn.running_mean:tolist())
      assert.same(kept.running_var:tolist(), bn.running_var:tolist())
    end
  end)
end)

describe("a batch norm's result that somebody kept", function()
  -- Keeps what it gave, as a hook would.
  local function both(bn, x)
    local y = bn(x)
    return y:relu(), y
  end

  it("is there after relu, with its gradient, and the batch is counted once", function()
    local function run()
      local bn, x = nn.BatchNorm2d(3), images():requires_grad_()
      local z, y = both(bn, x)
      assert.same({4, 3, 6, 8}, y.shape);
      (z * y):sum():backward()
      return {y:tolist(), z:tolist(), x.grad:tolist(), bn.weight.grad:tolist(), bn.running_mean:tolist(),
        bn.running_var:tolist(), bn.batches}
    end
    local want, got = counted(false, run), counted(true, run)
    assert.is_true(close(want, got, 1e-4))
  end)

  it("is kept by a scope that returns it", function()
    local bn, x = nn.BatchNorm2d(3):eval(), images()
    local z, y = capl.scope(both, bn, x)
    assert.is_false(y:is_released())
    assert.is_true(close(y:relu():tolist(), z:tolist(), 1e-5))
    local waiting = capl.scope(bn, x)
    assert.is_true(close(waiting:relu():tolist(), z:tolist(), 1e-5))
  end)

  it("is refused when the weights have changed since", function()
    local bn, x = nn.BatchNorm2d(3), images()
    local _, y = both(bn, x)
    capl.no_grad(function() bn.weight:fill_(2) end)
    assert.matches("a batch norm was fused with the activation behind it, and its input or weights have changed since",
      error_text(function() return y:tolist() end), 1, true)
    assert.is_true(y:is_released())
  end)

  it("takes no memory when it is garbage", function()
    no_leak(function()
      local bn, x = nn.BatchNorm2d(3), images():requires_grad_()
      for _ = 1, 3 do both(bn, x):sum():backward() end
      bn(x)
    end)
  end)
end)
