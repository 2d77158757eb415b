-- muon.lua: the optimizer Muon: momentum whose matrices are made orthogonal before they are applied.
--
-- Method: K. Jordan and others, "Muon: an optimizer for hidden layers in neural networks" (2024).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local Optimizer = require "optim.optimizer"
local tensor = require "tensor"

-- a x + b x^3 + c x^5, applied again and again, takes every number of (0, 1] to the neighbourhood of 1, fastest near 0.
local QUINTIC = {3.4445, -4.7750, 2.0315}

-- The matrix m (R,C), R <= C, with its singular values replaced by numbers near 1. With G = m m' every iterate is a
-- polynomial in G, times m: only the first and the last product have the long side C, the rest is R x R.
local function orthogonalize(m, identity, steps)
  local a, b, c = unpack(QUINTIC)
  local square = (m * m):sum() + 1e-14
  local gram, product = m:matmul(m:transpose(1, 2)) / square, nil
  for k = 1, steps do
    local q = gram * b + gram:matmul(gram) * c + identity * a
    product = product and q:matmul(product) or q
    if k < steps then gram = q:matmul(q:matmul(gram)) end
  end
  return product:matmul(m) / square:sqrt()
end

-- A weight as a matrix (outputs, everything else), in the order of its memory: nothing is copied.
local function as_matrix(w)
  if #w.shape == 4 then w = w:permute(1, 3, 4, 2) end
  return w:reshape(w.shape[1], -1)
end

local function from_matrix(m, shape)
  if #shape == 4 then return m:reshape(shape[1], shape[3], shape[4], shape[2]):permute(1, 4, 2, 3) end
  return m:reshape(shape)
end

--- Muon, for the weights of hidden layers: matrices and convolutions. Biases, norms, embeddings and the last layer
-- belong to another optimizer, e.g. AdamW: optim.join{muon, adamw} steps both.
-- opts lr = 1e-3 (of a matrix with more rows than columns: times the root of rows/columns), momentum = 0.95,
--      nesterov = true, ns_steps = 5 (iterations of the orthogonalization), weight_decay = 0.1 (decoupled),
--      clip_norm = 0 (off)
-- errs value: a parameter with one dimension
-- paper K. Jordan and others: Muon: an optimizer for hidden layers in neural networks, 2024
-- eg   optim.Muon({nn.Linear(4, 4).weight}, {lr = 0.02}).lr  --> 0.02
local Muon = Optimizer.class("Muon", {
  {"lr", "number", "table", default = 1e-3}, {"momentum", "number", default = 0.95, from = 0},
  {"nesterov", "boolean", default = true}, {"ns_steps", "whole", default = 5, from = 1, to = 99},
  {"weight_decay", "number", default = 0.1, from = 0},
})

-- Identity matrices by size and device, made once.
local function identity_of(self, n, device)
  self.identities = self.identities or {}
  local key = n .. device
  if not self.identities[key] then self.identities[key] = tensor.eye(n, {device = device}):keep() end
  return self.identities[key]
end

-- The step of one weight, before lr. grad and buffer: its gradient and its momentum, up to date.
local function direction(self, p, grad, buffer, group)
  local m = as_matrix(group.nesterov and grad + buffer * group.momentum or buffer)
  local rows, columns = m.shape[1], m.shape[2]
  local tall = rows > columns
  if tall then m = m:transpose(1, 2) end
  local x = orthogonalize(m, identity_of(self, math.min(rows, columns), p.device), group.ns_steps)
  if tall then x = (x:transpose(1, 2) * math.sqrt(rows / columns)):contiguous() end -- in the order of p's memory
  return from_matrix(x, p.shape)
end

function Muon.check_parameters(groups)
  for _, group in ipairs(groups) do
    for _, p in ipairs(group.params) do
      if #p.shape < 2 then
        check.fail("optim.Muon", ("a parameter of shape (%s) is no matrix"):format(table.concat(p.shape, ",")),
          "give biases and norms to optim.AdamW and join both with optim.join{muon, adamw}")
      end
    end
  end
end

function Muon:state_names() return {"momentum_buffer"} end -- luacheck: no self

local function buffer_of(self, p, grads, how) return self:inputs({p}, grads, self:state_names(), how)[3] end

-- The step with numbers that only the device knows: a skipped one leaves momentum and weights as they are.
local function update_by_control(self, group, batch, grads, how)
  local control = how.control
  local multiplier, skip = control:multiplier(), control:skip()
  local directions = {}
  for _, p in ipairs(batch) do
    local buffer = buffer_of(self, p, grads, how)
    directions[p] = core.scope(function()
      local grad = grads[p] * multiplier
      buffer:copy_(core.op.where(skip, buffer, buffer * group.momentum + grad))
      return direction(self, p, grad, buffer, group)
    end)
  end
  local plain = {control = {vector = control:without_multiplier()}}
  core.op.sgd_step(self:inputs(batch, directions, {false}, plain), {lr = 0, weight_decay = group.weight_decay,
    group = how.group, behind = how.behind})
end

function Muon:update(group, batch, grads, how)
  if how.control then
    core.scope(update_by_control, self, group, batch, grads, how)
    return
  end
  for _, p in ipairs(batch) do
    local buffer = buffer_of(self, p, grads, how)
    core.scope(function()
      buffer:copy_(buffer * group.momentum + grads[p])
      local step = direction(self, p, grads[p], buffer, group)
      p:copy_(p * (1 - how.lr * group.weight_decay) - step * how.lr)
    end)
  end
end

return Muon
