-- The meter of images: PSNR, MAE and MSE by hand, scales, u8 targets, the worst ones, what is refused.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local train = capl.train

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

describe("the image meter", function()
  -- two images of one channel and two pixels: off by 0.1 and 0.3; not at all
  local truth = capl.tensor{{{{0.5, 0.5}}}, {{{0, 1}}}}
  local output = capl.tensor{{{{0.6, 0.2}}}, {{{-3, 4}}}} -- what is beyond 0 to 1 is cut, as in a picture

  it("has the mean of each image's PSNR, MAE and MSE", function()
    local meter = train.ImageMeter()
    meter:add(output, {target_image = truth})
    local r = meter:result()
    assert.equal(2, r.n)
    assert.near((0.1 ^ 2 + 0.3 ^ 2) / 2 / 2, r.mse, 1e-7)
    assert.near(0.4 / 2 / 2, r.mae, 1e-7)
    assert.near((-10 * math.log10(0.05) + 100) / 2, r.psnr, 1e-5)
    assert.same({0, 1}, {meter:samples().wrong[1].id, #meter:samples().wrong})
    assert.equal(1, meter:samples().right[1].id)
    assert.equal("PSNR 56.51 dB, MAE 0.1000, MSE 0.025, n 2", meter:line())
    assert.same({"psnr", "max"}, {meter.main, meter.better})
  end)

  it("takes mean and std of channels, u8 targets and a field of another name", function()
    local meter = train.ImageMeter{mean = {0.5, 0}, std = {0.25, 1}, field = "clean", main = "mse"}
    local levels = capl.tensor{{{{127.5}}, {{51}}}}
    meter:add(capl.tensor{{{{0}}, {{0.2}}}}, {clean = levels / 255})
    assert.near(0, meter:result().mse, 1e-12)
    meter:add(capl.tensor{{{{2}}, {{0.2}}}}, {clean = capl.tensor{{{{255}}, {{51}}}}:to("u8")})
    assert.near(0, meter:result().mae, 1e-6)
    assert.equal("min", meter.better)
  end)

  it("counts outputs of their own name, with the scale that capl.model was given", function()
    local source = capl.data.tensors{image = capl.zeros(4, 1, 2, 2, {dtype = "u8"}), clean = capl.zeros(4, 1, 2, 2)}
    local val = capl.data.loader{source = source, role = "val", batch = 4, workers = 0}
    local Net = capl.nn.class("Net")
    function Net:forward(x) return {clean = x:float() * 0 + 0.5} end
    local model = Net()
    capl.model(model, {outputs = {clean = {kind = "image", channels = 1, std = {0.2}}}})
    local meter = train.evaluate(model, val, {meter = {clean = "image"}, main = "clean.psnr"})
    assert.near(20, meter:result()["clean.psnr"], 1e-4)
    assert.equal("clean.psnr", meter.main)
  end)

  it("refuses other shapes, scales and numbers that are none", function()
    local meter = train.ImageMeter()
    raises("the model's output is (2,3), and target_image is (2,1,1,2)", meter.add, meter, capl.zeros(2, 3),
      {target_image = truth})
    raises("the batch has no target_image", meter.add, meter, output, {})
    raises("std is a list of 1 numbers above 0", train.ImageMeter, {std = {0}})
    local rgb = train.ImageMeter{mean = {0, 0, 0}}
    raises("mean has 3 numbers, and the images have 1 channels", rgb.add, rgb, output, {target_image = truth})
    meter:add(output * (0 / 0), {target_image = truth})
    raises("the model's output for sample 0 is not finite", meter.result, meter)
  end)
end)
