-- nn.Ensemble: many models at once, each of them what it would be alone.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text, close = support.error_text, support.close

local function mlp()
  return nn.Sequential{nn.Linear(6, 8, {bias = false}), nn.BatchNorm1d(8, {momentum = false}), nn.ReLU(),
    nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3)}
end

local function batches(n)
  capl.manual_seed(99)
  local out = {}
  for i = 1, n do
    out[i] = {x = capl.randn(7, 6), y = capl.tensor({0, 1, 2, 0, 1, 2, 1}, {dtype = "i32"})}
  end
  return out
end

local function losses_of(model, opt, data)
  local out = {}
  for i, b in ipairs(data) do
    local loss = nn.cross_entropy(model(b.x), b.y, {label_smoothing = 0.1})
    out[i] = loss:item()
    opt:backward_step(loss)
  end
  return out
end

local function trained_alone(build, seed, data, make)
  capl.manual_seed(seed)
  local model = build()
  return model, losses_of(model, make(model:parameters()), data)
end

local optimizers = {
  SGD = function(p, lr) return optim.SGD(p, {lr = lr or 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01}) end,
  AdamW = function(p, lr) return optim.AdamW(p, {lr = lr or 0.02, weight_decay = 0.1}) end,
  ["Adam, amsgrad"] = function(p, lr) return optim.Adam(p, {lr = lr or 0.02, betas = {0.9, 0.5}, amsgrad = true}) end,
  RMSprop = function(p, lr) return optim.RMSprop(p, {lr = lr or 0.01, momentum = 0.5}) end,
}

local function check_state(model, state)
  for name, tensor in pairs(model:state_dict()) do
    assert.is_true(close(tensor:tolist(), state[name]:tolist(), 2e-5), name)
  end
end

