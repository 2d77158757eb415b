-- capl.capture: what it watches and refuses, what it replays, and that captured steps equal plain ones bit for bit.
-- On a device that records (CAPL_DEVICE=cuda, also the fake runtime of tests/cuda) the same tests replay graphs.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text = support.error_text

local records = capl.device():match("^cuda") ~= nil

local function small_net()
  capl.manual_seed(3)
  return nn.Sequential{
    nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.25),
    nn.Flatten(), nn.Linear(16 * 4 * 6, 10),
  }
end

-- recipes/captcha_cnn.lua, smaller: 3 blocks with pooling, dropout behind the large linear layer.
local function captcha_cnn()
  capl.manual_seed(5)
  local layers = {}
  for _, channels in ipairs{{1, 8}, {8, 16}, {16, 16}} do
    table.insert(layers, nn.Conv2d(channels[1], channels[2], 3, {padding = 1}))
    table.insert(layers, nn.BatchNorm2d(channels[2]))
    table.insert(layers, nn.ReLU())
    if channels[1] ~= 8 then table.insert(layers, nn.MaxPool2d(2)) end
  end
  for _, layer in ipairs{nn.Flatten(), nn.Linear(16 * 2 * 3, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 10)} do
    table.insert(layers, layer)
  end
  return nn.Sequential(layers)
end

-- Batch norm and relu in a forward of its own, which are fused (engine/bind/core/peephole.c).
local function called_one_by_one()
  capl.manual_seed(7)
  local Net = nn.class("Net")
  function Net:init()
    self.conv, self.bn, self.relu = nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU()
    self.fc, self.last = nn.Linear(8 * 8 * 12, 10), nn.BatchNorm1d(10)
  end
  function Net:forward(x)
    x = self.relu(self.bn(self.conv(x)))
    return self.last(self.fc(x:flatten(2)))
  end
  return Net()
end

-- Batches of one shape, made before the steps.
local function batches(count)
  local out = {}
  for i = 1, count do
    out[i] = {capl.randn(4, 1, 8, 12, {seed = 7, stream = {i, 0, 0}}),
      capl.tensor({i % 10, (i + 3) % 10, (i + 5) % 10, (2 * i) % 10}, {dtype = "i32"})}
  end
  return out
end

-- Losses and final state of a training of `count` steps.
local function train(count, captured, change)
  local o = {optimizer = function(p)
    return optim.AdamW(p, {lr = optim.schedule.cosine{lr = 0.01, T_max = count}}) end, precision = "fp32"}
  for key, value in pairs(change or {}) do o[key] = value end
  local model, data = (o.net or small_net)(), batches(count)
  local opt = o.optimizer(model:parameters())
  local function step(image, label)
    local loss = capl.autocast(o.precision, function()
      local output = model(image)
      return o.loss and o.loss(output, image) or nn.cross_entropy(output, label)
    end)
    opt:backward_step(loss)
    return loss
  end
  local run, losses = captured and capl.capture(step) or step, {}
  for i, batch in ipairs(data) do
    if o.between then o.between(i, model, opt) end
    losses[i] = run(batch[1], batch[2])
  end
  for i, loss in ipairs(losses) do losses[i] = loss:item() end
  local state = {}
  for name, tensor in pairs(model:state_dict()) do state[name] = tensor:tolist() end
  return {losses = losses, state = state, steps = opt.steps, lr = opt.lr, skipped = opt.skipped,
    rng = {capl.rand(2):tolist()}}, run
end

local function equals_plain(count, change)
  local plain = train(count, false, change)
  local captured, run = train(count, true, change)
  assert.same(plain.losses, captured.losses)
  assert.same(plain, captured)
  return run, captured
end

