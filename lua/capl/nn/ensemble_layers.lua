-- ensemble_layers.lua: layers whose parameters have a leading model axis, for nn.Ensemble.
--
-- What flows between them is (m, N, …): m is the number of models, or 1 while the models still share their values.
-- Layers over images fold the models into the channels, (N, m*C, H, W), which is a view of images that are N,H,W,C in
-- memory.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local activation = require "nn.activation"
local batchnorm = require "nn.batchnorm"
local classes = require "module_class"
local Conv2d = require "nn.conv2d"
local Linear = require "nn.linear"
local pooling = require "nn.pooling"
local recurrent = require "nn.recurrent"
local sequential = require "nn.sequential"

local op = core.op
local layers = {
  known = {}, -- class -> class of the same layer for all models at once, false when it needs none
  names = {}, -- of the classes known, sorted
  rates = {}, -- class -> key of its dropout rate, in which models may differ; the layer of all has them as its `rates`
}

local function derive(class)
  local new = classes.class(class.__name, class)
  new.pure = true
  return new
end

-- x for all models: a value they share is repeated, without memory.
local function for_all(x, n)
  if x:size(1) == n then return x end
  local size = x.shape
  size[1] = n
  return x:expand(size)
end

-- ---- linear ----

local EachLinear = derive(Linear)

function EachLinear:forward(x)
  local shape, wide = x.shape, x.ndim
  if shape[wide] ~= self.in_features then
    core.error{code = "shape", op = "linear",
      message = ("weight expects %d input features, x has %d"):format(self.in_features, shape[wide]),
      context = ("x %s   weight %s"):format(core.describe(x), core.describe(self.weight))}
  end
  local rows = wide == 3 and x or x:reshape(shape[1], -1, shape[wide])
  local y = op.matmul(rows, self.weight, {transpose_b = true})
  if self.bias then
    local sum = op.add(y, self.bias:unsqueeze(2))
    y:free()
    y = sum
  end
  if wide == 3 then return y end
  shape[1], shape[wide] = self.weight:size(1), self.out_features
  return y:reshape(shape)
end

-- ---- images ----

-- (m,N,C,H,W) -> (N,m*C,H,W)
local function fold(x, name)
  if x.ndim ~= 5 then
    core.error{code = "shape", op = "nn." .. name,
      message = ("x must be images of each model, (M,N,C,H,W), got %s"):format(core.describe(x))}
  end
  local m, n, c, h, w = unpack(x.shape)
  return x:permute(2, 1, 3, 4, 5):reshape(n, m * c, h, w)
end

-- (N,m*C,H,W) -> (m,N,C,H,W)
local function unfold(y, m)
  local n, c, h, w = unpack(y.shape)
  return y:reshape(n, m, c / m, h, w):permute(2, 1, 3, 4, 5)
end

local EachConv2d = derive(Conv2d)

function EachConv2d:forward(x)
  local n, m = self.weight:size(1), x:size(1)
  local _, o, c, kh, kw = unpack(self.weight.shape)
  if x.ndim == 5 and x:size(3) ~= self.in_channels then
    core.error{code = "shape", op = "conv2d",
      message = ("weight expects %d input channels, x has %d"):format(self.in_channels, x:size(3))}
  end
  local a = self.attributes -- shared values: the filters of all models on the same channels; else each model its group
  local attributes = {stride = a.stride, padding = a.padding, dilation = a.dilation, groups = m == 1 and a.groups
    or n * a.groups}
  if m == 1 and a.groups > 1 then x, attributes.groups = for_all(x, n), n * a.groups end
  local y = op.conv2d(fold(x, "Conv2d"), self.weight:reshape(n * o, c, kh, kw), self.bias and self.bias:reshape(-1),
    attributes)
  return unfold(y, n)
end

-- Layers over images without parameters: what they do to a channel does not depend on the others.
local function by_channel(class)
  local new = derive(class)
  function new:forward(x) return unfold(class.forward(self, fold(x, class.__name)), x:size(1)) end
  return new
end

-- ---- batch norm ----

local function normalize(self, x) -- x (N, M*C) or (N, M*C, H, W)
  if self.training then self.batches = self.batches + 1 end
  local y, mean, invstd = op.batch_norm(x, self.weight:reshape(-1), self.bias:reshape(-1),
    self.running_mean:reshape(-1), self.running_var:reshape(-1),
    {eps = self.eps, momentum = self:batch_share(), training = self.training})
  mean:free()
  invstd:free()
  return y
end

local function after_load(self) self.batches = self.num_batches_tracked:reshape(-1):tolist()[1] end

local EachBatchNorm1d, EachBatchNorm2d = derive(batchnorm.BatchNorm1d), derive(batchnorm.BatchNorm2d)
EachBatchNorm1d.after_load, EachBatchNorm2d.after_load = after_load, after_load

function EachBatchNorm1d:forward(x)
  local m = self.weight:size(1)
  local all = for_all(x, m):permute(2, 1, 3)
  local n, c = all:size(1), all:size(3)
  return normalize(self, all:reshape(n, m * c)):reshape(n, m, c):permute(2, 1, 3)
end

function EachBatchNorm2d:forward(x)
  local m = self.weight:size(1)
  return unfold(normalize(self, fold(for_all(x, m), "BatchNorm2d")), m)
end

-- ---- without parameters ----

-- Dims counted from the front are one further behind.
local function shifted(dim) return dim > 0 and dim + 1 or dim end

