-- options.lua: what train.fit{…} takes: names, types, and which of them contradict each other.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local check = require "check"
local forward = require "forward"
local classes = require "module_class"
local lock = require "test_lock"
local meters = require "meter"
local metric = require "train.metric"
local callbacks = require "train.callbacks"
local progress = require "run.progress"
local span = require "train.span"

local OP = "train.fit"
local MOST_STEPS = 1e12 -- 31 years of a thousand a second

local spec = callbacks.add_keys {
  {"model", "table", required = true}, {"train", "table", required = true}, {"val", "table", "boolean"},
  {"test", "table"}, {"tests", "table"}, {"loss", "function", required = true}, {"optimizer", "table", required = true},
  forward.input,
  forward.precision,
  {"steps", "whole"}, {"epochs", "number"}, {"samples", "number"}, {"max_time", "string", "number"},
  {"eval_every", "whole", "string", default = "auto"},
  {"merge", "table"}, {"meter", "string", "function", "table"}, {"capture", "boolean", "string", default = "auto"},
  {"on_oom", "string", default = "stop"},
}

-- Training without validation is a decision that a recipe writes down.
local function check_val(o)
  if o.val == nil then
    check.fail(OP, "val is missing",
      'val = data.loader{…, role = "val"} shows how training goes and chooses the weights; val = false does without')
  end
  if o.val == true then check.fail(OP, "val is a loader, or false for none") end
  o.val = o.val or nil
end

-- Why a loader of another role cannot take the place of one.
local wrong_roles = {
  val = {test = "what is chosen on the test images cannot be tested any more"},
  test = {val = "the weights are chosen on the val images, so they test nothing"},
}

-- Reports which metrics evaluations on val will have, for who must choose one before the first. A meter whose main
-- metric is not there before its first sample has metrics that nobody knows yet.
local function report_metrics(run, meter)
  local metrics = meter:result()
  if type(metrics[meter.main]) ~= "number" then return end
  run.metrics = {"loss"}
  for name, value in pairs(metrics) do
    if type(value) == "number" then table.insert(run.metrics, name) end
  end
end

local function check_loader(run, o, name, loader)
  loader = loader or o[name]
  if not loader then return end
  if type(loader.epoch) ~= "function" or not loader.role then
    check.fail(OP, ("%s is no loader"):format(name), "data.loader{source = …, role = \"" .. name .. "\"} makes one")
  end
  if loader.role ~= name then
    local why = wrong_roles[name] and wrong_roles[name][loader.role]
    check.fail(OP, ("%s is a loader with role = \"%s\"%s"):format(name, loader.role, why and ": " .. why or ""),
      "set its role: data.loader{…, role = \"" .. name .. "\"}")
  end
  if name == "test" then lock.training(OP, loader) end
  if name == "train" then return end
  -- before a long run
  local meter = meters.make(OP, o.meter, loader, {merge = o.merge, decoding = (run.model_options or {}).decoding,
    main = o.main})
  if name == "val" and run.mode == "check" then report_metrics(run, meter) end
end

-- Further tests: {NAME = loader}; a folder is called like each.
local function check_tests(run, o)
  for name, loader in pairs(o.tests or {}) do
    if type(name) ~= "string" or not name:find("^[%w_-]+$") then
      check.fail(OP, ("tests: %s is no name of letters, digits, _ and -"):format(tostring(name)),
        "tests = {other_cameras = data.loader{…, role = \"test\"}}")
    end
    check_loader(run, o, "test", loader)
  end
end

-- What the ids of a loader's labels stand for: one text; nil where they stand for nothing.
local function vocabulary(loader)
  if loader.class_names then return table.concat(loader.class_names, "\0") end
  return loader.charset ~= "" and loader.charset or nil
end

-- The scores of a model are those of the train loader's classes: another list would compare them with wrong labels.
local function check_vocabulary(o, name, loader)
  loader = loader or o[name]
  local theirs, ours = loader and vocabulary(loader), vocabulary(o.train)
  if not theirs or not ours or theirs == ours then return end
  local key = o.train.class_names and "classes" or "charset"
  local value = o.train.class_names and "train_source.class_names" or "train_source.charset"
  check.fail(OP, ("the %s loader has other %s than the train loader, or in another order: %d and %d"):format(name,
    key == "classes" and "classes" or "characters", loader.classes or 0, o.train.classes or 0),
    ("%s = %s in the source of %s"):format(key, value, name))
end

local function check_classes(loader)
  if not loader.class_names or #loader.class_names ~= 1 or loader.several then return end
  local dir = loader.source and loader.source.dir or "the train loader"
  check.fail(OP, ("%s has one class, %s: there is none to tell it from"):format(dir, loader.class_names[1]),
    "a second folder, or name in the list, with images of what is no " .. loader.class_names[1])
end

