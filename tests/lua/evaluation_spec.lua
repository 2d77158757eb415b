-- Evaluation: what meters it takes, what it reads, what it refuses, the test images, and train.fit with a meter.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim, data, train = capl.nn, capl.optim, capl.data, capl.train
local error_text = support.error_text

local N = 7

local function masks()
  return data.tensors{image = capl.zeros({N, 1, 8, 8}, {dtype = "u8"}), mask = capl.zeros({N, 8, 8}, {dtype = "u8"})}
end

local function numbers()
  local x, y = {}, {}
  for i = 1, N do x[i], y[i] = {i, 1}, {3 * i} end
  return data.tensors{input = capl.tensor(x), value = capl.tensor(y)}
end

local function loader(source, role, options)
  local o = {source = source, role = role or "val", batch = 3, workers = 0}
  for key, value in pairs(options or {}) do o[key] = value end
  return data.loader(o)
end

describe("train.evaluate", function()
  local fp32 = {precision = "fp32"}

  it("takes the meter that it is given, with the numbers of the samples", function()
    capl.manual_seed(1)
    local meter = train.evaluate(nn.Linear(2, 1), loader(numbers()), {precision = "fp32", meter = "regression"})
    assert.same({N, "rmse", "min", "val"}, {meter:result().n, meter.main, meter.better, meter:result().role})
    local seen = {}
    for _, e in ipairs(meter:samples().wrong) do seen[e.id + 1] = e.target end
    assert.same({3, 6, 9, 12, 15, 18, 21}, seen)
    local mask = train.evaluate(nn.Conv2d(1, 2, 1), loader(masks()), {precision = "fp32", meter = "segmentation"})
    assert.same({N, N * 64}, {mask:result().n, mask:result().pixels})
  end)

  it("names the meter that would suit, and takes a recipe's own", function()
    local model = nn.Linear(2, 1)
    assert.matches('the loader\'s images have no labels\n  hint: meter = "regression" reads what its samples have',
      error_text(function() return (train.evaluate(model, loader(numbers()), fp32)) end), 1, true)
    assert.matches('a text meter reads batch.target, which the val loader does not give\n  hint: its samples suit meter = "regression"',
      error_text(function() return (train.evaluate(model, loader(numbers()), {meter = "text"})) end), 1, true)
    assert.matches("unknown meter 'regresion'; did you mean 'regression'?",
      error_text(function() return (train.evaluate(model, loader(numbers()), {meter = "regresion"})) end), 1, true)
    assert.matches('a meter needs a main metric for model selection',
      error_text(function()
        local function own() return {add = print, result = print} end
        return (train.evaluate(model, loader(numbers()), {meter = own}))
      end), 1, true)
    local batches = 0
    local own = {main = "batches", better = "max", result = function() return {batches = batches} end}
    function own.add() batches = batches + 1 end
    local meter = train.evaluate(model, loader(numbers()), {precision = "fp32", meter = function() return own end})
    assert.same({3, own}, {batches, meter})
  end)

  it("refuses a meter whose main metric has no value", function()
    local own = {main = "mean", better = "max", add = function() end, result = function() return {n = 7} end}
    assert.matches("the main metric of the meter, mean, has no value", error_text(function()
      return (train.evaluate(nn.Linear(2, 1), loader(numbers()),
        {precision = "fp32", meter = function() return own end}))
    end), 1, true)
  end)

  it("reads some samples once more when asked, as they were", function()
    capl.manual_seed(1)
    local model = nn.Conv2d(1, 2, 1)
    local meter = train.evaluate(model, loader(masks()), {precision = "fp32", meter = "segmentation"})
    local batch, output = meter.again{2, 5}
    assert.same({{2, 8, 8}, {2, 2, 8, 8}}, {batch.mask.shape, output.shape})
    assert.is_true(model.training and not output.requires_grad)
  end)

  it("leaves no tensors behind, also when it fails", function()
    local model = nn.Linear(2, 1)
    support.no_leak(function()
      train.evaluate(model, loader(numbers()), {precision = "fp32", meter = "regression"})
      pcall(train.evaluate, model, loader(numbers(), "val", {drop_last = true}),
        {precision = "fp32", meter = "regression"})
      pcall(train.evaluate, model, loader(masks()), {precision = "fp32", meter = "segmentation"})
    end)
  end)

  it("refuses a meter that has not counted every sample", function()
    local own = {main = "n", better = "max", n = 0, result = function(self) return {n = self.n} end}
    function own:add() self.n = self.n + 1 end -- the first of each batch
    assert.matches("the meter counted 3 of 7 samples", error_text(function()
      return (train.evaluate(nn.Linear(2, 1), loader(numbers()),
        {precision = "fp32", meter = function() return own end}))
    end), 1, true)
  end)

  it("refuses loaders that shuffle or train", function()
    local model = nn.Linear(2, 1)
    assert.matches("the val loader shuffles", error_text(function()
      return (train.evaluate(model, loader(numbers(), "val", {shuffle = true}), {meter = "regression"}))
    end), 1, true)
    assert.matches("a train loader shuffles", error_text(function()
      return (train.evaluate(model, loader(numbers(), "train"), {meter = "regression"}))
    end), 1, true)
    assert.matches("gave 6 of its 7 samples", error_text(function()
      local short = loader(numbers(), "val", {drop_last = true})
      return (train.evaluate(model, short, {precision = "fp32", meter = "regression"}))
    end), 1, true)
  end)
end)

