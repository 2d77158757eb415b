-- fit.lua: train.fit{…}: the ready-made loop: steps, evaluations, the end. Its features are in callbacks/.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local check = require "check"
local fields = require "fields"
local sync = require "dist.sync"
local evaluate = require "train.evaluate"
local evaluation = require "train.evaluation"
local exported = require "train.exported"
local modelfile = require "run.modelfile"
local options = require "train.options"
local callbacks = require "train.callbacks"
local progress = require "run.progress"
local sorted_keys = require "sorted_keys"
local record = require "train.callbacks.record"
local span = require "train.span"
local steps = require "train.step"

local OP = "train.fit"
local HOLD = 60 -- seconds that a Ctrl-C may wait for the end of a step

-- What callbacks may use: o (options), model, optimizer, step, images, epoch, lr, span, record, path, save_model, stop.
local Fit = {}
Fit.__index = Fit

local by_fit = setmetatable({}, {__mode = "k"}) -- inputs of models that train.fit was given

-- What the model is called with is a part of it: who evaluates or saves it later does likewise.
local function register_input(run, o)
  local before = run.model_options.inputs
  if not o.input or run.model ~= o.model then return end
  if before and not by_fit[before] then
    check.fail(OP, "input is given, and capl.model has inputs; give one of them")
  end
  local known = {}
  for key, value in pairs(run.model_options) do known[key] = value end
  known.inputs, by_fit[o.input] = o.input, true
  run.model_options = known
end

local function new(run, o)
  local self = setmetatable({
    run = run, o = o, model = o.model, optimizer = o.optimizer, step = 0, images = 0, epoch = 0, evaluations = 0,
    evaluating = 0, span = span.new(o), make_step = steps.new(o, run), progress = progress.new{steps = o.steps},
    record = record.open(run), eval_due = span.marks(o.eval_every, span.EVALUATIONS),
  }, Fit)
  self.callbacks = callbacks.new(self)
  run:notify("loop", self)
  if not run.model then
    run:set_model(o.model, fields.default(o.train, o.meter))
  end
  register_input(run, o)
  o.optimizer:set_position(0)
  return self
end

--- Ends the run after this step. reason: a word for result.json; sentence: what the last lines say.
function Fit:stop(reason, sentence) self.stopping = self.stopping or {reason = reason, sentence = sentence} end

function Fit:over() return self.stopping ~= nil or self.span:over() end

--- State of the loop and of its callbacks, between two steps; model, optimizer and loader have their own.
function Fit:state()
  return {step = self.step, images = self.images, epoch = self.epoch, evaluating = self.evaluating,
    span = self.span:state(), val = self.val, val_step = self.val_step, pending = self.pending,
    evaluated = self.evaluations, evaluations = self.eval_due:state(), parts = self.callbacks:state()}
end

function Fit:set_state(state)
  self.step, self.images, self.epoch, self.evaluating = state.step, state.images, state.epoch, state.evaluating
  self.val, self.val_step, self.pending = state.val, state.val_step, state.pending
  self.evaluations = state.evaluated or 0
  self.span:set_state(state.span)
  self.eval_due:set_state(state.evaluations)
  self.callbacks:set_state(state.parts)
  self.resumed = true
  if self.progress.resume then self.progress:resume(self.step, self.images, self.span.position) end
end

function Fit:state_shape()
  return {step = "count", images = "count", epoch = "count", evaluating = "amount", span = self.span.state_shape(),
    val = "metrics?", val_step = "count?", pending = "boolean?", evaluated = "count?",
    evaluations = self.eval_due.state_shape(), parts = self.callbacks:state_shape()}
end

-- Ranks that share the images of a loader.
local function ranks_of(loader) return loader.ranks and loader:ranks() or 1 end

-- Ctrl-C and SIGTERM wait until the loop is between two steps, where all of it can be saved; seconds = 0: no longer.
local function hold(seconds)
  if sync.hold(seconds) then core.sys.stop() end
end

-- ---- files ----

