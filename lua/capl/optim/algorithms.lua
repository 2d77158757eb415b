-- algorithms.lua: SGD, Adam, AdamW, RMSprop: options, state, and the fused op of each.
--
-- All take clip_norm = 0 (off): the common length of the gradients; clip_value = 0 (off): each value of them; and
-- loss_scale = "auto" (where gradients pass through fp16), "none", or a table (always): {init_scale = 65536,
-- growth_factor = 2,
-- backoff_factor = 0.5, growth_interval = 2000}.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local Optimizer = require "optim.optimizer"

local op = core.op
local optim = {}

-- ---- SGD ----

--- Stochastic gradient descent.
-- in   params: model:parameters(), or groups {{params = …, lr = …}, …}
-- opts lr (number or schedule), momentum = 0, dampening = 0 (to 1), nesterov = false (true needs momentum, and no
--      dampening),
--      weight_decay = 0, clip_norm = 0 (off)
-- eg   optim.SGD(nn.Linear(2, 1):parameters(), {lr = 0.1, momentum = 0.9}).lr  --> 0.1
optim.SGD = Optimizer.class("SGD", {
  {"lr", "number", "table", required = true}, {"momentum", "number", default = 0, from = 0},
  {"dampening", "number", default = 0, from = 0, to = 1}, {"nesterov", "boolean", default = false},
  {"weight_decay", "number", default = 0, from = 0},
})

function optim.SGD.check_group(group)
  if group.nesterov and not (group.momentum > 0 and group.dampening == 0) then
    check.fail("optim.SGD", ("nesterov = true needs momentum above 0 and dampening = 0, they are %g and %g"):format(
      group.momentum, group.dampening), "e.g. {momentum = 0.9, nesterov = true}")
  end
end

function optim.SGD:state_names(group) return {group.momentum ~= 0 and "momentum_buffer"} end -- luacheck: no self

function optim.SGD:update(group, batch, grads, how)
  op.sgd_step(self:inputs(batch, grads, self:state_names(group), how), {lr = how.lr, momentum = group.momentum,
    dampening = group.dampening, nesterov = group.nesterov, weight_decay = group.weight_decay,
    first_step = how.first, group = how.group, behind = how.behind})
end

-- ---- Adam ----

local function adam_spec(weight_decay)
  return {{"lr", "number", "table", default = 1e-3},
    {"betas", "table", default = {0.9, 0.999}, count = 2, from = 0, below = 1},
    {"eps", "number", default = 1e-8, from = 0}, {"weight_decay", "number", default = weight_decay, from = 0},
    {"amsgrad", "boolean", default = false}}
end

local function adam_states(_, group)
  return group.amsgrad and {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"} or {"exp_avg", "exp_avg_sq"}
end

local function adam_update(decoupled)
  return function(self, group, batch, grads, how)
    local step = group.amsgrad and op.amsgrad_step or op.adam_step
    step(self:inputs(batch, grads, self:state_names(group), how), {lr = how.lr, beta1 = group.betas[1],
      beta2 = group.betas[2], eps = group.eps, weight_decay = group.weight_decay, decoupled = decoupled,
      step = how.step, group = how.group, behind = how.behind})
  end
end

--- Adam.
-- opts lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0 (added to the gradient), amsgrad = false (true:
--      divides by the largest second moment so far), clip_norm = 0 (off)
-- paper D. P. Kingma, J. Ba: Adam: a method for stochastic optimization, 2015; amsgrad: S. J. Reddi, S. Kale, S. Kumar:
--      On the convergence of Adam and beyond, 2018
-- eg   optim.Adam(nn.Linear(2, 1):parameters()).lr  --> 0.001
optim.Adam = Optimizer.class("Adam", adam_spec(0))
optim.Adam.update, optim.Adam.state_names = adam_update(false), adam_states

--- Adam with weight decay applied to the weights themselves.
-- opts lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01, amsgrad = false (as Adam), clip_norm = 0 (off)
-- paper I. Loshchilov, F. Hutter: Decoupled weight decay regularization, 2019
-- eg   optim.AdamW(nn.Linear(2, 1):parameters(), {lr = 0.1, weight_decay = 0.05}).lr  --> 0.1
optim.AdamW = Optimizer.class("AdamW", adam_spec(0.01))
optim.AdamW.update, optim.AdamW.state_names = adam_update(true), adam_states

-- ---- RMSprop ----

--- RMSprop.
-- opts lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false, clip_norm = 0 (off)
-- paper T. Tieleman, G. Hinton: Lecture 6.5, Coursera: Neural networks for machine learning, 2012; centered: A. Graves,
--      Generating sequences with recurrent neural networks, 2013
-- eg   optim.RMSprop(nn.Linear(2, 1):parameters()).lr  --> 0.01
optim.RMSprop = Optimizer.class("RMSprop", {
  {"lr", "number", "table", default = 0.01}, {"alpha", "number", default = 0.99, from = 0, below = 1},
  {"eps", "number", default = 1e-8, from = 0}, {"weight_decay", "number", default = 0, from = 0},
  {"momentum", "number", default = 0, from = 0}, {"centered", "boolean", default = false},
})

function optim.RMSprop:state_names(group) -- luacheck: no self
  return {"square_avg", group.momentum ~= 0 and "momentum_buffer", group.centered and "grad_avg"}
end

function optim.RMSprop:update(group, batch, grads, how)
  op.rmsprop_step(self:inputs(batch, grads, self:state_names(group), how),
    {lr = how.lr, alpha = group.alpha, eps = group.eps, weight_decay = group.weight_decay, momentum = group.momentum,
    centered = group.centered, group = how.group, behind = how.behind})
end

return optim
