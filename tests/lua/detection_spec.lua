-- The meter of boxes: matches, average precision, what predict leaves out, what is refused.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local train = capl.train

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

describe("the detection meter", function()
  -- two images; classes a, b; logits
  local truth = capl.tensor{{{0, 0, 10, 10, 0}, {20, 0, 30, 10, 1}}, {{0, 0, 10, 10, 0}, {0, 0, 0, 0, -1}}}
  local output = capl.tensor{
    {{0, 0, 10, 9, 3, -9}, {0, 0, 10, 10, 2, -9}, {20, 0, 30, 4, -9, 1}}, -- right; the same once more; IoU 0.4
    {{50, 0, 60, 10, 4, -9}, {0, 0, 10, 10, 1, -9}, {0, 0, 10, 10, -1, -1}}, -- nowhere; right; below the threshold
  }

  it("has the average precision of right and wrong boxes in the order of their confidence", function()
    local meter = train.DetectionMeter{names = {"a", "b"}}
    meter:add(output, {boxes = truth})
    local r = meter:result()
    -- a: 4 wrong, 3 right, 1 right (2 is left out): precision 0, 1/2, 2/3 -> 2/3 at both recalls; b: 0
    assert.near((2 / 3 + 0) / 2, r.map_50, 1e-9)
    assert.same({2, 3}, {r.n, r.boxes})
    assert.near(2 / 4, r.precision, 1e-9)
    assert.near(2 / 3, r.recall, 1e-9)
    assert.near((0.9 + 1) / 2, r.iou, 1e-6)
    assert.equal("a 66.7, b 0.0 %", meter:lines()[2][2])
    assert.same({{2, 3}, {1, 1}}, {{meter:write().classes[1].n, meter:write().classes[1].found},
      {meter:write().classes[2].n, meter:write().classes[2].found}})
    local worst = meter:samples().wrong[1]
    assert.same({0, 1, 1}, {worst.id, worst.missed, worst.extra})
  end)

  it("counts the same in parts of other sizes", function()
    local whole, parts = train.DetectionMeter(), train.DetectionMeter()
    whole:add(output, {boxes = truth})
    parts:add(output:narrow(1, 1, 1), {boxes = truth:narrow(1, 1, 1), ids = {0}})
    parts:add(output:narrow(1, 2, 1):narrow(2, 1, 2), {boxes = truth:narrow(1, 2, 1):narrow(2, 1, 1), ids = {1}})
    assert.same(whole:result(), parts:result())
  end)

  it("refuses other shapes and numbers that are none", function()
    raises("the model's output is (2,3); it should be (2,B,4+K)", train.DetectionMeter().add, train.DetectionMeter(),
      capl.zeros(2, 3), {boxes = truth})
    raises("threshold is a number from 0 to 1, got 2", train.DetectionMeter, {threshold = 2})
    local meter = train.DetectionMeter()
    meter:add(output * (0 / 0), {boxes = truth})
    raises("the model's output for sample 0 is not finite", meter.result, meter)
  end)
end)
