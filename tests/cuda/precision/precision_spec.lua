-- Precision on a GPU: which types products run in, training in fp16, loss scales under forced overflows, what a run
-- tells.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn, optim = capl.nn, capl.optim

local names = {"bf16", "fp16", "tf32", "fp32"}

-- Products by type that fn makes.
local function products(fn)
  local before, out = capl.counters(), {}
  fn()
  local after = capl.counters()
  for _, name in ipairs(names) do
    local key = name .. "_kernels"
    if after[key] > before[key] then out[name] = after[key] - before[key] end
  end
  return out
end

local function small_net()
  return nn.Sequential{nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(128, 4)}
end

describe("products", function()
  it("run in the type of the precision, backward too", function()
    local model, x = nn.Linear(8, 8), capl.randn(4, 8)
    for _, name in ipairs(names) do
      local counts = products(function()
        capl.autocast(name, function() return model(x):float():sum() end):backward()
      end)
      assert.same({[name] = counts[name]}, counts)
      assert.is_true(counts[name] >= 2, name)
    end
  end)

  it("are rounded to TF32 in its autocast only, and in the backward pass after it", function()
    local a = capl.randn(4, 4)
    local function multiply() return a:matmul(a) end
    capl.autocast("tf32", function()
      assert.same({tf32 = 1}, products(multiply))
      capl.autocast("fp32", function() assert.same({fp32 = 1}, products(multiply)) end)
      assert.same({tf32 = 1}, products(multiply))
      pcall(capl.autocast, "fp32", error)
      assert.same({tf32 = 1}, products(multiply))
    end)
    assert.same({tf32 = 1}, products(multiply))
    capl.autocast("fp32", function() end)
    assert.same({fp32 = 1}, products(multiply))
  end)

  it("are bf16 for auto on a GPU that has it", function()
    local kind, why, name = capl.precision("auto")
    assert.same({"bf16", "bf16"}, {kind, name})
    assert.matches("^auto: this GPU", why)
  end)
end)

