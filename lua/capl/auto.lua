-- auto.lua: what "auto" means for the settings the program knows, and whether an explicit value can take effect.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local precision = require "precision"

local auto = {}

--- Device of this run: "cpu", "cuda:0" …
function auto.device() return (core.device()) end

--- Its kind, by which settings may differ: "cuda" or "cpu" (ref and meta count as cpu, unless a plan says what meta
-- stands for).
function auto.kind()
  if observer.planned then return observer.planned.kind end
  return auto.device():match("^cuda") or "cpu"
end

--- Names by which a chosen value is known: ORDER of the list is that of the documentation.
local choose = {
  precision = precision.best,
  workers = function()
    local cpus = core.sys.cpus()
    -- Compute threads do the step, loader threads fill the gaps it leaves: one per two processors is enough.
    local workers = math.max(1, math.min(math.floor(cpus / 2), core.sys.workers_most()))
    return workers, ("%d processors"):format(cpus)
  end,
  capture = function()
    local gpu = auto.kind() == "cuda"
    return gpu, gpu and "a GPU replays the step as one launch" or "a CPU gains nothing by it"
  end,
}

-- A recipe that is only checked, on meta, is one of a processor.
local function precision_of(value)
  return (precision.settle(value, core.device() == "meta" and not observer.planned and auto.kind() or nil))
end

-- Explicit values of these settings as the run uses them.
local explicit = {precision = precision_of}

--- Replaces "auto" of a known setting by the choice, with its reason; checks explicit values, and gives them one name.
function auto.settle(setting)
  if setting.value == "auto" and choose[setting.key] then
    setting.value, setting.why = choose[setting.key]()
    setting.origin = "auto"
  elseif explicit[setting.key] then
    setting.value = explicit[setting.key](setting.value)
  end
end

--- The same for a value that is no setting, e.g. a loader's option. -> value, reason
function auto.value(key, value)
  if value ~= "auto" then return value end
  return choose[key]()
end

return auto
