-- 16-bit weights kept beside f32 ones: never stale, whoever writes the weights, and never cast for nothing.
--
-- On a device that records (CAPL_DEVICE=cuda, also the fake runtime of tests/cuda) captured steps are graphs without
-- casts. unit/shadow looks at the bits.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim

local records = capl.device():match("^cuda") ~= nil

-- Products with 16-bit factors, with biases that cuDNN and cuBLASLt take in 16 bits.
local function net()
  capl.manual_seed(4)
  return nn.Sequential{nn.Conv2d(3, 8, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(),
    nn.Linear(8 * 4 * 4, 6), nn.ReLU(), nn.Linear(6, 5)}
end

local image = capl.randn(2, 3, 6, 6, {seed = 9, stream = {1, 0, 0}}):keep()
local label = capl.tensor({1, 4}, {dtype = "i32"}):keep()

local function loss_of(model, precision)
  return capl.autocast(precision, function() return nn.cross_entropy(model(image), label) end)
end

local function output_of(model, precision)
  return capl.no_grad(function() return capl.autocast(precision, model, image) end)
end

-- A model gives what one does that has just got its weights. Made once: a new model would end a captured step.
local twin = net()
local function check_not_stale(model, precision)
  twin:load_state_dict(model:state_dict())
  assert.same(output_of(twin, precision):tolist(), output_of(model, precision):tolist())
end

-- Casts of weights that fn runs.
local function casts(fn, ...)
  local before = capl.counters().weight_casts
  fn(...)
  return capl.counters().weight_casts - before
end

local optimizers = {
  SGD = function(p) return optim.SGD(p, {lr = 0.1}) end,
  ["SGD with momentum"] = function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9, nesterov = true}) end,
  Adam = function(p) return optim.Adam(p, {lr = 0.01}) end,
  AdamW = function(p) return optim.AdamW(p, {lr = 0.01, clip_norm = 1}) end,
  RMSprop = function(p) return optim.RMSprop(p, {lr = 0.01, momentum = 0.9, centered = true}) end,
  ["Muon and AdamW"] = function(p)
    local matrices, others = {}, {}
    for _, x in ipairs(p) do table.insert(#x.shape > 1 and matrices or others, x) end
    return optim.join({optim.Muon(matrices, {lr = 0.02}), optim.AdamW(others)}, {clip_norm = 1})
  end,
}