function Fit:path(name) return self.run:folder() .. "/" .. name end

-- nil where nothing is written.
function Fit:model_path(name) return self.run.mode == "run" and sync.is_main() and self:path(name) or nil end

function Fit:save_model(name, metrics)
  if self.run.mode ~= "run" then return end
  modelfile.save(self:path(name), self.model, {normalize = self.o.train.normalize, metrics = metrics}, self.o.input)
end

-- ---- evaluation ----

--- Where the run is: {step, images, seconds, images_per_s}
function Fit:at()
  local seconds = self.span:elapsed()
  return {step = self.step, images = self.images, seconds = seconds,
    images_per_s = self.images / math.max(seconds - self.evaluating, 1e-9)}
end

-- Reads a loader with the model as it is.
function Fit:read(loader, with_loss)
  local o = self.o
  return evaluate(self.model, loader, {precision = o.precision, merge = o.merge, loss = with_loss and o.loss or nil,
    meter = o.meter, main = o.main, input = o.input})
end

function Fit:evaluate()
  local run = self.run
  local started = sync.now()
  self.pending = true -- until it is done: a run that is stopped meanwhile begins with it when it is resumed
  self.callbacks:notify("before_evaluation")
  if sync.meet() then core.sys.stop() end
  local meter = self:read(self.o.val, true)
  sync.hold(HOLD) -- what callbacks make of it is made by all of them
  local e = self:at()
  e.metrics, e.meter, e.loss = meter:result(), meter, meter.loss
  self.val, self.val_step, self.val_meter = e.metrics, self.step, meter
  run.measured = {loss = e.loss}
  self.record:evaluation(e, e.metrics, e.loss)
  self.callbacks:notify("evaluated", e)
  self.callbacks:notify("after_evaluation", e)
  run:print(("val  %6d  loss %.4f  %s"):format(self.step, e.loss, meter:line()))
  self.progress:remember(evaluation.note(meter))
  self.pending = nil
  local took = sync.now() - started
  self.evaluations, self.evaluating = self.evaluations + 1, self.evaluating + took
  self.span.reserve = took -- so that the last evaluation, too, ends within the time box
end

function Fit:evaluate_if_due()
  local due = self.eval_due:passed(self.step, self.span.position)
  if not self.o.val or self.run.mode == "bench" then return end
  if self:over() then
    self:evaluate()
  elseif due then
    local dear = self.o.max_time and self.o.eval_every == "auto"
      and self.evaluating > span.EVALUATION_SHARE * self.span:seconds()
    if not dear then self:evaluate() end
  end
end

-- A run that was stopped between two steps ends with an evaluation like any other.
function Fit:evaluate_stopped()
  if self.val_step ~= self.step then self:evaluate_if_due() end
end

-- ---- steps ----

--- Raises for a loss that is no number.
function Fit:check_loss(loss, step) -- luacheck: no self
  if loss == loss and math.abs(loss) < math.huge then return end
  core.error{code = "value", op = OP, message = ("the loss of step %d is %s"):format(step, tostring(loss)),
    path = false, hint = "try a lower lr, a longer warmup, clip_norm = 1 in the optimizer, or precision = \"fp32\""}
end

function Fit:one_step(batch)
  self.whole = false
  self.callbacks:notify("before_step", batch)
  -- of all ranks
  local loss, images = self.make_step:step(batch), batch.global_batch_size or batch.count * ranks_of(self.o.train)
  self.step, self.images, self.lr, self.loss = self.step + 1, self.images + images, self.optimizer.lr, loss
  local position = self.span:advance(self.step)
  self.optimizer:set_position(position)
  local shown = self.progress:step(batch.count, loss, self.lr, position, batch.global_batch_size)
  if shown then self:check_loss(shown, self.progress.shown_step) end
  self.callbacks:notify("after_step", loss)
  self.whole = true
end

