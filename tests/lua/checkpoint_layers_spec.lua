-- checkpoint_layers of train.fit: nothing else changes.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim = capl.nn, capl.optim
local error_text, fit, weights = support.error_text, training.fit, training.values_of

local CHARSET = "01"

local function loader(batch)
  return training.loader("train", 600, batch, nil, {charset = CHARSET, length = 1, width = 24, height = 24})
end

local function block(inputs, outputs)
  return nn.Sequential{nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU(),
    nn.Dropout(0.2)}
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

describe("checkpoint_layers of train.fit", function()
  it("trains to the same bits", function()
    local plain, cheap, named = job{steps = 3}, job{steps = 3, checkpoint_layers = true},
      job{steps = 3, checkpoint_layers = {"2"}}
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
