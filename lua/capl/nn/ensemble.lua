-- ensemble.lua: many small models trained at once: one set of ops whose tensors have a leading model axis.
--
-- The first model that build makes becomes the plan of all: its parameters and buffers are replaced by those of all
-- models, stacked, and its layers by ones that know the axis (ensemble_layers.lua).
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local layers = require "nn.ensemble_layers"
local readonly = require "readonly"

local OP = "nn.Ensemble"
local MOST = 65536 -- models; more are no ensemble but a slip of the hand
local PREFIX = "models."

local spec = {
  {"n", "whole", required = true}, {"build", "function", required = true}, {"seed", "whole"}, {"seeds", "table"},
}

--- n small models as one: each layer runs once for all of them, so 32 tiny networks cost little more than one.
-- in   x (N, …), the same for all models; ensemble:each(x) with x (n, N, …) gives each model its own
-- out  y (n, N, …): model k's output is y:select(1, k)
-- opts n; build = function(k) -> a module, model k; all of the same layers and sizes. Model k is built after
--      capl.manual_seed(seed + k - 1), or of seeds[k], when one of them is given. Layers: Linear, Conv2d, LSTM of one
--      direction, batch norm, pooling, activations, softmax, Flatten, Dropout, Sequential, and your own classes
--      without parameters of their own whose forward counts dims from the end (-1, -2), such as attention by matmul and
--      softmax. Dropout has another mask for each model, and its rate may differ, as may that of LSTM
-- errs value: a layer it does not know, models that differ; shape: a forward that mixes the models
-- eg   nn.Ensemble{n = 3, build = function() return nn.Linear(4, 2) end}(capl.zeros(5, 4)):size(1)  --> 3
local Ensemble = classes.class("Ensemble", require "nn.module")

-- ---- building ----

local function check_seeds(o)
  if o.n < 1 then check.fail(OP, ("n is at least 1, got %d"):format(o.n)) end
  if o.n > MOST then check.fail(OP, ("n is at most %d, got %d"):format(MOST, o.n)) end
  if o.seed and o.seeds then check.fail(OP, "seed and seeds are both given") end
  if o.seeds and #o.seeds ~= o.n then check.fail(OP, ("seeds has %d numbers for %d models"):format(#o.seeds, o.n)) end
end

-- Model k as build makes it, without changing what comes after for others.
local function build_one(self, k, keep_streams)
  local seed, streams = core.rng()
  local own = self.seeds and self.seeds[k]
  if own then core.rng(own, 0) end
  local model = self.build(k)
  if own or keep_streams then core.rng(seed, streams) end
  if not classes.is_module(model) then
    check.fail(OP, ("build(%d) returned a %s, not a module"):format(k, core.typename(model)))
  end
  return model
end

