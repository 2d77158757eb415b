-- Batch norm on a GPU, with images of many blocks, hard numbers and every number of channels.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local op = capl.op
local normal, same, text = support.normal, support.same, support.text

-- 64: vectors; 33, 10, 3, 1: none; 2052 and 1031: several tiles of channels; 2-d ones are rows.
local SIZES = {
  {3, 64, 12, 17}, {2, 33, 17, 20}, {2, 10, 21, 19}, {4, 3, 23, 21}, {3, 1, 30, 40}, {2, 1031, 3, 4}, {150, 48}, {20, 2052}, {37, 5},
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

for i, size in ipairs(SIZES) do
  for _, dtype in ipairs {"f32", DTYPES[i % 2 + 2]} do
    local pools = #size == 4
    describe(("batch norm of %s %s"):format(text(size), dtype), function()
      for _, training in ipairs {true, false} do
        local mode = training and "in training" or "in use"

        it("forward " .. mode, function()
          same("batch_norm", forward_inputs(size, dtype), {training = training})
          same("bn_act", forward_inputs(size, dtype), {training = training})
          -- In 16 bits ref rounds before it compares, so among nearly equal values it may choose another.
          local index = dtype == "f32" and 0 or 10
          if pools then same("bn_act_pool", forward_inputs(size, dtype), {training = training}, {[4] = index}) end
        end)

        it("backward " .. mode, function()
          local weight, bias, mean, var = parameters(size[2])
          local x, dy = normal(size, dtype, 1, 0.3, 1.7), normal(size, dtype, 2)
          same("batch_norm_grad", {x, dy, weight, mean, var}, {training = training})
          same("bn_act_grad", {x, dy, weight, bias, mean, var}, {training = training}, dtype ~= "f32" and {0.05, 1e-2, 1e-2})
          if not pools then return end
          local pooled = {size[1], size[2], math.floor(size[3] / 2), math.floor(size[4] / 2)}
          local index = support.whole(pooled, "u8", 3, 0, 3)
          same("bn_act_pool_grad", {x, normal(pooled, dtype, 2), weight, bias, mean, var, index}, {training = training},
            dtype ~= "f32" and {0.05, 1e-2, 1e-2})
        end)
      end
    end)
  end
end

describe("batch norm", function()
  -- The variance is 1e-8 of the mean's square: f32 sums of squares would leave nothing of it.
  it("keeps its digits beside a large mean", function()
    local weight, bias, mean, var = parameters(16)
    local x = normal({2, 16, 30, 40}, "f32", 1, 10000)
    same("batch_norm", {x, weight, bias, mean, var}, {training = true}, {1e-3, 1e-6, 1e-5}) -- y: the mean is rounded to f32, by 5e-4
    same("batch_norm_grad", {x, normal({2, 16, 30, 40}, "f32", 2), weight, capl.ones(16, {device = "ref"}) * 10000, var},
      {training = true}, {1e-5, 2e-5, 1e-5})
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
      if i > 1 then return t end
      local n, c = t.shape[1], t.shape[2]
      local flat = op.concat(capl.zeros(1, {device = "cuda"}):to(t.dtype), op.reshape(t, {size = {n * c}}), {dim = 1})
      return op.reshape(op.narrow(flat, {dim = 1, start = 2, length = n * c}), {size = {n, c}})
    end
    for _, dtype in ipairs {"f32", "bf16"} do
      same("batch_norm", forward_inputs({70, 32}, dtype), {training = true}, nil, shifted)
      same("bn_act", forward_inputs({70, 32}, dtype), {training = false}, nil, shifted)
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
    same("bn_act_pool", {x, weight, bias, mean, var}, {training = false})
    same("batch_norm", {x, weight, bias, mean, var}, {training = true})
  end)

  it("gives the same bits twice, however many blocks ran", function()
    local inputs = forward_inputs({4, 64, 10, 20}, "bf16")
    local one = support.run("cuda", "bn_act_pool", inputs, {training = true})
    local two = support.run("cuda", "bn_act_pool", inputs, {training = true})
    for k in ipairs(one) do assert.equal(0, support.different(one[k], two[k])) end
  end)
end)