describe("the test images", function()
  local fp32 = {precision = "fp32", meter = "regression"}

  it("are read with one set of weights", function()
    capl.manual_seed(1)
    local model, test = nn.Linear(2, 1), loader(numbers(), "test")
    local first = train.evaluate(model, test, fp32):result()
    assert.equal(first.rmse, train.evaluate(model, test, fp32):result().rmse) -- the same once more
    capl.no_grad(function() model.weight:add_(0.01) end)
    assert.equal("LINE: train.evaluate: the test images were read at step 0 already, with other weights\n  hint: choose on a loader "
      .. 'with role = "val"; read the test loader once, at the end, with the weights that were chosen',
      (error_text(function() return (train.evaluate(model, test, fp32)) end):gsub("at step %d+", "at step 0")))
    local other = data.loader{source = test.source, role = "test", batch = 2, workers = 0}
    assert.matches("with other weights", error_text(function() return (train.evaluate(model, other, fp32)) end), 1,
      true)
  end)

  it("are not read again once training has gone on", function()
    local model, test = nn.Linear(2, 1), loader(numbers(), "test")
    local function read()
      for batch in test:epoch(1) do assert(batch.value) end
    end
    read()
    read()
    local opt = optim.SGD(model:parameters(), {lr = 0.1})
    opt:backward_step(model(capl.zeros(1, 2)):sum())
    assert.matches("loader:epoch: the test images were read at step %d+ already, and 1 steps were made since",
      error_text(read))
  end)

  it("are not read before a training that ends with them", function()
    local test = loader(numbers(), "test")
    local function job(model)
      return {model = model, train = loader(numbers(), "train"), val = loader(numbers()), test = test, steps = 2,
        precision = "fp32", loss = function(output, batch)
        return ((output - batch.value) ^ 2):mean() end, meter = "regression",
          optimizer = optim.SGD(model:parameters(), {lr = 0.01})}
    end
    assert.equal(N, train.fit(job(nn.Linear(2, 1))).test.n)
    assert.matches("train.fit: the test images were read at step %d+ already, before this training",
      error_text(function()
      return (train.fit(job(nn.Linear(2, 1))))
    end))
  end)

  it("choose no stage of a schedule", function()
    local test = loader(numbers(), "test")
    local metrics = train.evaluate(nn.Linear(2, 1), test, fp32):result()
    local schedule = capl.augment.schedule{{}, {from = {metric = "exact", above = 0.9}}}
    assert.matches("these metrics are of the test images", error_text(function() schedule:report(metrics) end), 1, true)
  end)
end)

describe("train.fit with a meter", function()
  local function fit(changes)
    capl.manual_seed(1)
    local model = nn.Linear(2, 1)
    local o = {
      model = model, train = loader(numbers(), "train"), val = loader(numbers()), steps = 12, eval_every = 1,
      precision = "fp32", loss = function(output, batch)
      return ((output - batch.value) ^ 2):mean() end, meter = "regression",
        optimizer = optim.SGD(model:parameters(), {lr = 0.03}),
    }
    for key, value in pairs(changes or {}) do o[key] = value end
    return train.fit(o), o
  end

  it("keeps the weights whose main metric is the best, the least one too", function()
    local least = math.huge
    local r, o = fit{meter = function(val)
      local meter = train.RegressionMeter{loader = val}
      local result = meter.result
      function meter:result()
        local metrics = result(self)
        least = math.min(least, metrics.rmse or math.huge)
        return metrics
      end
      return meter
    end}
    local now = train.evaluate(o.model, o.val, {precision = "fp32", meter = "regression"}):result()
    assert.equal(least, r.best.rmse)
    assert.equal(r.best.rmse, now.rmse)
  end)

  it("asks before the first step whether the loaders suit it", function()
    assert.matches("a segmentation meter reads batch.mask, which the val loader does not give", error_text(function()
      return (fit{meter = "segmentation"})
    end), 1, true)
  end)
end)