local EachSoftmax, EachLogSoftmax, EachFlatten = derive(activation.Softmax), derive(activation.LogSoftmax),
  derive(activation.Flatten)

function EachSoftmax:forward(x) return (op.softmax(x, {dim = shifted(self.over)})) end
function EachLogSoftmax:forward(x) return (op.log_softmax(x, {dim = shifted(self.over)})) end
function EachFlatten:forward(x) return x:flatten(shifted(self.first), shifted(self.last)) end

-- x (…) with the models along dim, while training: the mask of each model is its own, at its own rate.
local function drop(x, rates, dim)
  local same, masks = true, {}
  for _, rate in ipairs(rates) do same = same and rate == rates[1] end
  if same and rates[1] == 0 then return x end
  local function masked(t, rate) return (op.dropout(t, {p = rate, seed = core.rng(), offset = core.next_stream()})) end
  if same then return masked(x, rates[1]) end
  core.no_grad(function()
    local size = x.shape
    size[dim] = 1
    local ones = core.ones(size, {dtype = x.dtype, device = x.device})
    for k, rate in ipairs(rates) do masks[k] = rate == 0 and ones or masked(ones, rate) end
  end)
  local mask = core.no_grad(op.concat, masks, {dim = dim})
  local y = op.mul(x, mask)
  return y
end

local EachDropout = derive(activation.Dropout)
EachDropout.pure = nil -- it may hand on what it was given

function EachDropout:forward(x)
  if not self.training then return x end
  return drop(for_all(x, self.models), self.rates, 1)
end

-- ---- recurrent ----

local EachLSTM = derive(recurrent.LSTM)

-- The inputs (m,A,B,I) of a layer times w_ih with all biases -> (A,B,M*4H), as the op takes it.
local function project(self, x, l)
  local w, bias = self["weight_ih_l" .. l], self["bias_ih_l" .. l]
  local m, a, b, inputs = unpack(x.shape)
  if bias then bias = op.add(bias, self["bias_hh_l" .. l]):reshape(-1) end
  if m == 1 then return (op.linear(x:squeeze(1), w:reshape(-1, inputs), bias)) end
  local y = op.matmul(x:reshape(m, a * b, inputs), w, {transpose_b = true}):permute(2, 1, 3):reshape(a, b, -1)
  return bias and op.add(y, bias) or y
end

-- One layer: x (m,A,B,I) -> y (M,A,B,H), h and c (M,1,N,H).
local function lstm_layer(self, x, l, lengths)
  local H = self.hidden_size
  local y, h, c, gates, cells = op.lstm(project(self, x, l), self["weight_hh_l" .. l]:reshape(-1, H), nil, nil, lengths,
    {batch_first = self.attributes.batch_first, models = true})
  gates:free()
  cells:free()
  return y:reshape(y:size(1), y:size(2), self.models, H):permute(3, 1, 2, 4), h:unsqueeze(2), c:unsqueeze(2)
end

local function check_sequences(self, x, state)
  if self.bidirectional then
    core.fail("nn.Ensemble: LSTM with bidirectional = true is not supported", "use one direction")
  end
  if state ~= nil then
    core.fail("nn.Ensemble: LSTM with a state to begin with is not supported", "leave it out: the state is zeros")
  end
  if x.ndim == 4 and x:size(4) == self.input_size then return end
  core.error{code = "shape", op = "nn.LSTM",
    message = ("input_size is %d; x must be sequences of each model, (M,N,T,%d) or (M,T,N,%d)"):format(
      self.input_size, self.input_size, self.input_size), context = "x " .. core.describe(x)}
end

--- y (M,N,T,H), or (M,T,N,H), and the state {h, c}, each (M,layers,N,H).
function EachLSTM:forward(x, state, lengths)
  check_sequences(self, x, state)
  if type(lengths) == "table" then lengths = core.tensor(lengths, {dtype = "i32", device = x.device}) end
  local h, c = {}, {}
  for l = 0, self.num_layers - 1 do
    x, h[l + 1], c[l + 1] = lstm_layer(self, x, l, lengths)
    if self.training and l < self.num_layers - 1 then x = drop(x, self.rates, 1) end
  end
  return x, self.num_layers == 1 and {h[1], c[1]} or {op.concat(h, {dim = 2}), op.concat(c, {dim = 2})}
end

-- ---- the list ----

local known = layers.known
known[Linear], known[Conv2d] = EachLinear, EachConv2d
known[batchnorm.BatchNorm1d], known[batchnorm.BatchNorm2d] = EachBatchNorm1d, EachBatchNorm2d
known[activation.Softmax], known[activation.LogSoftmax] = EachSoftmax, EachLogSoftmax
known[activation.Flatten], known[activation.Dropout], known[recurrent.LSTM] = EachFlatten, EachDropout, EachLSTM
layers.rates[activation.Dropout], layers.rates[recurrent.LSTM] = "p", "dropout"
for _, class in pairs(pooling) do
  if type(class) == "table" and class.__module then known[class] = by_channel(class) end
end
for _, name in ipairs{"ReLU", "Sigmoid", "Tanh", "SiLU", "GELU", "Softplus", "LeakyReLU", "ELU", "Hardsigmoid",
  "Hardswish", "LogSigmoid", "ReLU6", "Mish", "SELU", "Hardtanh", "Identity"} do known[activation[name]] = false end
for _, class in pairs(sequential) do known[class] = false end
for class in pairs(known) do layers.names[#layers.names + 1] = class.__name end
table.sort(layers.names)

layers.for_all = for_all
return layers
