-- Activations and losses against PyTorch.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("losses.json")
local nn = capl.nn

-- Of functions that take x and target and PyTorch's attributes as they are.
local function pair(name) return function(t, a) return nn[name](t.x, t.target, a) end end
local function layer(make) return function(t, a) return make(a)(t.x) end end

local function of_labels(fn, classes)
  return function(t, a)
    local o = {}
    for key, value in pairs(a) do o[key] = value end
    o.weighted, o.ignored = nil, nil
    o.weight = a.weighted and t.weight or nil
    o.ignore_index = a.ignored and classes - 1 or nil
    return fn(t.x, t.labels, o)
  end
end

local function copy(a, more)
  local o = {}
  for key, value in pairs(a) do o[key] = value end
  for key, value in pairs(more) do o[key] = value end
  return o
end

-- How each case is called here: function(inputs by name, PyTorch's attributes) -> y
local calls = {
  silu = layer(nn.SiLU), gelu = layer(nn.GELU), softplus = layer(nn.Softplus), leaky_relu = layer(nn.LeakyReLU),
  elu = layer(nn.ELU), hardsigmoid = layer(nn.Hardsigmoid), hardswish = layer(nn.Hardswish),
  logsigmoid = layer(nn.LogSigmoid), mish = layer(nn.Mish), selu = layer(nn.SELU), relu6 = layer(nn.ReLU6),
  hardtanh = layer(nn.Hardtanh), prelu = function(t)
    local prelu = nn.PReLU(3)
    prelu.weight = t.weight
    return prelu(t.x)
  end,
  cross_entropy = of_labels(nn.cross_entropy, 4), focal_loss = of_labels(nn.focal_loss, 4),
  nll_loss = of_labels(function(x, labels, o) return nn.nll_loss(x:log_softmax(2), labels, o) end, 4),
  cross_entropy_shares = function(t, a)
  return nn.cross_entropy(t.x, t.target:softmax(2), copy(a, {weight = t.weight})) end,
    bce_with_logits_weighted = function(t, a)
    return nn.bce_with_logits(t.x, t.target, copy(a, {weight = t.weight, pos_weight = t.pos_weight}))
  end,
  gaussian_nll_loss = function(t, a) return nn.gaussian_nll_loss(t.x, t.target, t.var, a) end,
  cosine_similarity = function(t, a) return nn.cosine_similarity(t.a, t.b, {dim = a.dim + 1}) end,
  cosine_embedding_loss = function(t, a) return nn.cosine_embedding_loss(t.a, t.b, t.target, a) end,
  margin_ranking_loss = function(t, a) return nn.margin_ranking_loss(t.a, t.b, t.target, a) end,
  multi_margin_loss = function(t, a) return nn.multi_margin_loss(t.x, t.labels, copy(a, {weight = t.weight})) end,
  triplet_margin_loss = function(t, a) return nn.triplet_margin_loss(t.a, t.b, t.c, a) end,
  dice_loss = function(t, a) return nn.dice_loss(t.x, t.labels, copy(a, {weight = t.weight})) end,
  dice_mask = function(t, a) return nn.dice_loss(t.x, t.target, a) end,
}
for _, name in ipairs{"smooth_l1_loss", "sigmoid_focal_loss", "l1_loss", "huber_loss", "soft_margin_loss",
  "hinge_embedding_loss", "binary_cross_entropy", "poisson_nll_loss", "kl_div"} do
  calls[name] = pair(name)
end

local function title(case, i)
  local words = {}
  for key, value in pairs(case.attributes) do words[#words + 1] = key .. "=" .. tostring(value) end
  table.sort(words)
  return ("%d %s %s"):format(i, case.op, table.concat(words, " "))
end

describe("golden loss", function()
  teardown(function() capl.device("cpu") end)

  it("has a call here for each case, and cases for each call", function()
    local seen = {}
    for _, case in ipairs(golden.ops) do
      assert.is_function(calls[case.op], case.op)
      seen[case.op] = true
    end
    for name in pairs(calls) do assert.is_true(seen[name], name) end
  end)

  for _, device in ipairs{"cpu", "ref"} do
    for i, case in ipairs(golden.ops) do
      it(title(case, i) .. " on " .. device, function()
        capl.device(device)
        local inputs, checked, wanted = {}, 0, 0
        for _, entry in ipairs(case.inputs) do
          local x = support.make(entry)
          inputs[entry.name] = case.outputs["d" .. entry.name] and x:requires_grad_() or x
        end
        local y = calls[case.op](inputs, case.attributes)
        local function check(name, tensor)
          checked = checked + 1
          local off = support.distance(tensor, case.outputs[name])
          assert.is_true(off < 2e-5, ("%s is off by %.2g of its largest value"):format(name, off))
        end
        check("y", y)
        ;(inputs.dy and (y * inputs.dy):sum() or y):backward()
        for name, x in pairs(inputs) do
          if case.outputs["d" .. name] then check("d" .. name, x.grad) end
        end
        for _ in pairs(case.outputs) do wanted = wanted + 1 end
        assert.equal(wanted, checked)
      end)
    end
  end
end)
