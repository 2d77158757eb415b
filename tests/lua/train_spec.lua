-- train.fit and train.evaluate: what they take, count, keep and refuse; rates over a run that ends by steps or by time.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text, close, loss_of = support.error_text, support.close, training.loss_of

local CHARSET = "0O1"

local function loader(role, count, batch, options)
  return training.loader(role, count, batch, options, {fixed = role ~= "train", charset = CHARSET})
end

local function small_model()
  capl.manual_seed(1)
  return nn.Sequential{nn.AvgPool2d(10), nn.Flatten(), nn.Linear(8, 2 * #CHARSET)}
end

-- What train.fit takes, with changes; false removes.
local function job(changes)
  local model = small_model()
  local o = {model = model, train = loader("train", 16), val = false, loss = loss_of, precision = "fp32",
    optimizer = optim.SGD(model:parameters(), {lr = 0.01})}
  for key, value in pairs(changes or {}) do o[key] = value or nil end
  if changes then
    for key, value in pairs(changes) do
      if value == false then o[key] = nil end
    end
  end
  return o
end

local function fit_error(changes)
  return error_text(function() local r = train.fit(job(changes)) return r end)
end

-- A loader that gives what it is told.
local function fake_loader(texts, claims, replaces)
  local substituted = 0
  return {
    charset = CHARSET, length = 2, role = "test", samples = function() return claims end,
    stats = function() return {substituted = substituted} end,
    epoch = function()
      substituted = substituted + (replaces or 0)
      local given = false
      return function()
        if given then return nil end
        given = true
        return {image = capl.zeros(#texts, 1, 20, 40), target = capl.tensor(texts, {dtype = "i32"})}
      end
    end,
  }
end

describe("schedules over a run", function()
  local warm = optim.schedule.warmup_cosine{lr = 1, warmup = 10, total = "run"}

  it("are those of as many steps when the run ends by steps", function()
    local known = optim.schedule.warmup_cosine{lr = 1, warmup = 10, total = 100}
    for step = 0, 100, 7 do assert.is_true(close(known:lr(step), warm:lr(step, step / 100), 1e-12)) end
    local cosine = optim.schedule.cosine{lr = 1, T_max = "run"}
    assert.is_true(close({1, 0.5, 0}, {cosine:lr(0, 0), cosine:lr(3, 0.5), cosine:lr(9, 1)}, 1e-12))
    local cycle = optim.schedule.one_cycle{max_lr = 1, total_steps = 11}
    local run = optim.schedule.one_cycle{max_lr = 1, total_steps = "run"}
    for step = 0, 11 do assert.is_true(close(cycle:lr(step), run:lr(step, step / 11), 1e-9)) end
    local after = optim.schedule.warmup(optim.schedule.cosine{lr = 1, T_max = "run"}, {steps = 20})
    assert.is_true(close({0.1, 1, 0.5, 0}, {after:lr(0, 0), after:lr(20, 0.2), after:lr(60, 0.6), after:lr(100, 1)},
      1e-9))
  end)

  it("never rise again after warm-up, whatever the clock says", function()
    local last = math.huge
    for step, position in ipairs{0.3, 0.31, 0.6, 0.6, 0.61, 0.9, 0.9, 1} do
      local lr = warm:lr(step + 20, position)
      assert.is_true(lr <= last)
      last = lr
    end
    assert.is_true(close(0, last))
  end)

  it("warm up within a quarter of the run", function()
    assert.is_true(warm:lr(3, 0.25) > 0.99)
    assert.is_true(close(0.4, warm:lr(1, 0.1))) -- a slow first step
    assert.is_true(close(1, warm:lr(9, 0.001)))
    assert.is_true(close(0.1, warm:lr(0, 0)))
  end)

  it("drive an optimizer in a custom training loop", function()
    local p = capl.tensor({1}, {requires_grad = true})
    local opt = optim.SGD({p}, {lr = optim.schedule.cosine{lr = 1, T_max = "run"}})
    local rates = {}
    for i = 0, 4 do
      opt:set_position(i / 4)
      rates[#rates + 1] = opt.lr
      opt:backward_step(p:sum())
    end
    assert.is_true(close({1, 0.8535534, 0.5, 0.1464466, 0}, rates, 1e-6))
    assert.is_true(close(1 - 2.5, p:item(), 1e-5))
    assert.matches("a share from 0 to 1 expected, got 2", error_text(opt.set_position, opt, 2), 1, true)
  end)

  it("say when nobody knows how long the run is", function()
    local p = capl.tensor({1}, {requires_grad = true})
    local opt = optim.SGD({p}, {lr = optim.schedule.cosine{lr = 1, T_max = "run"}})
    assert.equal('LINE: schedule.cosine: a length of "run" is known inside train.fit only\n' ..
      "  hint: in a custom training loop, call opt:set_position(fraction) before each step",
      error_text(function() opt:backward_step(p:sum()) end))
    assert.equal("LINE: schedule.cosine: T_max is a number of steps or \"run\", got 'rnu'",
      error_text(function() return (optim.schedule.cosine{lr = 1, T_max = "rnu"}) end))
  end)
end)

describe("train.fit", function()
  it("makes as many steps as it is asked for, over several epochs", function()
    for _, case in ipairs{{{steps = 6}, 6}, {{epochs = 2}, 8}, {{samples = 22}, 5}} do
      local seen = 0
      local o = job(case[1])
      o.loss = function(output, batch)
        seen = seen + 1
        return loss_of(output, batch)
      end
      local r = train.fit(o)
      assert.same({case[2], case[2], 4 * case[2], "steps"}, {seen, r.steps, r.images, r.ended})
    end
  end)

  it("lets the rate fall to 0 over exactly the run", function()
    local o = job{steps = 4}
    o.optimizer = optim.SGD(o.model:parameters(), {lr = optim.schedule.cosine{lr = 1, T_max = "run"}})
    local rates = {}
    o.loss = function(output, batch)
      rates[#rates + 1] = o.optimizer.lr
      return loss_of(output, batch)
    end
    train.fit(o)
    assert.is_true(close({1, 0.8535534, 0.5, 0.1464466}, rates, 1e-6))
    assert.equal(0, o.optimizer.lr)
  end)

  it("ends by the clock, with the rate at 0 and the last evaluation inside", function()
    local o = job{max_time = "0.5s", val = loader("val", 8), train = loader("train")}
    o.optimizer = optim.SGD(o.model:parameters(), {lr = optim.schedule.cosine{lr = 0.01, T_max = "run"}})
    local began = capl.clock()
    local r = train.fit(o)
    local took = capl.clock() - began
    assert.equal("max_time", r.ended)
    assert.is_true(took > 0.4 and took < 2, tostring(took))
    assert.is_true(r.steps > 10)
    assert.equal(0, o.optimizer.lr)
    assert.equal(8, r.val.n)
  end)

  it("ends by steps when they come before the time is over", function()
    assert.equal("steps", train.fit(job{steps = 2, max_time = "1h30m"}).ended)
    assert.equal("steps", train.fit(job{steps = 2, max_time = 60}).ended)
    assert.equal("steps", train.fit(job{steps = 2, max_time = "none"}).ended)
  end)

  it("gives the same run for the same seed", function()
    local weights = {}
    for i = 1, 2 do
      local o = job{steps = 5, val = loader("val", 6)}
      o.train = loader("train", 16, 4, {workers = i - 1, seed = 3})
      train.fit(o)
      weights[i] = o.model:state_dict()["2.weight"]:tolist()
    end
    assert.same(weights[1], weights[2])
  end)

  it("evaluates about twelve times, or every so many steps, and at the end", function()
    local function evaluations(every, steps)
      local o = job{steps = steps, eval_every = every, val = loader("val", 4)}
      local count = 0
      o.loss = function(output, batch)
        if not o.model.training then count = count + 1 end
        return loss_of(output, batch)
      end
      train.fit(o)
      return count
    end
    assert.equal(12, evaluations("auto", 48))
    assert.equal(4, evaluations(3, 10))
    assert.equal(2, evaluations("auto", 2))
  end)

  it("keeps the weights that were best on val, or the last ones", function()
    -- The rate is so high that all evaluations differ; what counts is which weights the model has in the end.
    for _, keep in ipairs{"best", "last"} do
      local o = job{steps = 12, keep = keep, val = loader("val", 40), eval_every = 1}
      o.optimizer = optim.SGD(o.model:parameters(), {lr = 3})
      local r = train.fit(o)
      local now = train.evaluate(o.model, o.val, {precision = "fp32"}):result()
      if keep == "last" then
        assert.equal(r.val.exact, now.exact)
      else
        assert.equal(r.best.exact, now.exact)
        assert.is_true(r.best.exact > r.val.exact and r.best_step < 12)
      end
    end
  end)

  it("tests on the test loader and hands out the metrics", function()
    local r = train.fit(job{steps = 2, test = loader("test", 10, 3)})
    assert.equal(10, r.test.n)
    assert.equal(2, #r.test.positions)
    assert.same({"0O"}, r.test.merged.sets)
    assert.is_nil(r.val)
  end)

  it("stops at a loss that is no number, and says what to try", function()
    local text = fit_error{steps = 3, loss = function(output, batch) return loss_of(output, batch) * math.huge end}
    assert.matches("train.fit: the loss of step 1 is inf\n  first not finite: op affine in the forward pass", text, 1,
      true)
    assert.matches("hint: try a lower lr", text, 1, true)
  end)

  it("refuses what it does not know, and names what is missing", function()
    assert.equal("LINE: train.fit: unknown option 'optimiser'; did you mean 'optimizer'?", fit_error{optimiser = 1})
    assert.equal("LINE: train.fit: unknown option 'max_tine'; did you mean 'max_time'?", fit_error{max_tine = "5m"})
    for key, home in pairs{patience = "it belongs to early_stop = {patience = …} of train.fit",
      batch = "it belongs to data.loader{batch = …}", betas = "it belongs to the optimizer",
      lr = "it belongs to the optimizer",
      max_epochs = "here it is epochs", device = "capl RECIPE --device"} do
      assert.matches(("LINE: train.fit: unknown option '%s'; "):format(key), fit_error{[key] = 1}, 1, true)
      assert.matches(home, fit_error{[key] = 1}, 1, true)
    end
    assert.matches("train.fit: early_stop: unknown option 'ema'; it belongs to train.fit{ema = …}",
      fit_error{steps = 1, val = loader("val", 4), early_stop = {ema = 1}}, 1, true)
    assert.matches("train.fit: freeze: unknown option 'name'; did you mean 'names'?",
      fit_error{steps = 1, freeze = {name = "0"}}, 1, true)
    assert.matches("capl.progress: unknown option 'step'; did you mean 'steps'?", error_text(capl.progress, {step = 1}),
      1, true)
    assert.equal("LINE: train.fit: train is missing", fit_error{train = false})
    assert.equal("LINE: train.fit: steps must be a whole number, got 1.5", fit_error{steps = 1.5})
    assert.equal("LINE: train.fit: loss must be a function, got string", fit_error{loss = "ce"})
    assert.matches("train.fit: the length of the run is missing\n  hint: give steps, samples, epochs or max_time",
      fit_error(), 1, true)
    assert.matches("steps and epochs are both given; give one", fit_error{steps = 1, epochs = 1}, 1, true)
    assert.matches("samples = 3 make no batch of 4", fit_error{samples = 3}, 1, true)
    assert.matches("max_time is a time such as 5m, 90s or 1h30m, a number of seconds, or none; got '5 min'",
      fit_error{max_time = "5 min"}, 1, true)
    assert.matches("max_time is above 0, got 0s", fit_error{max_time = "0s"}, 1, true)
    assert.matches("unknown keep 'bset'; did you mean 'best'?", fit_error{steps = 1, keep = "bset"}, 1, true)
    assert.matches('eval_every must be "auto" or a number of steps from 1 on, got 0',
      fit_error{steps = 1, eval_every = 0}, 1, true)
    assert.matches('val is a loader with role = "train"', fit_error{steps = 1, val = loader("train", 4)}, 1, true)
    assert.matches('val is a loader with role = "test": what is chosen on the test images cannot be tested any more',
      fit_error{steps = 1, val = loader("test", 4)}, 1, true)
    assert.matches('test is a loader with role = "val": the weights are chosen on the val images, so they test nothing',
      fit_error{steps = 1, test = loader("val", 4)}, 1, true)
    assert.matches("optimizer is no optimizer", fit_error{steps = 1, optimizer = {}}, 1, true)
    assert.matches("train is no loader", fit_error{steps = 1, train = {}}, 1, true)
    assert.matches("takes one table", error_text(function() local r = train.fit(3) return r end), 1, true)
  end)

  it("leaves no tensors behind", function()
    support.no_leak(function() train.fit(job{steps = 3, val = loader("val", 4), test = loader("test", 4)}) end)
  end)
end)

describe("train.evaluate", function()
  it("counts every sample, and puts the model's modes back", function()
    local model = small_model()
    model[1]:eval()
    local meter = train.evaluate(model, loader("val", 7, 3), {precision = "fp32", loss = loss_of})
    assert.equal(7, meter.n)
    assert.is_true(model.training and not model[1].training)
    assert.is_true(meter.loss > 0)
    local r = meter:result()
    assert.is_true(r.confidence > 0 and r.confidence < 1)
    local samples = meter:samples()
    assert.equal(7, #samples.wrong + #samples.right)
    for _, e in ipairs(samples.wrong) do assert.is_true(e.truth ~= e.read and e.id < 7) end
  end)

  it("refuses a metric about another number of samples", function()
    local model = small_model()
    local function evaluate(claims)
      return error_text(function()
        local m = train.evaluate(model, fake_loader({{0, 1}, {1, 2}, {2, 0}}, claims), {precision = "fp32"})
        return m
      end)
    end
    assert.equal("LINE: train.evaluate: the test loader gave 3 of its 4 samples\n  hint: drop_last = true leaves the last ones out",
      evaluate(4))
    assert.matches("the loader has no end\n  hint: give its source a count", evaluate(2 ^ 32), 1, true)
    assert.equal(3, train.evaluate(model, fake_loader({{0, 1}, {1, 2}, {2, 0}}, 3), {precision = "fp32"}).n)
  end)

  it("reports how many unreadable samples were replaced by others", function()
    local lossy = fake_loader({{0, 1}, {1, 2}, {2, 0}}, 3, 2)
    for _ = 1, 2 do assert.equal(2, train.evaluate(small_model(), lossy, {precision = "fp32"}).replaced) end
  end)

  it("says what output it wants", function()
    capl.manual_seed(1)
    local model = nn.Sequential{nn.AvgPool2d(10), nn.Flatten(), nn.Linear(8, 5)}
    assert.matches("the model's output is (3,5); it should hold 2 places x 3 characters for each image",
      error_text(function() local m = train.evaluate(model, loader("val", 3), {precision = "fp32"}) return m end), 1,
      true)
  end)
end)
