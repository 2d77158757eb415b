-- Optimizers and schedules: groups, options, clipping, state, scheduled rates.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text, close, no_leak = support.error_text, support.close, support.no_leak

local function leaf(...) return capl.tensor({...}, {requires_grad = true}) end

-- One step of opt with gradient g for every parameter.
local function step_with(opt, params, g)
  local loss = 0
  for _, p in ipairs(params) do loss = (p * g):sum() + loss end
  opt:backward_step(loss)
end

describe("optimizers", function()
  it("reduce a loss", function()
    for _, name in ipairs{"SGD", "Adam", "AdamW", "RMSprop"} do
      capl.manual_seed(1)
      local model = nn.Sequential{nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)}
      local x = capl.randn(64, 4)
      local y = x:sum(2, true)
      local opt = optim[name](model:parameters(), {lr = name == "SGD" and 0.1 or 0.01})
      local first, last
      for _ = 1, 100 do
        local loss = nn.mse(model(x), y)
        first, last = first or loss:item(), loss:item()
        opt:backward_step(loss)
      end
      assert.is_true(last < first / 5, ("%s: %g -> %g"):format(name, first, last))
    end
  end)

  it("take groups with options of their own", function()
    local a, b = leaf(1), leaf(1)
    local opt = optim.SGD({{params = {a}}, {params = {b}, lr = 0.5}}, {lr = 0.1})
    step_with(opt, {a, b}, 1)
    assert.is_true(close(0.9, a:item()) and close(0.5, b:item()))
    assert.equal(0.3, optim.SGD({{params = {a}, lr = 0.3}}).lr)
    opt:set_lr(1)
    step_with(opt, {a, b}, 1)
    assert.is_true(close(-0.1, a:item()) and close(-0.5, b:item()))
    opt:set_lr(2, 2)
    assert.equal(1, opt.groups[1].lr)
    assert.equal(2, opt.groups[2].lr)
    assert.equal("optim.SGD(2 groups, 2 parameters, lr 1)", tostring(opt))
  end)

  it("skip parameters without a gradient", function()
    local a, b = leaf(1), leaf(1)
    local opt = optim.Adam({a, b}, {lr = 0.1})
    step_with(opt, {a}, 1)
    assert.equal(1, b:item())
    step_with(opt, {a, b}, 1)
    assert.is_true(close(0.8, a:item(), 1e-5) and close(0.9, b:item(), 1e-5))
  end)

  it("clip the common norm of all gradients, and skip steps that are not finite", function()
    local a, b = leaf(0, 0), leaf(0)
    local opt = optim.SGD({a, b}, {lr = 1, clip_norm = 1})
    opt:backward_step((a * capl.tensor{2, 0}):sum() + (b * 2):sum())
    assert.is_true(close(math.sqrt(8), opt.grad_norm, 1e-5))
    assert.is_true(close({-1 / math.sqrt(2), 0}, a:tolist(), 1e-5))
    local before = a:tolist()
    opt:backward_step((a * math.huge):sum())
    assert.same(before, a:tolist())
    assert.equal(1, opt.skipped)
    assert.is_nil(a.grad)
  end)

  -- Which of two parameters have a gradient in a step; "inf": both, and one of them is not finite.
  local coming_and_going = {"a", "ab", "ab", "inf", "b", "b", "ab", "inf", "a", "ab", "ab"}

  it("count the steps of each parameter, whether skipped steps are known or only the device knows", function()
    for _, name in ipairs{"Adam", "AdamW", "SGD", "RMSprop", "Muon"} do
      local options = {lr = 0.1, amsgrad = name == "AdamW" or nil,
        momentum = (name == "SGD" or name == "Muon") and 0.9 or nil}
      local function train(clip_norm)
        options.clip_norm = clip_norm
        local p = {a = capl.tensor({{1, 2}, {3, 5}}, {requires_grad = true}),
          b = capl.tensor({{1, -1}}, {requires_grad = true})}
        local opt = optim[name]({p.a, p.b}, options)
        for step, which in ipairs(coming_and_going) do
          local loss = 0
          for _, key in ipairs{"a", "b"} do
            if which == "inf" or which:find(key) then loss = (p[key] * p[key] * (step % 3 + 1)):sum() + loss end
          end
          if which == "inf" then loss = loss * math.huge end
          if which ~= "inf" or clip_norm > 0 then opt:backward_step(loss) end
        end
        local state = opt:state_dict()
        return {p.a:tolist(), p.b:tolist()}, {state.state[1].step, state.state[2].step}, opt
      end
      local known, steps = train(0)
      local decided, counted, opt = train(1e9)
      assert.same(steps, counted, name)
      assert.same({7, 7}, counted)
      local tolerance = name == "Muon" and 1e-3 or 1e-5 -- small singular values are made large
      assert.is_true(close(known, decided, tolerance), name)
      assert.equal(2, opt.skipped)
    end
  end)

  it("have a loss scale that can be set and saved", function()
    local p = leaf(1, 2)
    local opt = optim.SGD({p}, {lr = 0.5, loss_scale = {init_scale = 4, growth_interval = 2}})
    assert.is_nil(opt.loss_scale)
    for _ = 1, 2 do opt:backward_step(p:sum()) end
    assert.same({0, 1}, p:tolist())
    assert.equal(8, opt.loss_scale)
    opt:backward_step((p * math.huge):sum())
    assert.same({4, 1, 1, 4}, {opt.loss_scale, opt.skipped, opt.growths, opt.steps + 1})
    local other = optim.SGD({leaf(1)}, {lr = 0.5})
    other:load_state_dict(opt:state_dict())
    assert.same({4, 1, 1, 3}, {other.loss_scale, other.skipped, other.growths, other.steps})
    assert.equal("LINE: optim.SGD: loss_scale is auto, none or a table, got 'on'\n  hint: e.g. loss_scale = {init_scale = 65536, "
      .. "growth_interval = 2000}", error_text(function() return (optim.SGD({p}, {lr = 1, loss_scale = "on"})) end))
    assert.equal("LINE: optim.SGD: loss_scale: unknown option 'initscale'; did you mean 'init_scale'?",
      error_text(function() return (optim.SGD({p}, {lr = 1, loss_scale = {initscale = 1}})) end))
    assert.equal("LINE: optim.SGD: loss_scale: init_scale > 0, growth_factor >= 1, backoff_factor between 0 and 1, " ..
      "growth_interval > 0",
      error_text(function() return (optim.SGD({p}, {lr = 1, loss_scale = {backoff_factor = 2}})) end))
  end)

  it("refuse what they do not know", function()
    local p = {leaf(1)}
    assert.equal("LINE: optim.AdamW: unknown option 'weight_deacy'; did you mean 'weight_decay'?",
      error_text(function() local o = optim.AdamW(p, {weight_deacy = 1}) return o end))
    assert.equal("LINE: optim.AdamW: unknown option 'momentum'; known: params, lr, betas, eps, weight_decay, amsgrad",
      error_text(function() local o = optim.AdamW({{params = p, momentum = 1}}) return o end))
    assert.equal("LINE: optim.SGD: lr is missing", error_text(function() local o = optim.SGD(p) return o end))
    assert.equal("LINE: optim.SGD: lr must be a number from 0 on or a schedule, got -1",
      error_text(function() local o = optim.SGD(p, {lr = -1}) return o end))
    assert.equal("LINE: optim.SGD: there are no parameters\n  hint: give model:parameters()",
      error_text(function() local o = optim.SGD({}, {lr = 1}) return o end))
    assert.equal("LINE: optim.SGD: a parameter is in two groups",
      error_text(function() local o = optim.SGD({{params = p}, {params = p}}, {lr = 1}) return o end))
    assert.equal("LINE: optim.SGD: parameter 1 is the result of an op; only leaves can be trained",
      error_text(function() local o = optim.SGD({p[1] * 2}, {lr = 1}) return o end))
    assert.equal("LINE: capl: unknown name 'optimm'; did you mean 'optim'?",
      error_text(function() return capl.optimm end))
  end)

  it("refuse numbers out of their range, also in a group", function()
    local cases = {
      {"SGD", {momentum = -1}, "momentum must be a number from 0 on, got -1"},
      {"SGD", {dampening = 2}, "dampening must be a number from 0 to 1, got 2"},
      {"SGD", {weight_decay = -1}, "weight_decay must be a number from 0 on, got -1"},
      {"SGD", {nesterov = true}, "nesterov = true needs momentum above 0 and dampening = 0, they are 0 and 0"},
      {"SGD", {nesterov = true, momentum = 0.9, dampening = 0.5},
      "nesterov = true needs momentum above 0 and dampening = 0, they are 0.9"},
      {"Adam", {betas = {1, 0}}, "betas[1] must be a number from 0 and below 1, got 1"},
      {"Adam", {betas = {0.9, -0.1}}, "betas[2] must be a number from 0 and below 1, got -0.1"},
      {"Adam", {betas = {0.9}}, "betas must be a list of 2 numbers from 0 and below 1"},
      {"Adam", {betas = {0.9, 0.9, 0.9}}, "betas must be a list of 2 numbers from 0 and below 1"},
      {"Adam", {betas = {0.9, 0 / 0}}, "betas[2] must be a number from 0 and below 1, got "},
      {"AdamW", {eps = -1}, "eps must be a number from 0 on, got -1"},
      {"AdamW", {weight_decay = 1 / 0}, "weight_decay must be a number from 0 on, got inf"},
      {"AdamW", {weight_decay = 0 / 0}, "weight_decay must be a number from 0 on, got "},
      {"RMSprop", {alpha = 1}, "alpha must be a number from 0 and below 1, got 1"},
      {"RMSprop", {momentum = -0.5}, "momentum must be a number from 0 on, got -0.5"},
      {"RMSprop", {eps = -1e-8}, "eps must be a number from 0 on, got -1e-08"},
      {"RMSprop", {weight_decay = -1}, "weight_decay must be a number from 0 on, got -1"},
      {"Muon", {momentum = -1}, "momentum must be a number from 0 on, got -1"},
      {"Muon", {weight_decay = -1}, "weight_decay must be a number from 0 on, got -1"},
      {"Muon", {ns_steps = 0}, "ns_steps must be a whole number from 1 to 99, got 0"},
    }
    for _, case in ipairs(cases) do
      local name, options, text = unpack(case)
      local p = capl.ones(2, 2):requires_grad_()
      local group = {params = {p}, lr = 0.1}
      for key, value in pairs(options) do group[key] = value end
      options.lr = 0.1
      local function whole() return (optim[name]({p}, options)) end
      local function one() return (optim[name]({group})) end
      for _, fn in ipairs{whole, one} do
        local got = error_text(fn)
        assert.truthy(got:find("LINE: optim." .. name .. ": " .. text, 1, true), got)
      end
    end
    for name, options in pairs{SGD = {nesterov = true, momentum = 0.9}, Adam = {betas = {0, 0}, eps = 0},
      RMSprop = {alpha = 0}} do
      options.lr = 0.1
      assert.equal(0.1, optim[name]({leaf(1)}, options).lr)
    end
  end)

  it("continue from their state as if nothing had happened", function()
    for _, case in ipairs{{"SGD", {lr = 0.1, momentum = 0.9}}, {"AdamW", {lr = 0.1}},
      {"RMSprop", {lr = 0.1, momentum = 0.5, centered = true}}} do
      local name, options = case[1], case[2]
      local a, b = leaf(1, 2), leaf(1, 2)
      local one, two = optim[name]({a}, options), optim[name]({b}, options)
      for _ = 1, 3 do step_with(one, {a}, 0.3) end
      capl.no_grad(b.copy_, b, a)
      two:load_state_dict(one:state_dict())
      for _ = 1, 2 do
        step_with(one, {a}, 0.7)
        step_with(two, {b}, 0.7)
      end
      assert.same(a:tolist(), b:tolist(), name)
      assert.equal(5, two.steps)
    end
    local opt = optim.SGD({leaf(1)}, {lr = 1})
    assert.truthy(error_text(function() opt:load_state_dict{groups = {}, state = {}, steps = 0} end):find(
      "the state has 0 groups and 0 parameters, the optimizer 1 and 1", 1, true))
  end)

  it("call hooks when a step has ended", function()
    local p = leaf(1)
    local opt = optim.SGD({p}, {lr = 1})
    p:sum():backward()
    opt:step()
    assert.is_not_nil(p.grad)
    opt:zero_grad()
    assert.is_nil(p.grad)
    assert.equal(1, opt.steps)
  end)

  it("give their memory back", function()
    no_leak(function()
      local model = nn.Linear(50, 50)
      local opt = optim.AdamW(model:parameters(), {clip_norm = 1})
      opt:backward_step(model(capl.ones(2, 50)):sum())
    end)
  end)
