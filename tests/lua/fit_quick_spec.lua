-- Looks before a long run, and parts of a model left out of it: sanity, dry_run, overfit, limit_batches, freeze, val =
-- false.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text, close = support.error_text, support.close
local CHARSET, loss_of, values_of = training.CHARSET, training.loss_of, training.values_of

local function loader(role, count, batch, options)
  return training.loader(role, count, batch, options, {fixed = role ~= "train"})
end

local function network()
  capl.manual_seed(1)
  return nn.Sequential{nn.AvgPool2d(5), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(32, 16), nn.ReLU(),
    nn.Linear(16, 2 * #CHARSET)}
end

local function job(changes)
  local model = network()
  return training.with({model = model, train = loader("train", 16), val = loader("val", 6), loss = loss_of,
    precision = "fp32", steps = 4, optimizer = optim.Adam(model:parameters(), {lr = 0.02})}, changes)
end

local function said(changes) return error_text(function() local r = train.fit(job(changes)) return r end) end

-- Counts the calls of a job's loss in training and in evaluation.
local function counting(o)
  local seen = {train = 0, val = 0, first = nil}
  o.loss = function(output, batch)
    local kind = o.model.training and "train" or "val"
    seen.first = seen.first or kind
    seen[kind] = seen[kind] + 1
    return loss_of(output, batch)
  end
  return o, seen
end

describe("a run without validation", function()
  it("says so", function()
    local o = job()
    o.val = nil
    assert.matches("train.fit: val is missing\n  hint: val = data.loader{…, role = \"val\"}", error_text(train.fit, o),
      1, true)
    assert.matches("val is a loader, or false for none", said{val = true}, 1, true)
    assert.is_nil(train.fit(job{val = false}).val)
  end)
end)

describe("limit_batches", function()
  it("cuts epochs and evaluations, and marks the metric", function()
    local o, seen = counting(job{limit_batches = {train = 2, val = 1}, epochs = 3, eval_every = 2, capture = false})
    o.steps = nil
    local r = train.fit(o)
    assert.same({6, 24, 4}, {r.steps, r.images, r.val.n})
    assert.same({6, 3}, {seen.train, seen.val})
    assert.same({batches = 1, of = 2}, r.val.partial)
    assert.same({count = 2, all = 4, samples = 16}, r.limit_batches.train)
  end)

  it("takes shares, and is nothing where all is in it", function()
    local r = train.fit(job{limit_batches = 0.5})
    assert.same({4, 2}, {r.val.n, r.limit_batches.train.count})
    assert.is_nil(train.fit(job{limit_batches = 100}).val.partial)
  end)

  it("begins every cut epoch at its first batch", function()
    local o, at = job{limit_batches = {train = 3}, steps = 5, capture = false}, {}
    local inner = o.train
    o.loss = function(output, batch)
      if o.model.training then at[#at + 1] = inner:state().position end
      return loss_of(output, batch)
    end
    train.fit(o)
    assert.same({4, 8, 12, 4, 8}, at)
  end)

  it("refuses numbers that mean nothing", function()
    assert.matches("train is a number of batches, or a share of them below 1; got 0", said{limit_batches = 0}, 1, true)
    assert.matches("val is a number of batches, or a share of them below 1; got 1.5", said{limit_batches = {val = 1.5}},
      1, true)
    assert.matches("there is no val loader", said{limit_batches = {val = 1}, val = false}, 1, true)
    assert.matches("limit_batches names neither train nor val", said{limit_batches = {}}, 1, true)
    assert.matches("unknown option 'vall'; did you mean 'val'?", said{limit_batches = {vall = 1}}, 1, true)
  end)
end)

describe("overfit", function()
  it("trains and evaluates the same samples, unchanged, until they are learned", function()
    local sums = {}
    local o = job{overfit = 6, steps = 400, eval_every = 10,
      train = loader("train", 64, 4, {augment = {rotate = 20, noise = 0.2}, seed = 3})}
    o.loss = function(output, batch)
      local key = batch.image:sum():item()
      sums[key] = (sums[key] or 0) + 1
      return loss_of(output, batch)
    end
    local r = train.fit(o)
    local different = 0
    for _ in pairs(sums) do different = different + 1 end
    assert.equal(2, different) -- batches of 4 and 2, in training as in validation
    assert.same({"overfit", true, 6, 1}, {r.ended, r.overfit.reached, r.val.n, r.val.exact})
    assert.equal(r.steps, r.overfit.step)
    assert.is_true(r.steps < 400)
  end)

  it("says when they are not learned", function()
    local o = job{overfit = 4, steps = 3}
    o.optimizer = optim.SGD(o.model:parameters(), {lr = 0})
    local r = train.fit(o)
    assert.same({"steps", false, 4}, {r.ended, r.overfit.reached, r.overfit.samples})
  end)

  it("refuses what contradicts it", function()
    assert.matches("overfit and limit_batches both choose samples", said{overfit = 4, limit_batches = 1}, 1, true)
    assert.matches("overfit must be a whole number from 1 on or boolean, got 0", said{overfit = 0}, 1, true)
  end)
end)

describe("sanity", function()
  it("reads val before the first step, and changes nothing", function()
    local plain = job{sanity = false}
    local o, seen = counting(job{sanity = 1})
    train.fit(plain)
    local r = train.fit(o)
    assert.equal("val", seen.first)
    assert.equal(4, seen.train)
    assert.equal(6, r.val.n)
    assert.same(values_of(plain.model), values_of(o.model))
  end)

  it("shows an error of the evaluation before any step", function()
    local o = job{sanity = 1}
    local steps = 0
    o.loss = function(output, batch)
      if o.model.training then steps = steps + 1 else error("only in evaluation", 0) end
      return loss_of(output, batch)
    end
    assert.matches("only in evaluation", error_text(train.fit, o))
    assert.equal(0, steps)
  end)

  it("finds a metric that nobody counts before any step", function()
    local o, seen = counting(job{sanity = 1, metric = "exakt"})
    assert.matches("unknown metric 'exakt'; did you mean 'exact'?", error_text(train.fit, o), 1, true)
    assert.equal(0, seen.train)
    assert.matches("train.fit: early_stop: unknown metric 'lss'; did you mean 'loss'?",
      said{sanity = 1, early_stop = {patience = 1, metric = "lss"}}, 1, true)
  end)

  it("leaves short runs alone unless asked", function()
    local o, seen = counting(job())
    train.fit(o)
    assert.equal("train", seen.first)
    assert.matches("sanity = 1: there is no val loader to read", said{sanity = 1, val = false}, 1, true)
    assert.matches("unknown sanity 'atuo'; did you mean 'auto'?", said{sanity = "atuo"}, 1, true)
  end)
end)

describe("dry_run", function()
  it("is one step and one batch of each evaluation", function()
    local o, seen = counting(job{dry_run = true, steps = 500, accumulate = 2, test = loader("test", 9)})
    local r = train.fit(o)
    assert.same({1, 8, 4, 4}, {r.steps, r.images, r.val.n, r.test.n})
    assert.same({2, 1}, {seen.train, seen.val})
  end)
end)

describe("tests", function()
  it("are read after the test, with the same weights", function()
    local further = {other = loader("test", 7), more = loader("test", 5)}
    local r = train.fit(job{steps = 4, test = loader("test", 9), tests = further})
    assert.same({9, 7, 5}, {r.test.n, r.tests.other.n, r.tests.more.n})
    assert.is_nil(train.fit(job{steps = 1, tests = {}}).tests)
  end)

  it("are one batch in a dry run, and none of overfit", function()
    local r = train.fit(job{dry_run = true, steps = 500, tests = {other = loader("test", 9)}})
    assert.equal(4, r.tests.other.n)
    assert.is_nil(train.fit(job{overfit = 4, steps = 1, tests = {other = loader("test", 9)}}).tests)
  end)

  it("have names, and loaders of that role", function()
    assert.matches("tests: a/b is no name of letters, digits, _ and -", said{tests = {["a/b"] = loader("test", 4)}}, 1, true)
    assert.matches("test is a loader with role = \"val\"", said{tests = {other = loader("val", 4)}}, 1, true)
  end)
end)

describe("train.freeze", function()
  it("keeps values and statistics as they are, without gradients", function()
    local model = network()
    local opt = optim.Adam(model:parameters(), {lr = 0.1})
    local frozen = train.freeze(model, {"1", "3.*"})
    assert.same({2 + 32 * 16 + 16, 4}, {frozen.count, frozen.tensors})
    local before = values_of(model)
    for batch in loader("train", 8):epoch(1) do
      local loss = loss_of(model(batch.image), batch)
      loss:backward()
      assert.is_nil(model[4].weight.grad)
      opt:step()
      opt:zero_grad()
    end
    local after = values_of(model)
    for name, values in pairs(before) do
      if name:match("^5") then assert.is_not.same(values, after[name]) else assert.same(values, after[name], name) end
    end
    frozen:unfreeze()
    for batch in loader("train", 4):epoch(1) do opt:backward_step(loss_of(model(batch.image), batch)) end
    assert.is_not.same(before["3.weight"], values_of(model)["3.weight"])
    assert.is_not.same(before["1.running_mean"], values_of(model)["1.running_mean"])
  end)

  it("leaves statistics to be learned when asked", function()
    local model = network()
    train.freeze(model, "1", {batch_norm = false})
    local before = values_of(model)
    for batch in loader("train", 4):epoch(1) do
      loss_of(model(batch.image), batch):backward()
      assert.is_nil(model[2].weight.grad)
    end
    assert.is_not.same(before["1.running_mean"], values_of(model)["1.running_mean"])
  end)

  it("names what nothing has, and what would be too much", function()
    local model = network()
    assert.matches("unknown parameter '3.wieght'; did you mean '3.weight'?",
      error_text(train.freeze, model, "3.wieght"), 1, true)
    assert.matches("all parameters would be frozen", error_text(train.freeze, model, "*"), 1, true)
  end)
end)

describe("freeze of train.fit", function()
  -- The first step whose update changed a parameter.
  local function first_change(o, name)
    local start, at = values_of(o.model)[name], nil
    local before = o.loss
    o.loss = function(output, batch)
      if o.model.training and not at then
        local now = values_of(o.model)[name]
        for i, x in ipairs(now) do
          if x ~= start[i] then at = o.optimizer.steps end
        end
      end
      return before(output, batch)
    end
    train.fit(o)
    return at
  end

  it("thaws after so many steps or epochs", function()
    assert.equal(4, first_change(job{freeze = {names = "3", steps = 3}, steps = 8, capture = false}, "3.bias"))
    assert.equal(5, first_change(job{freeze = {names = {"3"}, epochs = 1}, steps = 8, capture = false}, "3.bias"))
    assert.equal(1, first_change(job{freeze = "3", steps = 8, capture = false}, "5.bias"))
  end)

  it("thaws in captured steps as in plain ones", function()
    for _, clip_norm in ipairs{0, 0.1} do -- with a limit the device alone knows how many steps were made
      local after = {}
      for i, capture in ipairs{false, true} do
        local o = job{freeze = {names = "3", steps = 5}, steps = 10, capture = capture, clip_norm = clip_norm}
        local before = values_of(o.model)["3.bias"]
        train.fit(o)
        after[i] = values_of(o.model)["3.bias"]
        assert.is_false(close(before, after[i], 1e-4))
      end
      assert.is_true(close(after[1], after[2], 1e-6))
    end
  end)

  it("leaves the model trainable", function()
    local o = job{freeze = "3", capture = false}
    assert.is_nil(first_change(o, "3.bias"))
    assert.is_true(o.model[4].weight.requires_grad)
  end)

  it("refuses what it cannot read", function()
    assert.matches("steps and epochs are both given; give one", said{freeze = {names = "3", steps = 1, epochs = 1}}, 1,
      true)
    assert.matches("unknown parameter 'feature'", said{freeze = "feature"}, 1, true)
    assert.matches("says which parameters", said{freeze = true}, 1, true)
    assert.matches("names is missing", said{freeze = {{steps = 2}}}, 1, true)
    assert.matches("the list of names is empty", said{freeze = {names = {}}}, 1, true)
  end)
end)

describe("the gap between val and training", function()
  it("is part of the result", function()
    local o = job{steps = 8, log_every = 1, eval_every = 8, sanity = false}
    local losses, val = {}, {}
    o.loss = function(output, batch)
      local loss = loss_of(output, batch)
      table.insert(o.model.training and losses or val, loss:item() * (o.model.training and 1 or batch.count / 6))
      return loss
    end
    local r = train.fit(o)
    assert.is_true(close((val[1] + val[2]) / losses[8], r.val_to_train_loss, 1e-4))
  end)
end)
