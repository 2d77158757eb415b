-- A loss or gradient that is not finite: told with layer, op, pass, samples and step, and the weights stay as they
-- were. The first loss of a run beside what it should be.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text = support.error_text

local NAN, INF = 0 / 0, math.huge

-- A loop of four steps; step k gets what spoil(k, batch, model) leaves. -> error, weights as text before and after
local function loop(o)
  capl.manual_seed(4)
  local model = nn.Sequential{nn.Linear(3, 4), nn.Sequential{nn.ReLU(), nn.Linear(4, 2)}}
  local opt = o.optimizer and o.optimizer(model) or optim.SGD(model:parameters(), {lr = o.lr or 0.1})
  local loss = o.loss or function(y, batch) return nn.cross_entropy(y, batch.target) end
  local watch = train.Anomaly{model = model, optimizer = opt, loss = loss, detect_anomaly = o.detect_anomaly,
    train = {source = {name = function(_, id) return ("f%d.png"):format(id) end}}}
  local before
  local text = error_text(function()
    for step = 1, o.steps or 4 do
      local batch = {image = capl.randn(4, 3), target = capl.tensor({0, 1, 1, 0}, {dtype = "i32"}), ids = {7, 8, 9, 5},
        count = 4}
      if o.spoil then o.spoil(step, batch, model) end
      before = model[1].weight:tolist()
      watch:before_step(batch, step)
      local value = loss(model(batch.image), batch)
      opt:backward_step(value)
      watch:after_step(value)
    end
  end)
  watch:close()
  return text, before, model[1].weight:tolist()
end

describe("a step that is not finite", function()
  it("names the samples whose input is not", function()
    local text, before, after = loop{spoil = function(step, batch)
      if step == 3 then batch.image:narrow(1, 2, 1):fill_(NAN) end
    end}
    assert.matches("the loss of step 3 is nan", text, 1, true)
    assert.matches("batch.image is not finite in 1 of 4 samples: 8 (f8.png)", text, 1, true)
    assert.matches("first not finite: op linear of layer 0 in the forward pass", text, 1, true)
    assert.matches("samples: 1 of 4: 8 (f8.png)", text, 1, true)
    assert.same(before, after) -- the weights are those of step 2
  end)

  it("is followed through copies: channels-last images that become rows", function()
    local model = nn.Sequential{nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)}
    local opt = optim.SGD(model:parameters(), {lr = 0.1})
    local function loss(y, batch) return nn.cross_entropy(y, batch.target) end
    local watch = train.Anomaly{model = model, optimizer = opt, loss = loss}
    local batch = {image = capl.randn(4, 1, 5, 5), target = capl.tensor({0, 1, 1, 0}, {dtype = "i32"}), count = 4}
    batch.image:narrow(1, 4, 1):fill_(NAN)
    watch:before_step(batch)
    local text = error_text(function() opt:backward_step(loss(model(batch.image), batch)) end)
    watch:close()
    assert.matches("first not finite: op conv2d of layer 0 in the forward pass", text, 1, true)
    assert.matches("samples: 1 of 4: place 4", text, 1, true)
  end)

  it("names weights that are not", function()
    local text = loop{spoil = function(step, _, model)
      if step == 2 then capl.no_grad(function() model[2][2].bias:fill_(INF) end) end
    end}
    assert.matches("the loss of step 2 is nan", text, 1, true)
    assert.matches("1.1.bias was not finite before this step", text, 1, true)
    assert.matches("op linear of layer 1.1 in the forward pass", text, 1, true)
    assert.matches("samples: all of 4: 7 (f7.png), 8 (f8.png)", text, 1, true)
  end)

  it("reports that weights have grown when the lr is too high", function()
    local text, before, after = loop{lr = 1e14, steps = 9, loss = function(y) return (y * y):mean() end}
    assert.matches("is inf", text, 1, true)
    assert.matches("weights have grown to", text, 1, true)
    assert.matches("hint: the lr is too high", text, 1, true)
    assert.same(before, after)
  end)

  it("names the line of a loss that takes the log of 0", function()
    local text = loop{loss = function(y) return -(y * 0):log():mean() end}
    assert.matches("the loss of step 1 is inf", text, 1, true)
    assert.matches("first not finite: op log in the forward pass, [^\n]*anomaly_spec.lua:%d+", text)
    assert.matches("hint: log of 0 is not finite", text, 1, true)
    assert.matches("the weights are finite, as the step before left them", text, 1, true)
  end)

  it("sees gradients that are not finite where the loss is", function()
    local text, before, after = loop{loss = function(y) return (y * 0):sqrt():mean() end}
    assert.matches("the norm of the gradients of step 1 is nan", text, 1, true)
    assert.matches("in the backward pass", text, 1, true)
    assert.same(before, after)
  end)

  it("is no mask of infinities in the forward pass", function()
    local text = loop{steps = 2, loss = function(y, batch)
      local masked = capl.where(capl.tensor{true, false}:to("bool"), y, capl.full({1}, -INF))
      return nn.cross_entropy(y, batch.target) + (masked:softmax(-1) * 0):sum() + (y * 0):log():sum()
    end}
    assert.matches("first not finite: op log", text, 1, true)
  end)

  it("is found with detect_anomaly also where no loss shows it", function()
    local text = loop{detect_anomaly = true, loss = function(y, batch)
      local hidden = (y:detach() * 0 - 1):sqrt()
      return hidden:numel() > 0 and nn.cross_entropy(y, batch.target)
    end}
    assert.matches("a result of step 1 is nan", text, 1, true)
    assert.matches("first not finite: op sqrt in the forward pass", text, 1, true)
  end)

  it("is skipped by the clipping optimizer as ever", function()
    local text = loop{optimizer = function(model) return optim.SGD(model:parameters(), {lr = 0.1, clip_norm = 1}) end,
      loss = function(y, batch) return batch.count == 4 and (y * 0):sqrt():mean() end, steps = 2, spoil = function(step)
        if step == 2 then error("it went on", 0) end
      end}
    assert.equal("it went on", text)
  end)