-- One epoch, or what a resumed run has left of it.
function Fit:one_epoch()
  local before = self.step
  for batch in self.make_step:batches(self.o.train:epoch(self.epoch)) do
    self:one_step(batch)
    self:evaluate_if_due()
    if self:over() then return end
    self.callbacks:notify("between_steps")
    if self:over() then return self:evaluate_stopped() end
    hold(HOLD)
  end
  if self.step == before and not self.resumed then
    core.error{code = "value", op = OP, message = ("epoch %d of the train loader has no batch"):format(self.epoch),
      path = false}
  end
  self.resumed = false
  self.callbacks:notify("epoch_ended", self.epoch)
end

function Fit:steps()
  if not self.resumed then self.epoch = 1 end
  self.whole = true
  hold(HOLD)
  if self.pending and self.o.val then self:evaluate() end
  while not self:over() do
    self:one_epoch()
    if not self:over() then self.epoch = self.epoch + 1 end
  end
end

-- ---- the end ----

-- What result.json, the recipe and the last line are made of.
function Fit:metrics(ended)
  local at, best = self:at(), self.callbacks:get("best")
  return {
    ended = ended, steps = self.step, images = self.images, seconds = at.seconds, images_per_s = at.images_per_s,
    evaluations = self.evaluations, evaluation_seconds = self.evaluating, val = self.val, best = best.metrics,
    best_step = best.step, max_time = self.o.max_time, micro_batch = self.make_step:state().size,
    captured_steps = core.counters().captured_steps,
  }
end

function Fit:end_line(result)
  local ended = result.ended == "max_time" and ("max_time = %s is over"):format(progress.duration(self.o.max_time))
    or "all steps are done"
  if self.stopping then ended = self.stopping.sentence end
  local n = result.evaluations
  local counted = self.o.val and ("; %d evaluation%s on val"):format(n, n == 1 and "" or "s") or ""
  self.run:print(("%s: %d steps, %d images in %s%s"):format(ended, result.steps, result.images,
    progress.duration(result.seconds), counted))
end

-- The meter of the weights that are kept: that of the test, else of val.
function Fit:last_meter(best)
  local run, o = self.run, self.o
  if o.test and run.mode ~= "bench" then return self:read(o.test), "test images" end
  local meter = o.keep == "best" and best.metrics and best.meter or self.val_meter
  -- a resumed run has only the metrics
  if not meter and self.val and run.mode ~= "bench" then meter = self:read(o.val) end
  return meter, "val images"
end

-- Metrics of the kept weights on further tests, each with files of its own; nil without any.
function Fit:other_tests()
  if not self.o.tests or self.run.mode == "bench" then return nil end
  local out = {}
  for _, name in ipairs(sorted_keys(self.o.tests)) do
    local meter = self:read(self.o.tests[name])
    evaluation.print(self.run, name, meter)
    evaluation.save(meter, name)
    out[name] = meter:result()
  end
  return next(out) and out
end

-- Metrics on the test loader, pictures, files, and what the last lines say.
function Fit:finish()
  local result, best = self:metrics(self.stopping and self.stopping.reason or self.span:ended()),
    self.callbacks:get("best")
  self.callbacks:notify("finish", result)
  self:end_line(result)
  self.callbacks:notify("keep")
  self:save_model("last.capl", self.val_step == self.step and self.val or nil)
  self.record:curves()
  best:restore()
  local meter, name = self:last_meter(best)
  if self.o.test and meter then result.test = meter:result() end
  if meter then evaluation.print(self.run, name, meter) end
  result.tests = self:other_tests()
  self:write(result, meter)
  return result
end

function Fit:write(result, meter)
  local run = self.run
  local metrics = result.test or result.best
  local kept = self.o.keep == "best" and "best.capl" or "last.capl"
  self:save_model(kept, metrics)
  exported.check(self:model_path(kept), meter)
  if meter then evaluation.save(meter) end
  result.model = kept
  self.record:result(result, meter)
  if meter then run:final(meter:result(), result, meter.main) end
  if run.mode == "run" then
    result.folder = run:folder()
    run:keep(self:path(kept))
  end
end

