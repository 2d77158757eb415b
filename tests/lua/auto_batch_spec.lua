-- batch = "auto" and checkpoint_layers of train.fit: what is chosen, that it fits, and that nothing else changes.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text, fit, weights = support.error_text, training.fit, training.values_of

local CHARSET = "01"

local function loader(batch)
  return training.loader("train", 600, batch, nil, {charset = CHARSET, length = 1, width = 24, height = 24})
end

local function block(inputs, outputs)
  return nn.Sequential{nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU(), nn.Dropout(0.2)}
end

local function job(changes)
  capl.manual_seed(1)
  local model = nn.Sequential{nn.AvgPool2d(4), block(1, 4), block(4, 4), nn.Flatten(), nn.Linear(144, 2)}
  local o = {model = model, train = loader(16), precision = "fp32", optimizer = optim.SGD(model:parameters(),
    {lr = optim.schedule.warmup_cosine{lr = 0.01, warmup = 2, total = "run"}}),
    loss = function(y, batch) return nn.cross_entropy(y, batch.target:view(-1)) end}
  for key, value in pairs(changes or {}) do o[key] = value end
  return o
end

describe("train.auto_batch", function()
  it("takes the smallest batch near the best rate, and leaves the rest as it was", function()
    local o = job()
    local before = weights(o.model)
    local found = train.auto_batch{model = o.model, train = o.train, loss = o.loss, optimizer = o.optimizer, precision = "fp32",
      largest = 64}
    assert.equal(found.batch, o.train.batch)
    local best = 0
    for _, m in ipairs(found.tried) do best = math.max(best, m.rate) end
    for _, m in ipairs(found.tried) do
      assert.is_true(m.batch >= found.batch or m.rate < 0.97 * best)
      assert.is_true(m.batch ~= found.batch or m.rate >= 0.97 * best)
    end
    assert.same(before, weights(o.model))
    assert.matches("^%d+ images %(images/s at 8: %d+, 16: %d+", found.text)
    assert.equal(found.batch, o.train:epoch(1)().count)
  end)

  it("tries nothing that memory forbids, and says so when nothing fits", function()
    local o = job()
    local function find()
      return train.auto_batch{model = o.model, train = o.train, loss = o.loss, optimizer = o.optimizer, precision = "fp32"}
    end
    local each = find().tried[1].bytes
    support.live_bytes()
    capl.memory_limit(math.floor(capl.memory().live + 24 * each + 40000))
    local ok, found = pcall(find)
    capl.memory_limit(math.floor(capl.memory().live + 1000))
    local text = error_text(find)
    capl.memory_limit(0)
    assert.is_true(ok, tostring(found))
    assert.is_true(found.batch <= 32)
    assert.matches("does not fit", found.text)
    assert.matches("not even a batch of 8 fits", text)
  end)
end)

describe("batch = \"auto\" of a loader", function()
  it("is settled before steps are counted in epochs", function()
    local o = job{train = loader("auto"), epochs = 1}
    local result = fit(o)
    assert.equal(o.train.batch, result.batch)
    assert.equal(math.ceil(600 / o.train.batch), result.steps)
    assert.equal(600, result.images)
  end)

  it("trains as the same number would", function()
    local o = job{train = loader("auto"), steps = 4}
    fit(o)
    local again = job{train = loader(o.train.batch), steps = 4}
    fit(again)
    assert.same(weights(again.model), weights(o.model))
  end)
end)

describe("checkpoint_layers of train.fit", function()
  it("trains to the same bits", function()
    local plain, cheap, named = job{steps = 3}, job{steps = 3, checkpoint_layers = true}, job{steps = 3, checkpoint_layers = {"2"}}
    for _, o in ipairs{plain, cheap, named} do
      capl.manual_seed(2)
      fit(o)
    end
    assert.same(weights(plain.model), weights(cheap.model))
    assert.same(weights(plain.model), weights(named.model))
  end)

  it("names layers that there are", function()
    assert.matches("unknown layer in checkpoint_layers '9'", error_text(fit, job{steps = 1, checkpoint_layers = {"9"}}))
  end)
end)
