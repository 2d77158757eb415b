-- params: a recipe's settings: defaults, presets, --key=value, and where each value came from.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local auto = require "auto"
local check = require "check"
local devices = require "devices"
local docs = require "params.docs"
local every = require "params.every"
local options = require "cli.options"
local resume = require "train.resume"
local sorted_keys = require "sorted_keys"

local LONGEST = 64 -- characters of a setting's name
local CHOICE = {} -- marks the value of capl.choice

--- A setting with a fixed list of values; the first is the default.
-- eg  precision = capl.choice{"auto", "f32", "bf16"}
local function choice(list)
  if type(list) ~= "table" or #list == 0 then core.fail("choice needs a list of values: capl.choice{\"a\", \"b\"}") end
  return setmetatable({list = list}, CHOICE)
end

local function is_choice(value) return type(value) == "table" and getmetatable(value) == CHOICE end

local device_names = devices.chosen()
local is_device = {}
for _, name in ipairs(device_names) do is_device[name] = true end

--- {cuda = …, cpu = …}: the value depends on the device.
local function is_per_device(value)
  if type(value) ~= "table" or is_choice(value) or next(value) == nil then return false end
  for key in pairs(value) do
    if not is_device[key] then return false end
  end
  return true
end

local device_kind = auto.kind

-- ---- types ----

local function quoted(list)
  local out = {}
  for i, value in ipairs(list) do out[i] = tostring(value) end
  return table.concat(out, ", ")
end

--- What a default allows: "a number", "true or false", "one of auto, f32", ...
local function describe(default)
  if is_choice(default) then return "one of " .. quoted(default.list) end
  if is_per_device(default) then return "per device" end
  if default == "auto" then return "auto, or a value" end
  if type(default) == "boolean" then return "true or false" end
  return "a " .. type(default)
end

--- Converts the text of a flag by the default's type. text is true for a bare --key.
local function from_text(key, default, text)
  if is_per_device(default) then
    local own = default[device_kind()]
    return from_text(key, own == nil and "auto" or own, text)
  end
  if type(default) == "boolean" then return options.convert.flag(key, text) end
  options.convert.text(key, text, {})
  if is_choice(default) then return check.word(nil, "--" .. key, text, default.list, true) end
  if type(default) == "number" then return options.convert.number(key, text, {}) end
  if default == "auto" and (text == "true" or text == "false") then return text == "true" end
  if default == "auto" then return tonumber(text) or text end
  return text
end

--- Checks a preset's value against the default's type.
local function check_preset(preset, key, default, value)
  if is_choice(default) then
    check.word(nil, ("preset %s: %s"):format(preset, key), value, default.list)
  elseif not (is_per_device(default) or default == "auto" or is_per_device(value)) then
    check.value(nil, {("preset %s: %s"):format(preset, key), type(default)}, value)
  end
end

--- Value of a default as it stands: choices give their first, device tables the device's.
local function plain(key, value)
  if is_choice(value) then return value.list[1] end
  if is_per_device(value) then
    local kind = device_kind()
    if value[kind] == nil then core.fail(("%s has no value for %s, the device of this run"):format(key, kind)) end
    return plain(key, value[kind])
  end
  return value
end

-- ---- resolving ----

