-- Meters on cuda say what they say on cpu, and read from the device only when they are asked.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local train = capl.train

-- Numbers of 0 … n - 1, the same in every run.
local function dice(count, n, seed)
  local out, state = {}, seed
  for i = 1, count do
    state = (state * 1103515245 + 12345) % 2147483648
    out[i] = math.floor(state / 65536) % n
  end
  return out
end

local function tensor(values, dtype, device, ...)
  return capl.tensor(values, {dtype = dtype}):reshape(...):to{device = device}
end

local function scaled(values, by)
  for i, x in ipairs(values) do values[i] = x / by end
  return values
end

-- Of each kind: the meter, and a batch with its output on a device.
local kinds = {
  text = function(device, seed)
    return train.TextMeter{charset = "0O1"}, tensor(scaled(dice(6 * 2 * 3, 1000, seed), 100), "f32", device, 6, 2, 3),
      {target = tensor(dice(12, 3, seed + 1), "i32", device, 6, 2)}
  end,
  segmentation = function(device, seed)
    return train.SegmentationMeter{classes = 4},
      tensor(scaled(dice(3 * 4 * 35, 1000, seed), 100), "f32", device, 3, 4, 5, 7),
      {mask = tensor(dice(3 * 35, 4, seed + 1), "u8", device, 3, 5, 7)}
  end,
  localization = function(device, seed)
    return train.LocalizationMeter{}, tensor(dice(4 * 2 * 2, 30, seed), "f32", device, 4, 4),
      {points = tensor(dice(4 * 2 * 3, 30, seed + 1), "f32", device, 4, 2, 3)}
  end,
  regression = function(device, seed)
    return train.RegressionMeter{inverse = function(x) return x * 2 + 1 end},
      tensor(dice(9, 50, seed), "f32", device, 9, 1), {value = tensor(dice(9, 50, seed + 1), "f32", device, 9, 1)}
  end,
}

local function figures(make, device)
  local meter
  for seed = 1, 3 do
    local made, output, batch = make(device, 7 * seed)
    meter = meter or made
    capl.scope(meter.add, meter, output, batch)
  end
  assert.equal(0, meter.n) -- nothing was read yet
  return meter:result()
end

local function compare(path, got, wanted)
  assert.equal(type(wanted), type(got), path)
  if type(wanted) == "table" then
    for key, value in pairs(wanted) do compare(path .. "." .. key, got[key], value) end
  elseif type(wanted) == "number" then
    assert.is_true(math.abs(got - wanted) <= 1e-5 * math.max(1, math.abs(wanted)),
      ("%s: %.9g, on cpu %.9g"):format(path, got, wanted))
  else
    assert.equal(wanted, got, path)
  end
end

describe("on cuda as on cpu:", function()
  for name, make in pairs(kinds) do
    it("a meter of " .. name, function() compare(name, figures(make, "cuda"), figures(make, "cpu")) end)
  end
end)
