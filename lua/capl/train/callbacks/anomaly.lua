-- anomaly.lua: train.Anomaly and the key detect_anomaly of train.fit: a loss or a gradient that is not finite ends the
-- run before it spoils the weights, and is explained.
--
-- Where the CPU reads a loss without waiting, it looks at the loss before the backward pass and at the gradients' norm
-- before the weights change. A GPU leaves such a step out by itself (Optimizer.guard); its losses are read a few steps
-- later, and their batches kept as long. What went wrong is then found by making the step again, with every op's result
-- read: the weights are still those of before it.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local sync = require "dist.sync"
local check = require "check"
local forward = require "forward"
local labels = require "nn.labels"

local AHEAD = 2 -- steps of a GPU whose losses are on their way
local NAMES = 5 -- samples that are named

local Anomaly = {}
Anomaly.__index = Anomaly

local spec = {
  {"model", "table", required = true}, {"optimizer", "table", required = true}, {"loss", "function", required = true},
  forward.input,
  {"precision", "string", "table", default = "fp32"}, {"train", "table"},
  {"detect_anomaly", "boolean", default = false}, {"op", "string", default = "train.Anomaly"},
}

local function is_finite(x) return x == x and math.abs(x) < math.huge end

local function listen(self)
  self.on_loss = function(opt, loss)
    if opt == self.optimizer and self.now then self:loss_made(loss) end
  end
  self.on_gradients = function(opt)
    if opt == self.optimizer and self.now then self:gradients_made() end
  end
  observer:on("loss", self.on_loss)
  observer:on("gradients", self.on_gradients)
end

--- Checks the steps of a loop for losses and gradients that are not finite; train.fit always does.
-- opts model; optimizer; loss = function(output, batch), to make a step again; input = function(batch) -> what the
--      model is called with; precision = "fp32"; train = the loader, to name samples; detect_anomaly = true: every
--      result of every op is read, also of those that no loss shows: slow
-- out  a watch: watch:before_step(batch, number), then the step, then watch:after_step(loss); watch:close() at the end
-- errs value, in the step: what is not finite, the layer and op where it began, the pass, and the samples
function Anomaly.new(opts)
  local self = setmetatable(check.options("train.Anomaly", spec, opts), Anomaly)
  self.device = core.device():match("^%a+")
  self.host = self.device ~= "cuda" and self.device ~= "meta"
  self.pending, self.steps, self.checked = {}, 0, 0
  if self.device == "cuda" then self.optimizer.guard = true end
  listen(self)
  return self
end

-- ---- during a step ----

function Anomaly:before_step(batch, number)
  local seed, streams = core.rng()
  self.steps = number or self.steps + 1
  self.now = {batch = batch, step = self.steps, seed = seed, streams = streams}
  if not self.detect_anomaly then return end
  self.unlabel = labels.begin(self.model)
  core.watch_finite("forward")
end

function Anomaly:stop_watching()
  if not self.unlabel then return end
  self.unlabel()
  self.unlabel = nil
  core.watch_finite("off")
end

function Anomaly:loss_made(loss)
  if self.detect_anomaly then core.watch_finite("backward") end
  self.now.later = not self.host or observer.put_before_launch ~= nil -- a captured step is not read while it is made
  if self.now.later then return end
  local value = loss:item()
  if not is_finite(value) then self:explain("the loss", value, self.now, loss) end
end

-- Whether somebody else takes care of gradients that are not finite: such a step is skipped and counted.
local function is_guarded(opt)
  if opt.scaled or (opt.clip_norm or 0) > 0 then return true end
  for _, one in ipairs(opt.optimizers or {}) do
    if one.clip_norm > 0 then return true end
  end
  return false
end