-- Of several outputs, none is the one that decides unless the recipe says so.
local function check_deciding(o)
  if type(o.meter) ~= "table" or core.is_callable(o.meter) then return end
  local names = {}
  for name in pairs(o.meter) do names[#names + 1] = tostring(name) end
  table.sort(names)
  o.main = metric.read(OP, o.metric).name
  local of = o.main and o.main:match("^([^.]+)%.")
  if of and o.meter[of] or o.main == "loss" or #names == 1 and not o.main or not o.val then return end
  local hint = ('metric = "%s.NAME", of the output whose metric selects the best weights, or "loss"'):format(
    names[1] or "gap")
  if o.main then
    check.fail(OP, ("metric = \"%s\": the meters are %s"):format(o.main, table.concat(names, ", ")), hint)
  end
  check.fail(OP, ("several outputs are measured (%s), and metric is missing"):format(table.concat(names, ", ")), hint)
end

local function check_parts(run, o)
  if not classes.is_module(o.model) then check.fail(OP, "model is no module, but a " .. core.typename(o.model)) end
  if core.is_callable(o.model.member) then
    check.fail(OP, "model is an ensemble, and the files of a run hold one model",
      "train it in a loop of your own: docs/sweeps.md shows one")
  end
  if type(o.optimizer.backward_step) ~= "function" then
    check.fail(OP, "optimizer is no optimizer", "optim.AdamW(model:parameters(), {lr = …}) makes one")
  end
  check_deciding(o)
  for _, name in ipairs{"train", "val", "test"} do check_loader(run, o, name) end
  check_tests(run, o)
  check_classes(o.train)
  for _, name in ipairs{"val", "test"} do check_vocabulary(o, name) end
  for name, loader in pairs(o.tests or {}) do check_vocabulary(o, name, loader) end
  if type(o.capture) == "string" and o.capture ~= "auto" then
    check.unknown(OP, "capture", o.capture, {"auto", "true", "false"})
  end
  check.one_of(OP, "on_oom", o.on_oom, {"stop", "split"})
  if o.on_oom == "split" and sync.size() > 1 then
    check.fail(OP, ('on_oom = "split": a rank that makes its step anew would leave the %d others waiting'):format(sync.size() - 1),
      "a smaller batch for every rank, with accumulate to keep the images of a step")
  end
end

-- Steps from steps, epochs or samples; nil when time alone ends the run.
local function steps_of(o)
  local given = {}
  for _, name in ipairs{"steps", "epochs", "samples"} do
    if o[name] then given[#given + 1] = name end
  end
  if #given > 1 then check.fail(OP, ("%s and %s are both given; give one"):format(given[1], given[2])) end
  if #given == 0 then
    if o.max_time then return nil end
    check.fail(OP, "the length of the run is missing", "give steps, samples, epochs or max_time")
  end
  local name, batch = given[1], o.train.batch * o.accumulate * (o.train.low and o.train.low.world or 1) -- of all ranks
  local per_epoch = math.ceil(o.train:batches() / o.accumulate)
  local count = name == "steps" and o.steps or name == "epochs" and o.epochs * per_epoch or o.samples / batch
  if not (count >= 1) then
    local unit = name == "samples" and (" make no batch of %g"):format(batch) or " make no step"
    check.fail(OP, ("%s = %g%s"):format(name, o[name], unit))
  end
  if count > MOST_STEPS then
    local text = ("%s = %g makes more than %g steps, which no machine ends"):format(name, o[name], MOST_STEPS)
    check.fail(OP, text, "max_time ends a run by the clock")
  end
  return math.floor(count)
end

-- A run that is stopped before its time box ends would never be tested.
local function check_minutes(run, o)
  if not o.max_time or run.minutes == 0 or o.max_time < 60 * run.minutes then return end
  check.fail(OP, ("max_time = %s is no less than the %g minutes after which this run is stopped"):format(
    progress.duration(o.max_time), run.minutes), ("capl --minutes=%d %s … allows more"):format(
    math.ceil(o.max_time / 60 * 1.2) + 1, run.recipe))
end

--- The checked options; steps and max_time (seconds) settled.
-- errs value: unknown key, wrong type, missing or wrong loader, no end, two ends
local function read(given, run)
  if type(given) ~= "table" then check.fail(OP, "takes one table: train.fit{model = …, train = …, loss = …, …}") end
  local o = check.options(OP, spec, given)
  o.given, o.keys = given, spec
  check_val(o)
  check_parts(run, o)
  callbacks.prepare(o, run)
  check.steps(OP, "eval_every", o.eval_every)
  o.max_time = span.seconds_of(OP, o.max_time)
  o.steps = steps_of(o)
  check_minutes(run, o)
  callbacks.read(o, run)
  if (o.test or o.tests) and run.is_trial then
    run:print("test images: not read in a trial of a sweep, which chooses by the val images")
    o.test, o.tests = nil, nil
  end
  return o
end

return {read = read}
