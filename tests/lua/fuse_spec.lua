-- capl.fuse(fn): functions of tensors run as one op, with the values and gradients of the function itself.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local close, error_text = support.close, support.error_text

-- Device of the tests: "cpu", where programs run op by op, or a GPU, where they are one kernel.
local device = os.getenv("CAPL_DEVICE") or "cpu"

local function random(size, seed)
  return capl.randn(size, {seed = seed, stream = {0, 0, 0}, device = device}):requires_grad_()
end

-- Values and gradients of fn and of the same fused.
local function same(fn, tolerance, ...)
  local plain, fused = {}, {}
  for i, size in ipairs{...} do plain[i], fused[i] = random(size, i), random(size, i) end
  local want, got = fn(unpack(plain)), capl.fuse(fn)(unpack(fused))
  assert.same(want.shape, got.shape)
  assert.are.equal(want.dtype, got.dtype)
  assert.is_true(close(want:tolist(), got:tolist(), tolerance))
  want:sum():backward()
  got:sum():backward()
  for i in ipairs(plain) do assert.is_true(close(plain[i].grad:tolist(), fused[i].grad:tolist(), tolerance)) end
end

describe("a fused function", function()
  it("gives the function's values and gradients", function()
    same(function(x) return x * x:sigmoid() end, 1e-5, {3, 17})
    same(function(x, y, w) return (x - y) ^ 2 * w end, 1e-5, {5, 7}, {5, 7}, {7})
    same(function(x, y) return (x * 2 - 1):tanh() / (y:exp() + 1) end, 1e-5, {4, 1}, {1, 6})
    same(function(x) return 1 / (x:abs() + 0.5) end, 1e-4, {11})
    same(function(x, y) return x:maximum(y):clamp(-0.5, 0.75) + x:minimum(0) end, 1e-5, {4, 5}, {4, 5})
    same(function(x, y) return capl.where(x:gt(y), x * y, 0) end, 1e-5, {4, 5}, {4, 5})
    same(function(x) return x:to("bf16"):float() * x end, 2e-2, {9})
    same(function(x) return x:relu() * x end, 1e-5, {2, 3, 4, 5})
  end)

  it("is one op of the graph, and one call", function()
    local calls = 0
    local silu = capl.fuse(function(x)
      calls = calls + 1
      return x * x:sigmoid()
    end)
    for _ = 1, 3 do silu(random({2, 3}, 1)) end
    assert.are.equal(1, calls)
    silu(random({4, 3}, 1)) -- another shape is another look
    assert.are.equal(2, calls)
  end)

  it("takes 16-bit tensors and gives what the ops would give", function()
    local f = function(x) return x:exp() * x end
    local x = random({8}, 3):to("bf16")
    assert.are.equal(f(x).dtype, capl.fuse(f)(x).dtype)
    assert.is_true(close(f(x):tolist(), capl.fuse(f)(x):tolist(), 2e-2))
  end)

  it("may call fused functions", function()
    local inner = capl.fuse(function(x) return x:tanh() end)
    same(function(x) return inner(x) * inner(x) + inner(x * 2) end, 1e-5, {6})
  end)

  it("may be part of a model that is saved and read again", function()
    if device ~= "cpu" then return end
    local silu = capl.fuse(function(x) return x * x:sigmoid() end)
    local Net = nn.class("Net")
    function Net:init() self.fc = nn.Linear(3, 2) end
    function Net:forward(x) return silu(self.fc(x)) end
    local net, path = Net(), os.tmpname()
    os.remove(path)
    capl.io.save_model(path, net, capl.zeros(1, 3), {})
    local x = capl.randn(4, 3)
    assert.is_true(close(net(x):tolist(), capl.io.load_model(path).forward(x):tolist(), 1e-6))
    os.execute("rm -r '" .. path .. "'")
  end)

  it("is the same in a captured step, bit for bit", function()
    local function weights(captured)
      local silu = capl.fuse(function(x) return x * x:sigmoid() end)
      local far = capl.fuse(function(x, y) return (x - y):abs() ^ 1.5 end)
      capl.manual_seed(4)
      local model = nn.Sequential{nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)}
      if device ~= "cpu" then model:to(device) end
      local opt = capl.optim.SGD(model:parameters(), {lr = 0.1})
      local function step(x, y)
        local loss = far(silu(model(x)), y):mean()
        opt:backward_step(loss)
        return loss
      end
      local run = captured and capl.capture(step) or step
      for i = 1, 6 do
        local x = capl.randn({4, 6}, {seed = 1, stream = {i, 0, 0}, device = device})
        run(x, capl.randn({4, 3}, {seed = 1, stream = {i, 1, 0}, device = device}))
      end
      local all = {}
      for i, p in ipairs(model:parameters()) do all[i] = p:tolist() end
      return all
    end
    assert.same(weights(false), weights(true))
  end)

  it("leaks nothing", function()
    if device ~= "cpu" then return end
    support.no_leak(function()
      local f = capl.fuse(function(x) return x * 2 + 1 end)
      f(random({5}, 1)):sum():backward()
      pcall(capl.fuse(function(x) return x:sum() end), random({5}, 1))
    end)
  end)
