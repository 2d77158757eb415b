-- Values and gradients where a formula divides by 0, takes a logarithm of 0 or broadcasts, against PyTorch.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("edges.json")
local nn = capl.nn

-- Of functions that take x and target and PyTorch's attributes as they are.
local function pair(name) return function(t, a) return nn[name](t.x, t.target, a) end end
-- PyTorch's dims count from 0.
local function in_dim(a) return a.dim and (a.dim < 0 and a.dim or a.dim + 1) end

local calls = {
  norm = function(t, a) return t.x:norm(a.p, in_dim(a)) end,
  std = function(t, a) return t.x:std(in_dim(a), {unbiased = a.unbiased}) end,
  var = function(t, a) return t.x:var(in_dim(a), {unbiased = a.unbiased}) end,
  cosine_similarity = function(t, a) return nn.cosine_similarity(t.a, t.b, {dim = in_dim(a)}) end,
  triplet_margin_loss = function(t, a) return nn.triplet_margin_loss(t.a, t.b, t.c, a) end,
  clamp = function(t, a) return t.x:clamp(a.lo, a.hi) end,
  relu6 = function(t) return nn.ReLU6()(t.x) end,
  hardtanh = function(t) return nn.Hardtanh()(t.x) end,
  gaussian_nll_loss = function(t) return nn.gaussian_nll_loss(t.x, t.target, t.var, {reduction = "none"}) end,
}
for _, name in ipairs{"bce_with_logits", "multilabel_soft_margin", "binary_cross_entropy", "mse", "l1_loss",
  "smooth_l1_loss", "huber_loss", "poisson_nll_loss", "cross_entropy", "kl_div"} do
  calls[name] = pair(name)
end

for _, name in ipairs{"sum", "mean", "amax", "softmax", "log_softmax", "cumsum", "max", "min"} do
  calls[name] = function(t, a) return (t.x[name](t.x, in_dim(a))) end
end
calls.maximum = function(t) return t.a:maximum(t.b) end
calls.minimum = function(t) return t.a:minimum(t.b) end
calls.prelu = function(t) return nn.PReLU()(t.x) end
calls.nll = function(t, a) return nn.nll(t.x, capl.tensor(1):int(), a) end

calls.call = function(t, a) return (t.x[a.name](t.x)) end
calls.dims = function(t, a)
  local args = {}
  for i, v in ipairs(a.args) do args[i] = type(v) == "number" and v + 1 or v end
  return (t.x[a.name](t.x, unpack(args)))
end
local with_args = calls.dims
calls.dims = function(t, a)
  if a.name ~= "roll" then return with_args(t, a) end
  local shift, dims = unpack(a.args) -- the shift counts elements
  if type(dims) == "table" then dims = {dims[1] + 1, dims[2] + 1} end
  return t.x:roll(shift, type(dims) == "number" and dims + 1 or dims)
end
calls.pair = function(t, a) return t.a[a.name](t.a, t.b) end
calls.number = function(t, a) return t.x[a.name](t.x, a.value) end

calls.layer = function(t, a) return nn[a.name](unpack(a.args))(t.x) end
calls.normalize = function(t, a) return nn.normalize(t.x, a) end
calls.distance = function(t, a) return nn.PairwiseDistance(a)(t.a, t.b) end

local function near(got, want) return got == want or (got ~= got and want ~= want) or
  math.abs(got - want) <= 2e-5 * math.max(1, math.abs(want)) end

local function compare(name, tensor, want)
  local got = tensor and tensor:float():reshape(-1):tolist() or {}
  assert.equal(#want, #got, name .. ": how many")
  for i, v in ipairs(want) do
    assert.is_true(near(got[i], v), ("%s[%d] is %.9g, PyTorch has %.9g"):format(name, i, got[i], v))
  end
end

describe("golden edge", function()
  teardown(function() capl.device("cpu") end)

  for _, device in ipairs{"cpu", "ref"} do
    for i, case in ipairs(golden.ops) do
      it(("%d %s on %s"):format(i, support.title(case), device), function()
        capl.device(device)
        local inputs = {}
        for name, values in pairs(case.inputs) do
          inputs[name] = capl.tensor(values)
          if case.outputs["d" .. name] then inputs[name]:requires_grad_() end
        end
        local y = calls[case.op](inputs, case.attributes)
        if y.requires_grad then y:sum():backward() end
        for name, want in pairs(case.outputs) do
          compare(name, name == "y" and y or inputs[name:sub(2)].grad, want)
        end
      end)
    end
  end
end)
