-- loss_values.lua: losses of numbers and of distributions: distances from a target, likelihoods, divergence.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local parts = require "nn.loss_parts"

local op = core.op
local loss = {}
local reduction_spec = {parts.reduction}

--- Mean squared error.
-- in   x, target (…) alike
-- opts reduction = "mean"|"sum"|"none"
-- eg   nn.mse(capl.tensor{1, 3}, capl.tensor{1, 1}):item()  --> 2
function loss.mse(x, target, opts)
  parts.tensors("mse", x, target)
  local o = check.options("mse", reduction_spec, opts)
  return parts.computed("mse", op.mse(x, target, o), x, target, o)
end

local function smooth(name, x, target, beta, reduction)
  return op.smooth_l1(x, target,
    {beta = beta, reduction = check.one_of(name, "reduction", reduction, {"mean", "sum", "none"})})
end

--- Mean absolute error.
-- in   x, target (…) alike
-- opts reduction = "mean"|"sum"|"none"
-- eg   nn.l1_loss(capl.zeros(2), capl.tensor({1, -3})):item()  --> 2
function loss.l1_loss(x, target, opts)
  parts.tensors("l1_loss", x, target)
  local o = check.options("l1_loss", reduction_spec, opts)
  return parts.computed("l1_loss", smooth("l1_loss", x, target, 0, o.reduction), x, target, o)
end

local smooth_spec = {{"beta", "number", default = 1}, parts.reduction}

--- Absolute error, squared where it is below beta: d^2 / (2 beta), else d - beta / 2.
-- in   x, target (…) alike
-- opts beta = 1, reduction = "mean"|"sum"|"none"
-- eg   nn.smooth_l1_loss(capl.zeros(2), capl.tensor({1, -3})):item()  --> 1.5
function loss.smooth_l1_loss(x, target, opts)
  parts.tensors("smooth_l1_loss", x, target)
  local o = check.options("smooth_l1_loss", smooth_spec, opts)
  return parts.computed("smooth_l1_loss", smooth("smooth_l1_loss", x, target, o.beta, o.reduction), x, target, o)
end

local huber_spec = {{"delta", "number", default = 1}, parts.reduction}

--- Squared error, growing straight on where it is above delta: d^2 / 2, else delta (d - delta / 2).
-- in   x, target (…) alike
-- opts delta = 1, reduction = "mean"|"sum"|"none"
-- paper P. J. Huber: Robust estimation of a location parameter, 1964
-- eg   nn.huber(capl.tensor{3}, capl.tensor{0}):item()  --> 2.5
function loss.huber_loss(x, target, opts)
  parts.tensors("huber_loss", x, target)
  local o = check.options("huber_loss", huber_spec, opts)
  if o.delta <= 0 then check.fail("huber_loss", ("delta must be above 0, got %g"):format(o.delta)) end
  return parts.computed("huber_loss", smooth("huber_loss", x, target, o.delta, o.reduction) * o.delta, x, target, o)
end

-- log(t), but a number where t is 0, so that 0 log 0 is 0; NaN below 0.
local function log_of(t) return (t + t:eq(0):to(t.dtype) * 1.2e-38):log() end

local kl_spec = {reductions = {"mean", "batchmean", "sum", "none"}, {"log_target", "boolean", default = false},
  parts.reduction}

--- Kullback-Leibler divergence of target from x: target * (log(target) - x).
-- in   x (N, …) log-probabilities; target alike, probabilities (logarithms of them with log_target); NaN where one is
--      below 0
-- opts reduction = "mean" (over all elements)|"batchmean" (the sum by N, the divergence itself)|"sum"|"none",
--      log_target = false
-- eg   nn.kl_div(capl.zeros(1, 2), capl.full({1, 2}, 1), {reduction = "sum"}):item()  --> 0
function loss.kl_div(x, target, opts)
  parts.tensors("kl_div", x, target)
  local o = check.options("kl_div", kl_spec, opts)
  parts.alike("kl_div", x, "x", target, "target")
  local log_p, t = parts.wide(x), parts.wide(target)
  local each = o.log_target and t:exp() * (t - log_p) or t * log_of(t) - t * log_p
  if o.reduction == "batchmean" then return each:sum() / (x.shape[1] or 1) end
  return parts.reduce("kl_div", each, o.reduction)
end

local gaussian_spec = {{"full", "boolean", default = false}, {"eps", "number", default = 1e-6}, parts.reduction}

