-- active_settings.lua: the first lines of a run's header: what train.fit and its optimizers really use, and where each
-- value came from: recipe, default or auto.
--
-- The settings of a recipe are printed by run/init.lua; these are the ones a recipe says in train.fit{…}, or leaves to
-- capl.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local precision = require "precision"
local schedule = require "optim.schedule"
local span = require "train.span"

local active = {}

local objects = {
  model = true, train = true, val = true, test = true, tests = true, loss = true, optimizer = true, input = true,
}
local DEEPEST = 4 -- tables in each other; what lies deeper is named by its type

-- A value that a file can hold: modules and functions by what they are.
local function plain(value, depth)
  local kind = core.typename(value)
  if value == nil or kind == "number" or kind == "string" or kind == "boolean" then return value end
  if type(value) ~= "table" then return "a " .. kind end
  if schedule.is(value) then return value.name end
  if core.is_module(value) or depth > DEEPEST then return "a " .. (value.__name or kind) end
  local out = {}
  for key, inner in pairs(value) do out[type(key) == "number" and key or tostring(key)] = plain(inner, depth + 1) end
  return out
end

local function text_of(value)
  if type(value) == "string" then return value end
  if type(value) == "number" then return ("%.10g"):format(value) end
  if type(value) == "table" then return (core.json_encode(value):gsub('"', "")) end
  return tostring(value)
end

-- ---- train.fit ----

-- "12 times", or fewer where there are fewer steps or a time box cuts them down.
local function evaluations(o)
  if not o.val then return "never", "val = false" end
  local most = o.steps and math.min(span.EVALUATIONS, o.steps) or span.EVALUATIONS
  if not o.max_time then return ("%d time%s"):format(most, most == 1 and "" or "s") end
  return ("at most %d time%s"):format(most, most == 1 and "" or "s"),
    ("fewer where they take more than %g %% of max_time"):format(100 * span.EVALUATION_SHARE)
end

local auto = {
  eval_every = evaluations,
  log_every = function(o) return o.max_time and "200 points, or every 5 s" or "200 points" end,
  checkpoint = function() return "after 1 minute, then every 5" end,
  precision = precision.best,
  capture = function()
    local device = (core.device())
    return core.can_capture(device), device
  end,
  sanity = function(o) return o.sanity, o.sanity == 0 and "a short run" or nil end,
  tensorboard = function() return (pcall(core.event)) end,
}

-- Keys that are settings of every recipe, too.
local every = {monitor_every = true, dry_run = true}

-- Their defaults are "auto", too, but parts have put what they took in its place.
local settled = {sanity = true, checkpoint = true, tensorboard = true}

-- "samples = 6400": what the number of steps follows from.
local function given_length(all)
  for _, key in ipairs{"epochs", "samples", "overfit"} do
    if all[key] then return ("%s = %s"):format(key, text_of(all[key])) end
  end
end

local function value_of(run, key, all, o)
  local given = all[key]
  if given ~= nil and given ~= "auto" then return plain(given, 1), "recipe" end
  local now = o[key]
  if key == "steps" and now then return now, "recipe", given_length(all) end
  if every[key] and run:setting(key) ~= nil then return plain(now, 1), select(2, run:setting(key)) end
  if auto[key] and (given == "auto" or now == "auto" or settled[key]) then
    local value, why = auto[key](o)
    return value, "auto", why
  end
  return plain(now, 1), "default"
end

--- The keys of train.fit: list of {key, value, origin, why} in the order of `keys`; a key that is off has the value
-- false. keys: the spec of its options; given: the recipe's table; o: the options as they were settled
function active.loop(run, keys, given, o)
  local out = {}
  for _, entry in ipairs(keys) do
    local key = entry[1]
    if not objects[key] then
      local value, origin, why = value_of(run, key, given, o)
      if value == nil then value = false end
      out[#out + 1] = {key = key, value = value, origin = origin, why = why}
    end
  end
  return out
end

-- ---- optimizers ----

-- The values of an option over all groups, each once.
local function over_groups(opt, key)
  local seen, list = {}, {}
  for _, group in ipairs(opt.groups) do
    local value = plain(group[key], 1)
    local text = text_of(value)
    if not seen[text] then list[#list + 1] = value end
    seen[text] = true
  end
  if #list == 1 then return list[1] end
  return list
end

local function usual_of(opt, key)
  for _, entry in ipairs(opt.spec) do
    if entry[1] == key then return entry.default end
  end
end

--- The options of optimizers except their learning rates, which the plan contains: list of {name, options = as of
-- loop}.
function active.optimizers(optimizer)
  local out = {}
  for i, opt in ipairs(optimizer.optimizers or {optimizer}) do
    local options = {}
    for _, entry in ipairs(opt.spec) do
      local key = entry[1]
      if key ~= "lr" then
        local value = over_groups(opt, key)
        local is_usual = not opt.given[key] and text_of(value) == text_of(plain(usual_of(opt, key), 1))
        options[#options + 1] = {key = key, value = value, origin = is_usual and "default" or "recipe"}
      end
    end
    out[i] = {name = (opt.name:gsub("^optim%.", "")), options = options}
  end
  return out
end

-- ---- words ----

local off = {[0] = true, none = true, [false] = true}

-- "keep best, override true"; what is off is not worth a line.
local function words(list, origin)
  local out = {}
  for _, s in ipairs(list) do
    local is_off = origin ~= "recipe" and origin ~= "flag" and (off[s.value] or s.key == "accumulate")
    if s.origin == origin and not is_off then
      out[#out + 1] = s.key .. " " .. text_of(s.value) .. (s.why and (" (%s)"):format(s.why) or "")
    end
  end
  return #out > 0 and table.concat(out, ", ") or nil
end

-- What somebody chose comes first; flags, presets and a former run set what is a setting of every recipe.
local function origins_of(list)
  local out, known = {}, {recipe = true, auto = true, default = true}
  for _, s in ipairs(list) do
    if not known[s.origin] then out[#out + 1] = s.origin end
    known[s.origin] = true
  end
  for _, origin in ipairs{"recipe", "auto", "default"} do out[#out + 1] = origin end
  return out
end

--- Lines for the header of a run. name: what the settings belong to; list: as of active.loop
function active.lines(name, list)
  check.arg(2, "active.lines", "table", list)
  local out = {}
  for _, origin in ipairs(origins_of(list)) do
    local text = words(list, origin)
    if text then out[#out + 1] = ("%s (%s): %s"):format(name, origin, text) end
  end
  return out
end

--- The same as settings.json holds them: {key = {value, origin, why}}
function active.by_key(list)
  local out = {}
  for _, s in ipairs(list) do out[s.key] = {value = s.value, origin = s.origin, why = s.why} end
  return out
end

-- ---- the callback of train.fit ----

local Callback = {}
Callback.__index = Callback

local function new(fit)
  if fit.run.mode ~= "run" then return nil end
  return setmetatable({fit = fit}, Callback)
end

-- What settings.json keeps of it is written with the first step.
function Callback:lines()
  local run, o = self.fit.run, self.fit.o
  local loop, optimizers = active.loop(run, o.keys, o.given, o), active.optimizers(self.fit.optimizer)
  local lines = active.lines("train.fit", loop)
  run.active_settings = {loop = active.by_key(loop), optimizers = {}}
  for i, opt in ipairs(optimizers) do
    run.active_settings.optimizers[i] = {name = opt.name, options = active.by_key(opt.options)}
    for _, line in ipairs(active.lines(opt.name, opt.options)) do lines[#lines + 1] = line end
  end
  return lines
end

return {name = "active_settings", new = new}
