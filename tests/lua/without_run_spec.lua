-- Networks, optimizers, data, augmentation and meters work in a plain LuaJIT, and no run is there until somebody asks
-- for one.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn, optim, data, augment = capl.nn, capl.optim, capl.data, capl.augment

local HEIGHT, WIDTH, LENGTH = 16, 32, 2

local function network()
  return nn.Sequential{nn.Conv2d(3, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(),
    nn.Linear(4 * HEIGHT * WIDTH / 16, LENGTH * 10), nn.Unflatten(2, {LENGTH, 10})}
end

local function loader(role, augmentation)
  local source = data.captcha{charset = "0-9", length = LENGTH, width = WIDTH, height = HEIGHT, channels = 3,
    count = 16, fixed = true}
  return data.loader{source = source, role = role, batch = 8, workers = 0, augment = augmentation}
end

-- Names of the library's modules that are loaded and match a pattern.
local function loaded(pattern)
  local out = {}
  for name in pairs(debug.getregistry()["capl.loaded"]) do
    if name:find(pattern) then out[#out + 1] = name end
  end
  return out
end

describe("without a run", function()
  it("a loop trains and a meter counts", function()
    capl.manual_seed(1)
    local net = network()
    local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
    local first, last
    local train = loader("train", augment.preset("captcha"))
    for epoch = 1, 4 do
      for batch in train:epoch(epoch) do
        local loss = nn.multilabel_soft_margin(net(batch.image):view(batch.count, -1), batch.onehot)
        opt:backward_step(loss)
        first, last = first or loss:item(), loss:item()
      end
    end
    assert.is_true(last < first, ("%g, then %g"):format(first, last))
    local meter = capl.text_meter("0123456789")
    for batch in loader("val"):epoch(1) do meter:add(net(batch.image), batch) end
    assert.equal(16, meter:result().n)
    assert.same({}, loaded("^run"))
    assert.same({}, loaded("^train"))
    assert.same({}, loaded("^cli"))
  end)

  it("a schedule of augmentations moves on", function()
    local train = loader("train", augment.schedule{{augment = {rotate = 2}}, {from = {step = 2}, augment = "captcha"}})
    for batch in train:epoch(1) do assert.equal(8, batch.count) end
    assert.same({}, loaded("^run"))
  end)

  it("train.fit makes one", function()
    local net = network()
    local result = capl.train.fit{model = net, train = loader("train"), val = false, steps = 2,
      loss = function(output, batch) return nn.multilabel_soft_margin(output:view(batch.count, -1), batch.onehot) end,
      optimizer = optim.SGD(net:parameters(), {lr = 0.01})}
    assert.equal(2, result.steps)
    assert.equal(1, #loaded("^run$"))
  end)

  it("two runs know nothing of each other", function()
    local Run = debug.getregistry()["capl.loaded"].run
    local one, other, steps = Run.new(), Run.new(), 0
    for _, run in ipairs{one, other} do run:start{mode = "none"} end
    one:on("step", function() steps = steps + 1 end)
    one:add_feature{name = "ema", what = "updates", count = function() return 0 end}
    other:step{}
    assert.same({0, 0, 1}, {steps, one.steps, other.steps})
    one:step{}
    assert.same({1, 1, 1}, {steps, one.steps, other.steps})
    assert.same({1, 0}, {#one.features:counts(), #other.features:counts()})
    one:set_model("a model", {})
    assert.is_nil(other.model)
  end)
end)