-- var in a shape that broadcasts as meant: x's, x's with a 1 in one or more dims, or without the last dim.
local function variance_of(x, var)
  local have, want, same = var.shape, x.shape, var.ndim == x.ndim
  for d = 1, #want do same = same and (have[d] == want[d] or have[d] == 1) end
  if same then return var end
  local rows = #have == #want - 1
  for d = 1, #want - 1 do rows = rows and have[d] == want[d] end
  if rows then return var:unsqueeze(-1) end
  check.fail("gaussian_nll_loss", ("var is (%s), x is (%s)"):format(table.concat(have, ","), table.concat(want, ",")),
    "give var x's shape, or that with 1 where all share a variance, or x's shape without the last dim: one per row")
end

--- Negative log-likelihood of target under normal distributions: (log(var) + (x - target)^2 / var) / 2.
-- in   x, target (…) alike; var: of x's shape, or with 1 in a dim, or without the last dim; at least eps is taken
-- errs value: a var below 0; on a GPU, which cannot raise that, the loss is NaN
-- opts full = false (true adds the constant log(2 pi) / 2), eps = 1e-6, reduction = "mean"|"sum"|"none"
-- eg   nn.gaussian_nll(capl.ones(1), capl.ones(1), capl.ones(1)):item()  --> 0
function loss.gaussian_nll_loss(x, target, var, opts)
  parts.tensors("gaussian_nll_loss", x, target, var)
  local o = check.options("gaussian_nll_loss", gaussian_spec, opts)
  parts.alike("gaussian_nll_loss", x, "x", target, "target")
  local off, v = parts.wide(x) - target, variance_of(x, parts.wide(var))
  v = parts.in_range("gaussian_nll_loss", v, "var", 0, math.huge, "is a variance, from 0 on",
    "nn.Softplus or exp() makes one of any number")
  v = v + core.no_grad(function() return v:clamp(o.eps) - v end) -- the gradient is that at eps
  local each = (v:log() + off * off / v) * 0.5
  if o.full then each = each + 0.5 * math.log(2 * math.pi) end
  return parts.reduce("gaussian_nll_loss", each, o.reduction)
end

local poisson_spec = {{"log_input", "boolean", default = true}, {"full", "boolean", default = false},
  {"eps", "number", default = 1e-8}, parts.reduction}

--- Negative log-likelihood of counts: exp(x) - target * x.
-- in   x, target (…) alike
-- opts log_input = true (x is the logarithm of the rate), full = false (true adds Stirling's term for target > 1), eps
--      = 1e-8, reduction = "mean"|"sum"|"none"
-- eg   nn.poisson_nll(capl.zeros(1), capl.zeros(1)):item()  --> 1
function loss.poisson_nll_loss(x, target, opts)
  parts.tensors("poisson_nll_loss", x, target)
  local o = check.options("poisson_nll_loss", poisson_spec, opts)
  parts.alike("poisson_nll_loss", x, "x", target, "target")
  local rate, t = parts.wide(x), parts.wide(target)
  local each = o.log_input and rate:exp() - t * rate or rate - t * (rate + o.eps):log()
  if o.full then
    local n = t:clamp(1)
    each = each + (n * n:log() - n + (n * (2 * math.pi)):log() * 0.5) * t:gt(1):to(t.dtype)
  end
  return parts.reduce("poisson_nll_loss", each, o.reduction)
end

--- The same as modules: MSELoss, L1Loss, SmoothL1Loss, HuberLoss, KLDivLoss, GaussianNLLLoss, PoissonNLLLoss.
loss.MSELoss = parts.module("MSELoss", loss.mse, reduction_spec)
loss.L1Loss = parts.module("L1Loss", loss.l1_loss, reduction_spec)
loss.SmoothL1Loss = parts.module("SmoothL1Loss", loss.smooth_l1_loss, smooth_spec)
loss.HuberLoss = parts.module("HuberLoss", loss.huber_loss, huber_spec)
loss.KLDivLoss = parts.module("KLDivLoss", loss.kl_div, kl_spec)
loss.GaussianNLLLoss = parts.module("GaussianNLLLoss", loss.gaussian_nll_loss, gaussian_spec, 3)
loss.PoissonNLLLoss = parts.module("PoissonNLLLoss", loss.poisson_nll_loss, poisson_spec)

return loss
