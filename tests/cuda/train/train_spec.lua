-- Whole trainings on cuda follow those on ref: the losses of 20 steps, then weights, running statistics and
-- predictions. CAPL_TRAIN_FULL=1: captcha_cnn in its full size, for one step (a minute), under SGD: with one image per
-- step many a gradient is next to nothing, and Adam makes full steps of its rounding.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn, optim = capl.nn, capl.optim

local FULL = os.getenv("CAPL_TRAIN_FULL") ~= nil
local FIRST, STEPS, BATCH = FULL and 1 or 5, FULL and 1 or 20, FULL and 1 or 4
local HEIGHT, WIDTH = FULL and 60 or 16, FULL and 160 or 32
local TIGHT, LOOSE = 1e-4, 1e-3 -- what FIRST steps, what STEPS may differ, as a share of the value

-- The layers of recipes/captcha_cnn.lua; with a quarter of the channels, and a sixteenth of the hidden ones, unless
-- FULL.
local function captcha_cnn()
  local c, hidden = FULL and 32 or 8, FULL and 1024 or 64
  local features = nn.Sequential()
  local function block(inputs, outputs, pool)
    features:add(nn.Conv2d(inputs, outputs, 3, {padding = 1}))
    features:add(nn.BatchNorm2d(outputs))
    features:add(nn.ReLU())
    if pool then features:add(nn.MaxPool2d(2)) end
  end
  block(1, c, true) block(c, 2 * c) block(2 * c, 2 * c, true) block(2 * c, 4 * c)
  block(4 * c, 4 * c) block(4 * c, 4 * c, true) block(4 * c, 4 * c)
  local net = nn.Sequential{
    features, nn.Flatten(), nn.Linear(4 * c * math.floor(HEIGHT / 8) * math.floor(WIDTH / 8), hidden), nn.Dropout(0.5),
    nn.ReLU(), nn.Linear(hidden, 4 * 36),
  }
  return net, function(y, batch) return nn.multilabel_soft_margin(y, batch.onehot) end
end

-- Channels that no vector fits, strides, an average pool, a bias before no norm, and cross entropy.
local function odd_net()
  local net = nn.Sequential{
    nn.Conv2d(1, 10, 5, {stride = 2, padding = 2}), nn.ReLU(),
    nn.Conv2d(10, 33, 3, {padding = 1, bias = false}), nn.BatchNorm2d(33), nn.ReLU(), nn.AvgPool2d(2),
    nn.Conv2d(33, 3, 1), nn.Flatten(), nn.Linear(3 * 4 * 8, 36),
  }
  return net, function(y, batch) return nn.cross_entropy(y, batch.label, {label_smoothing = 0.1}) end
end

local optimizers = {
  adamw = function(parameters)
    return optim.AdamW(parameters,
      {lr = optim.schedule.warmup_cosine{lr = 2e-3, warmup = 3, total = STEPS}, weight_decay = 1e-2})
  end,
  sgd = function(parameters)
    return optim.SGD(parameters, {lr = 0.02, momentum = 0.9, nesterov = true, weight_decay = 1e-4, clip_norm = 2})
  end,
}

-- Batch number i, the same on every device.
local function batch(i)
  local onehot, labels = capl.zeros(BATCH, 4 * 36), {}
  for n = 1, BATCH do
    labels[n] = (7 * n + 5 * i) % 36
    for position = 0, 3 do onehot:set(n, position * 36 + (labels[n] + 11 * position) % 36 + 1, 1) end
  end
  return {image = capl.rand({BATCH, 1, HEIGHT, WIDTH}, {seed = 11, stream = {i, 0, 0}}), onehot = onehot,
    label = capl.tensor(labels, {dtype = "i64"})}
end

local function on(device, f)
  local before = capl.device()
  capl.device(device)
  local result = f()
  capl.device(before)
  return result
end

-- All values of a model by name.
local function values_of(model)
  local state = {}
  for name, t in pairs(model:state_dict()) do state[name] = t:float():reshape(-1):tolist() end
  return state
end

-- {losses, early = values after five steps, late = after all, output = predictions}
local function trained(device, make, optimizer)
  return on(device, function()
    capl.manual_seed(5)
    local model, loss_of = make()
    local opt = optimizers[optimizer](model:parameters())
    local losses, early = {}, nil
    for i = 1, STEPS do
      local given = batch(i)
      local loss = loss_of(model(given.image), given)
      opt:backward_step(loss)
      losses[i] = loss:item()
      if i == FIRST then early = values_of(model) end
    end
    model:eval()
    local output = capl.no_grad(function() return model(batch(1).image) end)
    return {losses = losses, early = early, late = values_of(model), output = output:reshape(-1):tolist()}
  end)
end

-- Distance of two lists as a share of the length of the second.
local function distance(got, wanted)
  assert.equal(#wanted, #got)
  local apart, length = 0, 1e-12
  for i, w in ipairs(wanted) do apart, length = apart + (got[i] - w) ^ 2, length + w ^ 2 end
  return math.sqrt(apart / length)
end

-- A bias in front of a batch norm has no gradient but rounding, which Adam turns into steps of either sign; the norm's
-- running mean follows it late, so predictions move, too.
local function is_idle(name, state)
  local layer = name:match("^(.*)%.bias$") or name:match("^(.*)%.running_mean$")
  local container, number = (layer or ""):match("^(.-)(%d+)$")
  if not container then return false end
  local conv = name:match("bias$") and number or number - 1
  local norm = name:match("bias$") and number + 1 or number
  return state[container .. conv .. ".bias"] ~= nil and state[container .. norm .. ".running_mean"] ~= nil
    and state[container .. conv .. ".running_mean"] == nil
end

local function compare_losses(got, wanted)
  for i, loss in ipairs(wanted) do
    local apart = math.abs(got[i] / loss - 1)
    assert.is_true(apart < (i <= FIRST and TIGHT or LOOSE), ("step %d: loss %.7g, on ref %.7g"):format(i, got[i], loss))
  end
end

-- How many values were left out, as idle ones.
local function compare_values(got, wanted, limit, adaptive)
  local idle = 0
  for name, values in pairs(wanted) do
    if adaptive and is_idle(name, wanted) then
      idle = idle + 1
    else
      local apart = distance(got[name], values)
      assert.is_true(apart < limit, ("%s: %.2g away"):format(name, apart))
    end
  end
  return idle
end

describe("a training on cuda follows ref:", function()
  for name, make in pairs{captcha_cnn = captcha_cnn, odd_net = not FULL and odd_net or nil} do
    for _, optimizer in ipairs(FULL and {"sgd"} or {"adamw", "sgd"}) do
      it(name .. ", " .. optimizer, function()
        local got, wanted, adaptive = trained("cuda", make, optimizer), trained("ref", make, optimizer),
          optimizer == "adamw"
        compare_losses(got.losses, wanted.losses)
        compare_values(got.early, wanted.early, TIGHT, adaptive)
        local idle = compare_values(got.late, wanted.late, LOOSE, adaptive)
        assert.equal(name == "captcha_cnn" and adaptive and 14 or 0, idle)
        if idle == 0 then assert.is_true(distance(got.output, wanted.output) < LOOSE, "predictions") end
        if name == "captcha_cnn" and not FULL then
          assert.is_true(got.losses[STEPS] < 0.99 * got.losses[1], "the losses fall")
        end
      end)
    end
  end
end)