describe("nn.Ensemble", function()
  for name, make in pairs(optimizers) do
    it("trains each model as it would be trained alone, with " .. name, function()
      local data = batches(12)
      local ensemble = nn.Ensemble{n = 3, seeds = {5, 1, 8}, build = mlp}
      local opt, seen = make(ensemble:parameters()), {}
      for i, b in ipairs(data) do
        local losses = ensemble:losses(nn.cross_entropy, ensemble(b.x), b.y, {label_smoothing = 0.1})
        seen[i] = losses:tolist()
        opt:backward_step(losses:sum())
      end
      for k, seed in ipairs{5, 1, 8} do
        local model, losses = trained_alone(mlp, seed, data, make)
        for i in ipairs(data) do
          assert.is_true(close(losses[i], seen[i][k], 2e-5), ("model %d, step %d"):format(k, i))
        end
        check_state(model, ensemble:state_dict(k))
      end
    end)

    it("gives each model a rate of its own, with " .. name, function()
      local data, rates = batches(10), {0.01, 0, 0.004}
      local ensemble = nn.Ensemble{n = 3, seed = 3, build = mlp}
      local opt = make(ensemble:parameters())
      ensemble:set_lr(opt, rates)
      for _, b in ipairs(data) do
        opt:backward_step(ensemble:losses(nn.cross_entropy, ensemble(b.x), b.y, {label_smoothing = 0.1}):sum())
      end
      for k, rate in ipairs(rates) do
        local model = trained_alone(mlp, 2 + k, data, function(p) return make(p, rate) end)
        check_state(model, ensemble:state_dict(k))
      end
    end)
  end

  it("has the gradients that finite differences give", function()
    local ensemble = nn.Ensemble{n = 2, seed = 1, build = function()
      return nn.Sequential{nn.Linear(3, 4), nn.Tanh(), nn.Softmax(2), nn.Linear(4, 2)}
    end}:to("f64")
    local x, y = capl.randn(4, 3):to("f64"), capl.randn(4, 2):to("f64")
    local function value() return ensemble:losses(nn.mse, ensemble(x), y):sum() end
    value():backward()
    for name, p in ensemble:named_parameters() do
      local grad, values = p.grad:reshape(-1):tolist(), p:detach():reshape(-1)
      for i = 1, #grad, 5 do
        local one, h = values:narrow(1, i, 1), 1e-5
        local former = one:item()
        local function at(v)
          capl.no_grad(one.fill_, one, v)
          return value():item()
        end
        local slope = (at(former + h) - at(former - h)) / (2 * h)
        at(former)
        assert.is_true(close(slope, grad[i], 1e-7), ("%s[%d]: %g, %g"):format(name, i, slope, grad[i]))
      end
    end
  end)

  it("runs layers over images", function()
    local function build()
      return nn.Sequential{
        nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, {stride = 2, groups = 2}), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 3),
      }
    end
    local ensemble, x = nn.Ensemble{n = 3, seed = 4, build = build}, capl.randn(5, 1, 12, 16)
    local y = ensemble(x)
    y:sum():backward()
    for k = 1, 3 do
      capl.manual_seed(3 + k)
      local model = build()
      local alone = model(x)
      assert.is_true(close(alone:tolist(), y:select(1, k):tolist(), 1e-5))
      alone:sum():backward()
      local all = {}
      for name, p in ensemble:named_parameters() do all[name:gsub("^models%.", "")] = p.grad:select(1, k):tolist() end
      for name, p in model:named_parameters() do assert.is_true(close(p.grad:tolist(), all[name], 2e-4), name) end
    end
  end)

  -- LSTM, attention over time, one number: with dims from the end.
  local Series = nn.class("Series")
  function Series:init(dropout, batch_first)
    self.lstm = nn.LSTM(3, 5, {num_layers = 2, batch_first = batch_first, dropout = dropout})
    self.score, self.drop, self.out = nn.Linear(5, 1, {bias = false}), nn.Dropout(dropout), nn.Linear(5, 1)
  end
  function Series:forward(x)
    local y = self.lstm(x)
    return self.out(self.drop((y * self.score(y):softmax(-2)):sum(-2)))
  end

  it("trains LSTMs with attention as each would be trained alone, gradients clipped", function()
    local function build() return Series(0, true) end
    local ensemble, seen = nn.Ensemble{n = 3, seed = 4, build = build}, {}
    local opt = optim.Adam(ensemble:parameters(), {lr = 1})
    ensemble:set_lr(opt, {0.02, 0.01, 0.03})
    capl.manual_seed(2)
    local x, y = capl.randn(9, 6, 3), capl.randn(9, 1)
    for i = 1, 8 do
      opt:zero_grad()
      local losses = ensemble:losses(nn.mse, ensemble(x), y)
      losses:sum():backward()
      ensemble:clip_grad_norm_(0.3)
      opt:step()
      seen[i] = losses:tolist()
    end
    for k, lr in ipairs{0.02, 0.01, 0.03} do
      capl.manual_seed(3 + k)
      local model = build()
      local alone = optim.Adam(model:parameters(), {lr = lr, clip_norm = 0.3})
      for i = 1, 8 do
        local loss = nn.mse(model(x), y)
        assert.is_true(close(loss:item(), seen[i][k], 2e-5), ("model %d, step %d"):format(k, i))
        alone:backward_step(loss)
      end
      check_state(model, ensemble:state_dict(k))
    end
  end)

  it("runs LSTMs over time first, with lengths, and hands out their states", function()
    local function build() return nn.LSTM{3, 5, num_layers = 2} end
    local ensemble, x = nn.Ensemble{n = 3, seed = 4, build = build}, capl.randn(4, 2, 3)
    local y, state = ensemble.models(x:unsqueeze(1), nil, {4, 2})
    for k = 1, 3 do
      local alone, own = ensemble:member(k)(x, nil, {4, 2})
      assert.is_true(close(alone:tolist(), y:select(1, k):tolist(), 1e-5))
      for i = 1, 2 do assert.is_true(close(own[i]:tolist(), state[i]:select(1, k):tolist(), 1e-5)) end
    end
  end)

  it("drops as often as each model says, outside and between layers", function()
    local rates = {0, 0.3, 0.6}
    local ensemble = nn.Ensemble{n = 3, build = function(k) return nn.Dropout(rates[k]) end}
    local y = ensemble(capl.ones(100, 100))
    for k, rate in ipairs(rates) do
      local own = y:select(1, k)
      assert.is_true(math.abs((own:eq(0)):to("f32"):mean():item() - rate) < 0.02)
      assert.is_true(math.abs(own:mean():item() - 1) < 0.05)
    end
    local series = nn.Ensemble{n = 3, seeds = {1, 1, 1}, build = function(k) return Series(rates[k], true) end}
    local x = capl.randn(2, 6, 3)
    local first, again = series(x), series(x)
    assert.is_true(close(first:select(1, 1):tolist(), again:select(1, 1):tolist(), 1e-6))
    for k = 2, 3 do
      assert.is_false(close(first:select(1, k):tolist(), again:select(1, k):tolist(), 1e-4))
      assert.equal(rates[k], series:member(k).lstm.dropout)
    end
    local even = series:eval()(x)
    assert.is_true(close(even:select(1, 1):tolist(), even:select(1, 3):tolist(), 1e-5))
  end)

  it("runs activations", function()
    local function build()
      return nn.Sequential{nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 4), nn.GELU{approximate = "tanh"}, nn.Softplus(),
        nn.LeakyReLU(), nn.ELU(), nn.Hardswish(), nn.Mish(), nn.SELU(), nn.Hardtanh(), nn.ReLU6(), nn.Hardsigmoid(),
        nn.LogSigmoid()}
    end
    local ensemble, x = nn.Ensemble{n = 2, seed = 7, build = build}, capl.randn(3, 4)
    for k = 1, 2 do
      capl.manual_seed(6 + k)
      assert.is_true(close(build()(x):tolist(), ensemble(x):select(1, k):tolist(), 1e-5))
    end
  end)

  it("runs attention, written with dims from the end", function()
    local Attention = nn.class("Attention")
    function Attention:init() self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4) end
    function Attention:forward(x)
      local scores = self.q(x):matmul(self.k(x):transpose(-1, -2)) * 0.5
      return scores:softmax(-1):matmul(self.v(x))
    end
    local ensemble, x = nn.Ensemble{n = 2, seed = 7, build = Attention}, capl.randn(3, 5, 4)
    for k = 1, 2 do
      capl.manual_seed(6 + k)
      assert.is_true(close(Attention()(x):tolist(), ensemble(x):select(1, k):tolist(), 1e-5))
    end
  end)

  it("finds out a forward that mixes the models", function()
    local Bad = nn.class("Bad")
    function Bad:init() self.fc = nn.Linear(4, 4) end
    function Bad:forward(x) return self.fc(x):softmax(1) end
    local ensemble = nn.Ensemble{n = 2, build = Bad}
    assert.truthy(error_text(ensemble, capl.randn(3, 4)):find("model 1 gives other numbers in the ensemble than alone",
      1, true))
  end)

  it("gives each model an input of its own", function()
    local ensemble, x = nn.Ensemble{n = 2, seed = 1, build = mlp}:eval(), capl.randn(2, 3, 6)
    local y = ensemble:each(x)
    for k = 1, 2 do
      assert.is_true(close(ensemble:member(k)(x:select(1, k)):tolist(), y:select(1, k):tolist(), 1e-5))
    end
    assert.truthy(error_text(nn.Ensemble, {n = 1e9, build = function() return nn.ReLU() end}):find("n is at most 65536",
      1, true))
    assert.truthy(error_text(ensemble.each, ensemble, capl.randn(3, 3, 6)):find("(2,N,…) expected", 1, true))
  end)

  it("drops other elements in each model", function()
    local ensemble = nn.Ensemble{n = 2, build = function() return nn.Dropout(0.5) end}
    local y = ensemble(capl.ones(1, 200))
    assert.is_false(close(y:select(1, 1):tolist(), y:select(1, 2):tolist(), 0.1))
    assert.same({2, 1, 200}, ensemble:eval()(capl.ones(1, 200)).shape)
  end)

  it("hands out models that are ordinary, and takes them back", function()
    local ensemble, x = nn.Ensemble{n = 3, seed = 1, build = mlp}, capl.randn(4, 6)
    for _ = 1, 2 do ensemble(x) end
    ensemble:eval()
    local model = ensemble:member(2)
    assert.is_true(close(model(x):tolist(), ensemble(x):select(1, 2):tolist(), 1e-5))
    assert.equal(2, model[2].batches)
    assert.equal("Sequential", model.__name)
    ensemble:load_member(3, model)
    assert.is_true(close(model(x):tolist(), ensemble(x):select(1, 3):tolist(), 1e-5))
    capl.manual_seed(5)
    local next_one = capl.rand(3):tolist()
    capl.manual_seed(5)
    ensemble:member(1)
    assert.same(next_one, capl.rand(3):tolist())
  end)

  it("saves and loads the state of all", function()
    local a, b = nn.Ensemble{n = 2, seed = 1, build = mlp}, nn.Ensemble{n = 2, seed = 5, build = mlp}
    local x = capl.randn(4, 6)
    a(x)
    b:load_state_dict(a:state_dict())
    assert.is_true(close(a:eval()(x):tolist(), b:eval()(x):tolist()))
    assert.equal(1, b:member(1)[2].batches)
  end)

  it("is trained in custom training loops", function()
    local loader = capl.data.loader{source = capl.data.captcha{charset = "01", length = 1, count = 4}, role = "train",
      batch = 2}
    local ensemble = nn.Ensemble{n = 2, build = function() return nn.Sequential{nn.Flatten(), nn.Linear(9600, 2)} end}
    local opt = optim.SGD(ensemble:parameters(), {lr = 1})
    local why = error_text(capl.train.fit, {model = ensemble, train = loader, val = false, optimizer = opt, steps = 1,
      loss = function() end})
    assert.truthy(why:find("model is an ensemble, and the files of a run hold one model", 1, true), why)
  end)

  it("refuses what it cannot do, naming it", function()
    local function refused(build, n, words)
      assert.truthy(error_text(nn.Ensemble, {n = n, build = build}):find(words, 1, true), words)
    end
    refused(function() return nn.PixelUnshuffle(2) end, 2,
      "does not know nn.PixelUnshuffle; it knows AdaptiveAvgPool2d")
    refused(function(k) return nn.Linear(2, k) end, 2,
      "model 2 is another than model 1: it is Linear(2 -> 2) there and")
    refused(function(k) return nn.Sequential{nn.Linear(2, 2), k == 1 and nn.ReLU() or nil} end, 2, "model 2 is another")
    refused(function(k) return nn.LSTM(2, k + 1) end, 2, "model 2 is another than model 1: it is LSTM(2 -> 3) there")
    local both = nn.Ensemble{n = 2, build = function() return nn.LSTM{2, 3, bidirectional = true} end}
    assert.truthy(error_text(both, capl.randn(2, 3, 2)):find("LSTM with bidirectional = true is not supported", 1, true))
    local lstm = nn.Ensemble{n = 2, build = function() return nn.LSTM(2, 3) end}
    assert.truthy(error_text(lstm, capl.randn(2, 3, 4)):find("input_size is 2; x must be sequences of each model", 1, true))
    assert.truthy(error_text(lstm.clip_grad_norm_, lstm, 0):find("a number above 0 expected", 1, true))
    local one = nn.Linear(2, 2)
    refused(function() return one end, 2, "build(2) returned a model it has returned before")
    refused(function() return 3 end, 2, "build(1) returned a number")
    refused(mlp, 0, "n is at least 1")
    local Own = nn.class("Own")
    function Own:init() self.scale = nn.Parameter(capl.ones(1)) end
    refused(Own, 2, "Own has its own parameter, scale")
    local ensemble = nn.Ensemble{n = 2, build = mlp}
    assert.truthy(error_text(ensemble, capl.randn(3, 5)):find("weight expects 6 input features, x has 5", 1, true))
    assert.truthy(error_text(ensemble.member, ensemble, 3):find("a model from 1 to 2 expected", 1, true))
    local opt = optim.SGD(ensemble:parameters(), {lr = 1, clip_norm = 1})
    assert.truthy(error_text(ensemble.set_lr, ensemble, opt,
      {1, 2}):find("clip_norm is over the gradients of all models", 1, true))
    assert.truthy(error_text(ensemble.set_lr, ensemble, opt, {1}):find("2 numbers expected", 1, true))
    assert.truthy(error_text(ensemble.losses, ensemble, nn.mse, capl.zeros(2, 3, 1),
      capl.zeros(4, 1)):find("for 2 models", 1, true))
  end)
end)