describe("a captured step equals the plain one", function()
  it("with dropout, batch norm, a schedule and AdamW, over 10 steps", function()
    local run = equals_plain(10)
    local state = run:state()
    assert.same(records and {1, 1, 8} or {1, 0, 0}, {state.kinds, state.captured, state.replays})
  end)

  it("of captcha_cnn, in each precision", function()
    local function loss(output, image)
      return nn.multilabel_soft_margin(output, image:reshape(4, -1):narrow(2, 1, 10):gt(0):float())
    end
    for _, precision in ipairs(records and {"fp32", "tf32", "fp16", "bf16"} or {"fp32", "bf16"}) do
      local run, result = equals_plain(10,
        {net = captcha_cnn, precision = precision, loss = loss, optimizer = function(p)
        local lr = optim.schedule.warmup_cosine{lr = 0.01, warmup = 3, total = 10}
        return optim.AdamW(p, {lr = lr, clip_norm = 1, loss_scale = {init_scale = 2 ^ 23, growth_interval = 2}})
      end})
      assert.equal(records and 8 or 0, run:state().replays)
      if precision == "fp16" then assert.is_true(result.skipped > 0 and result.skipped < 8, result.skipped) end
    end
  end)

  it("of batch norms called in a forward, the last of which no relu follows", function()
    local fused = capl.counters().fused_ops
    equals_plain(7, {net = called_one_by_one})
    assert.is_true(capl.counters().fused_ops > fused)
  end)

  it("with SGD, momentum and clipping", function()
    equals_plain(7, {optimizer = function(p) return optim.SGD(p, {lr = 0.05, momentum = 0.9, clip_norm = 0.5}) end})
  end)

  it("with Muon and AdamW joined", function()
    equals_plain(7, {optimizer = function(p)
      local matrices, others = {}, {}
      for _, x in ipairs(p) do table.insert(#x.shape > 1 and matrices or others, x) end
      return optim.join{optim.Muon(matrices, {lr = optim.schedule.cosine{lr = 0.02, T_max = 7}}),
        optim.AdamW(others, {lr = 0.003, amsgrad = true})}
    end})
  end)

  it("when the rate is set between steps", function()
    equals_plain(8, {optimizer = function(p) return optim.Adam(p, {lr = 0.01}) end,
      between = function(i, _, opt) opt:set_lr(0.01 / i) end})
  end)

  it("when the state of model and optimizer is replaced between steps", function()
    local saved
    equals_plain(9, {between = function(i, model, opt)
      if i == 3 then
        saved = {{}, opt:state_dict()}
        for name, t in pairs(model:state_dict()) do saved[1][name] = t:clone():keep() end
        for _, s in ipairs(saved[2].state) do
          for name, t in pairs(s) do s[name] = capl.is_tensor(t) and t:clone():keep() or t end
        end
      elseif i == 6 then
        model:load_state_dict(saved[1])
        opt:load_state_dict(saved[2])
      end
    end})
  end)
end)

describe("capl.capture", function()
  it("hands out results that the next call does not change", function()
    local step = capl.capture(function(x) return x * 2, {not_a_tensor = true}, 5 end)
    local results = {}
    for i = 1, 6 do
      local y, t, n = step(capl.full({2}, i))
      assert.same({true, 5}, {t.not_a_tensor, n})
      results[i] = y
    end
    for i = 1, 6 do assert.same({2 * i, 2 * i}, results[i]:tolist()) end
  end)

  it("takes tensors inside tables", function()
    local step = capl.capture(function(batch, scale) return batch.a + batch.list[1] * scale end)
    for i = 1, 5 do
      local y = step({a = capl.full({2}, i), list = {capl.ones(2)}, name = "x"}, 3)
      assert.same({i + 3, i + 3}, y:tolist())
    end
  end)

  it("makes one recording for each shape and mode", function()
    local model = small_net()
    local step = capl.capture(function(x) return capl.no_grad(model, x) end)
    local x, y = capl.randn(4, 1, 8, 12), capl.randn(2, 1, 8, 12)
    for _ = 1, 4 do
      model:train()
      step(x)
      model:eval()
      assert.same(capl.no_grad(model, x):tolist(), step(x):tolist())
      assert.same(capl.no_grad(model, y):tolist(), step(y):tolist())
    end
    local state = step:state()
    assert.same({3, records and 3 or 0}, {state.kinds, state.captured})
  end)

  it("follows settings of layers and optimizers that change between calls", function()
    equals_plain(16, {between = function(i, model, opt)
      if i % 3 == 0 then model[8].p = 0.1 + i / 100 end
      if i == 8 then opt.groups[1].weight_decay = 0.3 end
      if i == 12 then model[1]:requires_grad_(false) end
    end})
  end)

  it("makes one recording for each of many widths", function()
    local step = capl.capture(function(x) return (x * 2):sum() end, {strict = true})
    for i = 1, 4 do
      for width = 1, 16 do assert.equal(2 * i * width, step(capl.full({width}, i)):item()) end
    end
    assert.same({16, records and 16 or 0}, {step:state().kinds, step:state().captured})
  end)

  it("lets recordings of other kinds of calls go when one lacks memory", function()
    local step = capl.capture(function(x) return (x * 2 + 1):sum() end, {strict = true})
    local small, large = capl.ones(4), capl.ones(3 * 2 ^ 20)
    for _ = 1, 3 do step(small) end
    assert.equal(records and 1 or 0, step:state().captured)
    capl.memory_limit(capl.memory().live + 2 ^ 20)
    local text = error_text(function() local y = step(large) return y end)
    capl.memory_limit(0)
    assert.matches("out of memory", text, 1, true)
    assert.equal(0, step:state().captured)
    assert.equal(12, step(small):item())
  end)

  it("refuses a 33rd kind of call", function()
    local step = capl.capture(function(x) return x * 2 end)
    for n = 1, 32 do step(capl.ones(n)) end
    local text = error_text(function() local y = step(capl.ones(33)) return y end)
    assert.matches("a captured step has met 32 kinds of calls and this is another one", text, 1, true)
    assert.matches("hint: give it batches of one size (drop_last = true in data.loader)", text, 1, true)
  end)

  local function nth_error(step, ...)
    for _ = 1, 4 do
      local ok, err = pcall(step, ...)
      if not ok then return tostring(err) end
    end
    return "no error"
  end

  it("refuses other ops, numbers and shapes than in the step before, and names the line", function()
    local n = 0
    local where = debug.getinfo(1, "l").currentline + 3
    local numbers = capl.capture(function(x)
      n = n + 1
      return x * (1 + n)
    end)
    local text = nth_error(numbers, capl.ones(2))
    assert.matches(("capture_spec.lua:%d: affine: the captured step is not the same every time: scale was 3, now 4"):format(where),
      text, 1, true)
    assert.matches("hint: a captured step is replayed without its Lua code", text, 1, true)
    local ops = capl.capture(function(x)
      n = n + 1
      return n % 2 == 0 and x:exp() or x:abs()
    end)
    assert.matches("the captured step is not the same every time: the step before had", nth_error(ops, capl.ones(2)), 1,
      true)
    local shapes = capl.capture(function(x)
      n = n + 1
      return x:narrow(1, 1, 1 + n % 3):exp()
    end)
    assert.matches("not the same every time: length was", nth_error(shapes, capl.ones(4)), 1, true)
    local fills = capl.capture(function(x)
      n = n + 1
      return x + capl.full({2}, n)
    end)
    assert.matches("fill_: the captured step is not the same every time: the value was", nth_error(fills, capl.ones(2)),
      1, true)
    local shorter = capl.capture(function(x)
      n = n + 1
      if n % 2 == 0 then return x * 2 end
      return (x * 2):exp()
    end)
    assert.matches("not the same every time: the step ", nth_error(shorter, capl.ones(2)), 1, true)
  end)

  it("refuses a batch norm that is the last op, and goes on after it", function()
    local n, x, norms = 0, capl.ones(3, 4), {nn.BatchNorm1d(4), nn.BatchNorm1d(4)}
    local step = capl.capture(function(y)
      n = n + 1
      return norms[n < 3 and 1 or 2](y)
    end)
    assert.matches("input 2 is another tensor than in the step before", nth_error(step, x), 1, true)
    for _ = 1, 4 do assert.same({3, 4}, step(x).shape) end
    assert.same({3, 4}, capl.capture(function(y) return y * 2 end)(x).shape)
  end)

  it("refuses another tensor that is no argument", function()
    local x
    local step = capl.capture(function() return x * 2 end)
    local text
    for i = 1, 4 do
      x = capl.full({2}, i)
      local ok, err = pcall(step)
      if not ok then text = tostring(err) break end
    end
    assert.matches("input 1 is another tensor than in the step before; pass what changes as an argument", text
      or "no error", 1, true)
  end)

  it("refuses reads by the host, and values from it", function()
    for _, read in ipairs{"item", "tolist"} do
      local step = capl.capture(function(x)
        local y = x:sum()
        return y[read](y)
      end)
      local text = nth_error(step, capl.ones(2))
      assert.matches("values are read by the host inside a captured step, which is replayed without it", text, 1, true)
      assert.matches("hint: read them after the step, from what it returns", text, 1, true)
    end
    local constant = capl.capture(function(x) return x + capl.tensor{1, 2} end)
    assert.matches("values come from the host inside a captured step", nth_error(constant, capl.ones(2)), 1, true)
    local random = capl.capture(function(x) return x + capl.rand(2) end)
    assert.matches("values come from the host inside a captured step", nth_error(random, capl.ones(2)), 1, true)
  end)

  it("lets the first call make what the others only use", function()
    local made
    local step = capl.capture(function(x)
      made = made or capl.tensor({1, 2}):keep()
      return x + made
    end)
    for _ = 1, 5 do assert.same({2, 3}, step(capl.ones(2)):tolist()) end
  end)

  it("runs on as it is when it may not be captured and strict is off", function()
    local step = capl.capture(function(x) return x:sum():item() end, {strict = false})
    for i = 1, 5 do assert.equal(2 * i, step(capl.full({2}, i))) end
    assert.matches("values are read by the host inside a captured step", step:state().eager, 1, true)
    local n = 0
    local changing = capl.capture(function(x)
      n = n + 1
      return x * n
    end, {strict = false})
    for i = 1, 6 do assert.same({i}, changing(capl.ones(1)):tolist()) end
    assert.matches("scale was", changing:state().eager, 1, true)
  end)

  it("says what was refused, whatever differs from the first step behind it", function()
    local kept
    local step = capl.capture(function(x)
      local picked = x:index_select(1, {1})
      kept = kept or capl.ones(2):keep() -- made in the first step, used by the others
      return picked + kept
    end, {strict = false})
    for _ = 1, 3 do step(capl.ones(2, 2)) end
    assert.matches("values come from the host inside a captured step", step:state().eager, 1, true)
  end)

  it("passes errors of the step on, and goes on after them", function()
    local bad
    local step = capl.capture(function(x)
      if bad then return x:matmul(capl.ones(3, 3)) end
      return x * 2
    end)
    for i = 1, 6 do
      bad = i == 2
      local ok, y = pcall(step, capl.ones(1, 2))
      assert.equal(i ~= 2, ok)
      if ok then assert.same({{2, 2}}, y:tolist()) end
    end
  end)

  it("refuses a step inside a step, and arguments on another device", function()
    local inner = capl.capture(function(x) return x * 2 end)
    local outer = capl.capture(function(x) return inner(x) end)
    assert.matches("a captured step runs inside another", nth_error(outer, capl.ones(1)), 1, true)
    local other = records and "cpu" or "ref"
    assert.matches(("tensor 1 of the arguments is on %s, the step works on %s"):format(other, capl.device()),
      error_text(function() local y = inner(capl.ones(1, {device = other})) return y end), 1, true)
  end)

  -- What LuaJIT still finds of earlier tests in dead slots of its stack may keep one of their recordings: not counted.
  local function captured_bytes()
    support.live_bytes()
    return capl.memory().captured
  end

  it("gives its memory back", function()
    local before = captured_bytes()
    support.no_leak(function()
      local step = capl.capture(function(x) return (x:matmul(x) * 2):sum() end)
      local x = capl.ones(64, 64)
      for _ = 1, 5 do step(x) end
      support.live_bytes() -- what the recorded call left to the collector returns to the recording
      if records then assert.is_true(capl.memory().captured >= before + 2 * 64 * 64 * 4) end
    end)
    assert.is_true(capl.memory().captured <= before)
  end)

  it("lets its memory go when memory runs out elsewhere, and is recorded anew", function()
    finally(function() capl.memory_limit(0) end)
    local before = captured_bytes()
    local step = capl.capture(function(x) return (x:matmul(x) * 2):sum() end)
    local x = capl.ones(64, 64)
    for _ = 1, 4 do step(x) end
    support.live_bytes()
    capl.memory_limit(capl.memory().live + 2 ^ 20)
    assert.is_false((pcall(capl.empty, 2 ^ 20)))
    capl.memory_limit(0)
    assert.same({1, 0}, {step:state().kinds, step:state().captured})
    assert.is_true(capl.memory().captured <= before)
    for _ = 1, 4 do assert.equal(2 * 64 ^ 3, step(x):item()) end
    assert.equal(records and 1 or 0, step:state().captured)
  end)

  it("is not used while kernels are timed", function()
    local step = capl.capture(function(x) return x:exp() end)
    local x = capl.ones(3)
    for _ = 1, 4 do step(x) end
    local events = capl.profile(function() step(x) end)
    assert.equal("exp", events[1].op)
  end)
end)
