-- Elementwise ops of the cpu backend on every pair of dtypes: what ref gives, and no call of ref.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local dtypes = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"}
local values = {0, 1, 2, 3, 7, 100, 200.5, 255, 0.25, 1.75, -1, -3.5, 65519, 70000, 1e9, -4e9, 1 / 0, -1 / 0, 0 / 0,
  1 / 3}

local backwards = {}
for i, v in ipairs(values) do backwards[#values + 1 - i] = v end

-- Values as a dtype on a device, in every second place of a longer tensor.
local function strided(list, dtype, device)
  local x = capl.tensor(list, {dtype = "f64", device = "ref"}):view(-1, 1)
  local wide = capl.op.cast(capl.op.concat(x, x, {dim = 2}), {dtype = dtype}):to(device)
  return capl.op.narrow(wide, {dim = 2, start = 2, length = 1})
end

local function text(t)
  local out = {}
  for i, v in ipairs(capl.op.cast(t:to("ref"), {dtype = "f64"}):view(-1):tolist()) do
    out[i] = v ~= v and "nan" or ("%.17g"):format(v)
  end
  return t.dtype .. " " .. table.concat(out, " ")
end

-- fn(a, b) of two dtypes on ref and on cpu.
local function compare(what, fn)
  for _, first in ipairs(dtypes) do
    for _, second in ipairs(dtypes) do
      local expected = text(fn(strided(values, first, "ref"), strided(backwards, second, "ref"), second))
      local a, b = strided(values, first, "cpu"), strided(backwards, second, "cpu")
      local before = capl.counters().ref_fallbacks
      local y = fn(a, b, second)
      assert.equal(before, capl.counters().ref_fallbacks, what .. " " .. first .. " " .. second)
      assert.equal(expected, text(y), what .. " " .. first .. " " .. second)
    end
  end
end

describe("the cpu backend", function()
  it("casts every dtype to every other as ref does", function()
    compare("cast", function(a, _, dtype) return capl.op.cast(a, {dtype = dtype}) end)
  end)

  for _, name in ipairs{"add", "sub", "mul", "maximum", "minimum", "div"} do
    it("computes " .. name .. " of every pair of dtypes as ref does", function()
      compare(name, function(a, b) return capl.op[name](a, b) end)
    end)
  end

  for _, name in ipairs{"eq", "ne", "lt", "le", "gt", "ge"} do
    it("compares with " .. name .. " as ref does",
      function() compare(name, function(a, b) return capl.op[name](a, b) end) end)
  end

  it("chooses among two dtypes as ref does", function()
    compare("where", function(a, b) return capl.op.where(capl.op.gt(a, b), a, b) end)
  end)

  it("computes softmax over any dim of any memory order without ref", function()
    local before = capl.counters().ref_fallbacks
    local x = capl.randn(3, 40, 5, 7)
    for dim = 1, 4 do
      local y = capl.op.softmax(x, {dim = dim})
      local expected = capl.op.softmax(x:to("ref"), {dim = dim})
      assert.is_true((y - expected:to("cpu")):abs():amax():item() < 1e-6, dim)
    end
    assert.equal(before, capl.counters().ref_fallbacks)
  end)

  it("trains a layer whose bf16 scores are broadcast", function()
    capl.manual_seed(1)
    local nn = capl.nn
    local value, score = nn.Linear(8, 8), nn.Linear(8, 1)
    local x, opt = capl.randn(4, 6, 8),
      capl.optim.AdamW({value.weight, value.bias, score.weight, score.bias}, {lr = 0.02})
    local first, last
    for _ = 1, 30 do
      local loss = capl.autocast("bf16", function() return nn.mse(value(x) * score(x), x) end)
      opt:backward_step(loss)
      last = loss:item()
      first = first or last
    end
    assert.is_true(last < 0.8 * first, ("%g, then %g"):format(first, last))
  end)
end)
