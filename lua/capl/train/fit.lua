-- fit.lua: train.fit{…}: the ready-made loop: steps, evaluations, the best weights, and a folder one can show.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local capl = require "init"
local evaluate = require "train.evaluate"
local hooks = require "hooks"
local modelfile = require "run.modelfile"
local options = require "train.options"
local progress = require "run.progress"
local record = require "train.record"
local run = require "run"
local span = require "train.span"
local steps = require "train.step"

local OP = "train.fit"
local EVALUATIONS, LOGS = 12, 200 -- of a run, for "auto"
local EVALUATION_SHARE = 0.03 -- of a time box that "auto" evaluations may take
local LOG_SECONDS = 5 -- between two points of the curve of a time box, at most

local Fit = {}
Fit.__index = Fit

local function new(o)
  local self = setmetatable({
    o = o, step = 0, images = 0, evaluating = 0, logged = 0, make_step = steps.new(o), fetches = {},
    span = span.new(o), progress = progress.new{steps = o.steps}, record = record.new(),
    log_due = span.marks(o.log_every, LOGS), eval_due = span.marks(o.eval_every, EVALUATIONS),
  }, Fit)
  if o.train.schedule then o.train.schedule:begin(o) end
  if not hooks.model then
    hooks.set_model(o.model, {output = "text", charset = o.train.charset, length = o.train.length})
  end
  o.optimizer:set_position(0)
  return self
end

-- ---- files ----

function Fit:path(name) return run.folder() .. "/" .. name end

function Fit:save(name, metrics)
  if run.mode ~= "run" then return end
  local train = self.o.train
  modelfile.save(self:path(name), self.o.model, {
    charset = train.charset, length = train.length, normalize = train.normalize, metrics = metrics,
  })
end

-- ---- evaluation ----

function Fit:at()
  local seconds = self.span:seconds()
  return {step = self.step, images = self.images, seconds = seconds,
    images_per_s = self.images / math.max(seconds - self.evaluating, 1e-9)}
end

local function copy_weights(model)
  return core.no_grad(function()
    local out = {}
    for name, tensor in pairs(model:state_dict()) do out[name] = capl.empty_like(tensor):copy_(tensor):keep() end
    return out
  end)
end

-- A later evaluation that is as good as the best one wins: its weights have seen more.
function Fit:keep_best(figures, meter)
  if self.best and figures.exact < self.best.figures.exact then return end
  self.best = {step = self.step, figures = figures, meter = meter, weights = copy_weights(self.o.model)}
  if self.o.keep == "best" then self:save("best.capl", figures) end
end

-- What a stage of the train loader's schedule may wait for.
function Fit:tell_schedule(figures, loss)
  local schedule = self.o.train.schedule
  if schedule then schedule:report{exact = figures.exact, chars = figures.chars, confidence = figures.confidence, loss = loss} end
end

function Fit:evaluate()
  local o, started = self.o, core.clock()
  self:note_losses(true)
  local meter = evaluate(o.model, o.val, {precision = o.precision, merge = o.merge, loss = o.loss,
    examples = not o.test and record.CELLS or 0})
  local figures = meter:result()
  self.val, self.val_step, self.val_meter = figures, self.step, meter
  self.record:evaluation(self:at(), figures, meter.loss)
  self:keep_best(figures, meter)
  run.print(("val  %6d  loss %.4f  %s"):format(self.step, meter.loss, meter:line()))
  self.progress:remember(("val %.1f %%"):format(100 * figures.exact))
  self:tell_schedule(figures, meter.loss)
  local took = core.clock() - started
  self.evaluating = self.evaluating + took
  self.span.reserve = took -- so that the last evaluation, too, ends within the time box
end

function Fit:evaluate_if_due()
  local due = self.eval_due(self.step, self.span.position)
  if not self.o.val or run.mode == "bench" then return end
  if self.span:over() then
    self:evaluate()
  elseif due then
    local dear = self.o.max_time and self.o.eval_every == "auto" and self.evaluating > EVALUATION_SHARE * self.span:seconds()
    if not dear then self:evaluate() end
  end
end

-- ---- steps ----

local function check_loss(loss, step)
  if loss == loss and math.abs(loss) < math.huge then return end
  core.error{code = "value", op = OP, message = ("the loss of step %d is %s"):format(step, tostring(loss)), path = false,
    hint = "try a lower lr, a longer warmup, clip_norm = 1 in the optimizer, or precision = \"fp32\""}
end

-- Whether this step is a point of the curve. Only a time box may ask the clock.
function Fit:log_now(position)
  local due = self.log_due(self.step, position) or self.step == 1
  if not due and self.o.max_time then due = self.span:seconds() - self.logged >= LOG_SECONDS end
  if due then self.logged = self.span:seconds() end
  return due
end

-- Losses of earlier steps become points of the curve as soon as they are known; all of them when `all` is set.
function Fit:note_losses(all)
  local list = self.fetches
  while list[1] and (all or list[1].loss:ready()) do
    local first = table.remove(list, 1)
    local value = first.loss:value()
    check_loss(value, first.at.step)
    self.record:step(first.at, value, first.lr)
  end
end

function Fit:one_step(batch)
  local o = self.o
  local loss = self.make_step:run(batch)
  local count, lr = batch.image:size(1), o.optimizer.lr
  self.step, self.images = self.step + 1, self.images + count
  local position = self.span:advance(self.step)
  o.optimizer:set_position(position)
  local shown = self.progress:step(count, loss, lr, position)
  if shown then check_loss(shown, self.progress.shown_step) end
  if self:log_now(position) then table.insert(self.fetches, {loss = core.fetch(loss), at = self:at(), lr = lr}) end
  self:note_losses(false)
end

