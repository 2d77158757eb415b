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

-- With G = m m' of a matrix m (R,C), R <= C, divided by the square of its norm, every iterate is a polynomial in G,
-- times m. This is the polynomial of gram, which is (R,R), or (K,R,R) for K matrices at once.
local function polynomial(gram, identity, steps)
  local a, b, c = unpack(QUINTIC)
  local product
  for k = 1, steps do
    local q = gram * b + gram:matmul(gram) * c + identity * a
    product = product and q:matmul(product) or q
    if k < steps then gram = q:matmul(q:matmul(gram)) end
  end
  return product
end

-- The matrices of a list, R <= C, with their singular values replaced by numbers near 1. Only the first and the last
-- product have the long side C; the rest is R x R, and goes over all matrices of that size at once: a network has a
-- hundred of them, and each product is one launch on a GPU.
local function orthogonalize(list, identity_of, steps)
  local by_size, out = {}, {}
  for i, m in ipairs(list) do
    local R, square = m.shape[1], (m * m):sum() + 1e-14
    local size = by_size[R] or {}
    by_size[R] = size
    size[#size + 1] = {i = i, m = m, square = square, gram = m:matmul(m:transpose(1, 2)) / square}
  end
  for R, size in pairs(by_size) do
    local grams = {}
    for k, one in ipairs(size) do grams[k] = one.gram:reshape(1, R, R) end
    local product = polynomial(#size == 1 and size[1].gram or core.op.concat(grams, {dim = 1}), identity_of(R), steps)
    for k, one in ipairs(size) do
      out[one.i] = (#size == 1 and product or product:select(1, k)):matmul(one.m) / one.square:sqrt()
    end
  end
  return out
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

-- The steps of weights, before lr. grads and buffers: lists of their gradients and momenta, up to date.
local function directions_of(self, weights, grads, buffers, group)
  local wide, tall = {}, {}
  for i, buffer in ipairs(buffers) do
    local m = as_matrix(group.nesterov and grads[i] + buffer * group.momentum or buffer)
    local rows, columns = m.shape[1], m.shape[2]
    tall[i] = rows > columns and math.sqrt(rows / columns)
    wide[i] = tall[i] and m:transpose(1, 2) or m
  end
  local function identity(n) return identity_of(self, n, weights[1].device) end
  local out = weights[1] and orthogonalize(wide, identity, group.ns_steps) or {}
  for i, p in ipairs(weights) do
    if tall[i] then out[i] = (out[i]:transpose(1, 2) * tall[i]):contiguous() end -- in the order of p's memory
    out[i] = from_matrix(out[i], p.shape)
  end
  return out
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

-- The step of a device without the op, made of others. With a control only the device knows its numbers: a skipped step
-- leaves momentum and weights as they are.
local function composed_by_control(self, group, batch, grads, how)
  local control = how.control
  local multiplier, skip = control:multiplier(), control:skip()
  local given, buffers, directions = {}, {}, {}
  for i, p in ipairs(batch) do
    buffers[i], given[i] = buffer_of(self, p, grads, how), grads[p] * multiplier
    core.scope(function()
      buffers[i]:copy_(core.op.where(skip, buffers[i], buffers[i] * group.momentum + given[i]))
    end)
  end
  for i, step in ipairs(directions_of(self, batch, given, buffers, group)) do directions[batch[i]] = step end
  local plain = {control = {vector = control:without_multiplier()}}
  core.op.sgd_step(self:inputs(batch, directions, {false}, plain), {lr = 0, weight_decay = group.weight_decay,
    group = how.group, behind = how.behind})
end

local function composed(self, group, batch, grads, how)
  local given, buffers = {}, {}
  for i, p in ipairs(batch) do
    buffers[i], given[i] = buffer_of(self, p, grads, how), grads[p]
    core.scope(function() buffers[i]:copy_(buffers[i] * group.momentum + grads[p]) end)
  end
  for i, step in ipairs(directions_of(self, batch, given, buffers, group)) do
    core.scope(function() batch[i]:copy_(batch[i] * (1 - how.lr * group.weight_decay) - step * how.lr) end)
  end
end

local function fused(self, group, batch, grads, how)
  core.op.muon_step(self:inputs(batch, grads, self:state_names(), how), {lr = how.lr, momentum = group.momentum,
    nesterov = group.nesterov, ns_steps = group.ns_steps, weight_decay = group.weight_decay, group = how.group,
    behind = how.behind})
end

-- true: as on a GPU; tests compare both.
Muon.composed = false

-- Whether the op takes p: on a CPU, rows of a matrix, all in the same order of memory.
local function fits(p, grad, buffer)
  local order, other, third = p:stride(), grad:stride(), buffer:stride()
  for d = 1, #order do
    if order[d] ~= other[d] or order[d] ~= third[d] then return false end
  end
  return p.device == "cpu" and (p.shape[1] == 1 or order[1] * p.shape[1] == p:numel())
end

local function all_fit(self, batch, grads, how)
  for _, p in ipairs(batch) do
    if not fits(p, grads[p], buffer_of(self, p, grads, how)) then return false end
  end
  return true
end

function Muon:update(group, batch, grads, how)
  if not self.composed and all_fit(self, batch, grads, how) then return fused(self, group, batch, grads, how) end
  core.scope(how.control and composed_by_control or composed, self, group, batch, grads, how)
end

return Muon
