-- attention.lua: scaled dot product attention, multi-head attention, and the encoder layer made of it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local activation = require "nn.activation"
local check = require "check"
local classes = require "module_class"
local LayerNorm = require("nn.layernorm").LayerNorm
local Linear = require "nn.linear"
local Module = require "nn.module"
local ModuleList = require("nn.sequential").ModuleList
local parameter = require "nn.parameter"

local op = core.op
local attention = {}

-- ---- the function ----

local function check_dropout(fname, p)
  if p < 0 or p >= 1 then check.fail(fname, ("dropout is a share from 0 to below 1, got %g"):format(p)) end
  return p
end

-- What is added to the scores: 0 where a bool mask is true (or false: `blocked`), else minus infinity.
local function additive(mask, blocked)
  if mask.dtype ~= "bool" then return mask end
  local zero, out = core.zeros({}), core.full({}, -math.huge)
  return blocked and op.where(mask, out, zero) or op.where(mask, zero, out)
end

local function causal_mask(L, S)
  local rows, columns = core.arange(0, L, {dtype = "f32"}):reshape(L, 1),
    core.arange(0, S, {dtype = "f32"}):reshape(1, S)
  return op.le(columns, rows)
end

-- Through the matrix of all weights, which is given too. Queries without keys have NaN here.
local function long_way(q, k, v, o)
  local scale = o.scale or 1 / math.sqrt(q:size(-1))
  local scores = op.affine(op.matmul(q, k, {transpose_b = true}), {scale = scale, shift = 0})
  local mask = o.is_causal and causal_mask(q:size(-2), k:size(-2)) or o.attn_mask
  if mask then scores = scores + additive(mask) end
  local weights = scores:softmax(-1)
  local kept = weights
  if o.dropout_p > 0 then
    local seed = core.rng()
    kept = op.dropout(weights, {p = o.dropout_p, seed = seed, offset = core.next_stream()})
  end
  if kept.dtype ~= v.dtype then kept = op.cast(kept, {dtype = v.dtype}) end
  local y = op.matmul(kept, v)
  return y, weights
end

local function short_way(q, k, v, o)
  local attributes = {is_causal = o.is_causal, scale = o.scale or 0}
  if o.dropout_p > 0 then
    attributes.dropout_p, attributes.seed = o.dropout_p, core.rng()
    attributes.offset = core.next_stream()
  end
  local y, lse = op.scaled_dot_product_attention(q, k, v, o.attn_mask, attributes)
  lse:free()
  return y
end

local function need_one_mask(fname, o)
  if not (o.is_causal and o.attn_mask) then return end
  check.fail(fname, "is_causal and attn_mask are both given", "leave is_causal out and put it into the mask")
end

local function attend(q, k, v, o)
  if o.attn_mask and o.attn_mask.requires_grad then return (long_way(q, k, v, o)) end
  return short_way(q, k, v, o)
end

local function need_scale(fname, scale)
  if scale == nil or (scale > 0 and scale < math.huge) then return end
  check.fail(fname, ("scale is a number above 0, got %g"):format(scale))
end

local function attention_options()
  return {{"attn_mask", "tensor"}, {"dropout_p", "number", default = 0}, {"is_causal", "boolean", default = false},
    {"scale", "number"}}
end
local spec = attention_options()