-- Epoch after epoch until the span is over.
function Fit:steps()
  local epoch = 0
  while not self.span:over() do
    local before = self.step
    epoch = epoch + 1
    for batch in self.o.train:epoch(epoch) do
      self:one_step(batch)
      self:evaluate_if_due()
      if self.span:over() then break end
    end
    if self.step == before then
      core.error{code = "value", op = OP, message = ("epoch %d of the train loader has no batch"):format(epoch), path = false}
    end
  end
  self:note_losses(true)
  self.epochs = epoch
end

-- ---- the end ----



-- What result.json, the recipe and the last line are made of.
function Fit:figures(ended)
  local at = self:at()
  return {
    ended = ended, steps = self.step, images = self.images, seconds = at.seconds, images_per_s = at.images_per_s,
    evaluation_seconds = self.evaluating, val = self.val, best = self.best and self.best.figures,
    best_step = self.best and self.best.step, max_time = self.o.max_time, micro_batch = self.make_step:state().size,
    captured_steps = core.counters().captured_steps, stages = self.o.train.schedule and self.o.train.schedule:history(),
  }
end

-- Puts the weights to keep into the model.
function Fit:restore_best()
  local best = self.best
  if self.o.keep == "best" and best and best.step ~= self.step then self.o.model:load_state_dict(best.weights) end
end

local function print_figures(name, meter)
  local merged = meter:merged_line()
  run.print(("%-14s %s"):format(name .. ":", meter:line()))
  if merged then run.print(("%-14s exact %s"):format("", merged)) end
  run.print(("%-14s %s"):format("by position:", meter:position_line()))
  run.print(("%-14s mean %.1f %%"):format("confidence:", 100 * (meter:result().confidence or 0)))
  run.print(("%-14s %s"):format("mistakes:", meter:confusion_line()))
  if meter.replaced > 0 then
    run.print(("note: %d of these are unreadable files replaced by others"):format(meter.replaced))
  end
end

function Fit:end_line(result)
  local ended = result.ended == "max_time" and ("max_time = %s is over"):format(progress.duration(self.o.max_time)) or "all steps are done"
  run.print(("%s: %d steps, %d images in %s"):format(ended, result.steps, result.images, progress.duration(result.seconds)))
end

-- Figures on the test loader, pictures, files, and what the last lines say.
function Fit:finish()
  local o, result = self.o, self:figures(self.span:ended())
  self:end_line(result)
  self:save("last.capl", self.val_step == self.step and self.val or nil)
  self.record:curves()
  self:restore_best()
  local meter = o.keep == "best" and self.best and self.best.meter or self.val_meter
  if o.test and run.mode ~= "bench" then
    meter = evaluate(o.model, o.test, {precision = o.precision, merge = o.merge, examples = record.CELLS})
    result.test = meter:result()
    print_figures("test images", meter)
  elseif meter then
    print_figures("val images", meter)
  end
  self:write(result, meter)
  return result
end

function Fit:write(result, meter)
  local metrics = result.test or (self.best and self.best.figures)
  local kept = self.o.keep == "best" and "best.capl" or "last.capl"
  self:save(kept, metrics)
  if meter then self.record:sheet(meter) end
  result.model = kept
  self.record:result(result)
  if meter then run.final(meter:result(), result) end
  if run.mode == "run" then
    result.folder = run.folder()
    run.keep(self:path(kept))
  end
end

-- Ctrl-C: what there is so far.
function Fit:stopped()
  if self.step == 0 or run.mode ~= "run" then return end
  run.print(("stopped at step %d, after %d images in %s; saving"):format(self.step, self.images, progress.duration(self.span:seconds())))
  self:note_losses(true)
  self:save("last.capl", self.val_step == self.step and self.val or nil)
  self.record:curves()
  local result = self:figures("interrupted")
  result.model = "last.capl"
  self.record:result(result)
  run.print("saved: " .. self:path("last.capl"))
end

local function protected(fn)
  if core.sys.protect then return core.sys.protect(fn) end
  local ok, err = pcall(fn) -- a plain Lua that loaded the library as a module: nothing takes its signals
  return ok and "done" or "error", err
end

--- Trains a model, evaluates it on the way and at the end, and leaves runs/NAME with its weights, figures and pictures.
-- opts  model; train = loader; val = loader for the curve and the best weights; test = loader for the final figure;
--       loss = function(output, batch) -> scalar; optimizer; precision = "auto";
--       the end: steps | samples | epochs, and max_time = "5m", "90s", "1h30m", seconds or "none";
--       eval_every = "auto" (about 12 times) | steps; log_every = "auto" (200 points of the curve) | steps;
--       keep = "best" (on val) | "last": which weights stay in the model and are tested;
--       merge = {"0O"}: look-alikes counted as one beside the strict figure;
--       capture = "auto" (where the device can and the step lets it) | true (or an error) | false: the step as one graph;
--       on_oom = "stop" (an error that says which batch would fit) | "split": out of memory, a batch is done in halves,
--       quarters … whose gradients are summed; batch norm then sees the parts. The loss has to be a mean over the batch
-- out   {ended, steps, images, seconds, images_per_s, val (of the last weights), best (of the best ones), best_step, test,
--       micro_batch (after a split), captured_steps, folder}; figures as of capl.text_meter
-- errs  value: unknown or contradicting options; a loss that is not finite; what the parts raise
-- Schedules may say total = "run". Evaluations count as time of the run, the final test does not.
local function fit(given)
  local self = new(options.read(given))
  self.o.model:train()
  local how, err = protected(function() self:steps() end)
  if how == "error" then error(err, 0) end
  if how == "stopped" then
    self:stopped()
    core.sys.stop()
  end
  return self:finish()
end

return fit