end)

describe("the guard of an optimizer", function()
  it("leaves a step out that is not finite, for all of joined ones", function()
    local a, b = capl.ones(2, {requires_grad = true}), capl.ones(2, {requires_grad = true})
    local opt = optim.join{optim.SGD({a}, {lr = 0.5}), optim.SGD({b}, {lr = 0.5})}
    opt.guard = true
    opt:backward_step((a + b * (0 / 0)):sum())
    assert.same({1, 1}, a:tolist())
    assert.equal(1, opt.skipped)
    opt:backward_step((a + b):sum())
    assert.same({0.5, 0.5}, a:tolist())
    assert.same({0.5, 0.5}, b:tolist())
    assert.equal(1, opt.skipped)
  end)
end)

describe("the first loss", function()
  local labels = capl.tensor({0, 1, 2, 1}, {dtype = "i32"})

  local function first(fn) return train.initial_loss(fn)[1] end

  it("is ln K of K classes, with label smoothing too, and with labels of several places", function()
    local found = first(function() return nn.cross_entropy(capl.zeros(4, 10), labels, {label_smoothing = 0.1}) end)
    assert.is_true(math.abs(found.ratio - 1) < 1e-5)
    assert.is_nil(found.warning)
    assert.matches("ln 10 = 2.30, that of 10 classes", found.text)
    found = first(function() return nn.cross_entropy(capl.zeros(2, 5, 2), labels:view(2, 2), {reduction = "sum"}) end)
    assert.is_true(math.abs(found.ratio - 1) < 1e-5)
    found = first(function() return nn.cross_entropy(capl.zeros(4, 5), labels, {reduction = "none"}):mean() end)
    assert.is_true(math.abs(found.ratio - 1) < 1e-5)
  end)

  it("is ln 2 of yes and no, and the variance of what is to be told", function()
    local target = capl.tensor{{0, 1}, {1, 0}}
    for _, name in ipairs{"bce_with_logits", "multilabel_soft_margin"} do
      assert.is_true(math.abs(first(function() return nn[name](capl.zeros(2, 2), target) end).ratio - 1) < 1e-5)
    end
    assert.equal(0.25, first(function() return nn.mse(capl.full({2, 2}, 0.5), target) end).expected)
  end)

  it("is warned of when it is more than twice, or less than half of that", function()
    local found = first(function() return nn.cross_entropy(capl.randn(4, 10) * 100, labels) end)
    assert.matches("warning: that is .* times what is expected: .*an init that was lost", found.warning)
    found = first(function() return nn.mse(capl.zeros(2, 2),
      capl.full({2, 2}, 9) + capl.arange(4, {dtype = "f32"}):view(2, 2)) end)
    assert.matches("are the targets far from 0", found.warning)
    found = first(function() return nn.bce_with_logits(capl.full({1}, 9), capl.ones(1)) end)
    assert.matches("warning: that is 1/%d+ of what is expected", found.warning)
  end)

  it("is CTC's of classes that are all as likely, whatever the lengths, repeats and reduction", function()
    local texts = capl.tensor({{0, 1, 1}, {2, -1, -1}, {1, 1, 1}, {-1, -1, -1}}, {dtype = "i32"})
    local even = capl.zeros(6, 4, 4):log_softmax(-1)
    for _, how in ipairs{"mean", "sum", "none"} do
      local found = first(function()
        return (nn.ctc_loss(even, texts, {6, 5, 4, 2}, {3, 1, 3, 0}, {blank = 3, reduction = how})) end)
      -- the third needs 5 steps: counted as 0
      assert.is_true(math.abs(found.ratio - 1) < 1e-5, how .. ": " .. found.text)
      assert.matches("that of 6 time steps of 4 classes that are all as likely", found.text, 1, true)
    end
  end)

  it("is below 0 where CTC was given scores, which is reported", function()
    local texts = capl.tensor({{0, 1}}, {dtype = "i32"})
    local found = first(function() return (nn.ctc_loss(capl.zeros(8, 1, 4), texts, 8, 2, {blank = 3})) end)
    assert.matches("a loss below 0: log_probs are no log probabilities", found.warning, 1, true)
    found = first(function() return (nn.ctc_loss((capl.randn(8, 1, 4) * 200):log_softmax(-1), texts, 8, 2, {blank = 3}))
      end)
    assert.matches("times what is expected: are the logits", found.warning)
  end)

  it("stops looking when the function fails", function()
    assert.equal("no", error_text(train.initial_loss, function() error("no", 0) end))
    assert.same({}, train.initial_loss(function() return 1 end))
  end)
end)
