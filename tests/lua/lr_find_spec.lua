-- The learning rate finder: what it suggests, and that it leaves no trace.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text = support.error_text

local CHARSET = "01"

local function loader(count)
  return training.loader("train", count, 8, nil, {charset = CHARSET, length = 1, width = 24, height = 24})
end

local function model_of()
  capl.manual_seed(1)
  return nn.Sequential{nn.AvgPool2d(4), nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(8, 2)}
end

local function loss_of(y, batch) return nn.cross_entropy(y, batch.target:view(-1)) end

-- A model, an optimizer with two rates of which one is a schedule, and a loader that has begun.
local function job(changes)
  local model = model_of()
  local weights, rest = {}, {}
  for _, p in model:named_parameters() do table.insert(#p.shape > 1 and weights or rest, p) end
  local o = {model = model, train = loader(40), loss = loss_of, precision = "fp32", steps = 40, optimizer = optim.join{
    optim.SGD(weights, {lr = optim.schedule.warmup_cosine{lr = 0.02, warmup = 5, total = 50}, momentum = 0.9}),
    optim.AdamW(rest, {lr = 0.002}),
  }}
  for key, value in pairs(changes or {}) do o[key] = value end
  return o
end

local function numbers(value)
  if capl.is_tensor(value) then return value:tolist() end
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, entry in pairs(value) do out[key] = numbers(entry) end
  return out
end

local function train_some(o, steps)
  local done = 0
  for batch in o.train:epoch(1) do
    o.optimizer:backward_step(loss_of(o.model(batch.image), batch))
    done = done + 1
    if done == steps then return end
  end
end

describe("train.lr_find", function()
  it("leaves weights, statistics, optimizers, random numbers and the loader as they were, to the bit", function()
    local function metrics(find)
      local o = job()
      train_some(o, 2)
      if not find then o.train:set_state(o.train:state()) end -- the rest of the epoch is still to come
      if find then
        o.model[4]:eval()
        train.lr_find(o)
        assert.is_true(o.model.training and not o.model[4].training)
        o.model[4]:train()
      end
      local out = {numbers(o.model:state_dict()), numbers(o.optimizer:state_dict())}
      for batch in o.train:epoch(1) do
        table.insert(out, batch.image:tolist())
        o.optimizer:backward_step(loss_of(o.model(batch.image), batch))
      end
      table.insert(out, numbers(o.model:state_dict()))
      table.insert(out, o.optimizer.lr)
      return out
    end
    local plain, tried = metrics(false), metrics(true)
    assert.equal(2 + 3 + 2, #plain) -- three batches of the epoch were left
    for i = 1, 2 do plain[i].steps, tried[i].steps = nil, nil end
    assert.same(plain, tried)
  end)

  it("suggests a rate at which the loss falls, and reports the two it chose from", function()
    local o = job{steps = 100}
    local found = train.lr_find(o)
    assert.is_true(found.suggestion > 1e-5 and found.suggestion < 5, tostring(found.suggestion))
    assert.equal(math.min(found.steepest, found.tenth), found.suggestion)
    assert.equal(found.suggestion, found[found.rule])
    local least, at = math.huge, nil
    for i, loss in ipairs(found.smooth) do
      least = math.min(least, loss)
      if found.lr[i] == found.steepest then at = loss end
    end
    assert.is_true(at <= found.smooth[1] - 0.1 * (found.smooth[1] - least),
      "what the loss does before it begins to fall is noise")
    assert.equal(0.02, found.peak)
    assert.is_true(math.abs(found.factor * 0.02 - found.suggestion) < 1e-12)
    assert.equal(#found.lr, #found.loss)
    for i = 2, #found.lr do assert.is_true(found.lr[i] > found.lr[i - 1]) end
    assert.matches("^lr = .*, a?w?h?", found.text)
  end)

  it("stops when the loss runs away", function()
    local w = nn.Linear(1, 1)
    local found = train.lr_find{model = w, train = loader(16), optimizer = optim.SGD(w:parameters(), {lr = 1}),
      max_lr = 100, input = function(batch)
      return batch.image:narrow(2, 1, 1):reshape(batch.count, -1):narrow(2, 1, 1) end, loss = function(y)
        return ((y - 3) * (y - 3)):mean() end, precision = "fp32", steps = 60}
    assert.equal("diverged", found.stopped)
    assert.is_true(#found.lr < 60)
    assert.is_true(found.suggestion < 1)
  end)

  it("suggests nothing when the loss does not fall", function()
    local w = nn.Linear(1, 1)
    local found = train.lr_find{model = w, train = loader(16), optimizer = optim.SGD(w:parameters(), {lr = 1}),
      input = function() return capl.ones(1, 1) end, loss = function(y)
      return (y * 0 + 2):mean() end, precision = "fp32", steps = 20}
    assert.is_nil(found.suggestion)
    assert.equal("cannot tell: the loss did not fall at any learning rate; this may help: "
      .. "steps = 40, or min_lr = 0.01 and max_lr = 100", found.text)
  end)

  -- What it says of losses that are a function of the decade of the rate, and of the sweep.
  local function said(curve, options)
    local w = nn.Linear(1, 1)
    local opt, sweep, last = optim.SGD(w:parameters(), {lr = 0.01}), 0, math.huge
    local o = {model = w, train = loader(16), optimizer = opt, precision = "fp32", input = function()
      return capl.ones(1, 1) end, loss = function(y)
        if opt.lr < last then sweep = sweep + 1 end
        last = opt.lr
        return (y * 0 + curve(math.log10(opt.lr), sweep)):mean()
      end}
    for key, value in pairs(options or {}) do o[key] = value end
    return train.lr_find(o)
  end

  -- From 2.5 to 2.5 - fall around a decade, and up again two decades later.
  local function valley(fall, at)
    return function(decade) return 2.5 - fall / (1 + math.exp(-6 * (decade - at))) + 9
      / (1 + math.exp(-9 * (decade - at - 2))) end
  end

  it("suggests where the loss falls far and both sweeps agree", function()
    local found = said(valley(1.5, -2.5))
    assert.is_true(found.suggestion > 10 ^ -3.2 and found.suggestion < 10 ^ -1.8, found.text)
    assert.equal(2, #found.sweeps)
  end)

  it("finds no rate in losses that do not show one, and says why and what may help", function()
    local noisy, k = valley(0.9, -2.5), 0
    for _, case in ipairs{
      -- as it does when frequencies of classes are learned
      {"the loss fell by 10 % only, from 2.5 to 2.25", valley(0.25, -2.5)},
      {"which is not much more than it varies", function(decade)
        k = k + 1
        return noisy(decade) + (k % 2 == 0 and 0.5 or -0.5)
      end},
      {"the loss falls from the lowest learning rate on, 1e-06", valley(1.5, -5.2)},
      {"the loss still falls at the highest learning rate, 10", valley(1.5, 0.9)},
      {"and falls again after that", function(decade)
      return math.min(valley(0.8, -4)(decade), valley(2, 0)(decade) + 0.3) end},
        {"two sweeps suggest ", function(decade, sweep) return valley(1.5, sweep == 1 and -2.5 or -1)(decade) end},
      {"only one of two sweeps suggests a learning rate; in the other the loss fell by 10 % only",
      function(decade, sweep)
        return valley(sweep == 1 and 1.5 or 0.25, -2.5)(decade)
      end},
    } do
      local found = said(case[2])
      assert.is_nil(found.suggestion, case[1] .. ": " .. found.text)
      assert.matches("^cannot tell: .*; this may help: ", found.text)
      assert.matches(case[1], found.text, 1, true)
    end
  end)

  it("refuses what is no range", function()
    assert.matches("min_lr is above 0 and below max_lr, got 1 and 0.1",
      error_text(train.lr_find, job{min_lr = 1, max_lr = 0.1}))
    assert.matches("steps: at least 20, got 5", error_text(train.lr_find, job{steps = 5}))
    assert.matches("unknown option 'stesp'", error_text(train.lr_find, job{stesp = 5}))
  end)
end)
