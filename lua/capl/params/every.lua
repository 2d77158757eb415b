-- every.lua: the settings that every recipe has without naming them; capl itself reads them.
--
-- A recipe may give its own default by naming one in capl.params. They are settled in this order, before all others:
-- {cuda = …, cpu = …} and "auto" of other settings depend on the device.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local dist = require "dist"
local monitor = require "train.callbacks.monitor"
local output = require "output"
local determinism = require "determinism"

local function apply_device(value)
  -- capl check runs recipes on device meta whatever they ask for.
  if (core.device()) == "meta" then return "meta", "capl check", true end
  local name, why = core.device(value)
  return name, why, value == "auto" and name == "cpu"
    and (why:match("^no NVIDIA driver") or why:match("^CAPL_DEVICE")) ~= nil
end

local function apply_deterministic(value)
  check.value(nil, {"deterministic", "boolean"}, value)
  return determinism.deterministic(value), nil, not value
end

local function apply_autotune(value)
  local asked = value
  if value == "true" or value == "false" then value = value == "true" end
  check.word(nil, "autotune", value, {"auto", true, false})
  if observer.planned then return value == true, nil, asked == "auto" end -- a plan times nothing
  local on, why = determinism.autotune(value)
  return on, why, asked == "auto"
end

-- A switch that chooses how the run speaks.
local function speaks(mode)
  return function(value)
    check.value(nil, {mode, "boolean"}, value)
    if value then output.set(mode) end
    return value, nil, true
  end
end

local function apply_monitor(value)
  check.value(nil, {"monitor_every", "number"}, value)
  monitor.check_every("capl.params", "monitor_every", value, true)
  return value, nil, true
end

-- Of a world alone; a process without others has nobody to wait for.
local function apply_watchdog(value)
  check.value(nil, {"watchdog", "number", from = 1, to = 86400}, value)
  if core.dist.joined() then core.dist.watchdog(value) end
  return value, nil, value == 60
end

-- A bare --resume is true; anything else is a run or a checkpoint.
local function resume_text(text)
  if text == true or text == "true" then return true end
  return text ~= "false" and text
end

local function as_it_is(usual)
  return function(value) return value, nil, value == usual end
end

local function apply_fraction(value)
  check.value(nil, {"fraction", "number", above = 0, to = 1}, value)
  return value, nil, value == 1
end

-- Before any op: what is made of a number of threads is not made twice.
local function apply_shards(value)
  check.value(nil, {"shards", "whole", from = 0}, value)
  local ranks = dist.size()
  if value % ranks ~= 0 then
    core.error{code = "value", message = ("shards = %d is no multiple of the %d ranks"):format(value, ranks),
      hint = ("all ranks compute the same number: for example --shards=%d"):format(math.ceil(value / ranks) * ranks)}
  end
  if value > 0 then core.one_thread() end
  return value, nil, value == 0
end

local function apply_dry_run(value)
  check.value(nil, {"dry_run", "boolean"}, value)
  return value, nil, not value
end

--- key, default, doc for --help, apply(value) -> value in effect, why if it was chosen, whether the header may leave it
-- out;
--- from_text(text or true) where a flag may be of another type; taken: whoever uses the value marks it as read
return {
  {key = "device", default = "auto", doc = "auto, cpu, cuda, cuda:1 …", apply = apply_device},
  {key = "deterministic", default = false, doc = "same seed, same bits", apply = apply_deterministic},
  {key = "autotune", default = "auto", doc = "auto, true, false: select algorithms by timing; auto: on a GPU",
  apply = apply_autotune}, {key = "monitor_every", default = 1,
  doc = "seconds between samples of power, load, memory, temperature; 0: none",
    apply = apply_monitor},
  {key = "watchdog", default = 60, doc = "seconds that a rank may keep the other ranks waiting",
  apply = apply_watchdog}, {key = "quiet", default = false,
  doc = "print the last line only, and the output of the recipe itself", apply = speaks("quiet")},
  {key = "json", default = false, doc = "print one JSON object per line: metrics, progress, texts, result",
  apply = speaks("json")}, {key = "resume", default = false,
  doc = "resumes the newest run of this recipe, or a run folder or a checkpoint",
    apply = as_it_is(false), from_text = resume_text, taken = true},
  {key = "inexact", default = false, doc = "allows a resume that is not bit-exact",
    apply = as_it_is(false), taken = true},
  {key = "dry_run", default = false,
  doc = "one step and one evaluation batch through all of train.fit; leaves no files",
    apply = apply_dry_run, taken = true},
  {key = "fraction", default = 1,
  doc = "fraction of the training images of data.split; smaller subsets are part of larger ones",
    apply = apply_fraction, taken = true},
  {key = "shards", default = 0, doc = "with deterministic: parts per batch, for the same bits on any number of ranks",
    apply = apply_shards, taken = true},
  {key = "init_from", default = "none", doc = "initial weights: a safetensors file, a model or a checkpoint",
    apply = as_it_is("none"), taken = true},
}
