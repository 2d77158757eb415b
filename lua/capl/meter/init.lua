-- meter: counts how right a model is, one kind of task a file; train.evaluate and train.fit use them, and so may any
-- loop.
--
-- A meter has: add(output, batch) for each batch, which queues work on the device and does not wait for it; result(), a
-- table of metrics; line(), the same for people; main, the name of the metric that says which of two models is the
-- better one, and better, "max" or "min"; and, where it can, lines(), write() (for evaluation.json), samples(), n. A
-- recipe's own meter needs add, result, main and better; to be whole where several ranks read parts of a set, also
-- state(), which JSON holds, and merge(state), which adds another rank's. Those of capl put readings together:
-- merge.lua.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"

local meter = {}

-- Each kind, and the field of a batch that it reads.
local kinds = {
  {name = "text", field = "target"}, {name = "segmentation", field = "mask"}, {name = "localization", field = "points"},
  {name = "regression", field = "value"},
}

-- Names of the kinds, or the fields of a kind's name.
local function kind_of(op, name)
  local names = {}
  for i, kind in ipairs(kinds) do
    if kind.name == name then return kind end
    names[i] = kind.name
  end
  check.unknown(op, "meter", name, names)
end

local function fields_of(loader)
  local names = {}
  local box = loader.source and loader.source.box
  for _, field in ipairs(box and box:fields() or {}) do names[field.name] = true end
  return names
end

local function reads_text(loader) return loader.charset and loader.charset ~= "" and loader.length and true or false end

-- A kind that would suit what a loader's samples hold; nil when there is none.
local function suited(loader)
  local names = fields_of(loader)
  for _, kind in ipairs(kinds) do
    if names[kind.field] then return kind.name end
  end
end

local function check_own(op, made)
  local function has(name) return core.is_callable(made[name]) end
  if type(made) ~= "table" or not has("add") or not has("result") then
    check.fail(op, "meter is a function that makes an object with add(output, batch) and result()")
  end
  if type(made.main) ~= "string" or (made.better ~= "max" and made.better ~= "min") then
    check.fail(op, 'a meter needs a main metric for model selection: main = "NAME", better = "max" or "min"')
  end
  return made
end

local function make_kind(op, name, loader, opts)
  local kind = kind_of(op, name)
  local there = name == "text" and reads_text(loader) or name ~= "text" and fields_of(loader)[kind.field]
  if not there then
    local other = reads_text(loader) and "text" or suited(loader)
    check.fail(op, ("a %s meter reads batch.%s, which the %s loader does not give"):format(name, kind.field,
      loader.role), other and ('its samples suit meter = "%s"'):format(other)
      or "meter = function(loader) return {…} end makes one of your own")
  end
  local decoding = opts.decoding or (observer.model_options or {}).decoding
  return require("meter." .. name).new{loader = loader, merge = opts.merge, decoding = name == "text" and decoding
    or nil}
end

--- The meter of an evaluation.
-- in   what: nil (texts where the loader has them), the name of a kind, or function(loader) -> meter; loader; opts:
--      merge, decoding (that of capl.model)
-- errs value: no such kind, or none that suits the loader; no meter
function meter.make(op, what, loader, opts)
  if core.is_callable(what) then return check_own(op, what(loader) or {}) end
  if what == nil and not reads_text(loader) then
    local other = suited(loader)
    check.fail(op, "the loader's images have no labels", other
      and ('meter = "%s" reads what its samples have'):format(other)
      or "meter = function(loader) return {…} end makes a meter of your own")
  end
  return make_kind(op, what or "text", loader, opts)
end

--- A batch's field that a meter of op reads.
-- errs value: the batch has none of that name
function meter.field(op, batch, name, hint)
  local value = type(batch) == "table" and batch[name]
  if core.is_tensor(value) then return value end
  check.fail(op, ("add takes the model's output and a batch of a loader with %s, and the batch has no %s"):format(name,
    name), hint)
end

return meter
