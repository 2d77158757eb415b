-- Pooling on a GPU: small and large windows, overlapping ones, and every number of channels.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "cuda.ops.support"

local normal, same, text = support.normal, support.same, support.text

local SIZES = {{2, 32, 12, 17}, {2, 33, 9, 14}, {2, 3, 20, 21}, {3, 1, 25, 20}, {1, 1040, 9, 9}, {1, 1031, 9, 8}}

-- The last two have windows that get a block each.
local WINDOWS = {
  {kernel = 2, stride = 2}, {kernel = 3, stride = 2, padding = 1},
  {kernel = 3, stride = 1, padding = 1, ceil_mode = true},
  {kernel = {2, 3}, stride = {1, 2}, padding = {1, 0}, ceil_mode = true},
  {kernel = {1, 3}, stride = 4, ceil_mode = true}, {kernel = 9, stride = 4, padding = 4, ceil_mode = true},
  {kernel = {9, 8}, stride = 5, padding = 2},
  {kernel = 2, stride = 1, padding = 1, dilation = {2, 3}},
  {kernel = {3, 2}, stride = 2, dilation = {3, 1}, ceil_mode = true},
  {kernel = 8, stride = 3, padding = {5, 0}, dilation = {2, 1}},
}

local function described(w)
  local function pair(v) return type(v) == "table" and text(v) or tostring(v or 0) end
  return ("window %s stride %s padding %s%s%s"):format(pair(w.kernel), pair(w.stride), pair(w.padding), w.ceil_mode
    and " ceil" or "", w.dilation and " dilation " .. pair(w.dilation) or "")
end

local function copy(t, more)
  local all = {}
  for k, v in pairs(t) do all[k] = v end
  for k, v in pairs(more or {}) do all[k] = v end
  return all
end

for i, size in ipairs(SIZES) do
  local dtype = ({"f32", "f16", "bf16"})[i % 3 + 1]
  for _, window in ipairs(WINDOWS) do
    it(("pooling %s %s, %s"):format(text(size), dtype, described(window)), function()
      local x = normal(size, dtype)
      local _, want = same("max_pool2d", {x}, window)
      local y, index, image = want[1], want[2], {size[3], size[4]}
      local dy = normal(y.shape, dtype, 2)
      same("max_pool2d_grad", {dy, index}, copy(window, {size = image}))
      for _, count_pad in ipairs(window.dilation and {} or {true, false}) do
        local attrs = copy(window, {count_include_pad = count_pad})
        same("avg_pool2d", {x}, attrs)
        same("avg_pool2d_grad", {dy}, copy(attrs, {size = image}))
      end
    end)
  end

  for _, output in ipairs {{1, 1}, {2, 3}, {7, 5}, {20, 23}} do
    it(("adaptive pooling %s %s to %s"):format(text(size), dtype, text(output)), function()
      local x, image = normal(size, dtype), {size[3], size[4]}
      local _, want = same("adaptive_max_pool2d", {x}, {output = output})
      local dy = normal(want[1].shape, dtype, 2)
      same("adaptive_max_pool2d_grad", {dy, want[2]}, {size = image})
      same("adaptive_avg_pool2d", {x}, {output = output})
      same("adaptive_avg_pool2d_grad", {dy}, {size = image})
    end)
  end
end

describe("max pooling", function()
  it("chooses the first of equal values, in large windows too", function()
    local x = support.whole({2, 12, 24, 24}, "f32", 1, 0, 3)
    for _, window in ipairs {{kernel = 3, stride = 2}, {kernel = 8, stride = 8},
      {kernel = 15, stride = 3, padding = 7}} do
      same("max_pool2d", {x}, window)
    end
    same("adaptive_max_pool2d", {x}, {output = {1, 1}})
  end)

  it("lets NaN win, the first one, and finds -inf among nothing else", function()
    local x = normal({1, 5, 20, 20}, "f32")
    x:set(1, 2, 4, 5, 0 / 0)
    x:set(1, 2, 9, 9, 0 / 0)
    local low = capl.zeros({1, 5, 20, 20}, {device = "ref"}) - math.huge
    for _, window in ipairs {{kernel = 2, stride = 2}, {kernel = 10, stride = 10}} do
      same("max_pool2d", {x}, window)
      local got = support.run("cuda", "max_pool2d", {low}, window)
      assert.equal(0, support.different(got[2], capl.zeros(got[2].shape, {device = "ref"})))
    end
  end)
end)