end)

describe("a function that cannot be fused", function()
  local function refused(text, fn, ...)
    local seen = error_text(capl.fuse(fn), ...)
    assert.truthy(seen:find(text, 1, true), seen)
    return seen
  end

  it("gets an error that names the op and its place", function()
    local x = random({4, 5}, 1)
    refused("mean: a fused function may only have elementwise ops", function(t) return (t * 2):mean() end, x)
    refused("reshape: a fused function may only have elementwise ops", function(t) return t:reshape(-1) * 2 end, x)
    local ok, err = pcall(capl.fuse(function(t)
      local y = t:relu():sum()
      return y
    end), x)
    assert.is_false(ok)
    local line = debug.getinfo(1, "l").currentline - 4
    assert.truthy(err.where:find("fuse_spec.lua:" .. line, 1, true), err.where)
  end)

  it("gets an error for tensors from elsewhere", function()
    local weight = random({5}, 2)
    refused("mul: a fused function reads a tensor that is not among its arguments", function(t)
      return t * weight end, random({4, 5}, 1))
    refused("reads a tensor that is not among its arguments", function(_) return weight end, random({4, 5}, 1))
  end)

  it("gets an error that says what it may take and give", function()
    local x = random({3}, 1)
    refused("argument 2 of a fused function must be a tensor, got number", function(t, n) return t * n end, x, 3)
    refused("takes 1 to 7 tensors, got 0 arguments", function() return 1 end)
    refused("returns one tensor, this one 2 values", function(t) return t * 2, t end, x)
    refused("returns a tensor, this one a number", function() return 3 end, x)
    refused("its result is input 'a' itself", function(t) return t end, x)
    refused("may not write into tensors", function(t) return t:add_(1) end, x)
  end)

  it("gets an error when it is too long", function()
    local function chain(n)
      return function(t)
        for i = 1, n do t = (t * i):tanh() end
        return t
      end
    end
    refused("a fused function has at most 64 ops, this one 66", chain(33), random({3}, 1))
    refused("a pointwise program has at most 512 steps", chain(300), random({3}, 1))
    local x = random({3}, 1)
    capl.fuse(chain(32))(x):sum():backward()
    assert.same({3}, x.grad.shape)
  end)

  it("leaves nothing behind: the next one works", function()
    assert.has_error(function() capl.fuse(function() error("mine") end)(random({3}, 1)) end)
    assert.are.equal(3, capl.fuse(function(t) return t * 2 end)(random({3}, 1)):numel())
    assert.same({3}, (random({3}, 1):sum() * capl.ones({3}, {device = device})).shape)
  end)
end)

-- The last of this process: it uses up all programs.
describe("programs without end", function()
  it("are refused, as each is kept", function()
    if device ~= "cpu" then return end
    local x = capl.ones(2)
    local seen = error_text(function()
      for i = 1, 5000 do capl.op.pointwise(x, {program = ("affine a %d 0"):format(i)}) end
    end)
    assert.truthy(seen:find("does a number in them change from call to call?", 1, true), seen)
    assert.truthy(seen:find("give a number that changes as a tensor without dims", 1, true), seen)
  end)
end)

describe("capl.fuse of a boolean", function()
  it("still is the setting of Sequential", function()
    local before = capl.fuse()
    assert.is_false(capl.fuse(false))
    assert.are.equal(before, capl.fuse(before))
  end)
end)

describe("the text of a program", function()
  it("is ops and numbers, and no way into the source of a kernel", function()
    local x = capl.tensor({1, 2})
    for _, text in ipairs{"relu a */ evil(); /*", "relu a; system a", "affine a 1); evil( 2", "relu a\n#include <x>", "relu a;",
      "relu a\\", "cast a f32) + evil(", "relu a%s%n",
      "affine a 1." .. ("0"):rep(60) .. "evil( 0"} do
      local fine, err = pcall(capl.op.pointwise, x, {program = text})
      assert.is_false(fine, text)
      assert.are.equal("value", err.code, text)
    end
  end)
end)
