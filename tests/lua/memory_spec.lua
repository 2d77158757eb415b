-- Memory: what holds a tensor, scopes, the collector's debt, limits.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text, no_leak, live_bytes = support.error_text, support.no_leak, support.live_bytes

local MB = 2 ^ 20

describe("memory", function()
  it("comes back when tensors become garbage", function()
    no_leak(function()
      local x = capl.zeros(1000, 1000)
      local views = {x:t(), x:view(-1), x[1], x:narrow(1, 1, 10)}
      assert(#views == 4 and live_bytes() >= 4 * 1000 * 1000)
    end)
  end)

  it("that is kept is found, be it one number", function()
    local kept
    assert.matches("64 bytes of tensors leaked", error_text(no_leak, function() kept = capl.zeros(1) end), 1, true)
    assert(kept)
  end)

  it("comes back after errors", function()
    no_leak(function()
      for _ = 1, 20 do
        pcall(function() return capl.zeros(100, 100):matmul(capl.zeros(99, 100)) end)
        pcall(function() return capl.zeros(100, 100):narrow(1, 90, 20) end)
        pcall(function() return capl.op.conv2d(capl.zeros(1, 3, 50, 50), capl.zeros(8, 1, 3, 3)) end)
        pcall(function() return nn.Conv2d(1, 64, 3)(capl.zeros(8, 3, 50, 50)) end)
        pcall(capl.tensor, {{1, 2}, {3}})
        pcall(capl.rand, {100, 100}, {dtyp = 1})
      end
    end)
  end)

  it("comes back from a graph that is never used", function()
    no_leak(function()
      local w = capl.zeros({100, 100}, {requires_grad = true})
      local y = (w:relu() * 2):sum()
      assert(y:item() == 0)
    end)
  end)

  it("of a training step does not grow", function()
    local model = nn.Sequential{nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
      nn.Linear(8 * 26 * 26, 10)}
    local opt = optim.Adam(model:parameters(), {lr = 1e-3})
    local x, labels = capl.randn(4, 1, 28, 28), capl.zeros({4}, {dtype = "i32"})
    local function step() opt:backward_step(nn.cross_entropy(model(x), labels)) end
    step()
    local before = live_bytes()
    for _ = 1, 5 do step() end
    assert.equal(before, live_bytes())
  end)

  it("between two layers is released without waiting for the collector", function()
    local function layers()
      return nn.Sequential{nn.ReLU(), nn.Sigmoid(), nn.Tanh(), nn.ReLU(), nn.ReLU(), nn.ReLU()}
    end
    local x, model = capl.zeros(256, 1024), layers() -- 1 MB
    capl.no_grad(model, x):free()
    collectgarbage() collectgarbage()
    collectgarbage("stop")
    local before = capl.memory().live
    local y = capl.no_grad(model, x)
    assert.equal(before + 1 * MB, capl.memory().live)
    collectgarbage("restart")
    assert.same({256, 1024}, y.shape)
  end)

  it("is kept when a custom layer may hold a tensor", function()
    local Keeper = nn.class("Keeper")
    function Keeper:forward(x)
      self.seen = x
      return x * 1
    end
    local keeper = Keeper()
    nn.Sequential{nn.ReLU(), keeper, nn.ReLU(), nn.Identity(), nn.ReLU()}(capl.ones(3))
    assert.same({1, 1, 1}, keeper.seen:tolist())
    local x = capl.ones(3)
    nn.Sequential{nn.Identity(), nn.ReLU()}(x)
    assert.same({1, 1, 1}, x:tolist())
    nn.Sequential{nn.Dropout(0.5), nn.ReLU()}:eval()(x)
    assert.same({1, 1, 1}, x:tolist())
  end)

  it("is collected when much of it may be garbage", function()
    collectgarbage() collectgarbage()
    local before, worst = capl.memory().live, 0
    for _ = 1, 400 do
      local x = capl.empty(4 * MB / 4) -- 4 MB each, 1600 MB in all
      worst = math.max(worst, capl.memory().live - before)
      assert(x)
    end
    assert.is_true(worst <= 300 * MB, ("%d MB were alive"):format(worst / MB))
  end)

  it("beyond the limit is collected first and then refused", function()
    finally(function() capl.memory_limit(0) end)
    capl.memory_limit(capl.memory().live + 64 * MB)
    for _ = 1, 40 do
      local x = capl.empty(8 * MB / 4)
      assert(x)
    end
    local kept, err = {}, nil
    local ok = pcall(function()
      for i = 1, 40 do kept[i] = capl.empty(8 * MB / 4) end
    end)
    assert.is_false(ok)
    ok, err = pcall(capl.empty, 100 * MB)
    assert.is_false(ok)
    assert.equal("nomem", err.code)
  end)
end)

-- ---- evaluation ----

local function conv(inputs, outputs) return nn.Conv2d(inputs, outputs, 3, {padding = 1, bias = false}) end

local Block = nn.class("Block")

function Block:init(channels)
  self.conv1, self.bn1 = conv(channels, channels), nn.BatchNorm2d(channels)
  self.conv2, self.bn2 = conv(channels, channels), nn.BatchNorm2d(channels)
  self.relu = nn.ReLU()
end

function Block:forward(x)
  local identity = x
  local out = self.relu(self.bn1(self.conv1(x)))
  out = self.bn2(self.conv2(out))
  out = out + identity
  return self.relu(out)
end

local ResNet = nn.class("ResNet") -- as torchvision writes it

function ResNet:init()
  self.conv1, self.bn1, self.relu = conv(1, 32), nn.BatchNorm2d(32), nn.ReLU()
  self.layer1 = nn.Sequential{Block(32), Block(32), Block(32)}
  self.fc = nn.Linear(32, 10)
end

function ResNet:forward(x)
  x = self.relu(self.bn1(self.conv1(x)))
  x = self.layer1(x)
  return self.fc(x:mean{3, 4})
end

local CaptchaCnn = nn.class("CaptchaCnn") -- as recipes/captcha_cnn.lua, but smaller

function CaptchaCnn:init()
  local layers, channels = {}, {{1, 24, true}, {24, 24, true}, {24, 48, true}}
  for _, c in ipairs(channels) do
    for _, layer in ipairs{conv(c[1], c[2]), nn.BatchNorm2d(c[2]), nn.ReLU()} do table.insert(layers, layer) end
    if c[3] then table.insert(layers, nn.MaxPool2d(2)) end
  end
  self.features = nn.Sequential(layers)
  self.classifier = nn.Sequential{nn.Flatten(), nn.Linear(48 * 7 * 20, 512), nn.Dropout(0.5), nn.ReLU(),
    nn.Linear(512, 10)}
end

function CaptchaCnn:forward(x) return self.classifier(self.features(x)) end

-- The most bytes of tensors while fn runs.
local function peak_of(fn)
  live_bytes()
  capl.memory_reset_peak()
  fn()
  return capl.memory().peak
end

local function evaluate(model, x, batches)
  model:eval()
  capl.no_grad(function()
    for _ = 1, batches do model(x + 0) end
  end)
end

local function train(model, x, steps)
  local opt, labels = optim.AdamW(model:parameters(), {lr = 1e-3}), capl.zeros({x:size(1)}, {dtype = "i32"})
  model:train()
  for _ = 1, steps do opt:backward_step(nn.cross_entropy(model(x), labels)) end
end

-- How often Lua collects while fn runs.
local function collections_in(fn)
  local n = 0
  local function again()
    getmetatable(newproxy(true)).__gc = function()
      n = n + 1
      again()
    end
  end
  again()
  fn()
  local seen = n
  again = function() end
  return seen
end

describe("an evaluation", function()
  local function needs_less_than_half(class, batches, ...)
    local others = live_bytes() -- what earlier tests have left is neither's
    local model, x = class(), capl.randn({...}, {seed = 1, stream = {0, 0, 0}})
    local function need(fn) return peak_of(fn) - others end
    local evaluation = need(function() evaluate(model, x, batches) end)
    -- The caller's inputs aside, of this call and the one before: slots of Lua's stack may still hold them.
    local training = need(function() train(model, x, 2) end) + 2 * 2 * x:numel() * 4
    assert.is_true(2 * evaluation < training, ("%.1f MB, a training step %.1f MB"):format(evaluation / MB,
      training / MB))
    assert.is_true(2 * need(function() evaluate(model, x, batches) end) < training)
  end

  it("needs less than half the memory of a training step: layers called one by one", function()
    needs_less_than_half(ResNet, 2, 24, 1, 48, 48)
  end)

  it("needs less than half the memory of a training step: nn.Sequential", function()
    needs_less_than_half(CaptchaCnn, 24, 16, 1, 60, 160)
  end)

  it("collects at most once per 16 MB that layers put out", function()
    local model, x = ResNet(), capl.randn({32, 1, 48, 48}, {seed = 1, stream = {0, 0, 0}})
    evaluate(model, x, 1)
    local n = collections_in(function() evaluate(model, x, 2) end)
    local put_out = 2 * 24 * 32 * 32 * 48 * 48 * 4
    assert.is_true(n > 0 and n <= put_out / (16 * MB), ("%d collections"):format(n))
  end)

  it("loses nothing that a module keeps", function()
    local Keeper = nn.class("Keeper")
    function Keeper:init() self.conv, self.bn, self.seen = conv(1, 32), nn.BatchNorm2d(32), {} end
    function Keeper:forward(x)
      local y = self.conv(x)
      table.insert(self.seen, {y, self.bn(y), x})
      return self.seen[#self.seen][2] * 2
    end
    local model, x, sums = Keeper(), capl.randn({32, 1, 48, 48}, {seed = 1, stream = {0, 0, 0}}), {}
    model:eval()
    capl.no_grad(function()
      for i = 1, 8 do sums[i] = model(x):sum():item() / 2 end -- 27 MB a call
    end)
    for i, kept in ipairs(model.seen) do
      assert.is_true(math.abs(sums[i] - kept[2]:sum():item()) < 1)
      assert.is_true(rawequal(kept[3], x))
      assert.same({32, 32, 48, 48}, kept[1].shape)
    end
  end)
end)

describe("running out of memory", function()
  it("anywhere in a training step leaks nothing and leaves the model usable", function()
    finally(function() capl.memory_limit(0) end)
    local model = nn.Sequential{nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
      nn.Linear(8 * 13 * 13, 10)}
    local x, labels = capl.randn(16, 1, 28, 28), capl.zeros({16}, {dtype = "i32"})
    local opt = optim.Adam(model:parameters())
    local function step() opt:backward_step(nn.cross_entropy(model(x), labels)) end
    step()
    model:zero_grad()
    local before = live_bytes()
    local failed, done = 0, 0
    for extra = 0, 4 * MB, 64 * 1024 do
      capl.memory_limit(before + extra)
      local ok, err = pcall(step)
      capl.memory_limit(0)
      if ok then
        done = done + 1
      else
        failed = failed + 1
        assert.equal("nomem", err.code, tostring(err))
      end
      model:zero_grad()
      assert.equal(before, live_bytes(), ("after a limit of %d more bytes"):format(extra))
    end
    assert.is_true(failed >= 5 and done >= 5, ("%d failed, %d done"):format(failed, done))
    step()
  end)
end)

describe("capl.scope", function()
  it("releases what is not returned or kept", function()
    local inside, kept
    local a, b = capl.scope(function(n)
      inside = capl.zeros(n)
      kept = capl.ones(n):keep()
      return capl.full({n}, 2), {list = {capl.full({n}, 3)}}
    end, 2)
    assert.equal("LINE: tensor was released\n  hint: its capl.scope ended or :free() was called; "
      .. "return it from the scope or :keep() it", error_text(function() return inside:sum() end))
    assert.is_true(inside:is_released())
    assert.same({1, 1}, kept:tolist())
    assert.same({2, 2}, a:tolist())
    assert.same({3, 3}, b.list[1]:tolist())
  end)

  it("nests, and hands results to the scope around it", function()
    local inner, outer
    capl.scope(function()
      outer = capl.zeros(1)
      inner = capl.scope(function() return capl.ones(1) end)
      assert.equal(1, inner:item())
      assert.equal(0, outer:item())
    end)
    assert.is_true(inner:is_released() and outer:is_released())
  end)

  it("releases after errors and passes them on", function()
    local x
    local ok, err = pcall(capl.scope, function()
      x = capl.zeros(1)
      error("mine", 0)
    end)
    assert.is_false(ok)
    assert.equal("mine", err)
    assert.is_true(x:is_released())
  end)

  it("leaves parameters and optimizer state alone", function()
    local model, opt
    for _ = 1, 3 do
      capl.scope(function()
        model = model or nn.Linear(2, 1)
        opt = opt or optim.Adam(model:parameters())
        opt:backward_step(model(capl.ones(1, 2)):sum())
      end)
    end
    assert.equal(3, opt.steps)
    assert.same({1, 2}, model.weight.shape)
  end)

  it("gives memory back at once", function()
    collectgarbage("stop")
    local before = capl.memory().live
    for _ = 1, 50 do capl.scope(function() return (capl.zeros(1000, 1000) * 2):sum():item() end) end
    assert.equal(before, capl.memory().live)
    collectgarbage("restart")
  end)
end)

describe("x:free", function()
  it("lets go now, also twice", function()
    local before = capl.memory().live
    local x = capl.zeros(1000)
    assert.is_true(capl.memory().live > before)
    x:free()
    x:free()
    assert.equal(before, capl.memory().live)
  end)
end)