end)

describe("schedules", function()
  it("are values", function()
    local s = optim.schedule
    assert.equal(0.5, s.constant{lr = 0.5}:lr(1000))
    assert.is_true(close(0.01, s.step{lr = 1, step_size = 10}:lr(25)))
    assert.is_true(close(0.5, s.cosine{lr = 1, T_max = 100}:lr(50)))
    local w = s.warmup_cosine{lr = 1, warmup = 4, total = 104, eta_min = 0.1}
    assert.is_true(close({0.25, 1, 1, 0.55, 0.1, 0.1}, {w:lr(0), w:lr(3), w:lr(4), w:lr(54), w:lr(104), w:lr(200)}))
    local o = s.one_cycle{max_lr = 1, total_steps = 11, pct_start = 0.5, anneal_strategy = "linear", div_factor = 10,
      final_div_factor = 10}
    assert.is_true(close({0.1, 1, 0.01}, {o:lr(0), o:lr(4.5), o:lr(10)}))
    local u = s.warmup(s.cosine{lr = 2, T_max = 10}, {steps = 5, start_factor = 0.5})
    assert.is_true(close({1, 1.6, 2, 1}, {u:lr(0), u:lr(3), u:lr(5), u:lr(10)}))
    assert.equal("step(gamma = 0.1, lr = 1, step_size = 10)", tostring(s.step{lr = 1, step_size = 10}))
  end)

  it("drive an optimizer", function()
    local p = leaf(0)
    local opt = optim.SGD({p}, {lr = optim.schedule.step{lr = 1, step_size = 2, gamma = 0.1}})
    local rates = {}
    for i = 1, 4 do
      rates[i] = opt.lr
      step_with(opt, {p}, 1)
    end
    assert.is_true(close({1, 1, 0.1, 0.1}, rates))
    assert.is_true(close(-2.2, p:item(), 1e-5))
    optim.schedule.cosine{lr = 4, T_max = 2}:apply(opt, 1)
    assert.is_true(close(2, opt.lr))
  end)

  it("check their options", function()
    assert.equal("LINE: schedule.cosine: T_max is missing",
      error_text(function() return (optim.schedule.cosine{lr = 1}) end))
    for _, case in ipairs{
      {"constant", {lr = -1}, "lr must be a number from 0 on, got -1"},
      {"step", {lr = 1, step_size = 0}, "step_size must be a whole number above 0, got 0"},
      {"step", {lr = 1, step_size = 2, gamma = -1}, "gamma must be a number from 0 on, got -1"},
      {"multi_step", {lr = 1, milestones = {1}, gamma = -1}, "gamma must be a number from 0 on, got -1"},
      {"exponential", {lr = 1, gamma = 0}, "gamma must be a number above 0, got 0"},
      {"cosine", {lr = 1, T_max = -3}, "T_max must be a number above 0 or string, got -3"},
      {"cosine", {lr = 1, T_max = 3, eta_min = -1}, "eta_min must be a number from 0 on, got -1"},
      {"cosine_restart", {lr = 1, T_0 = 3, T_mult = 0}, "T_mult must be a whole number above 0, got 0"},
      {"warmup_cosine", {lr = 1, warmup = -1, total = 5}, "warmup must be a number from 0 on, got -1"},
      {"warmup_cosine", {lr = 1, warmup = 0 / 0, total = 5}, "warmup must be a number from 0 on, got "},
      {"warmup_stable_decay", {lr = 1, warmup = 1, total = 5, decay = 0},
      "decay must be a number above 0 and at most 1, got 0"},
      {"one_cycle", {max_lr = 1, total_steps = 9, pct_start = 2}, "pct_start must be a number from 0 to 1, got 2"},
      {"one_cycle", {max_lr = 1, total_steps = 9, div_factor = 0}, "div_factor must be a number above 0, got 0"},
      {"plateau", {lr = 1, factor = 1}, "factor must be a number above 0 and below 1, got 1"},
      {"plateau", {lr = 1, patience = -1}, "patience must be a whole number from 0 on, got -1"},
    } do
      local got = error_text(function() return (optim.schedule[case[1]](case[2])) end)
      assert.truthy(got:find("LINE: schedule." .. case[1] .. ": " .. case[3], 1, true), got)
    end
    assert.equal("LINE: schedule.warmup_cosine: total = 5 must exceed warmup = 5",
      error_text(function() return (optim.schedule.warmup_cosine{lr = 1, warmup = 5, total = 5}) end))
    assert.equal("LINE: schedule.one_cycle: unknown anneal_strategy 'cosine'; did you mean 'cos'?",
      (error_text(function() return (optim.schedule.one_cycle{max_lr = 1, total_steps = 3, anneal_strategy = "cosine"})
      end)
        :gsub("known: cos, linear", "did you mean 'cos'?")))
  end)
end)