describe("fp16", function()
  local function losses(precision, steps)
    capl.manual_seed(5)
    local model = small_net()
    local x, labels = capl.randn(16, 1, 8, 8), (capl.rand(16) * 4):to("i32")
    local opt, out = optim.Adam(model:parameters(), {lr = 1e-2}), {}
    for i = 1, steps do
      local loss = capl.autocast(precision, function() return nn.cross_entropy(model(x), labels) end)
      opt:backward_step(loss)
      out[i] = loss:item()
    end
    return out, opt
  end

  it("trains about as fp32 does", function()
    local exact = losses("fp32", 20)
    local low, opt = losses("fp16", 20)
    assert.is_true(exact[20] < 0.1 * exact[1])
    assert.is_true(math.abs(low[1] - exact[1]) < 0.01 and math.abs(low[20] - exact[20]) < 0.03)
    assert.is_true(opt.loss_scale >= 16384 and opt.skipped <= 2, ("%g %g"):format(opt.loss_scale, opt.skipped))
    assert.equal(20, opt.steps)
  end)

  it("keeps gradients that would be lost without a loss scale", function()
    local x = capl.ones({1}, {requires_grad = true})
    local function step(loss_scale)
      local opt = optim.SGD({x}, {lr = 1e6, loss_scale = loss_scale})
      opt:backward_step((x:to("f16") * 1e-3):float():sum() * 2 ^ -16)
      return opt
    end
    step("none")
    assert.equal(1, x:item())
    step("auto")
    assert.is_true(math.abs(1 - x:item() - 1e3 * 2 ^ -16) < 1e-4)
  end)

  -- PyTorch's rule in plain Lua; finite: by step.
  local function rule(finite, o)
    local scale, tracker, scales, skipped = o.init_scale, 0, {}, 0
    for step, good in ipairs(finite) do
      if good then
        tracker = tracker + 1
        if tracker == o.growth_interval then scale, tracker = scale * 2, 0 end
      else
        scale, tracker, skipped = scale / 2, 0, skipped + 1
      end
      scales[step] = scale
    end
    return scales, skipped
  end

  local o = {init_scale = 2 ^ 14, growth_interval = 3}
  local boost = {[4] = 2 ^ 12, [5] = 2 ^ 12, [11] = 2 ^ 14, [16] = 2 ^ 12} -- of the loss: its gradient then exceeds f16

  -- The scale after each of 20 steps, whether each was finite, and the weights.
  local function run(device, make)
    capl.device(device)
    capl.manual_seed(7)
    local model = nn.Sequential{nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 3)}
    local opt, scales, finite, before = make(model), {}, {}, 0
    local x = capl.randn(8, 1, 6, 6)
    for step = 1, 20 do
      local loss = capl.autocast("fp16", function() return model(x):float():abs():mean() end)
      opt:backward_step(loss * (boost[step] or 1))
      scales[step], finite[step], before = opt.loss_scale, opt.skipped == before, opt.skipped
    end
    local weights = {}
    for _, p in ipairs(model:parameters()) do
      for _, v in ipairs(p:reshape(-1):tolist()) do weights[#weights + 1] = v end
    end
    return scales, finite, weights, opt.skipped
  end

  local makers = {
    SGD = function(model) return optim.SGD(model:parameters(), {lr = 1e-4, momentum = 0.9, loss_scale = o}) end,
    ["AdamW, clipped"] = function(model)
    return optim.AdamW(model:parameters(), {lr = 1e-4, clip_norm = 1, loss_scale = o}) end,
      ["Muon and AdamW, joined"] = function(model)
      local matrices, others = {}, {}
      for _, p in ipairs(model:parameters()) do table.insert(#p.shape > 1 and matrices or others, p) end
      return optim.join({optim.Muon(matrices, {lr = 1e-3}), optim.AdamW(others, {lr = 1e-3, clip_norm = 1})},
        {loss_scale = o})
    end,
  }

  for name, make in pairs(makers) do
    it("has the scales and skips of the rule, and the weights of ref, with " .. name, function()
      local home = capl.device()
      local scales, finite, weights, skipped = run(home, make)
      local expected, count = rule(finite, o)
      assert.same(expected, scales)
      assert.equal(count, skipped)
      assert.is_true(skipped >= 4, "overflows were forced at 4 steps at least")
      local ref_scales, ref_finite, ref_weights = run("ref", make)
      capl.device(home)
      assert.same(ref_finite, finite)
      assert.same(ref_scales, scales)
      for i, v in ipairs(ref_weights) do
        assert.is_true(math.abs(v - weights[i]) < 2e-3, ("weight %d is %g, on ref %g"):format(i, weights[i], v))
      end
    end)
  end

  it("is captured: the same scales, skips and weights, bit for bit", function()
    local function train(wrap)
      capl.manual_seed(9)
      local model = small_net()
      local opt = makers["Muon and AdamW, joined"](model)
      local x, labels, scales = capl.randn(8, 1, 8, 8), (capl.rand(8) * 4):to("i32"), {}
      local step = wrap(function(image, factor)
        local loss = capl.autocast("fp16", function() return nn.cross_entropy(model(image), labels) end)
        opt:backward_step(loss * factor)
        return loss
      end)
      for i = 1, 14 do
        step(x, capl.full({1}, boost[i] or 1):reshape{})
        scales[i] = opt.loss_scale
      end
      local weights = {}
      for i, p in ipairs(model:parameters()) do weights[i] = p:tolist() end
      return {scales, weights, opt.skipped, opt.steps, opt.state_dict and opt:state_dict().optimizers[1].state[1].step},
        step
    end
    local plain = train(function(fn) return fn end)
    local captured, step = train(capl.capture)
    assert.same(plain, captured)
    assert.equal(3, captured[3])
    assert.equal(1, step:state().captured)
    assert.is_true(step:state().replays >= 8)
  end)

  it("goes on where a saved optimizer stopped", function()
    local make = makers.SGD
    capl.manual_seed(1)
    local a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    local one, two = make(a), make(b)
    local function step(model, opt)
      opt:backward_step(capl.autocast("fp16", function() return model(capl.ones(2, 3)):float():mean() end))
    end
    for _ = 1, 4 do step(a, one) end
    b:load_state_dict(a:state_dict())
    two:load_state_dict(one:state_dict())
    assert.equal(2 ^ 15, two.loss_scale)
    for _ = 1, 3 do
      step(a, one)
      step(b, two)
    end
    assert.equal(2 ^ 16, two.loss_scale)
    assert.same(a.weight:tolist(), b.weight:tolist())
  end)

  it("refuses a step whose parts were summed with and without a scale", function()
    local x = capl.ones({1}, {requires_grad = true})
    local opt = optim.SGD({x}, {lr = 1})
    opt:backward(x:sum())
    local ok, err = pcall(opt.backward, opt, x:to("f16"):float():sum())
    assert.is_false(ok)
    assert.matches("some gradients of this step were summed without loss scale", tostring(err), 1, true)
  end)
end)

describe("the norm of all gradients", function()
  it("is finite while every gradient is, whatever their squares are", function()
    local norm = capl.op.grad_norm(capl.tensor{3e25, 0}, capl.tensor{4e25}):item()
    assert.is_true(math.abs(norm / 5e25 - 1) < 1e-6)
  end)
end)

describe("a run", function()
  local folder = os.getenv("CAPL_SOURCE_DIR") .. "/tests/cuda/precision"

  -- Output of the recipe with one more word, run in a folder of its own.
  local function output(word, environment, device)
    local command = "d=$(mktemp -d) && cd $d && %s '%s' %s/recipe.lua --device=%s %s 2>&1; cd / && rm -r $d"
    local pipe = io.popen(command:format(environment or "", os.getenv("CAPL_BIN"), folder, device or "cuda", word))
    local text = pipe:read("*a")
    pipe:close()
    return text
  end

  it("tells how many products of each type a step launches, and how the loss scale went", function()
    local text = output("--precision=fp16")
    assert.matches("precision fp16: 5 fp16 matmul/conv calls a step\n", text, 1, true)
    assert.matches("report: loss scale 32768 (it grew 0 times), 1 step skipped\n", text, 1, true)
    text = output("--precision=auto")
    assert.matches("precision bf16: 5 bf16 matmul/conv calls a step\n", text, 1, true)
    assert.is_nil(text:find("loss scale", 1, true))
    assert.matches("precision tf32: 5 tf32 matmul/conv calls a step\n", output("--precision=tf32"), 1, true)
    assert.matches("precision fp32: 5 fp32 matmul/conv calls a step\n", output("--precision=fp32"), 1, true)
  end)

  it("names what runs on own kernels before its first step, in its report and in bench", function()
    local refused = "CAPL_FAKE_DNN=no:conv2d_grad_w"
    local text = output("", refused)
    local said = "conv2d_grad_w: 1 of 1 on own kernels"
    local warned = text:find("warning: " .. said .. ": cuDNN or cuBLASLt has nothing for them", 1, true)
    assert.is_number(warned)
    assert.is_true(warned < text:find("matmul/conv calls a step", 1, true))
    assert.matches("report: " .. said .. "\n", text, 1, true)
    text = output("", refused, "auto") -- nobody asked for a GPU by name
    assert.is_nil(text:find("warning:", 1, true))
    assert.matches("note: " .. said, text, 1, true)
    assert.matches("matmul: 3 of 3 on own kernels", output("", "CAPL_FAKE_BLAS=none"), 1, true)
    assert.is_nil(output(""):find("own kernels", 1, true))
  end)

  it("has the numbers for programs", function()
    local command = "CAPL_FAKE_DNN=no:conv2d_grad_w '%s' bench --json --steps=1 --warmup=1 %s/recipe.lua --device=cuda"
    local pipe = io.popen(command:format(os.getenv("CAPL_BIN"), folder))
    local text = pipe:read("*a"):gsub("%s", "")
    pipe:close()
    assert.matches('"own_kernels":{"conv2d":{"own":0,"total":1},"conv2d_grad_w":{"own":1,"total":1},"matmul":{"own":0,"total":3}}',
      text, 1, true)
  end)

  it("refuses what the GPU does not have, and takes fp16 for auto where there is no bf16", function()
    local old = "CAPL_SHIM_CAPABILITY=75"
    for _, name in ipairs{"bf16", "tf32"} do
      assert.matches("precision = " .. name .. " is not supported on cuda, which offers fp16, fp32",
        output("--precision=" .. name, old), 1, true)
    end
    local text = output("--precision=auto", old)
    assert.matches("auto: this GPU multiplies fp16 at many times the rate of f32, and has no bf16\n", text, 1, true)
    assert.matches("precision fp16: 5 fp16 matmul/conv calls a step\n", text, 1, true)
  end)
end)