local function checked_keys(definition)
  local keys = {}
  for key, value in pairs(definition) do
    if type(key) ~= "string" then core.fail("capl.params takes named settings: capl.params{epochs = 3}") end
    local kind = type(value)
    if key ~= "presets" then
      if #key > LONGEST or not key:find("^[%a_][%w_]*$") then
        core.fail(("a setting's name has letters, digits and _, %d at most; not '%s'"):format(LONGEST, key:sub(1, 40)))
      end
      if kind == "function" or kind == "userdata" or kind == "thread" then
        core.fail(("%s: a setting is a number, a text or true/false, not a %s"):format(key, kind))
      end
      if kind == "table" and not is_choice(value) and not is_per_device(value) then
        core.fail(("%s: a table as default is a capl.choice{…} or names devices: {cuda = …, cpu = …}"):format(key))
      end
      keys[#keys + 1] = key
    end
  end
  return keys
end

--- dashes: "--" for flags, else ""; before: what leads the message.
local function unknown_key(key, keys, dashes, before, hint)
  local recipe = observer.recipe
  local names = {unpack(keys)}
  for _, own in ipairs(dashes ~= "" and {"ranks", "restart"} or {}) do -- which capl takes out of the words before
    names[#names + 1] = own
  end
  local near = core.nearest(key, names)
  local negated = not near and dashes ~= "" and options.without_no(key)
  near = negated and core.nearest(negated, keys) and "no-" .. core.nearest(negated, keys) or near
  core.fail(("%sunknown setting %s%s%s"):format(before or "", dashes, key, near
    and "; did you mean " .. dashes .. near .. "?" or ""),
    hint or recipe and "'capl " .. recipe .. " --help' lists the settings" or nil)
end

-- Options of capl itself, which stand before the recipe.
local function global_hint(key)
  local gone = options.gone(key)
  if gone then return gone end
  for _, global in ipairs(core.sys.globals and core.sys.globals() or {}) do
    if global.name == "--" .. key or global.name == key then
      return "options of capl itself are given before the recipe: capl " .. global.name .. " RECIPE"
    end
  end
end

local function stray_word(word)
  core.fail(("'%s' is no setting; write --key=value"):format(word), global_hint(word))
end

--- The setting that a flag names and its text: --learning-curve is learning_curve, --no-augment is augment=false.
local function read_flag(word, definition, keys)
  local key, text = options.split(word)
  if not key then stray_word(word) end
  local own = definition[key] ~= nil and key or key:gsub("-", "_")
  local negated = options.without_no(own)
  if not negated or definition[negated] == nil then
    if definition[own] == nil and own ~= "preset" or own == "presets" then
      unknown_key(key, keys, "--", nil, global_hint(key))
    end
    return own, text
  end
  if definition[own] ~= nil then
    core.fail(("--%s may be the setting %s, or %s=false; write --%s=…, or --%s=false"):format(key, own, negated, own,
      negated))
  end
  if text ~= true then core.fail(("--%s is already negated; write --%s=%s"):format(key, negated, text)) end
  return negated, "false"
end

--- The flags: {key = text or true}; --preset apart.
local function read_flags(words, definition, keys)
  local flags, preset = {}, nil
  for _, word in ipairs(words) do
    if word ~= "--" then
      local key, text = read_flag(word, definition, keys)
      options.once(flags, key, text)
    end
  end
  if definition.preset == nil then flags.preset, preset = nil, flags.preset end
  return flags, preset
end

local function read_preset(name, presets, definition, keys)
  if not name then return {} end
  local names = sorted_keys(presets)
  if #names == 0 then core.fail("this recipe has no presets") end
  check.word(nil, "--preset", name, names)
  for key, value in pairs(presets[name]) do
    if definition[key] == nil then unknown_key(key, keys, "", "preset " .. name .. ": ") end
    check_preset(name, key, definition[key], value)
  end
  return presets[name]
end

--- The definition with the settings of every recipe that it does not name itself.
local function with_every(definition)
  local all = {}
  for key, value in pairs(definition) do all[key] = value end
  for _, setting in ipairs(every) do
    if all[setting.key] == nil then all[setting.key] = setting.default end
  end
  return all
end

local function settle_every(by_key)
  for _, known in ipairs(every) do
    local setting = by_key[known.key]
    local was_auto = setting.value == "auto"
    local value, why, usual = known.apply(setting.value)
    setting.value, setting.read, setting.usual = value, usual or not known.taken, usual
    if was_auto then setting.origin, setting.why = "auto", why end
  end
end

-- Flags of every recipe's settings whose type is not that of the default.
local function flag_value(key, default, text)
  for _, known in ipairs(every) do
    if known.key == key and known.from_text then return known.from_text(text) end
  end
  return from_text(key, default, text)
end

-- named: keys of the recipe itself; all others are those of every recipe
local function resolve(run, definition, keys, named)
  local flags, preset = read_flags(run:take_args(), definition, keys)
  local from_preset = read_preset(preset, definition.presets, definition, keys)
  run.preset = preset
  local again = run.restart and run.restart.folder
  local former = resume.begin(run, again or (flags.resume and flag_value("resume", false, flags.resume)))
  local function lookup(key)
    local value, origin = definition[key], named[key] ~= nil and "recipe" or "default"
    local was = resume.value(former, key, plain(key, value))
    if was ~= nil then value, origin = was, "as before" end
    if from_preset[key] ~= nil then value, origin = from_preset[key], "preset " .. preset end
    if flags[key] ~= nil then value, origin = flag_value(key, definition[key], flags[key]), "flag" end
    local scaled
    value, scaled = resume.batch(run, key, value, origin)
    if scaled then origin = "restart on other ranks" end
    local own = plain(key, definition[key])
    return {key = key, value = plain(key, value), origin = origin, same = plain(key, value) == own}
  end
  local by_key, settings = {}, {}
  for _, known in ipairs(every) do by_key[known.key] = lookup(known.key) end
  settle_every(by_key)
  for i, key in ipairs(keys) do
    settings[i] = by_key[key] or lookup(key)
    if not by_key[key] then auto.settle(settings[i]) end
  end
  return settings
end

--- The value that a flag's text gives a setting, or its default without a text; for commands that only look.
local function read_one(definition, keys, key, text)
  if definition[key] == nil or key == "presets" then unknown_key(key, keys, "--") end
  if text == nil then return plain(key, definition[key]) end
  return plain(key, from_text(key, definition[key], text))
end

-- ---- what the recipe gets ----

local function proxy(settings, keys)
  local by_key = {}
  for _, setting in ipairs(settings) do by_key[setting.key] = setting end
  local own = {}
  for key, setting in pairs(by_key) do own[key] = setting.value end
  for _, known in ipairs(every) do own[known.key] = nil end
  return setmetatable({}, {
    __metatable = "params",
    __settings = own, -- what the prompt shows of it: those that the recipe has written
    __index = function(_, key)
      local setting = by_key[key]
      if not setting then unknown_key(tostring(key), keys, "") end
      setting.read = true
      return setting.value
    end,
    __newindex = function(_, key)
      core.fail(("settings are read-only; %s is set by capl.params, presets and flags"):format(tostring(key)))
    end,
  })
end

local function show(value) return type(value) == "string" and value or tostring(value) end

local function help_page(run, definition, keys)
  local text = run.text and docs.page(run.text) or ""
  local about = run.text and docs.settings(run.text) or {}
  for _, known in ipairs(every) do about[known.key] = about[known.key] or known.doc end
  local lines = {("capl %s [--key=value…]"):format(run.recipe or "RECIPE")}
  if text ~= "" then lines[#lines + 1] = text end
  lines[#lines + 1] = "\nsettings:"
  for _, key in ipairs(keys) do
    local default = definition[key]
    lines[#lines + 1] = ("  --%-22s %s%s"):format(key .. "=" .. show(plain(key, default)), describe(default),
      about[key] and "; " .. about[key] or "")
  end
  lines[#lines + 1] = "  --ranks=N                a number, or gpus; processes that train together, each with its " ..
    "part of every batch"
  lines[#lines + 1] = "  --restart=N              a number; how often the run is started again if a rank is lost"
  for _, name in ipairs(sorted_keys(definition.presets)) do
    local parts = {}
    for _, key in ipairs(keys) do
      local value = definition.presets[name][key]
      if value ~= nil then parts[#parts + 1] = key .. "=" .. show(plain(key, value)) end
    end
    lines[#lines + 1] = ("  --preset=%-15s %s"):format(name, table.concat(parts, " "))
  end
  return table.concat(lines, "\n") .. "\n"
end

--- The recipe's settings, changed by presets and the command line.
-- in   named defaults: numbers, texts, booleans, capl.choice{…}, {cuda = …, cpu = …}; "auto" lets the program choose;
--      presets = {NAME = {key = value}} for --preset=NAME
-- out  read-only table; reading an unknown name is an error
-- errs value: unknown key, wrong type, unknown preset; each names the nearest valid one
local function params(definition)
  if type(definition) ~= "table" then core.fail("capl.params takes a table: capl.params{epochs = 3}") end
  if definition.ranks ~= nil then
    core.fail("ranks is no setting of a recipe: capl takes --ranks=N and starts them before it runs; "
      .. "capl.distributed().size is their number")
  end
  local run = Run.of(observer)
  local named = definition
  definition = with_every(definition)
  local keys = docs.in_order(checked_keys(definition), run.text)
  if run.help then
    core.sys.out(help_page(run, definition, keys))
    core.sys.unwind()
  end
  if run.inspect then
    run.inspect(keys, function(key, text) return read_one(definition, keys, key, text) end)
    core.sys.unwind()
  end
  local settings = resolve(run, definition, keys, named)
  run:set_settings(settings)
  return proxy(settings, keys)
end

return {params = params, choice = choice, device_names = device_names}