-- Every module of a model with its path, as a list of {path, module}.
local function modules_of(model)
  local out = {}
  for path, module in model:named_modules() do out[#out + 1] = {path, module} end
  return out
end

local function own_tensors(module)
  local out = {}
  for _, entry in ipairs(module._entries) do
    local value = rawget(module, entry.name)
    if entry.kind ~= "module" and value ~= nil then out[#out + 1] = {entry.name, value, entry.kind} end
  end
  return out
end

-- Raises for a layer that cannot have a model axis; -> whether it is of a recipe's own class.
local function check_layer(module)
  local class = getmetatable(module)
  if layers.known[class] ~= nil and module.alone then
    check.fail(OP, ("nn.%s with %s is not supported"):format(class.__name, module.alone))
  end
  if layers.known[class] ~= nil then return false end
  if not readonly.is_open(class) then
    check.fail(OP, ("does not know nn.%s; it knows %s"):format(class.__name, table.concat(layers.names, ", ")))
  end
  local own = own_tensors(module)[1]
  if own then
    check.fail(OP, ("%s has its own %s, %s, which an ensemble does not support"):format(
      class.__name, own[3], own[1]), "put it into a layer it knows: " .. table.concat(layers.names, ", "))
  end
  return true
end

-- Of a module, without what may differ among models: the rate of dropout.
local function describe(module)
  local key = layers.rates[getmetatable(module)]
  if not key then return module:describe() end
  local rate = module[key]
  module[key] = 0
  local text = module:describe()
  module[key] = rate
  return text
end

local function differ(k, path, first, other)
  check.fail(OP, ("model %d is another than model 1: %s is %s there and %s here"):format(k, path == "" and "it" or path,
    other, first), "build must create the same layers for every k; seeds, rates of learning and dropout, and values may differ")
end

-- All models as lists of modules, checked to be alike.
local function alike(models)
  local lists = {}
  for k, model in ipairs(models) do
    lists[k] = modules_of(model)
    for i, entry in ipairs(lists[1]) do
      local other = lists[k][i]
      if not other or other[1] ~= entry[1] then
        differ(k, entry[1], describe(entry[2]), other and other[1] or "missing")
      end
      if k > 1 and rawequal(other[2], entry[2]) then
        check.fail(OP, ("build(%d) returned a model it has returned before"):format(k), "make the layers inside build")
      end
      if describe(other[2]) ~= describe(entry[2]) then
        differ(k, entry[1], describe(entry[2]), describe(other[2]))
      end
    end
    if #lists[k] ~= #lists[1] then
      differ(k, lists[k][#lists[1] + 1][1], "missing", describe(lists[k][#lists[1] + 1][2]))
    end
  end
  return lists
end

-- The tensors of one place in all models, stacked; a parameter stays one.
local function stacked(tensors, kind)
  local rows = {}
  for k, t in ipairs(tensors) do rows[k] = t:detach():unsqueeze(1) end
  local all = core.no_grad(core.op.concat, rows, {dim = 1})
  if kind == "parameter" and tensors[1].requires_grad then all:requires_grad_() end
  return all:keep()
end

-- Makes the first model the plan of all.
local function stack_models(lists)
  local custom = false
  for i, entry in ipairs(lists[1]) do
    local plan = entry[2]
    custom = check_layer(plan) or custom
    for _, own in ipairs(own_tensors(plan)) do
      local tensors = {}
      for k, list in ipairs(lists) do tensors[k] = rawget(list[i][2], own[1]) end
      rawset(plan, own[1], stacked(tensors, own[3]))
    end
  end
  for i, entry in ipairs(lists[1]) do
    local class, rate = layers.known[getmetatable(entry[2])], layers.rates[getmetatable(entry[2])]
    if rate then
      local rates = {}
      for k, list in ipairs(lists) do rates[k] = list[i][2][rate] end
      rawset(entry[2], "rates", rates)
    end
    if class then setmetatable(entry[2], class) end
    rawset(entry[2], "models", #lists)
  end
  return custom
end

function Ensemble:init(...)
  local o = check.arguments(OP, spec, ...)
  check_seeds(o)
  self.n, self.build, self.seeds = o.n, o.build, o.seeds
  if o.seed then
    self.seeds = {}
    for k = 1, o.n do self.seeds[k] = o.seed + k - 1 end
  end
  local models = {}
  for k = 1, o.n do models[k] = build_one(self, k) end
  local lists = alike(models)
  self.unproved = stack_models(lists)
  self:add_module("models", models[1])
end

-- ---- forward ----

local function run(self, x) return layers.for_all(self.models(x), self.n) end

-- What model k makes of its rows of x, alone.
local function alone(self, k, x)
  local model = self:member(k):eval()
  return model(x:select(1, x:size(1) == 1 and 1 or k)):tolist()
end

local function far(a, b)
  if type(a) ~= type(b) or (type(a) == "table" and #a ~= #b) then return true end
  if type(a) == "number" then return math.abs(a - b) > 1e-3 * (1 + math.abs(b)) end
  for i = 1, #a do
    if far(a[i], b[i]) then return true end
  end
  return false
end

-- A forward of a recipe's own is compared once, on two rows, with the first and the last model alone: a view or a dim
-- counted from the front may have mixed the models.
local function prove(self, x)
  self.unproved = false
  if x.device == "meta" or core.device() == "meta" then return end
  local training = self.training
  core.no_grad(function()
    self:eval()
    local few = x:narrow(2, 1, math.min(2, x:size(2)))
    local y = run(self, few)
    for _, k in ipairs{1, self.n} do
      if far(y:select(1, k):tolist(), alone(self, k, few)) then
        core.error{code = "shape", op = OP,
          message = ("model %d gives other numbers in the ensemble than alone"):format(k), path = false, hint = "a forward here gets (M,N,…) in place of (N,…): count dims from the end (softmax(-1), transpose(-1,-2)), without view"}
      end
    end
  end)
  self:train(training)
end

local function forward(self, x)
  if self.unproved then prove(self, x) end
  return run(self, x)
end

function Ensemble:forward(x)
  check.arg(1, "Ensemble", "tensor", x)
  local y = forward(self, x:unsqueeze(1))
  return y
end

--- Each model has an input of its own: x (n, N, …) -> y (n, N, …).
function Ensemble:each(x)
  if check.arg(1, "each", "tensor", x):size(1) ~= self.n then
    check.bad(1, "each", ("(%d,N,…) expected, one input for each model, got %s"):format(self.n, core.describe(x)))
  end
  return forward(self, x)
end

-- ---- losses and learning rates ----

--- The loss of each model: a tensor (n), the mean over a model's rows. Its sum's gradient is what each model alone
-- would get.
-- in   loss = nn.cross_entropy or another with reduction = "none"; output (n, N, …) of the ensemble; target (N, …), the
--      same for all; opts of the loss, and each = true for a target (n, N, …)
-- eg   nn.Ensemble{n = 2, build = function() return nn.Tanh() end}:losses(nn.mse, capl.zeros(2, 5), capl.zeros(5)):size(1)  --> 2
function Ensemble:losses(loss, output, target, opts)
  check.arg(1, "losses", "function", loss)
  check.arg(2, "losses", "tensor", output)
  check.arg(3, "losses", "tensor", target)
  local o, each = {reduction = "none"}, false
  for key, value in pairs(opts or {}) do
    if key == "each" then each = value else o[key] = value end
  end
  if not each then target = layers.for_all(target:unsqueeze(1), self.n) end
  if output:size(1) ~= self.n or target:size(1) ~= self.n or output:size(2) ~= target:size(2) then
    core.error{code = "shape", op = "losses",
      message = ("output is %s, target %s for %d models"):format(core.describe(output), core.describe(target), self.n),
      path = false}
  end
  local rows = loss(output:flatten(1, 2), target:flatten(1, 2), o)
  if rows:numel() % self.n ~= 0 or rows:numel() < self.n then
    check.fail("losses", "the loss gave no value for each row", 'give one that takes {reduction = "none"}')
  end
  return rows:reshape(self.n, -1):mean(2)
end

--- Scales the gradients of each model to a norm of at most max_norm, as clip_norm does for a model alone. After
-- backward and before the optimizer's step.
-- out  norms before, a tensor (n)
-- eg   nn.Ensemble{n = 2, build = function() return nn.Linear(1, 1) end}:clip_grad_norm_(1):size(1)  --> 2
function Ensemble:clip_grad_norm_(max_norm)
  if not (check.arg(1, "clip_grad_norm_", "number", max_norm) > 0) then
    check.bad(1, "clip_grad_norm_", ("a number above 0 expected, got %g"):format(max_norm))
  end
  return core.no_grad(function()
    local squares
    for _, p in ipairs(self:parameters()) do
      local own = p.grad and (p.grad:reshape(self.n, -1) ^ 2):sum(2)
      squares = squares and own and squares + own or own or squares
    end
    if not squares then return core.zeros(self.n) end
    local norms = squares:sqrt()
    local factors = (max_norm / (norms + 1e-6)):clamp(0, 1)
    for _, p in ipairs(self:parameters()) do
      if p.grad then
        local size = {self.n}
        for d = 2, p.ndim do size[d] = 1 end
        p.grad:copy_(p.grad * factors:reshape(size))
      end
    end
    return norms
  end)
end

local function check_rates(self, fname, rates)
  check.arg(2, fname, "table", rates)
  if #rates ~= self.n then check.bad(2, fname,
    ("%d numbers expected, one for each model, got %d"):format(self.n, #rates)) end
  for k, rate in ipairs(rates) do
    if type(rate) ~= "number" or not (rate >= 0 and rate < math.huge) then
      check.bad(2, fname, ("a number from 0 on expected for model %d, got %s"):format(k, tostring(rate)))
    end
  end
end

-- The parameters of the ensemble that an optimizer trains.
local function trained_by(self, opt)
  local own, out = {}, {}
  for _, p in ipairs(self:parameters()) do own[p] = true end
  for _, group in ipairs(opt.groups or {}) do
    for _, p in ipairs(group.params) do
      if own[p] then out[#out + 1] = p end
    end
  end
  return out
end

-- A step of size f is the share f of the way that a step of size 1 goes, as the way is proportional to the rate.
local function shorten(parameters, former, shares)
  for i, p in ipairs(parameters) do
    local size = {shares:numel()}
    for d = 2, p.ndim do size[d] = 1 end
    p:copy_(former[i] + (p - former[i]) * shares:reshape(size))
  end
end

--- Model k learns with shares[k] times the optimizer's rate, schedule included; shares are at most 1.
-- in   opt: one optimizer (SGD, Adam, AdamW, RMSprop) over ensemble:parameters(); shares: n numbers
-- errs value: other numbers of shares, an optimizer without these parameters, clip_norm (a norm is common to all
--      models)
function Ensemble:scale_lr(opt, shares)
  check_rates(self, "scale_lr", shares)
  local parameters = type(opt) == "table" and trained_by(self, opt) or {}
  if #parameters == 0 then check.bad(1, "scale_lr", "an optimizer over ensemble:parameters() expected") end
  if opt.name:find("Muon", 1, true) then check.bad(1, "scale_lr", "Muon would take the models for rows of one matrix")
    end
  if opt.clip_norm > 0 then check.bad(1, "scale_lr", "clip_norm is over the gradients of all models together") end
  for k, share in ipairs(shares) do
    if share > 1 then check.bad(2, "scale_lr", ("at most 1 expected, got %g for model %d"):format(share, k)) end
  end
  local vector = core.tensor(shares, {dtype = "f32", device = parameters[1].device}):keep()
  local apply = getmetatable(opt).__index(opt, "apply_with")
  opt.apply_with = function(optimizer, with)
    local former = core.no_grad(function()
      local out = {}
      for i, p in ipairs(parameters) do out[i] = p:clone() end
      return out
    end)
    apply(optimizer, with)
    core.no_grad(shorten, parameters, former, vector)
    for _, t in ipairs(former) do t:free() end
  end
end

--- Model k learns with rates[k]; the optimizer's own rate becomes the largest of them.
function Ensemble:set_lr(opt, rates)
  check_rates(self, "set_lr", rates)
  local most, shares = math.max(unpack(rates)), {}
  for k, rate in ipairs(rates) do shares[k] = most > 0 and rate / most or 1 end
  self:scale_lr(opt, shares)
  opt:set_lr(most)
end

-- ---- the models ----

local function check_number(self, fname, k)
  if check.arg(1, fname, "whole", k) < 1 or k > self.n then
    check.bad(1, fname, ("a model from 1 to %d expected, got %d"):format(self.n, k))
  end
end

--- Table name -> tensor of model k as that model alone would give it, sharing memory with the ensemble; of all,
-- stacked, without k.
function Ensemble:state_dict(k)
  local all = require("nn.module").state_dict(self)
  if k == nil then return all end
  check_number(self, "state_dict", k)
  local out = {}
  for name, tensor in pairs(all) do out[name:sub(#PREFIX + 1)] = tensor:select(1, k) end
  return out
end

--- Model k as an ordinary module of its own: a copy that can be saved, evaluated and trained on.
function Ensemble:member(k)
  check_number(self, "member", k)
  local model = build_one(self, k, true)
  local device = self:parameters()[1] and self:parameters()[1].device
  if device then model:to(device) end
  model:load_state_dict(self:state_dict(k))
  return model:train(self.training)
end

--- Puts the values of an ordinary model, or of its state_dict, into model k.
function Ensemble:load_member(k, state)
  check_number(self, "load_member", k)
  if classes.is_module(state) then state = state:state_dict() end
  local model = build_one(self, k, true)
  model:load_state_dict(state)
  local own = self:state_dict(k)
  core.no_grad(function()
    for name, tensor in pairs(model:state_dict()) do own[name]:copy_(tensor) end
  end)
  for _, module in self:named_modules() do
    if module.after_load then module:after_load() end
  end
end

function Ensemble:extra() return ("%d models"):format(self.n) end

return Ensemble