for _, precision in ipairs(records and {"bf16", "fp16"} or {"bf16"}) do
  describe("weights in " .. precision, function()
    it("are cast once for any number of calls", function()
      local model = net()
      local first = casts(output_of, model, precision)
      assert.is_true(first >= 4, first)
      assert.equal(0, casts(function() for _ = 1, 3 do output_of(model, precision) end end))
      model:eval():requires_grad_(false)
      assert.equal(0, casts(output_of, model, precision))
      local frozen = net():requires_grad_(false)
      assert.equal(first, casts(output_of, frozen, precision))
      assert.equal(0, casts(output_of, frozen, precision))
    end)

    for name, make in pairs(optimizers) do
      it("are written by the steps of " .. name, function()
        local model = net()
        local opt = make(model:parameters())
        local function step() opt:backward_step(loss_of(model, precision)) end
        step()
        assert.equal(0, casts(function() for _ = 1, 4 do step() end end))
        check_not_stale(model, precision)
      end)
    end

    it("stay as they are when a step is skipped", function()
      local model = net()
      local opt = optim.Adam(model:parameters(), {lr = 0.01, clip_norm = 1})
      opt:backward_step(loss_of(model, precision))
      local before = output_of(model, precision):tolist()
      opt:backward(loss_of(model, precision) * math.huge)
      opt:step()
      opt:zero_grad()
      assert.equal(1, opt.skipped)
      assert.equal(0, casts(function() assert.same(before, output_of(model, precision):tolist()) end))
      check_not_stale(model, precision)
    end)

    it("follow every write", function()
      local model = net()
      local w = model[6].weight
      local average = capl.train.EMA(model, {decay = 0.5, warmup = false})
      local writes = {
        function() w:fill_(0.3) end,
        function() w:copy_(w * 2) end,
        function() w:narrow(1, 2, 1):copy_(w:narrow(1, 1, 1)) end,
        function() w:detach():copy_(w - 1) end,
        function() model:load_state_dict(net():state_dict()) end,
        function() average:apply() end,
        function() average:restore() end,
        function() model[8].bias:fill_(3) end,
      }
      for i, write in ipairs(writes) do
        output_of(model, precision)
        capl.no_grad(write)
        assert.is_true(casts(output_of, model, precision) > 0 or i == #writes, i)
        check_not_stale(model, precision)
      end
      assert.equal(0, casts(function() -- a moving average reads the weights
        average:update()
        output_of(model, precision)
      end))
    end)
  end)
end

-- As text, so that NaN equals NaN.
local function numbers_of(model)
  local out = {}
  for name, p in model:named_parameters() do
    local parts = {}
    for i, v in ipairs(p:reshape(-1):tolist()) do parts[i] = ("%.9g"):format(v) end
    out[name] = table.concat(parts, " ")
  end
  return out
end

-- Trains with a captured step beside a plain one; between(i, model, opt, o) is called before step i of both.
local function captured_equals_plain(between, make, precision)
  precision = precision or "bf16"
  local results = {}
  for _, captured in ipairs{false, true} do
    local model = net()
    local opt = (make or optimizers.Adam)(model:parameters())
    local function step(x)
      local loss = capl.autocast(precision, function() return nn.cross_entropy(model(x), label) end)
      opt:backward_step(loss)
      return loss
    end
    local run, losses, memory = captured and capl.capture(step) or step, {}, {}
    for i = 1, 8 do
      capl.no_grad(between, i, model, opt, memory)
      losses[i] = ("%.9g"):format(run(image):item())
    end
    check_not_stale(model, "bf16")
    if captured and records then assert.is_true(run:state().replays > 0) end
    results[#results + 1] = {losses, numbers_of(model)}
  end
  assert.same(results[1], results[2])
end

describe("a captured step", function()
  it("without writes from outside runs no casts", function()
    local counts = {}
    captured_equals_plain(function(i) counts[i] = capl.counters().weight_casts end)
    assert.equal(counts[3], counts[8])
  end)

  it("reads what load_state_dict has brought", function()
    captured_equals_plain(function(i, model)
      if i == 3 or i == 6 then model:load_state_dict(net():state_dict()) end
    end)
  end)

  it("reads its own weights again after averages were in the model", function()
    captured_equals_plain(function(i, model, _, o)
      o.average = o.average or capl.train.EMA(model, {decay = 0.5, warmup = false})
      if i < 8 then o.average:update() end
      if i == 5 then o.average:applied(function() check_not_stale(model, "bf16") end) end
      if i == 7 then o.average:apply() end
      if i == 8 then o.average:restore() end
    end)
  end)

  it("reads a single weight that was written", function()
    captured_equals_plain(function(i, model)
      if i > 4 then model[1].weight:copy_(model[1].weight * 0.5) end
      if i == 6 then model[3].bias:fill_(i) end
    end)
  end)

  it("that changes weights by hand, too", function()
    captured_equals_plain(function() end, function(p)
      local opt = optim.SGD(p, {lr = 0.1})
      local step = opt.backward_step
      function opt.backward_step(self, loss)
        step(self, loss)
        capl.no_grad(function() p[1]:copy_(p[1]:clamp(-0.1, 0.1)) end)
      end
      return opt
    end)
  end)

  it("in fp32 serves those who read in bf16 between its launches", function()
    captured_equals_plain(function(i, model) if i % 2 == 0 then check_not_stale(model, "bf16") end end, nil, "fp32")
  end)

  it("with evaluation in another type between its launches", function()
    captured_equals_plain(function(_, model) check_not_stale(model, records and "fp16" or "fp32") end)
  end)

  it("skips steps whose gradients are not finite", function()
    captured_equals_plain(function(i, model)
      if i == 4 or i == 6 then model[8].bias:fill_(i == 4 and 0 / 0 or 0) end
    end, optimizers.AdamW)
  end)
end)

describe("a weight kept in 16 bits", function()
  it("may be shared between layers", function()
    local a, b = nn.Linear(6, 6), nn.Linear(6, 6)
    b.weight = a.weight
    local model = nn.Sequential{a, nn.ReLU(), b}
    local opt = optim.SGD(model:parameters(), {lr = 0.1})
    local x = capl.randn(3, 6)
    local function step() opt:backward_step(capl.autocast("bf16", function() return model(x):float():sum() end)) end
    step()
    assert.equal(0, casts(step))
    assert.equal(0, casts(capl.no_grad, capl.autocast, "bf16", model, x))
  end)

  it("may lose its gradient for a step", function()
    local model = net()
    local opt = optim.Adam(model:parameters(), {lr = 0.01})
    for i = 1, 4 do
      loss_of(model, "bf16"):backward()
      if i == 3 then model[6].weight:zero_grad() end
      assert.equal(i == 1, casts(function() opt:step() opt:zero_grad() output_of(model, "bf16") end) > 0 or i == 1)
      check_not_stale(model, "bf16")
    end
  end)

  it("costs two bytes an element, which go with it", function()
    support.no_leak(function()
      local layer = nn.Linear(256, 256, {bias = false})
      local x = capl.ones(1, 256)
      support.live_bytes()
      local before = support.live_bytes()
      capl.no_grad(capl.scope, function() capl.autocast("bf16", layer, x) end)
      assert.equal(before + 2 * 256 * 256, support.live_bytes())
    end)
  end)
end)
