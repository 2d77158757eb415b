-- The averages, the stopper and the best tracker of training: by themselves, in custom training loops, and as keys of
-- train.fit.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text, close = support.error_text, support.close
local CHARSET, loader, loss_of, values_of = training.CHARSET, training.loader, training.loss_of, training.values_of

local function network()
  capl.manual_seed(1)
  return nn.Sequential{nn.AvgPool2d(10), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(8, 2 * #CHARSET)}
end

local function job(changes)
  local model = network()
  return training.with({model = model, train = loader("train", 16), loss = loss_of, precision = "fp32",
    val = loader("val", 6), optimizer = optim.SGD(model:parameters(), {lr = 0.5}), steps = 6}, changes)
end

-- One step of an explicit loop.
local function one_step(model, opt, batch) opt:backward_step(loss_of(model(batch.image), batch)) end

describe("train.EMA", function()
  it("averages parameters and running statistics as the formula says", function()
    for _, case in ipairs{
      {{decay = 0.9, warmup = false}, function() return 0.9 end},
      {{decay = 0.5}, function(n) return math.min(0.5, (1 + n) / (10 + n)) end},
      {{decay = 0.9, warmup = 20}, function(n) return 0.9 * (1 - math.exp(-n / 20)) end},
    } do
      local model = network()
      local opt, ema, wanted = optim.SGD(model:parameters(), {lr = 0.5}), train.EMA(model, case[1]), values_of(model)
      local n = 0
      for batch in loader("train", 16):epoch(1) do
        one_step(model, opt, batch)
        n = n + 1
        assert.is_true(ema:update())
        local now, d = values_of(model), case[2](n)
        for _, name in ipairs{"1.running_mean", "1.running_var", "3.bias"} do
          for i, x in ipairs(now[name]) do wanted[name][i] = d * wanted[name][i] + (1 - d) * x end
        end
      end
      local averages = ema:applied(function() return values_of(model) end)
      for _, name in ipairs{"1.running_mean", "1.running_var", "3.bias"} do
        assert.is_true(close(wanted[name], averages[name], 1e-6), name)
      end
      assert.equal(n, averages["1.num_batches_tracked"])
    end
  end)

  it("gives the model back to the bit, also after an error", function()
    local model = network()
    local opt, ema = optim.SGD(model:parameters(), {lr = 0.5}), train.EMA(model)
    for batch in loader("train", 8):epoch(1) do
      one_step(model, opt, batch)
      ema:update()
    end
    local before = values_of(model)
    ema:applied(function() assert.is_not.same(before["3.bias"], values_of(model)["3.bias"]) end)
    assert.same(before, values_of(model))
    assert.matches("no", error_text(ema.applied, ema, function() error("no", 0) end))
    assert.same(before, values_of(model))
    ema:apply()
    assert.matches("apply() twice", error_text(ema.apply, ema), 1, true)
    assert.matches("update() while the averages are in the model", error_text(ema.update, ema), 1, true)
    ema:restore()
  end)

  it("updates every so many steps", function()
    local ema = train.EMA(network(), {every = 3})
    local moved = {}
    for i = 1, 7 do moved[i] = ema:update() end
    assert.same({false, false, true, false, false, true, false}, moved)
    assert.equal(2, ema.updates)
  end)

  it("keeps averages of 16-bit weights in 32 bits", function()
    local model = nn.Sequential{nn.Linear(2, 2)}:to("bf16")
    local ema = train.EMA(model, {decay = 0.5, warmup = false})
    capl.no_grad(function() model[1].bias:fill_(1) end)
    local before = ema:state().averages["0.bias"]:tolist()
    ema:update()
    assert.equal("f32", ema:state().averages["0.bias"].dtype)
    for i, x in ipairs(ema:state().averages["0.bias"]:tolist()) do
      assert.is_true(close((before[i] + 1) / 2, x, 1e-6))
    end
  end)

  it("goes on from a state to the bit, through a file", function()
    local model = network()
    local opt, ema = optim.SGD(model:parameters(), {lr = 0.5}), train.EMA(model, {every = 2})
    for batch in loader("train", 20):epoch(1) do
      one_step(model, opt, batch)
      ema:update()
    end
    local again = train.EMA(model, {every = 2})
    again:set_state(ema:state())
    for i = 1, 3 do assert.equal(ema:update(), again:update(), i) end
    assert.same(ema:applied(function() return values_of(model) end),
      again:applied(function() return values_of(model) end))
    assert.matches("the state has no average of", error_text(again.set_state, again, {averages = {}}), 1, true)
  end)

  it("refuses numbers that make no average", function()
    local function said(opts) return error_text(function() local e = train.EMA(network(), opts) return e end) end
    assert.matches("decay is a number from 0 to below 1, got 1", said{decay = 1}, 1, true)
    assert.matches("warmup must be a boolean or number from 0 on, got -1", said{warmup = -1}, 1, true)
    assert.matches("every must be a whole number from 1 on, got 0", said{every = 0}, 1, true)
    assert.matches("unknown option 'deacy'; did you mean 'decay'?", said{deacy = 1}, 1, true)
  end)
end)

describe("ema of train.fit", function()
  it("evaluates, keeps and hands out the averages, and trains what an unaveraged run trains", function()
    for _, keep in ipairs{"best", "last"} do
      local plain, averaged = job{keep = "last"}, job{keep = keep, ema = {decay = 0.5, warmup = false}, eval_every = 1}
      local seen, fed = {}, {}
      averaged.loss = function(output, batch)
        if not averaged.model.training and averaged.optimizer.steps == 6 then
          seen.evaluated = values_of(averaged.model)
        end
        if averaged.model.training then fed[#fed + 1] = values_of(averaged.model)["3.bias"] end
        return loss_of(output, batch)
      end
      local unaveraged = {}
      plain.loss = function(output, batch)
        if plain.model.training then unaveraged[#unaveraged + 1] = values_of(plain.model)["3.bias"] end
        return loss_of(output, batch)
      end
      local r = train.fit(averaged)
      train.fit(plain)
      assert.equal(6, r.steps)
      assert.same(unaveraged, fed)
      local now = values_of(averaged.model)
      if keep == "last" then assert.same(seen.evaluated, now) end
      assert.is_not.same(values_of(plain.model)["3.bias"], now["3.bias"])
      local metrics = train.evaluate(averaged.model, averaged.val, {precision = "fp32"}):result()
      assert.equal(keep == "best" and r.best.exact or r.val.exact, metrics.exact)
    end
  end)
end)

describe("ema_compare of train.fit", function()
  it("evaluates the weights as they are trained beside the averages, and decides nothing by them", function()
    local plain = job{keep = "last", eval_every = 2, metric = "loss"}
    local both = job{ema = 0.9, ema_compare = true, eval_every = 2, metric = "loss"}
    local alone = job{ema = 0.9, eval_every = 2, metric = "loss"}
    local a, b, c = train.fit(plain), train.fit(both), train.fit(alone)
    assert.equal(a.best_step, b.plain.best_step)
    assert.equal(a.val.exact, b.plain.val.exact)
    assert.same({c.best_step, c.val.exact}, {b.best_step, b.val.exact})
    assert.same(values_of(alone.model), values_of(both.model))
  end)

  it("wants averages to compare with", function()
    assert.matches("ema_compare = true, but there is no ema", error_text(train.fit, job{ema_compare = true}), 1, true)
  end)
end)

describe("train.EarlyStopping", function()
  it("takes a second value between equal ones", function()
    local stopper = train.EarlyStopping{patience = 2}
    for i = 1, 6 do assert.is_false(stopper:update(0, i, i / 10)) end -- no text right, more characters
    assert.is_false(stopper:update(0, 7, 0.6))
    local state = stopper:state()
    assert.is_true(stopper:update(0, 8, 0.5))
    local again = train.EarlyStopping{patience = 2}
    again:set_state(state)
    assert.is_true(again:update(0, 8, 0.6))
    local min = train.EarlyStopping{patience = 2, better = "min"}
    min:update(3, 1, 0.1)
    assert.is_false(min:update(4, 2, 0.9)) -- a worse one is worse, whatever the second says
    assert.is_true(min:update(4, 3, 0.95))
  end)

  -- The number of the value that ends the series; nil when none does.
  local function ends(opts, values, epochs)
    local stopper = train.EarlyStopping(opts)
    for i, value in ipairs(values) do
      if stopper:update(value, epochs and epochs[i] or i) then return i, stopper.reason end
    end
  end

  it("ends a series after so many values that are no better", function()
    assert.equal(5, (ends({patience = 2}, {1, 2, 3, 3, 2, 4})))
    assert.is_nil(ends({patience = 2}, {1, 2, 1, 3, 1, 4}))
    assert.equal(4, (ends({patience = 2, better = "min"}, {3, 2, 2, 2})))
    assert.equal(1, (ends({patience = 1}, {0 / 0})))
  end)

  it("counts small gains as none", function()
    assert.equal(4, (ends({patience = 2, min_delta = 0.1}, {1, 1.2, 1.25, 1.3})))
    assert.is_nil(ends({patience = 2, min_delta = 0.1}, {1, 1.2, 1.25, 1.35}))
  end)

  it("waits for min_epochs, and counts epochs when asked to", function()
    assert.equal(6, (ends({patience = 2, min_epochs = 6}, {1, 1, 1, 1, 1, 1, 1})))
    assert.equal(5, (ends({patience = 2, unit = "epochs"}, {1, 1, 1, 1, 1, 1}, {1, 1, 2, 2, 3, 3})))
  end)

  it("ends at a target, with a reason", function()
    local at, why = ends({target = 0.9}, {0.5, 0.91})
    assert.same({2, "target 0.9 is reached: 0.91"}, {at, why})
    assert.equal(2, (ends({target = 0.1, better = "min"}, {0.5, 0.05})))
  end)

  it("goes on from a state", function()
    local a = train.EarlyStopping{patience = 3}
    for _, value in ipairs{1, 2, 1} do a:update(value) end
    local b = train.EarlyStopping{patience = 3}
    b:set_state(a:state())
    for _, value in ipairs{1, 1} do assert.equal(a:update(value), b:update(value)) end
    assert.same(a:state(), b:state())
    assert.equal(a.reason, b.reason)
  end)

  it("keeps one count for each series", function()
    local raw, averaged = train.EarlyStopping{patience = 2}, train.EarlyStopping{patience = 2}
    raw:update(2)
    averaged:update(1)
    for _ = 1, 2 do averaged:update(0) end
    assert.is_false(raw:update(1))
  end)

  it("refuses what would never end anything", function()
    local function said(opts) return error_text(function() local s = train.EarlyStopping(opts) return s end) end
    assert.matches("unknown option 'settle'; here it is cooldown", said{settle = 2}, 1, true)
    assert.matches("a stop condition is missing", said{}, 1, true)
    assert.matches("patience must be a whole number from 1 on, got 0", said{patience = 0}, 1, true)
    assert.matches("unknown unit 'epoch'; did you mean 'epochs'?", said{patience = 1, unit = "epoch"}, 1, true)
    assert.matches("unknown better 'mi'; did you mean 'min'?", said{patience = 1, better = "mi"}, 1, true)
  end)
end)

describe("early_stop of train.fit", function()
  it("ends the run and says so in its result", function()
    local o = job{steps = 60, eval_every = 2, early_stop = {patience = 2, metric = "loss"}}
    o.optimizer = optim.SGD(o.model:parameters(), {lr = 0})
    o.model[2].momentum = 0 -- of its running statistics: nothing changes
    local r = train.fit(o)
    assert.same({"early_stop", 6}, {r.ended, r.steps})
  end)

  it("is no reason where all steps are done", function()
    local o = job{steps = 4, eval_every = 2, early_stop = {patience = 1, metric = "loss"}}
    o.optimizer, o.model[2].momentum = optim.SGD(o.model:parameters(), {lr = 0}), 0
    assert.equal("steps", train.fit(o).ended)
  end)

  it("wants a metric it can watch", function()
    local function said(changes) return error_text(function() local r = train.fit(job(changes)) return r end) end
    assert.matches("unknown metric 'exat'; did you mean 'exact'?", said{early_stop = {patience = 1, metric = "exat"}},
      1, true)
    assert.matches("metric = \"low\": it is unknown whether more is better", said{metric = "low"}, 1, true)
    assert.matches("unknown option 'patient'; did you mean 'patience'?", said{early_stop = {patient = 1}}, 1, true)
    local o = job{early_stop = 3}
    o.val = false
    assert.matches("there is no val loader to watch", error_text(function() local r = train.fit(o) return r end), 1,
      true)
  end)
end)

describe("cooldown of train.fit", function()
  local function still(changes) -- a run in which nothing gets better
    local o = job(changes)
    o.optimizer, o.model[2].momentum = optim.SGD(o.model:parameters(), {lr = 0}), 0
    return o
  end

  it("starts the final decay when val gets no better", function()
    local r = train.fit(still{steps = 60, eval_every = 2, cooldown = {patience = 2, share = 0.5, metric = "loss"}})
    -- the third evaluation, after step 6, is the second without a better one
    assert.same({"steps", 12}, {r.ended, r.steps})
  end)

  it("lets the rate fall to its end", function()
    local o = still{steps = 1000, eval_every = 1, cooldown = {patience = 2, metric = "loss"}}
    local seen = {}
    local falling = optim.schedule.warmup_stable_decay{lr = 1e-9, warmup = 1, total = "run"}
    o.optimizer = optim.SGD(o.model:parameters(), {lr = falling})
    o.loss = function(output, batch)
      seen[#seen + 1] = o.optimizer.lr
      return training.loss_of(output, batch)
    end
    local r = train.fit(o)
    assert.is_true(r.steps < 1000)
    assert.near(1e-9, seen[2], 1e-15)
    assert.is_true(o.optimizer.lr < 0.4e-9)
  end)

  it("leaves a run alone that is in its final decay already", function()
    assert.equal(8, train.fit(still{steps = 8, eval_every = 2,
      cooldown = {patience = 2, share = 0.5, metric = "loss"}}).steps)
  end)

  it("refuses what it cannot do", function()
    local function said(changes) return error_text(function() local r = train.fit(job(changes)) return r end) end
    assert.matches("share is a fraction of the run, above 0 and below 1, got 1",
      said{cooldown = {patience = 1, share = 1}}, 1, true)
    assert.matches("unknown option 'settle'; here it is cooldown", said{settle = 2}, 1, true)
    assert.matches("a stop condition is missing", said{cooldown = {share = 0.5}}, 1, true)
  end)

  it("takes its state from a checkpoint that calls it settle", function()
    local new, got = getfenv(capl.manual_seed).require("train.callbacks.init").new, nil
    local class
    for i = 1, 9 do
      local name, value = debug.getupvalue(new, i)
      class = name == "Callbacks" and value or class
    end
    local cooldown = {set_state = function(_, state) got = state end}
    setmetatable({by_name = {cooldown = cooldown}}, class):set_state{settle = {last = 7}}
    assert.same({last = 7}, got)
  end)
end)

describe("train.BestTracker", function()
  it("holds the arg-max of any history, the last of equal ones", function()
    local random = 12345
    local function draw(n)
      random = (random * 16807) % 2147483647
      return random % n
    end
    for _ = 1, 200 do
      local better, keep, history = draw(2) == 0 and "max" or "min", 1 + draw(4), {}
      local tracker, files = train.BestTracker{better = better, keep = keep}, {}
      for step = 1, 1 + draw(12) do
        local value = draw(10) == 0 and 0 / 0 or draw(6)
        if value == value then history[#history + 1] = {value = value, step = step} end
        local place, dropped = tracker:update(value, step)
        if place then files[step] = value end
        if dropped then files[dropped.step] = nil end
      end
      table.sort(history, function(a, b)
        if a.value ~= b.value then return (a.value > b.value) == (better == "max") end
        return a.step > b.step
      end)
      local count = 0
      for i = 1, math.min(keep, #history) do
        count = count + 1
        assert.same(history[i], tracker.list[i])
        assert.equal(history[i].value, files[history[i].step])
      end
      for _ in pairs(files) do count = count - 1 end
      assert.equal(0, count)
    end
  end)

  it("goes on from a state", function()
    local a = train.BestTracker{keep = 2}
    for step, value in ipairs{3, 1, 2} do a:update(value, step) end
    local b = train.BestTracker{keep = 2}
    b:set_state(a:state())
    assert.same({2, 3}, {b:update(2.5, 4), 3})
    assert.same({3, 1}, {b:best()})
    assert.equal(2, #a.list)
    assert.equal(2, a.list[2].value)
  end)
end)

describe("the weights that are kept", function()
  it("score what was recorded, whichever metric decides", function()
    for _, wanted in ipairs{"exact", "loss"} do
      local o = job{steps = 12, eval_every = 1, metric = wanted, val = loader("val", 40)}
      o.optimizer = optim.SGD(o.model:parameters(), {lr = 3})
      local losses, sum, count = {}, 0, 0
      o.loss = function(output, batch)
        local loss = loss_of(output, batch)
        if not o.model.training then
          sum, count = sum + loss:item() * batch.count, count + batch.count
          if count == 40 then losses[#losses + 1], sum, count = sum / 40, 0, 0 end
        end
        return loss
      end
      local r = train.fit(o)
      local meter = train.evaluate(o.model, o.val, {precision = "fp32", loss = loss_of})
      assert.equal(r.best.exact, meter:result().exact)
      if wanted == "loss" then
        local least = math.huge
        for _, loss in ipairs(losses) do least = math.min(least, loss) end
        assert.is_true(close(least, meter.loss, 1e-6))
      end
    end
  end)
end)