local function norm_of(opt)
  local list = {}
  for _, group in ipairs(opt.groups) do
    for _, p in ipairs(group.params) do list[#list + 1] = p.grad end
  end
  if #list == 0 then return 0 end
  local norm = core.no_grad(core.op.grad_norm, list)
  local value = norm:item()
  norm:free()
  for _, grad in ipairs(list) do grad:free() end
  return value
end

function Anomaly:gradients_made()
  self.checked = self.checked + 1
  if self.detect_anomaly then
    self:stop_watching()
    local origin = core.origin()
    if origin and origin.kind == "nan" then self:explain("a result", 0 / 0, self.now) end
  end
  if self.now.later or is_guarded(self.optimizer) then return end
  local norm = norm_of(self.optimizer)
  if not is_finite(norm) then self:explain("the norm of the gradients", norm, self.now) end
end

-- Losses of earlier steps that have arrived; the oldest is waited for when there are more than `most`.
function Anomaly:read(most)
  while self.pending[1] and (#self.pending > most or self.pending[1].fetch:ready()) do
    local first = table.remove(self.pending, 1)
    local value = first.fetch:value()
    if not is_finite(value) then self:explain("the loss", value, first) end
  end
end

function Anomaly:after_step(loss)
  self:stop_watching()
  local now = self.now
  self.now = nil
  if not now or (self.host and not now.later) then return end
  now.fetch = core.fetch(loss)
  table.insert(self.pending, now)
  self:read(AHEAD)
end

function Anomaly:close()
  self:stop_watching()
  observer:off("loss", self.on_loss)
  observer:off("gradients", self.on_gradients)
  if self.device == "cuda" then self.optimizer.guard = nil end
end

-- ---- finding out ----

-- "12 (a.png), 15 (b.png) and 3 more"; rows: places in the batch, from 0, of which `count` are concerned
function Anomaly:samples(batch, rows, count)
  local ids, names = batch.ids, {}
  for i = 1, math.min(#rows, NAMES) do
    local id = ids and ids[rows[i] + 1]
    local name = id and self.train and self.train.source and self.train.source:name(id)
    names[i] = id and (name and ("%d (%s)"):format(id, name) or tostring(id)) or "place " .. rows[i] + 1
  end
  local more = count - #names
  return ("%s%s"):format(table.concat(names, ", "), more > 0 and (" and %d more"):format(more) or "")
end

-- Numbers that come with the batch itself.
function Anomaly:of_batch(batch)
  local names = {}
  for key, value in pairs(batch) do
    if core.is_tensor(value) then names[#names + 1] = key end
  end
  table.sort(names)
  for _, key in ipairs(names) do
    local found = core.nonfinite(batch[key])
    if found then
      return ("batch.%s is not finite in %d of %d samples: %s"):format(key, found.rows_bad, found.row_count,
        self:samples(batch, found.rows, found.rows_bad)), "check these samples; the model is correct"
    end
  end
end

-- Weights that are not finite already, or grow without bounds.
function Anomaly:of_weights()
  local largest, of = 0, nil
  for name, p in self.model:named_parameters() do
    if core.nonfinite(p) then
      return ("%s was not finite before this step"):format(name),
        "try a lower lr, a longer warmup, or clip_norm = 1 in the optimizer"
    end
    local size = core.no_grad(function() return p:abs():amax():item() end)
    if size > largest then largest, of = size, name end
  end
  if largest > 1e4 then
    return ("weights have grown to %.2g (%s)"):format(largest, of),
      "the lr is too high: a lower one, a longer warmup, or clip_norm = 1 in the optimizer"
  end
end

-- Makes the step again with every result read -> the call from which it is not finite.
function Anomaly:repeat_step(at)
  local former = observer.recomputing
  local seed, streams = core.rng()
  local unlabel = labels.begin(self.model)
  observer.recomputing = true -- running statistics stay as they are
  self.optimizer:zero_grad()
  core.rng(at.seed, at.streams)
  core.watch_finite("forward")
  local loss
  local ok, err = pcall(function()
    loss = forward.loss(self, at.batch)
    core.watch_finite("backward")
    loss:backward()
  end)
  core.watch_finite("off")
  core.rng(seed, streams)
  observer.recomputing = former
  unlabel()
  local origin = ok and (core.origin(loss) or core.origin(nil, true)) or core.origin()
  self.optimizer:zero_grad()
  return origin, not ok and tostring(err) or nil
end

local hint_of = {
  log = "log of 0 is not finite: add a small number inside, or use nn.cross_entropy or nn.bce_with_logits on logits",
  div = "something is divided by 0: add a small number to the divisor",
  sqrt = "the root of 0 has no finite slope, that of less than 0 no value: add a small number inside",
  pow = "add a small number to the base",
  exp = "exp overflows above 88: subtract the largest value first, as softmax does",
}
hint_of.pointwise = hint_of.log

-- "op log of layer 3 in the forward pass, recipe.lua:12"
local function place_of(origin)
  local text = "op " .. origin.op
  if origin.label then text = text .. " of layer " .. origin.label end
  text = ("%s in the %s pass"):format(text, origin.backward and "backward" or "forward")
  return origin.where and not origin.backward and text .. ", " .. origin.where or text
end

-- Places in the batch that the rows of a call's result belong to, from 0.
local function rows_of(origin, count)
  if origin.row_count % count ~= 0 or origin.row_count == 0 then return nil end
  local each, seen, out = origin.row_count / count, {}, {}
  for _, row in ipairs(origin.rows) do
    local place = math.floor(row / each)
    if not seen[place] then
      seen[place] = true
      out[#out + 1] = place
    end
  end
  return out, each == 1 and origin.rows_bad or #out
end

local function all_rows(count)
  local rows = {}
  for i = 0, count - 1 do rows[#rows + 1] = i end
  return rows
end

function Anomaly:of_origin(origin, batch, lines, what)
  if not origin then
    local of_all = sync.size() > 1 and what ~= "the loss" -- which is of this rank alone
    lines[#lines + 1] = of_all and ("repeated, the step gave finite numbers%s: the first NaN was on another rank"):format(sync.here())
      or "repeated, the step gave finite numbers: the origin is unknown"
    return nil
  end
  lines[#lines + 1] = ("first not finite: %s (%d of %d values)"):format(place_of(origin), origin.values, origin.total)
  local rows, count = rows_of(origin, batch.count)
  if not rows then rows, count = all_rows(batch.count), batch.count end
  lines[#lines + 1] = ("samples: %s of %d: %s"):format(count == batch.count and "all" or tostring(count), batch.count,
    self:samples(batch, rows, count))
  return hint_of[origin.op:gsub("_grad$", "")]
end

-- Of summed batches (accumulate) the first that is at fault by itself, or else the first.
function Anomaly:at_fault(at)
  if not at.batch[1] then return at end
  local function only(batch) return {batch = batch, step = at.step, seed = at.seed, streams = at.streams} end
  for _, batch in ipairs(at.batch) do
    if self:of_batch(batch) or self:repeat_step(only(batch)) then return only(batch) end
  end
  return only(at.batch[1])
end

--- Raises the error about a step. at: {batch, step, seed, streams}
function Anomaly:explain(what, value, at)
  if sync.world() then sync.world():hold("looking for what is not finite") end
  self.now = nil
  self:stop_watching()
  at = self:at_fault(at)
  local batch, lines = at.batch, {}
  batch.count = batch.count or forward.given(self, batch).shape[1]
  local of_batch, batch_hint = self:of_batch(batch)
  local of_weights, weights_hint = self:of_weights()
  lines[1], lines[2] = of_batch or of_weights, of_batch and of_weights
  local origin, failed = self:repeat_step(at)
  local origin_hint = self:of_origin(origin, batch, lines, what)
  if failed and not origin then lines[#lines] = "made again, the step failed: " .. failed end
  if not of_weights then lines[#lines + 1] = "the weights are finite, as the step before left them" end
  local kind = value ~= value and "nan" or "inf"
  core.error{code = "value", op = self.op, path = false, message = ("%s of step %d is %s"):format(what, at.step, kind),
    context = table.concat(lines, "\n"),
    hint = batch_hint or weights_hint or origin_hint or
      "try a lower lr, a longer warmup, clip_norm = 1 in the optimizer, or precision = \"fp32\""}
end

-- ---- the key of train.fit ----

local Callback = {}
Callback.__index = Callback

local function read(o)
  if not o.detect_anomaly then return end
  if o.capture == true then
    check.fail("train.fit", "detect_anomaly reads the result of every op, which a captured step does not allow",
      "leave capture out")
  end
  o.capture = false
end

local function new(fit) return setmetatable({fit = fit}, Callback) end

function Callback:begin()
  local o = self.fit.o
  self.watch = Anomaly.new{model = o.model, optimizer = o.optimizer, loss = o.loss, input = o.input,
    precision = o.precision, train = o.train, detect_anomaly = o.detect_anomaly, op = "train.fit"}
  if o.detect_anomaly then
    self.fit.run:add_feature{name = "detect_anomaly", what = "steps whose results were read",
      count = function() return self.watch.checked end}
  end
end

function Callback:before_step(batch) self.watch:before_step(batch, self.fit.step + 1) end
function Callback:after_step(loss) self.watch:after_step(loss) end
function Callback:before_evaluation() self.watch:read(0) end
function Callback:finish() self.watch:read(0) end
function Callback:close()
  if self.watch then self.watch:close() end
end

return {name = "anomaly", spec = {{"detect_anomaly", "boolean", default = false}}, read = read, new = new,
  Anomaly = Anomaly.new}
