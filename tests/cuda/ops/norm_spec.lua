-- Batch norm on a GPU, with images of many blocks, hard numbers and every number of channels.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local op = capl.op
local normal, same, text = support.normal, support.same, support.text

-- 64: vectors; 33 (blocks enough to join in two steps), 10, 3, 1: none; 2052 and 1031: several tiles of channels; 2-d
-- ones are rows.
local SIZES = {
  {3, 64, 12, 17}, {2, 33, 20, 22}, {2, 10, 21, 19}, {4, 3, 23, 21}, {3, 1, 30, 40}, {2, 1031, 3, 4}, {150, 48},
  {20, 2052}, {37, 5},
}
local DTYPES = {"f32", "f16", "bf16"}

local function parameters(channels)
  return normal({channels}, "f32", 11, 1, 0.3), normal({channels}, "f32", 12, 0.2), normal({channels}, "f32", 13),
    normal({channels}, "f32", 14):abs() + 0.5
end

local function forward_inputs(size, dtype)
  local weight, bias, mean, var = parameters(size[2])
  return {normal(size, dtype, 1, 0.3, 1.7), weight, bias, mean, var}
end

-- What the index of ref's bn_act_pool says of x: the values of x that won.
local function winners_of(x, index)
  local at = op.max_pool2d_grad(index:float() * 0 + 1, index, {kernel = 2, size = {x.shape[3], x.shape[4]}})
  return op.avg_pool2d(op.mul(x, at), {kernel = 2}) * 4
end

-- bn_act_pool on cuda and the gradient from its reserve, beside ref in f32 (in 16 bits ref rounds before it compares).
local function same_pooled(inputs, training, rearrange)
  local x, weight, bias, mean, var = unpack(inputs)
  local got = support.run("cuda", "bn_act_pool", inputs, {training = training}, rearrange)
  local want = support.run("ref", "bn_act_pool", {x:float(), weight, bias, mean, var}, {training = training})
  assert.equal(x.dtype, got[4].dtype)
  assert.is_true(support.distance(got[1], want[1]) <= support.tolerance[x.dtype])
  local alive = op.gt(want[1], want[1] * 0):float()
  local winners = op.mul(winners_of(x:float(), want[4]), alive)
  assert.equal(0, support.different(op.mul(got[4]:to("ref"):float(), alive), winners))
  local dy = normal(want[1].shape, x.dtype, 2)
  local function gradients(device, of_x, of_dy, reserve, change)
    local list = {of_x, of_dy, weight, bias, got[2], got[3], reserve} -- the same mean and invstd on both
    return support.run(device, "bn_act_pool_grad", list, {training = training}, change)
  end
  local back = gradients("cuda", x, dy, got[4], rearrange)
  for k, y in ipairs(gradients("ref", x:float(), dy:float(), want[4])) do
    local distance, allowed = support.distance(back[k], y), support.tolerance[back[k].dtype]
    assert(distance <= allowed, ("gradient %d is off by %.3g, allowed are %g"):format(k, distance, allowed))
  end
end

for i, size in ipairs(SIZES) do
  for _, dtype in ipairs {"f32", DTYPES[i % 2 + 2]} do
    local pools = #size == 4
    describe(("batch norm of %s %s"):format(text(size), dtype), function()
      for _, training in ipairs {true, false} do
        local mode = training and "in training" or "in use"

        it("forward " .. mode, function()
          same("batch_norm", forward_inputs(size, dtype), {training = training})
          same("bn_act", forward_inputs(size, dtype), {training = training})
          same("bn_act", forward_inputs(size, dtype), {training = training, act = "silu"})
        end)

        it("backward " .. mode, function()
          local weight, bias, mean, var = parameters(size[2])
          local x, dy = normal(size, dtype, 1, 0.3, 1.7), normal(size, dtype, 2)
          same("batch_norm_grad", {x, dy, weight, mean, var}, {training = training})
          same("bn_act_grad", {x, dy, weight, bias, mean, var}, {training = training}, dtype ~= "f32"
            and {0.05, 1e-2, 1e-2})
          same("bn_act_grad", {x, dy, weight, bias, mean, var}, {training = training, act = "silu"}, dtype ~= "f32"
            and {0.05, 1e-2, 1e-2})
        end)

        if pools then
          it("pooled " .. mode, function() same_pooled(forward_inputs(size, dtype), training) end)

          it("pooled with equal values " .. mode, function()
            local _, weight, bias, mean, var = unpack(forward_inputs(size, dtype))
            same_pooled({support.whole(size, dtype, 4, -2, 2), weight, bias, mean, var}, training)
          end)
        end
      end
    end)
  end
