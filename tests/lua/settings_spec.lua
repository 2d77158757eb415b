-- Settings and metrics of the process: devices, precision, seed, counters, clock, profile, the registered model.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text = support.error_text

describe("devices", function()
  teardown(function() capl.device("cpu") end)

  it("are listed, and one is the default", function()
    assert.equal("cpu", capl.device())
    local names = {}
    for _, d in ipairs(capl.devices()) do
      if d.available then names[#names + 1] = d.name else assert.truthy(d.why:find("not available", 1, true), d.why) end
    end
    if names[2] == "cuda" then table.remove(names, 2) end -- where there is a GPU
    assert.same({"cpu", "ref", "meta"}, names)
    assert.equal("ref", capl.device("ref"))
    assert.equal("ref", capl.zeros(1).device)
    assert.equal("cpu", capl.device("auto"))
    assert.truthy(error_text(function() capl.device("gpu") end):find("gpu", 1, true))
  end)

  it("meta knows shapes alone", function()
    local x = capl.zeros({2, 3, 4, 4}, {device = "meta"})
    assert.same({2, 3, 2, 2}, (capl.op.max_pool2d(x, {kernel = 2})).shape)
    assert.truthy(error_text(function() return (x:sum():item()) end):find("meta", 1, true))
  end)

  it("are not mixed in one op", function()
    local text = error_text(function() return (capl.zeros(2) + capl.zeros({2}, {device = "ref"})) end)
    assert.truthy(text:find('move it with :to("cpu")', 1, true), text)
  end)
end)

describe("precision", function()
  it("auto says what was chosen and why", function()
    local chosen, why = capl.precision("auto")
    assert.is_true(chosen == "bf16" or chosen == "f32")
    assert.truthy(why:find("^auto: "))
    assert.equal("bf16", (capl.precision("bf16")))
    assert.equal("f32", (capl.precision("fp32")))
    assert.equal("bf16", (capl.precision{cpu = "bf16", cuda = "fp16"}))
    assert.equal(chosen, (capl.precision{cuda = "fp16"}))
    for _, name in ipairs{"fp16", "tf32"} do
      assert.equal("LINE: precision = " .. name
        .. " is not supported on cpu, which offers bf16, fp32\n  hint: use \"auto\", or set "
        .. "it for one device: {cuda = \"" .. name .. "\", cpu = \"auto\"}",
        error_text(function() return (capl.precision(name)) end))
    end
    assert.same({"bf16", "asked for", "bf16"}, {capl.precision("bf16")})
    assert.equal("fp32", (select(3, capl.precision("f32"))))
    assert.equal("LINE: unknown precision 'bf61'; did you mean 'bf16'?",
      error_text(function() return (capl.precision("bf61")) end))
  end)

  it("autocast computes products in 16 bit, leaves parameters f32, and is counted", function()
    local model = nn.Linear(8, 4)
    local before = capl.counters().bf16_kernels
    local y, extra = capl.autocast("bf16", function(x) return model(x), "more" end, capl.randn(2, 8))
    assert.equal("bf16", y.dtype)
    assert.equal("more", extra)
    assert.equal(before + 1, capl.counters().bf16_kernels)
    y:float():sum():backward()
    assert.equal("f32", model.weight.dtype)
    assert.equal("f32", model.weight.grad.dtype)
    assert.equal("f32", model(capl.randn(2, 8)).dtype)
  end)

  it("autocast ends with errors too", function()
    assert.is_false(pcall(capl.autocast, "bf16", function() error("x") end))
    assert.equal("f32", nn.Linear(2, 2)(capl.ones(1, 2)).dtype)
    assert.equal("f32", capl.autocast("fp32", nn.Linear(2, 2), capl.ones(1, 2)).dtype)
    assert.equal("LINE: bad argument #2 to 'autocast' (function expected, got nil)",
      error_text(function() return (capl.autocast("bf16")) end))
  end)

  it("autocast trains about as f32 does", function()
    local function losses(precision)
      capl.manual_seed(5)
      local model = nn.Sequential{nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 4)}
      local x, labels = capl.randn(16, 1, 8, 8), (capl.rand(16) * 4):to("i32")
      local opt, out = capl.optim.Adam(model:parameters(), {lr = 1e-2}), {}
      for i = 1, 20 do
        local loss = capl.autocast(precision, function() return nn.cross_entropy(model(x), labels) end)
        opt:backward_step(loss)
        out[i] = loss:item()
      end
      return out
    end
    local exact, low = losses("fp32"), losses("bf16")
    assert.is_true(exact[20] < 0.1 * exact[1])
    assert.is_true(math.abs(low[1] - exact[1]) < 0.03 and math.abs(low[20] - exact[20]) < 0.05)
  end)
end)

describe("metrics", function()
  it("count memory", function()
    collectgarbage() -- what earlier tests left would go in between
    collectgarbage()
    local m = capl.memory()
    for _, key in ipairs{"live", "peak", "cached", "allocations", "reuses"} do assert.is_number(m[key], key) end
    local x = capl.zeros(1000)
    assert.is_true(capl.memory().live >= m.live + 4000)
    assert.is_true(capl.memory().peak >= capl.memory().live)
    x:free()
  end)

  it("count features", function()
    for _, key in ipairs{"bf16_kernels", "winograd_bf16_kernels", "fp16_kernels", "tf32_kernels", "fp32_kernels", "fused_ops",
      "expanded_ops", "ref_fallbacks", "layout_copies"} do
      assert.is_number(capl.counters()[key], key)
    end
  end)

  it("measure the time", function()
    local before = capl.clock()
    assert.is_true(capl.clock() >= before)
  end)

  it("profile kernels by layer", function()
    local model = nn.Sequential{nn.Linear(4, 3), nn.ReLU()}
    capl.model(model)
    local events, y = capl.profile(function()
      local out = model(capl.ones(2, 4))
      out:sum():backward()
      return out
    end)
    assert.same({2, 3}, y.shape)
    assert.equal("linear", events[2].op:gsub("^%a+$", "linear")) -- the fill of ones is no op
    local seen = {}
    for _, e in ipairs(events) do seen[e.op .. " " .. e.label] = e end
    local linear = seen["linear 0"]
    assert.same({2, 3}, linear.shape)
    assert.equal(2 * 3 * 4, linear.macs)
    assert.equal("cpu", linear.backend)
    assert.is_true(linear.seconds >= 0 and linear.bytes > 0)
    assert.is_not_nil(seen["relu 1"])
    assert.is_not_nil(seen["linear_grad_w 0"])
    assert.is_false(pcall(capl.profile, error))
    model(capl.ones(1, 4))
  end)

  it("say which version this is", function() assert.truthy(capl.version:match("^%d+%.%d+%.%d+$")) end)
end)

describe("capl.model", function()
  it("takes a module", function()
    local model = nn.Linear(1, 1)
    assert.equal(model, capl.model(model, {output = "text"}))
    assert.equal("LINE: bad argument #1 to 'model' (module expected, got number)",
      error_text(function() return (capl.model(1)) end))
  end)
end)