--- Attention: softmax(q k' * scale + mask) v, without a matrix of all scores in memory.
-- in   q (…, L, E); k (…, S, E); v (…, S, Ev)
-- out  y (…, L, Ev)
-- opts attn_mask: bool (true = takes part) or added to the scores, can be broadcast to (…, L, S); dropout_p = 0, also
--      in evaluation; is_causal = false: query i sees the keys up to i; scale = 1 / sqrt(E)
-- errs shape: sizes do not fit; value: attn_mask and is_causal are both given
-- eg   nn.scaled_dot_product_attention(capl.ones(1, 2, 4), capl.ones(1, 3, 4), capl.ones(1, 3, 5)):size(3)  --> 5
function attention.scaled_dot_product_attention(q, k, v, options)
  local fname = "scaled_dot_product_attention"
  check.arg(1, fname, "tensor", q)
  check.arg(2, fname, "tensor", k)
  check.arg(3, fname, "tensor", v)
  local o = check.options(fname, spec, options)
  check_dropout(fname, o.dropout_p)
  need_scale(fname, o.scale)
  need_one_mask(fname, o)
  local y = attend(q, k, v, o)
  return y
end

-- ---- multi-head attention ----

local multihead_spec = {
  positional = 2,
  {"embed_dim", "whole", required = true}, {"num_heads", "whole", required = true}, {"dropout", "number", default = 0},
  {"bias", "boolean", default = true}, {"batch_first", "boolean", default = false}, {"kdim", "whole"},
  {"vdim", "whole"}, {"add_bias_kv", "boolean", default = false}, {"add_zero_attn", "boolean", default = false},
}
local forward_spec = {
  {"key_padding_mask", "tensor"}, {"need_weights", "boolean", default = false}, {"attn_mask", "tensor"},
  {"average_attn_weights", "boolean", default = true}, {"is_causal", "boolean", default = false},
}

--- Attention of several heads between projections, as PyTorch's with the names of its parameters.
-- in   query (L, N, E), key and value (S, N, E); with batch_first (N, L, E) and (N, S, E); without N: one sequence
-- out  y like query; with need_weights also the weights (N, L, S), or (N, heads, L, S) with average_attn_weights =
--      false
-- opts nn.MultiheadAttention(embed_dim, num_heads, {dropout = 0, bias = true, batch_first = false, add_bias_kv = false
--      (true: one more key and value, which are trained), add_zero_attn = false (true: one more, zeros)}); of a call:
--      key_padding_mask (N, S), attn_mask (L, S) or (N * heads, L, S): bool with true = does NOT take part (as in
--      PyTorch's layer), or added to the scores; is_causal = false; need_weights = false
-- init in_proj_weight xavier uniform; biases 0; bias_k, bias_v xavier normal; out_proj.weight as nn.Linear
-- errs value: num_heads does not divide embed_dim; shape
-- paper A. Vaswani and others: Attention is all you need, 2017
-- eg   nn.MultiheadAttention(8, 2, {batch_first = true})(capl.zeros(3, 5, 8)):size(2)  --> 5
local MultiheadAttention = classes.class("MultiheadAttention", Module)
attention.MultiheadAttention = MultiheadAttention

function MultiheadAttention:init(...)
  local fname = "nn.MultiheadAttention"
  local o = check.arguments(fname, multihead_spec, ...)
  local E = o.embed_dim
  if E < 1 or o.num_heads < 1 or E % o.num_heads ~= 0 then
    check.fail(fname, ("num_heads has to divide embed_dim, got %d and %d"):format(o.num_heads, E))
  end
  for _, name in ipairs{"kdim", "vdim"} do
    if o[name] and o[name] ~= E then
      check.fail(fname, ("%s is embed_dim (%d) here, got %d"):format(name, E, o[name]),
        "bring keys and values to embed_dim features with an nn.Linear before")
    end
  end
  self.embed_dim, self.num_heads, self.batch_first = E, o.num_heads, o.batch_first
  self.dropout = check_dropout(fname, o.dropout)
  self.in_proj_weight = parameter.uniform({3 * E, E}, math.sqrt(6 / (4 * E)))
  if o.bias then self.in_proj_bias = parameter.constant(3 * E, 0) end
  if o.add_bias_kv then
    for _, name in ipairs{"bias_k", "bias_v"} do
      self[name] = core.fill_random(core.empty{1, 1, E}, "normal", 0, E ^ -0.5):requires_grad_():keep()
    end
  end
  self.add_zero_attn = o.add_zero_attn
  self.out_proj = Linear(E, E, {bias = o.bias})
  if o.bias then parameter.init.zeros(self.out_proj.bias) end
end

function MultiheadAttention:extra()
  return ("%d, %d heads%s%s"):format(self.embed_dim, self.num_heads, self.batch_first and ", batch first" or "",
    self.dropout > 0 and (", dropout %g"):format(self.dropout) or "")
end

local function need_sequence(self, x, name, ndim)
  local features = self.embed_dim
  if core.is_tensor(x) and (x.ndim == 3 or x.ndim == 2) and (not ndim or x.ndim == ndim) and x:size(-1) == features then
    return
  end
  core.error{code = "shape", op = "nn.MultiheadAttention", message = ("%s must be (%s,%d), got %s"):format(name,
    ndim == 2 and "length" or self.batch_first and "batch,length" or "length,batch", features,
    core.is_tensor(x) and core.describe(x) or core.typename(x))}
end

-- Part i (from 0) of the input projection, as heads: (N, heads, length, E / heads).
local function heads(self, x, i)
  local E, H = self.embed_dim, self.num_heads
  local bias = self.in_proj_bias and self.in_proj_bias:narrow(1, i * E + 1, E)
  local y = op.linear(x, self.in_proj_weight:narrow(1, i * E + 1, E), bias)
  local a, b = x:size(1), x:size(2)
  y = y:reshape(a, b, H, E / H)
  return self.batch_first and y:permute(1, 3, 2, 4) or y:permute(2, 3, 1, 4)
end

-- The masks of a call as one for scores (N, heads, L, S): true takes part, or numbers to add; nil for none.
local function score_mask(self, o, N, L, S)
  local fname = "nn.MultiheadAttention"
  local mask, padding = o.attn_mask, o.key_padding_mask
  if padding then
    local shape = padding.shape
    if padding.ndim ~= 2 or shape[1] ~= N or shape[2] ~= S then
      core.error{code = "shape", op = fname,
        message = ("key_padding_mask must be (%d,%d), one per sequence and key, got %s"):format(
        N, S, core.describe(padding))}
    end
    padding = additive(padding, true):reshape(N, 1, 1, S)
  end
  if o.is_causal and padding and not mask then
    mask = additive(causal_mask(L, S))
    o.is_causal = false
  elseif mask then
    need_one_mask(fname, o)
    local shape, all = mask.shape, N * self.num_heads
    local fits = mask.ndim == 2 and shape[1] == L and shape[2] == S
      or mask.ndim == 3 and shape[1] == all and shape[2] == L and shape[3] == S
    if not fits then
      core.error{code = "shape", op = fname,
        message = ("attn_mask must be (%d,%d) or (%d,%d,%d), got %s"):format(L, S, all, L, S, core.describe(mask))}
    end
    mask = additive(mask, true)
    if mask.ndim == 3 then mask = mask:reshape(N, self.num_heads, L, S) end
  end
  if mask and padding then return mask + padding end
  return mask or padding
end

-- Keys or values (N, heads, S, E / heads) with those behind them that the layer itself adds.
local function with_more(self, x, own)
  local shape = x.shape
  shape[3] = 1
  if own then
    own = own:reshape(1, shape[2], 1, shape[4]):expand(shape)
    x = op.concat(x, own.dtype == x.dtype and own or own:to(x.dtype), {dim = 3})
  end
  if not self.add_zero_attn then return x end
  return (op.concat(x, core.zeros(shape, {dtype = x.dtype, device = x.device}), {dim = 3}))
end

-- The mask of the keys that were given as one that lets those take part which the layer adds.
local function with_more_keys(self, how, L, S)
  local more = (self.bias_k and 1 or 0) + (self.add_zero_attn and 1 or 0)
  if more == 0 then return end
  if how.is_causal then how.attn_mask, how.is_causal = additive(causal_mask(L, S)), false end
  if how.attn_mask then how.attn_mask = how.attn_mask:pad{0, more} end
end

-- y (N, heads, L, E / heads) -> as the input came.
local function join(self, y, L, N)
  y = self.batch_first and y:permute(1, 3, 2, 4) or y:permute(3, 1, 2, 4)
  local a, b = L, N
  if self.batch_first then a, b = N, L end
  return y:reshape(a, b, self.embed_dim)
end

function MultiheadAttention:forward(query, key, value, options)
  key, value = key or query, value or key or query
  local o = check.options("nn.MultiheadAttention", forward_spec, options)
  need_sequence(self, query, "query")
  need_sequence(self, key, "key", query.ndim)
  need_sequence(self, value, "value", query.ndim)
  if query.ndim == 2 then return self:single(query, key, value, o) end
  local time, batch = self.batch_first and 2 or 1, self.batch_first and 1 or 2
  local L, S, N = query:size(time), key:size(time), query:size(batch)
  local q, k, v = heads(self, query, 0), heads(self, key, 1), heads(self, value, 2)
  local how = {attn_mask = score_mask(self, o, N, L, S), is_causal = o.is_causal,
    dropout_p = self.training and self.dropout or 0}
  k, v = with_more(self, k, self.bias_k), with_more(self, v, self.bias_v)
  with_more_keys(self, how, L, S)
  if not o.need_weights then
    local y = self.out_proj(join(self, attend(q, k, v, how), L, N))
    return y
  end
  local y, weights = long_way(q, k, v, how)
  if o.average_attn_weights then weights = weights:mean(2) end
  return self.out_proj(join(self, y, L, N)), weights
end

-- One sequence (L, E): as a batch of one.
function MultiheadAttention:single(query, key, value, o)
  local function batched(x)
    local shape = x.shape
    if self.batch_first then return x:reshape(1, shape[1], shape[2]) end
    return x:reshape(shape[1], 1, shape[2])
  end
  local padding = o.key_padding_mask
  if padding and padding.ndim == 1 then o.key_padding_mask = padding:reshape(1, padding:size(1)) end
  local y, weights = MultiheadAttention.forward(self, batched(query), batched(key), batched(value), o)
  y = y:reshape(query.shape)
  if not weights then return y end
  local shape = weights.shape
  table.remove(shape, 1)
  return y, weights:reshape(shape)
end

-- ---- the encoder layer ----

local encoder_spec = {
  positional = 3,
  {"d_model", "whole", required = true}, {"nhead", "whole", required = true},
  {"dim_feedforward", "whole", default = 2048}, {"dropout", "number", default = 0.1},
  {"activation", "string", default = "relu"}, {"layer_norm_eps", "number", default = 1e-5},
  {"batch_first", "boolean", default = false}, {"norm_first", "boolean", default = false},
  {"bias", "boolean", default = true},
}

--- One layer of a transformer's encoder: self-attention, then two fully-connected layers, each with residual and norm.
-- in   x (L, N, d_model), with batch_first (N, L, d_model)
-- out  y like x
-- opts nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward = 2048, {dropout = 0.1, activation = "relu"|"gelu",
--      layer_norm_eps = 1e-5, batch_first = false, norm_first = false, bias = true (of all parts)}); of a call:
--      src_mask, src_key_padding_mask (true = does not take part), is_causal = false
-- paper A. Vaswani and others: Attention is all you need, 2017
-- eg   nn.TransformerEncoderLayer(8, 2, 16)(capl.zeros(5, 3, 8)):size(1)  --> 5
local TransformerEncoderLayer = classes.class("TransformerEncoderLayer", Module)
attention.TransformerEncoderLayer = TransformerEncoderLayer

function TransformerEncoderLayer:init(...)
  local fname = "nn.TransformerEncoderLayer"
  local o = check.arguments(fname, encoder_spec, ...)
  check.one_of(fname, "activation", o.activation, {"relu", "gelu"})
  check_dropout(fname, o.dropout)
  self.options = o
  local linear, norm = {bias = o.bias}, {eps = o.layer_norm_eps, bias = o.bias}
  self.self_attn = MultiheadAttention(o.d_model, o.nhead,
    {dropout = o.dropout, batch_first = o.batch_first, bias = o.bias})
  self.linear1 = Linear(o.d_model, o.dim_feedforward, linear)
  self.dropout = activation.Dropout(o.dropout)
  self.linear2 = Linear(o.dim_feedforward, o.d_model, linear)
  self.norm1 = LayerNorm(o.d_model, norm)
  self.norm2 = LayerNorm(o.d_model, norm)
  self.dropout1 = activation.Dropout(o.dropout)
  self.dropout2 = activation.Dropout(o.dropout)
  self.norm_first, self.activation = o.norm_first, o.activation
end

local layer_spec = {
  {"src_mask", "tensor"}, {"src_key_padding_mask", "tensor"}, {"is_causal", "boolean", default = false},
}

function TransformerEncoderLayer:forward(x, options)
  local o = check.options("nn.TransformerEncoderLayer", layer_spec, options)
  local how = {attn_mask = o.src_mask, key_padding_mask = o.src_key_padding_mask, is_causal = o.is_causal}
  local function attended(v)
    local y = self.dropout1(self.self_attn(v, v, v, how))
    return y
  end
  local function fed(v)
    local y = self.dropout2(self.linear2(self.dropout(op[self.activation](self.linear1(v)))))
    return y
  end
  if self.norm_first then
    x = x + attended(self.norm1(x))
    x = x + fed(self.norm2(x))
  else
    x = self.norm1(x + attended(x))
    x = self.norm2(x + fed(x))
  end
  return x
end

-- ---- the encoder ----

--- A stack of encoder layers: copies of one, which start with the same weights, as in PyTorch.
-- in   x (L, N, d_model), with batch_first (N, L, d_model)
-- out  y like x
-- opts nn.TransformerEncoder(encoder_layer, num_layers, {norm = a module for what comes out}); of a call: mask,
--      src_key_padding_mask (true = does not take part), is_causal = false
-- eg   nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3)(capl.zeros(5, 3, 8)):size(1)  --> 5
local TransformerEncoder = classes.class("TransformerEncoder", Module)
attention.TransformerEncoder = TransformerEncoder

