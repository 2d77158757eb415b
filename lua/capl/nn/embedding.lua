-- embedding.lua: a vector for each class number.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"

local embedding = {}

-- padding_idx as the op takes it: -1 = none.
local function padding_of(fname, value, rows)
  if value == nil then return -1 end
  if value < -rows or value >= rows then
    check.fail(fname, ("padding_idx %d is outside 0..%d (rows count from 0, as class labels do)"):format(value,
      rows - 1))
  end
  return value < 0 and value + rows or value
end

--- nn.embedding(index, weight[, {padding_idx = i}]): a row of weight for each index.
-- in   index i32 or i64 of any shape, values from 0 on; weight (V, D)
-- out  y (index's shape, D)
-- opts padding_idx: the row that gets no gradient
-- errs value: an index is outside 0..V-1 (on a GPU its row becomes NaN); dtype: index is no i32 or i64
-- eg   nn.embedding(capl.tensor({1}, {dtype = "i32"}), capl.tensor{{1, 2}, {3, 4}}):get(1, 2)  --> 4
function embedding.embedding(index, weight, options)
  check.arg(1, "embedding", "tensor", index)
  check.arg(2, "embedding", "tensor", weight)
  local o = check.options("nn.embedding", {{"padding_idx", "whole"}, positional = 0}, options)
  return (core.op.embedding(weight, index,
    {padding_idx = padding_of("nn.embedding", o.padding_idx, weight.shape[1] or 0)}))
end

local spec = {
  {"num_embeddings", "whole", required = true, from = 1}, {"embedding_dim", "whole", required = true, from = 1},
  {"padding_idx", "whole"}, positional = 2,
}

--- A trainable vector for each class number.
-- in   index i32 or i64 of any shape, values 0 to num_embeddings - 1
-- out  y (index's shape, embedding_dim)
-- opts nn.Embedding(num_embeddings, embedding_dim, {padding_idx = i}): that row begins as zeros and stays so
-- init weight: normal(0, 1), as PyTorch
-- errs value: an index out of range (on a GPU its row becomes NaN)
-- eg   nn.Embedding(10, 4)(capl.tensor({1, 9}, {dtype = "i32"})):size(2)  --> 4
embedding.Embedding = classes.class("Embedding", require "nn.module")
embedding.Embedding.pure = true

function embedding.Embedding:init(...)
  local o = check.arguments("nn.Embedding", spec, ...)
  for _, name in ipairs{"num_embeddings", "embedding_dim"} do
    self[name] = o[name]
  end
  self.padding = padding_of("nn.Embedding", o.padding_idx, o.num_embeddings)
  local weight = core.fill_random(core.empty{o.num_embeddings, o.embedding_dim}, "normal", 0, 1)
  if self.padding >= 0 then core.no_grad(function() weight:narrow(1, self.padding + 1, 1):fill_(0) end) end
  self.weight = weight:requires_grad_():keep()
end

function embedding.Embedding:forward(index)
  local y = core.op.embedding(self.weight, index, {padding_idx = self.padding})
  return y
end

function embedding.Embedding:extra()
  return ("%d x %d%s"):format(self.num_embeddings, self.embedding_dim, self.padding >= 0
    and ", padding " .. self.padding or "")
end

return embedding
