-- What a step of training is made of: summed batches, held gradients, rates by rule, by layer and by metric; in
-- train.fit and in custom training loops.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text, close = support.error_text, support.close
local CHARSET, loader, loss_of, values_of = training.CHARSET, training.loader, training.loss_of, training.values_of

local function network()
  capl.manual_seed(1)
  return nn.Sequential{nn.AvgPool2d(10), nn.Flatten(), nn.Linear(8, 2 * #CHARSET)}
end

local function job(changes)
  local model = network()
  return training.with({model = model, train = loader("train", 16), val = false, loss = loss_of, precision = "fp32",
    steps = 4, optimizer = optim.SGD(model:parameters(), {lr = 0.5})}, changes)
end

local function said(changes) return error_text(function() local r = train.fit(job(changes)) return r end) end

describe("accumulate", function()
  it("is the step of one large batch, also for the last part of an epoch", function()
    -- 22 images: with batches of 4, three to a step, an epoch has steps of 12 and of 10 (4 + 4 + 2) images.
    for _, capture in ipairs{false, true} do
      local large = job{train = loader("train", 22, 12), epochs = 3}
      local parts = job{train = loader("train", 22, 4), epochs = 3, accumulate = 3, capture = capture}
      large.steps, parts.steps = nil, nil
      local a, b = train.fit(large), train.fit(parts)
      assert.same({6, 66}, {a.steps, a.images})
      assert.same({6, 66}, {b.steps, b.images})
      for name, values in pairs(values_of(large.model)) do
        assert.is_true(close(values, values_of(parts.model)[name], 2e-5), name)
      end
    end
  end)

  it("counts steps and samples by the images of a step", function()
    local o = job{samples = 64, accumulate = 2}
    o.steps = nil
    local r = train.fit(o)
    assert.same({8, 64, 8}, {r.steps, r.images, o.optimizer.steps})
  end)

  it("names the batch of a sum whose loss is no number", function()
    local o = job{train = loader("train", 10, 4), accumulate = 3, capture = false}
    o.loss = function(output, batch)
      local loss = loss_of(output, batch)
      return batch.count == 2 and loss * math.huge or loss
    end
    local text = error_text(train.fit, o)
    assert.matches("the loss of step 1 is inf", text, 1, true)
    -- a GPU's loss is read when its batch is gone
    if capl.device() == "cpu" then assert.matches("of 2: ", text, 1, true) end
  end)

  it("refuses what cannot be", function()
    assert.matches("accumulate must be a whole number from 1 on, got 0", said{accumulate = 0}, 1, true)
    assert.matches("accumulate must be a whole number from 1 on, got 1.5", said{accumulate = 1.5}, 1, true)
    assert.matches('accumulate = 2 and on_oom = "split" both cut a step into parts',
      said{accumulate = 2, on_oom = "split"}, 1, true)
    assert.matches("steps = 1e+15 makes more than 1e+12 steps, which no machine ends", said{steps = 1e15}, 1, true)
    assert.matches("an epoch has 4 batches, and a step sums those of one epoch", said{accumulate = 5}, 1, true)
    assert.matches("an epoch has one batch, so there is nothing to sum",
      said{accumulate = 2, train = loader("train", 4)}, 1, true)
  end)
end)

-- The gradients of one step of each of two optimizers, as lengths of what the weights move with rate 1.
local function moves(make, options)
  local a, b = capl.zeros{2}:requires_grad_(), capl.zeros{1}:requires_grad_()
  local opt = make(a, b, options)
  opt:backward_step((a * capl.tensor{3, -4}):sum() + (b * 12):sum())
  return {-a:tolist()[1], -a:tolist()[2], -b:tolist()[1]}, opt
end

local makers = {
  one = function(a, b, options)
    local o = {lr = 1}
    for key, value in pairs(options) do o[key] = value end
    return optim.SGD({a, b}, o)
  end,
  joined = function(a, b, options) return optim.join({optim.SGD({a}, {lr = 1}), optim.SGD({b}, {lr = 1})}, options) end,
}

describe("clipping", function()
  for name, make in pairs(makers) do
    it("holds the common norm of all gradients, or each of them: " .. name, function()
      assert.is_true(close({3, -4, 12}, (moves(make, {}))))
      local short, opt = moves(make, {clip_norm = 1.3})
      assert.is_true(close({0.3, -0.4, 1.2}, short, 1e-5))
      assert.same({1, 1}, {opt.clipped, opt.clip_looks})
      local long, idle = moves(make, {clip_norm = 130})
      assert.is_true(close({3, -4, 12}, long))
      assert.same({0, 1}, {idle.clipped, idle.clip_looks})
      assert.is_true(close({2.5, -2.5, 2.5}, (moves(make, {clip_value = 2.5}))))
    end)

    it("acts on gradients without their loss scale: " .. name, function()
      local scaled = {init_scale = 1024}
      assert.is_true(close({0.3, -0.4, 1.2}, (moves(make, {clip_norm = 1.3, loss_scale = scaled})), 1e-5))
      assert.is_true(close({2.5, -2.5, 2.5}, (moves(make, {clip_value = 2.5, loss_scale = scaled})), 1e-5))
    end)

    it("skips a step that is not finite: " .. name, function()
      local a, b = capl.zeros{2}:requires_grad_(), capl.zeros{1}:requires_grad_()
      local opt = make(a, b, {clip_norm = 1})
      opt:backward_step((a * capl.tensor{math.huge, 1}):sum() + b:sum())
      assert.same({0, 0}, a:tolist())
      assert.equal(1, opt.skipped)
    end)
  end

  it("refuses two ways at once, in one place or in two", function()
    local p = capl.zeros{1}:requires_grad_()
    local function new(fn) return error_text(function() local o = fn() return o end) end
    assert.matches("clip_norm and clip_value both hold the gradients; give one",
      new(function() return optim.SGD({p}, {lr = 1, clip_norm = 1, clip_value = 1}) end), 1, true)
    assert.matches("clip_norm must be a number from 0 (off) on, got -1",
      new(function() return optim.SGD({p}, {lr = 1, clip_norm = -1}) end), 1, true)
    assert.matches("optimizer 1 clips by itself", new(function()
      return optim.join({optim.SGD({p}, {lr = 1, clip_norm = 1})}, {clip_norm = 2})
    end), 1, true)
    local o = job{clip_norm = 2}
    o.optimizer = optim.SGD(o.model:parameters(), {lr = 1, clip_norm = 1})
    assert.matches("clip_norm = 2 here and 1 in the optimizer; give one", error_text(train.fit, o), 1, true)
  end)

  it("is a key of train.fit, which says how often the gradients were too long", function()
    assert.equal(4, train.fit(job{clip_norm = 1e-6, capture = true}).clipped_steps)
    assert.equal(0, train.fit(job{clip_norm = 1e6}).clipped_steps)
    local o = job{clip_value = 1e-6}
    local before = values_of(o.model)["2.bias"]
    train.fit(o)
    local most = 0
    for i, x in ipairs(values_of(o.model)["2.bias"]) do most = math.max(most, math.abs(x - before[i])) end
    assert.is_true(most > 0 and most < 4 * 0.5e-6 * 1.1, tostring(most))
  end)
end)

describe("lr_rule", function()
  it("multiplies all rates, schedules included, by what the images of a step ask for", function()
    for rule, factor in pairs{linear = 4, sqrt = 2, none = 1} do
      local o = job{lr_rule = rule, base_batch = rule ~= "none" and 2 or nil, accumulate = 2}
      o.optimizer = optim.SGD(o.model:parameters(), {lr = optim.schedule.cosine{lr = 0.1, T_max = 100}})
      train.fit(o)
      assert.is_true(close(factor * 0.1 * (1 + math.cos(math.pi * 0.04)) / 2, o.optimizer.lr, 1e-9))
    end
  end)

  it("wants to know what the rate is for", function()
    assert.matches('lr_rule = "sqrt" wants base_batch', said{lr_rule = "sqrt"}, 1, true)
    assert.matches("unknown rule 'liner'; did you mean 'linear'?", said{lr_rule = "liner", base_batch = 4}, 1, true)
    assert.matches('base_batch has no effect with lr_rule = "none"', said{base_batch = 4}, 1, true)
  end)
end)

describe("schedule.plateau", function()
  it("receives the metrics of val, also inside a warm-up, and its state goes with the optimizer's", function()
    local function make()
      local o = job{val = loader("val", 6), steps = 12, eval_every = 1}
      o.optimizer = optim.SGD(o.model:parameters(), {lr = optim.schedule.warmup(
        optim.schedule.plateau{lr = 1e-9, patience = 1, factor = 0.5, metric = "loss", eps = 0}, {steps = 2})})
      return o
    end
    local o = make()
    train.fit(o)
    local again = make()
    assert.is_true(again.optimizer.lr < 1e-9)
    again.optimizer:load_state_dict(o.optimizer:state_dict())
    assert.equal(o.optimizer:lr_of(o.optimizer.groups[1]), again.optimizer.lr)
    assert.same(o.optimizer.groups[1].lr:state(), again.optimizer.groups[1].lr:state())
  end)

  it("receives each metric once, however many groups follow it", function()
    local plateau = optim.schedule.plateau{lr = 1, patience = 100}
    local calls, report = 0, plateau.on_metric
    plateau.on_metric = function(...)
      calls = calls + 1
      return report(...)
    end
    local o = job{val = loader("val", 6), eval_every = 2}
    local model = nn.Sequential{nn.AvgPool2d(10), nn.Flatten(), nn.Linear(8, 4), nn.Linear(4, 6)}
    o.model, o.optimizer = model, optim.SGD(optim.groups(model, {lr = plateau, layer_decay = 0.5}))
    assert.equal(2, #o.optimizer.groups)
    train.fit(o)
    assert.equal(2, calls)
  end)

  it("wants a val loader", function()
    local o = job()
    o.optimizer = optim.SGD(o.model:parameters(), {lr = optim.schedule.plateau{lr = 1}})
    assert.matches("schedule.plateau of the optimizer follows a val metric, and there is no val loader",
      error_text(train.fit, o), 1, true)
  end)

  it("refuses numbers that make no plateau", function()
    local function plateau(o) return error_text(function() local s = optim.schedule.plateau(o) return s end) end
    assert.matches("factor must be a number above 0 and below 1, got 2", plateau{lr = 1, factor = 2}, 1, true)
    assert.matches("unknown threshold_mode 'relative'", plateau{lr = 1, threshold_mode = "relative"}, 1, true)
    assert.matches("T_0 must be a whole number above 0, got 0", error_text(function()
      local s = optim.schedule.cosine_restart{lr = 1, T_0 = 0}
      return s
    end), 1, true)
  end)
end)

describe("optim.groups", function()
  local function model()
    return nn.Sequential{nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential{nn.Linear(3, 2), nn.Linear(2, 1)}}
  end

  it("gives deeper layers higher rates, and rules the last word", function()
    local groups = optim.groups(model(), {lr = 0.4, layer_decay = 0.5, weight_decay = 0.1, no_decay = true,
      rules = {{match = "2.1", lr_scale = 10}, {match = "*.bias", weight_decay = 0.3}}})
    local rates, decays, count = {}, {}, 0
    for i, g in ipairs(groups) do rates[i], decays[i], count = g.lr, g.weight_decay, count + #g.params end
    assert.equal(8, count)
    assert.is_true(close({0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 4, 4}, rates, 1e-12))
    assert.is_true(close({0.1, 0.3, 0, 0.3, 0.1, 0.3, 0.1, 0.3}, decays, 1e-12))
  end)

  it("scales schedules, and trains each group by its own", function()
    local m = model()
    local opt = optim.SGD(optim.groups(m, {lr = optim.schedule.cosine{lr = 1, T_max = 2}, layer_decay = 0.5}))
    local rates = {}
    for i, g in ipairs(opt.groups) do rates[i] = opt:lr_of(g) end
    assert.is_true(close({0.25, 0.5, 1}, rates, 1e-12))
    opt:backward_step(m(capl.ones{2, 2}):sum())
    assert.is_true(close(0.125, opt:lr_of(opt.groups[1]), 1e-12))
  end)

  it("names what nothing fits", function()
    local function make(rules) return error_text(function() local g = optim.groups(model(), {lr = 1, rules = rules})
      return g end) end
    assert.matches("unknown parameter '2.0.wieght'; did you mean '2.0.weight'?", make{{match = "2.0.wieght"}}, 1, true)
    assert.matches("rule 1 has no match", make{{lr_scale = 2}}, 1, true)
    assert.matches("rule 1 has lr and lr_scale; give one", make{{match = "0", lr = 1, lr_scale = 2}}, 1, true)
  end)
end)
