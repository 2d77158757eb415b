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
local fields = require "fields"
local sorted_keys = require "sorted_keys"

local meter = {}

-- Whether the samples of a loader have a field of that name.
local function has_field(name)
  return function(loader)
    local box = loader.source and loader.source.box
    for _, field in ipairs(box and box:fields() or {}) do
      if field.name == name then return true end
    end
    return false
  end
end

-- Each kind, the field of a batch that it reads, and whether a loader gives that: labels first.
local kinds = {}
for _, kind in ipairs(fields.kinds) do
  if kind.labels then kinds[#kinds + 1] = {name = kind.meter, field = "target", labels = true, suits = kind.labels,
    decodings = kind.decodings} end
end
for _, kind in ipairs(fields.kinds) do
  if kind.meter and kind.field then
    kinds[#kinds + 1] = {name = kind.meter, field = kind.field, suits = has_field(kind.field)}
  end
end

-- The kind of a name, of several the first that suits the loader.
local function kind_of(op, name, loader)
  local names, found = {}, nil
  for i, kind in ipairs(kinds) do
    names[i] = kind.name
    if kind.name == name and (not found or not found.suits(loader)) then found = kind end
  end
  return found or check.unknown(op, "meter", name, names)
end

-- A kind that would suit what a loader's samples hold; nil when there is none. labels = true: of their labels
local function suited(loader, labels)
  for _, kind in ipairs(kinds) do
    if kind.suits(loader) and (kind.labels or not labels) then return kind.name end
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

-- Options of a meter of an output that capl.model was given.
local function measures_of(name, given)
  local kind = given and fields.kind(given.output or given.kind)
  return kind and kind.meter == name and kind.measures and kind.measures(given) or {}
end

local function make_kind(op, name, loader, opts)
  local kind = kind_of(op, name, loader)
  if not kind.suits(loader) then
    local other = suited(loader)
    check.fail(op, ("a %s meter reads batch.%s, which the %s loader does not give"):format(name, kind.field,
      loader.role), other and ('its samples suit meter = "%s"'):format(other)
      or "meter = function(loader) return {…} end makes one of your own")
  end
  local known = observer.model_options or {}
  local own = measures_of(name, known)
  own.loader, own.merge = loader, opts.merge
  if require("meter." .. name).any_field then own.field = kind.field end
  if kind.decodings then own.decoding = opts.decoding or known.decoding end
  return require("meter." .. name).new(own)
end

-- Numbers and images whose field has the output's name are that field.
local function make_named(op, name, what, loader, opts)
  local made = type(what) == "string" and kind_of(op, what, loader) and require("meter." .. what)
  if made and made.any_field and has_field(name)(loader) then
    local own = measures_of(what, ((observer.model_options or {}).outputs or {})[name])
    own.field, own.loader = name, loader
    return made.new(own)
  end
  return meter.make(op, what, loader, opts)
end

-- A meter for each of a model's outputs, by name.
local function make_several(op, wanted, loader, opts)
  local parts = {}
  for name in pairs(wanted) do
    if type(name) ~= "string" or not name:match("^[%a_][%w_]*$") then
      check.fail(op, ("meter has an entry %s: a table of meters has the names of the model's outputs"):format(
        tostring(name)), 'meter = {gap = "localization", angle = function(loader) return … end}')
    end
  end
  for _, name in ipairs(sorted_keys(wanted)) do
    if type(wanted[name]) ~= "string" and not core.is_callable(wanted[name]) then
      check.fail(op, ("meter.%s is the name of a kind or function(loader), not a %s"):format(name,
        core.typename(wanted[name])))
    end
    parts[#parts + 1] = {name = name, meter = make_named(op, name, wanted[name], loader, opts)}
  end
  if #parts == 0 then check.fail(op, "meter is an empty table", 'meter = {gap = "localization"}') end
  return require("meter.several").new(parts, opts.main)
end

--- The meter of an evaluation.
-- in   what: nil (that of the labels, where the loader has them), the name of a kind, function(loader) -> meter, or a
--      table of such names and functions by the names of the model's outputs; loader; opts: merge, decoding (that of
--      capl.model), main: of several, the metric that says which of two models is better: "gap.mae"
-- errs value: no such kind, or none that suits the loader; no meter
function meter.make(op, what, loader, opts)
  if core.is_callable(what) then return check_own(op, what(loader) or {}) end
  if type(what) == "table" then return make_several(op, what, loader, opts) end
  local name = what or suited(loader, true)
  if name then return make_kind(op, name, loader, opts) end
  local other = suited(loader)
  check.fail(op, "the loader's images have no labels", other and ('meter = "%s" reads what its samples have'):format(other)
    or "meter = function(loader) return {…} end makes a meter of your own")
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