-- Ctrl-C: what there is so far.
function Fit:stopped()
  local run = self.run
  if self.step == 0 or run.mode ~= "run" then return end
  run:print(("stopped at step %d, after %d images in %s; saving"):format(self.step, self.images,
    progress.duration(self.span:seconds())))
  if self.pending then self.callbacks:notify("after_evaluation", self:at()) end -- weights that were exchanged come back
  local result = self:metrics("interrupted")
  self.callbacks:notify("stopped", result)
  self.callbacks:notify("keep")
  self:save_model("last.capl", self.val_step == self.step and self.val or nil)
  self.record:curves()
  result.model = "last.capl"
  self.record:result(result)
  run:print("saved: " .. self:path("last.capl"))
end

-- What goes before the first step.
function Fit:begin()
  self.callbacks:notify("resume")
  self.callbacks:notify("begin")
  for _, line in ipairs(self.callbacks:lines()) do self.run:print(line) end
  self.model:train()
end

local function protected(fn)
  if core.sys.protect then return core.sys.protect(fn) end
  local ok, err = pcall(fn) -- a plain Lua that loaded the library as a module: nothing takes its signals
  return ok and "done" or "error", err
end

-- fn(), after which callbacks end where it does not: by an error or, after stopped(), by a signal.
local function guard(self, fn, stopped)
  local how, err = protected(fn)
  if how == "done" then return end
  sync.part(how == "stopped")
  if how == "stopped" and stopped then stopped(self) end
  if how == "error" then self.callbacks:notify("failed", err) end
  self.callbacks:notify("close")
  if how == "error" then error(err, 0) end
  core.sys.stop()
end

--- Trains a model, evaluates it during and after training, and writes weights, metrics and plots to runs/NAME.
-- opts  model; train = loader; val = loader for the curve and the best weights, or false; test = loader for the final
--       metric; tests = {NAME = loader, …}: further ones, such as images of another kind than those trained on, read
--       after it with the same weights;
--       loss = function(output, batch) -> scalar; optimizer; precision = "auto";
--       input = function(batch) -> what the model is called with (as capl.model says, else batch.image or
--       batch.input);
--       the end: steps | samples | epochs, and max_time = "5m", "90s", "1h30m", seconds or "none";
--       eval_every = "auto" (12 times; with max_time fewer where they take more than 3 % of it) | steps;
--       log_every = "auto" (200 points of the curve) | steps;
--       keep = "best" (on val) | "last": which weights stay in the model and are tested;
--       meter = what val and test are counted with, as of train.evaluate: its main metric says which weights are best,
--       or metric = "gap.mae" does, which several outputs need;
--       merge = {"0O"}: look-alikes counted as one beside the strict metric;
--       capture = "auto" (where the device can and the step lets it) | true (or an error) | false: the step as one
--       graph; on_oom = "stop" (an error that says which batch would fit) | "split": out of memory, a batch is done in
--       halves, quarters … whose gradients are summed; batch norm then sees the parts. The loss has to be a mean over
--       the batch; and metric, top_k, early_stop, cooldown, ema, accumulate, clip_norm, clip_value, lr_rule,
--       base_batch, freeze, limit_batches, overfit, sanity, dry_run, checkpoint, override …: docs/training.md,
--       docs/checkpoints.md
-- out   {ended, steps, images, seconds, images_per_s, evaluations (how many), val (of the last weights), best (of the
--       best ones), best_step, test, tests, micro_batch (after a split), captured_steps, folder}; metrics as
--       of capl.text_meter
-- errs  value: unknown or contradicting options; a loss that is not finite; what the callbacks raise
-- Schedules may say total = "run". Evaluations count as time of the run, the final test does not.
local function fit(given)
  local run = Run.of(observer)
  local o = options.read(given, run)
  run:fit(o)
  local self = new(run, o)
  guard(self, function()
    self:begin()
    self:steps()
  end, self.stopped)
  local result
  guard(self, function() result = self:finish() end)
  self.callbacks:notify("close")
  return result
end

return fit