end

describe("batch norm", function()
  -- The variance is 1e-8 of the mean's square: f32 sums of squares would leave nothing of it.
  it("keeps its digits beside a large mean", function()
    local weight, bias, mean, var = parameters(16)
    local x = normal({2, 16, 30, 40}, "f32", 1, 10000)
    -- y: the mean is rounded to f32, by 5e-4
    same("batch_norm", {x, weight, bias, mean, var}, {training = true}, {1e-3, 1e-6, 1e-5})
    same("batch_norm_grad", {x, normal({2, 16, 30, 40}, "f32", 2), weight, capl.ones(16, {device = "ref"}) * 10000,
      var}, {training = true}, {1e-5, 2e-5, 1e-5})
  end)

  it("keeps its digits where a first pixel is far from all others", function()
    local weight, bias, mean, var = parameters(5)
    local x = normal({2, 5, 40, 50}, "f32", 1, 1000, 0.5)
    for c = 1, 5 do x:set(1, c, 1, 1, 0) end
    same("batch_norm", {x, weight, bias, mean, var}, {training = true}, {1e-3, 1e-6, 1e-5})
  end)

  it("gives 0 to a channel without variance", function()
    local one = capl.ones(4, {device = "ref"})
    local x = capl.ones(2, 4, 30, 30, {device = "ref"}) * 0.1
    local got = same("batch_norm", {x, one, one * 0, one, one}, {training = true}, {1})
    assert.near(0, support.distance(got[1], x * 0) * 1e-30, 1e-6)
  end)

  it("works without running statistics", function()
    local x, weight, bias = unpack(forward_inputs({2, 24, 9, 11}, "f32"))
    same("batch_norm", {x, weight, bias}, {training = true})
  end)

  it("takes rows that begin anywhere in memory", function()
    local function shifted(t, i)
      if i > 2 or #t.shape == 1 then return t end
      local n, c = t.shape[1], t.shape[2]
      local flat = op.concat(capl.zeros(1, {device = "cuda"}):to(t.dtype), op.reshape(t, {size = {n * c}}), {dim = 1})
      return op.reshape(op.narrow(flat, {dim = 1, start = 2, length = n * c}), {size = {n, c}})
    end
    for _, dtype in ipairs {"f32", "bf16"} do
      same("batch_norm", forward_inputs({70, 32}, dtype), {training = true}, nil, shifted)
      same("bn_act", forward_inputs({70, 32}, dtype), {training = false}, nil, shifted)
      same("bn_act", forward_inputs({70, 32}, dtype), {training = true, act = "silu"}, nil, shifted)
      local weight, bias, mean, var = parameters(32)
      local x, dy = normal({70, 32}, dtype), normal({70, 32}, dtype, 2)
      same("bn_act_grad", {x, dy, weight, bias, mean, var}, {training = true, act = "silu"}, dtype ~= "f32"
        and {0.05, 1e-2, 1e-2}, shifted)
    end
  end)

  -- The shim's GPU has 4 multiprocessors, so 256 KiB of x stay on the chip.
  local records = os.getenv("CAPL_DNN_RECORDS")
  local function asked_of_cudnn(name, inputs, attrs)
    local function length()
      local file = io.open(records)
      if not file then return 0 end
      local bytes = file:seek("end")
      file:close()
      return bytes
    end
    local before = length()
    support.run("cuda", name, inputs, attrs)
    return length() > before
  end

  if records then
    it("is cuDNN's where x stays on the chip and its channels are whole loads, else own", function()
      local function asked(size, dtype, training)
        local weight, bias, mean, var = parameters(size[2])
        local x = normal(size, dtype)
        assert.is_false(asked_of_cudnn("bn_act", {x, weight, bias, mean, var}, {training = training, act = "silu"}))
        local forward = asked_of_cudnn("bn_act", {x, weight, bias, mean, var}, {training = training})
        assert.equal(forward, asked_of_cudnn("batch_norm_grad", {x, x, weight, mean, var}, {training = training}))
        return forward
      end
      assert.is_true(asked({2, 16, 8, 9}, "bf16", true))
      assert.is_true(asked({2, 16, 32, 64}, "f32", true)) -- 256 KiB
      assert.is_false(asked({2, 16, 33, 64}, "f32", true))
      assert.is_false(asked({2, 12, 8, 9}, "bf16", true))
      assert.is_true(asked({2, 12, 8, 9}, "f32", true))
      assert.is_false(asked({2, 16, 8, 10}, "bf16", false))
    end)
  end

  it("passes on NaN", function()
    local weight, bias, mean, var = parameters(8)
    local x = normal({2, 8, 6, 6}, "f32")
    x:set(2, 3, 4, 5, 0 / 0)
    same("bn_act_pool", {x, weight, bias, mean, var}, {training = false}, {[4] = math.huge})
    same("batch_norm", {x, weight, bias, mean, var}, {training = true})
    same("bn_act", {x, weight, bias, mean, var}, {training = false, act = "silu"})
    same("bn_act_grad", {x, normal({2, 8, 6, 6}, "f32", 2), weight, bias, mean, var}, {training = true, act = "silu"})
  end)

  it("runs silu in the same kernels, forward and backward", function()
    for _, dtype in ipairs(DTYPES) do
      local weight, bias, mean, var = parameters(24)
      local inputs = {normal({2, 24, 5, 7}, dtype), weight, bias, mean, var}
      for k, x in ipairs(inputs) do inputs[k] = x:to("cuda") end
      for _, training in ipairs {true, false} do
        local runs = capl.profile(function()
          op.bn_act(inputs[1], inputs[2], inputs[3], inputs[4], inputs[5], {training = training, act = "silu"})
          op.bn_act_grad(inputs[1], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5],
            {training = training, act = "silu"})
        end)
        local names = {}
        for k, run in ipairs(runs) do names[k] = run.op end
        assert.same({"bn_act", "bn_act_grad"}, names)
      end
    end
  end)

  it("has silu's values and gradients far from 0", function()
    local far = capl.tensor({-1e30, -1e4, -200, -90, -88, -87, -30, -1, 0, 1, 30, 88, 200, 1e4, 1e30}, {device = "ref"})
    local x, one = op.reshape(far, {size = {15, 1}}), capl.ones(1, {device = "ref"})
    local y = support.run("cuda", "bn_act", {x, one, one * 0, one * 0, one}, {eps = 0, act = "silu"})[1]
    local want = op.silu(x)
    assert.is_true(support.distance(op.narrow(y, {dim = 1, start = 1, length = 11}),
      op.narrow(want, {dim = 1, start = 1, length = 11})) < 1e-6)
    assert.equal(0, support.different(op.narrow(y, {dim = 1, start = 12, length = 4}),
      op.narrow(want, {dim = 1, start = 12, length = 4})))
    local dx = support.run("cuda", "bn_act_grad", {x, x * 0 + 1, one, one * 0, one * 0, one}, {act = "silu"})[1]
    assert.is_true(support.distance(dx, op.silu_grad(x, x * 0 + 1)) < 1e-6)
  end)

  -- Windows of one channel, with gradients of 10, 20, ...: dx, dbias and the reserve, on cuda.
  local function windows(values, weight, bias)
    local n = #values / 4
    local function vector(v) return capl.ones(1, {device = "ref"}) * v end
    local x = op.reshape(capl.tensor(values, {device = "ref"}), {size = {n, 1, 2, 2}})
    local dy = {}
    for k = 1, n do dy[k] = 10 * k end
    local parameters_of = {vector(weight), vector(bias), vector(0), vector(1)}
    local y = support.run("cuda", "bn_act_pool", {x, unpack(parameters_of)}, {eps = 0})
    local slopes = op.reshape(capl.tensor(dy, {device = "ref"}), {size = {n, 1, 1, 1}})
    local inputs = {x, slopes, parameters_of[1], parameters_of[2], y[2], y[3], y[4]}
    local back = support.run("cuda", "bn_act_pool_grad", inputs, {})
    local function list(t) return op.reshape(t:to("cpu"), {size = {-1}}):tolist() end
    return list(back[1]), list(back[3])[1], list(y[4])
  end

  it("gives the gradient of a window to its first winner, by what is compared after the norm", function()
    local dx, dbias, reserve = windows({1, 3, 3, 2, 5, 1, 5, 5, -1, -2, -3, -4, 0, -1, 0, 7}, 1, 0)
    assert.same({0, 10, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40}, dx)
    assert.equal(70, dbias)
    assert.same({3, 5, -1, 7}, reserve)
    dx, dbias, reserve = windows({1, 3, 3, 2, -5, 1, -5, 5}, -1, 0)
    assert.same({0, 0, 0, 0, -20, 0, 0, 0}, dx)
    assert.equal(20, dbias)
    assert.equal(-5, reserve[2])
    dx, dbias, reserve = windows({1, 3, 4, 2}, 2 ^ -40, 1) -- all are 1 after the norm
    assert.same({10 * 2 ^ -40, 0, 0, 0}, dx)
    assert.equal(10, dbias)
    assert.same({1}, reserve)
  end)

  it("gives nothing to the neighbours of NaN", function()
    for place = 1, 4 do
      local values = {4, 5, 6, 7}
      values[place] = 0 / 0
      local dx, dbias, reserve = windows(values, 1, 0)
      for k = 1, 4 do assert.is_true(k == place or dx[k] == 0) end
      assert.equal(0, dbias)
      assert.is_true(reserve[1] ~= reserve[1])
    end
  end)

  it("pools images that begin anywhere in memory", function()
    local function shifted(t)
      if #t.shape ~= 4 then return t end
      local n, c, h, w = unpack(t.shape)
      local flat = op.reshape(op.contiguous(op.permute(t, {dims = {1, 3, 4, 2}})), {size = {n * h * w * c}})
      local longer = op.concat(capl.zeros(1, {device = "cuda"}):to(t.dtype), flat, {dim = 1})
      local rest = op.narrow(longer, {dim = 1, start = 2, length = n * h * w * c})
      return op.permute(op.reshape(rest, {size = {n, h, w, c}}), {dims = {1, 4, 2, 3}})
    end
    for _, dtype in ipairs {"f32", "bf16"} do same_pooled(forward_inputs({2, 32, 7, 9}, dtype), true, shifted) end
  end)

  it("takes ref's places, too", function()
    local weight, bias, mean, var = parameters(24)
    local x, index = normal({2, 24, 7, 9}, "f32"), support.whole({2, 24, 3, 4}, "u8", 3, 0, 3)
    same("bn_act_pool_grad", {x, normal({2, 24, 3, 4}, "f32", 2), weight, bias, mean, var, index}, {training = true})
  end)

  it("gives the same bits twice, however many blocks ran", function()
    local inputs = forward_inputs({4, 64, 10, 20}, "bf16")
    local one = support.run("cuda", "bn_act_pool", inputs, {training = true})
    local two = support.run("cuda", "bn_act_pool", inputs, {training = true})
    for k in ipairs(one) do assert.equal(0, support.different(one[k], two[k])) end
  end)
end)