-- A layer like another, with its weights and its mode.
local function copy_of(layer)
  local copy = TransformerEncoderLayer(layer.options)
  copy:load_state_dict(layer:state_dict())
  return copy:train(layer.training)
end

function TransformerEncoder:init(layer, num_layers, options)
  local fname = "nn.TransformerEncoder"
  if getmetatable(layer) ~= TransformerEncoderLayer then
    check.fail(fname, ("encoder_layer must be an nn.TransformerEncoderLayer, got %s"):format(
      classes.is_module(layer) and "nn." .. getmetatable(layer).__name or "a " .. core.typename(layer)),
      "put layers of another kind into an nn.ModuleList and call them in turn")
  end
  check.arg(2, fname, "whole", num_layers)
  if num_layers < 1 then check.fail(fname, ("num_layers is at least 1, got %d"):format(num_layers)) end
  local norm = check.options(fname, {{"norm", "table"}}, classes.is_module(options) and {norm = options}
    or options).norm
  if norm and not classes.is_module(norm) then
    check.fail(fname, "norm must be a module, such as nn.LayerNorm(d_model)")
  end
  local layers = {}
  for i = 1, num_layers do layers[i] = copy_of(layer) end
  self.layers = ModuleList(layers)
  if norm then self.norm = norm end
end

local call_spec = {
  {"mask", "tensor"}, {"src_key_padding_mask", "tensor"}, {"is_causal", "boolean", default = false},
}

function TransformerEncoder:forward(x, options)
  local o = check.options("nn.TransformerEncoder", call_spec, options)
  local how = {src_mask = o.mask, src_key_padding_mask = o.src_key_padding_mask, is_causal = o.is_causal}
  for _, layer in ipairs(self.layers._layers) do x = layer(x, how) end
  return self.norm and self.norm(x) or x
end

return attention
