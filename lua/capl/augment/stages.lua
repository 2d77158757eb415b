-- stages.lua: reads the list given to augment.schedule{…}: names, types, and stages that contradict each other.
--
-- What a stage leaves out stays as it was in the stage before, so each says only what changes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local presets = require "augment.presets"

local OP = "augment.schedule"
local MOST = 32 -- CAPL_STAGES_MAX

local stage_spec = {
  {"name", "string"}, {"from", "table"}, {"augment", "table", "string", "boolean"}, {"difficulty", "table", "boolean"},
  {"ramp", "table"},
}
local from_spec = {{"epoch", "number"}, {"step", "whole"}, {"metric", "string"}, {"above", "number"},
  {"below", "number"}}
local ramp_spec = {{"epochs", "number"}, {"steps", "number"}, {"shape", "string", default = "linear"}}
local difficulty_spec = {{"length", "table", "whole"}, {"charset", "number"}, {"noise", "number"}, {"warp", "number"}}

local function fail_stage(i, message, hint) check.fail(OP, ("stage %d: %s"):format(i, message), hint) end

local function where(i) return ("%s: stage %d"):format(OP, i) end

-- ---- when ----

local example = 'from = {epoch = 3}, {step = 1000} or {metric = "exact", above = 0.9}'

local function one_of(i, o, names)
  local found
  for _, name in ipairs(names) do
    if o[name] ~= nil then
      if found then fail_stage(i, ("%s and %s are both given as its start"):format(found, name), "give one of them") end
      found = name
    end
  end
  return found
end

local function read_metric(i, o, stage)
  if (o.above == nil) == (o.below == nil) then
    fail_stage(i, "give above or below for the metric", 'from = {metric = "exact", above = 0.9}')
  end
  stage.metric, stage.above, stage.below = o.metric, o.above, o.below
end

local function read_from(i, given, stage)
  if not given then fail_stage(i, "its start is missing", example) end
  local o = check.options(where(i) .. ".from", from_spec, given)
  stage.from = one_of(i, o, {"epoch", "step", "metric"})
  if not stage.from then fail_stage(i, "its from is empty", example) end
  if stage.from == "metric" then return read_metric(i, o, stage) end
  if o.above or o.below then fail_stage(i, "above and below are of a metric, and from names none", example) end
  stage.at = o[stage.from]
  local least = stage.from == "epoch" and 1 or 0
  if stage.at >= 2 ^ 31 then
    fail_stage(i, ("it starts at %s %g, which does not exist"):format(stage.from, stage.at))
  end
  if not (stage.at > least) then
    fail_stage(i, ("it starts at %s %g; the first stage already starts at %d"):format(stage.from, stage.at, least))
  end
end

local function read_first(given, stage)
  stage.from, stage.at = "epoch", 1
  if given.ramp then
    fail_stage(1, "nothing comes before it that it could come in from", "give the ramp to a later stage")
  end
  if not given.from then return end
  local o = check.options(where(1) .. ".from", from_spec, given.from)
  if (o.epoch == 1 or o.step == 0) and not o.metric then return end
  fail_stage(1, "it starts with the run", "leave its from out; a first stage {} leaves images as they are")
end

local function read_ramp(i, given, stage)
  stage.ramp, stage.shape = 0, "linear"
  if not given then return end
  local o = check.options(where(i) .. ".ramp", ramp_spec, given)
  if (o.epochs == nil) == (o.steps == nil) then
    fail_stage(i, "its ramp takes a number of epochs or of steps; give one of the two",
      'ramp = {epochs = 2, shape = "cosine"}')
  end
  check.one_of(where(i) .. ".ramp", "shape", o.shape, {"linear", "cosine"})
  stage.ramp, stage.ramp_in_epochs, stage.shape = o.epochs or o.steps, o.epochs ~= nil, o.shape
  if not (stage.ramp > 0 and stage.ramp < 2 ^ 31) then
    fail_stage(i, ("its ramp takes %g %s"):format(stage.ramp, o.epochs and "epochs" or "steps"),
      "it is above 0; without a ramp the stage comes at once")
  end
end

-- ---- what ----

local function copy(t)
  if not t then return nil end
  local out = {}
  for key, value in pairs(t) do out[key] = value end
  return out
end

local function read_augment(i, value, stage, before)
  if value == nil then
    stage.augment, stage.augment_name = before.augment, before.augment_name
  elseif value == true then
    fail_stage(i, "augment is a table of ranges, the name of a preset, or false", 'augment = "strong"')
  elseif type(value) == "string" then
    stage.augment, stage.augment_name = presets.preset(value), value
  elseif value then
    stage.augment = copy(value)
  end
  if not stage.augment then return end
  local fine, err = pcall(core.data.check_augment, stage.augment)
  if not fine then fail_stage(i, err.message, err.hint) end
end

local function read_length(i, length)
  if type(length) == "number" then length = {length, length} end
  for k = 1, 2 do
    local value = length[k]
    if type(value) ~= "number" or value % 1 ~= 0 or value < 1 then
      fail_stage(i, "length is a number of characters or {shortest, longest}")
    end
  end
  if length[1] > length[2] then fail_stage(i, ("length runs backwards: %d to %d"):format(length[1], length[2])) end
  return length[1], length[2]
end

local function read_difficulty(i, value, stage, before)
  if value == nil then stage.difficulty = before.difficulty end
  if not value then return end -- false: as hard as the source is made
  if value == true then fail_stage(i,
    "difficulty is a table {length =, charset =, noise =, warp =}, or false for all of it") end
  local o = check.options(where(i) .. ".difficulty", difficulty_spec, value)
  local d = copy(before.difficulty) or {charset = 1, noise = 1, warp = 1}
  if o.length then d.length_lo, d.length_hi = read_length(i, o.length) end
  for _, name in ipairs{"charset", "noise", "warp"} do
    if o[name] and not (o[name] >= 0 and o[name] <= 1) then
      fail_stage(i, ("%s is a share, 0 to 1, got %g"):format(name, o[name]))
    end
    d[name] = o[name] or d[name]
  end
  stage.difficulty = d
end

-- ---- stages among each other ----

local function begins(stage) return stage.from .. (" %g"):format(stage.at) end

-- Stages that begin by themselves and count alike; the loader, which knows what an epoch has, compares the others.
local function check_order(stages)
  local last = {}
  for i, stage in ipairs(stages) do
    local before = stage.from ~= "metric" and last[stage.from]
    if before and stage.at <= before.at then
      fail_stage(i, ("it starts at %s, and stage %d before it at %s"):format(begins(stage), before.number,
        begins(before)), "stages must be in the order of their start")
    end
    last[stage.from] = stage
  end
end

local function check_ramp(stage, next)
  local unit = stage.from == "epoch" and "epochs" or "steps"
  if not next or stage.from ~= next.from or stage.from == "metric" then return end
  if stage.ramp_in_epochs ~= (unit == "epochs") or stage.ramp <= next.at - stage.at then return end
  fail_stage(stage.number, ("its ramp takes %g %s, but the stage lasts %g"):format(stage.ramp, unit,
    next.at - stage.at), "shorten the ramp, or start the next stage later")
end

local shares = {exact = true, chars = true, confidence = true} -- metrics that are 0 to 1

local function check_reachable(stages)
  for i, stage in ipairs(stages) do
    if stage.metric and shares[stage.metric] and ((stage.above or 0) > 1 or (stage.below or 1) < 0) then
      fail_stage(i, ("%s never gets %s %g"):format(stage.metric, stage.above and "above" or "below", stage.above
        or stage.below), stage.metric .. " is a share, 0 to 1")
    end
  end
end

local function read_stage(i, given, before)
  if type(given) ~= "table" then fail_stage(i, "it is a table, not a " .. core.typename(given)) end
  local o = check.options(where(i), stage_spec, given)
  local stage = {number = i, name = o.name}
  if i == 1 then read_first(o, stage) else read_from(i, o.from, stage) end
  read_ramp(i, o.ramp, stage)
  read_augment(i, o.augment, stage, before)
  read_difficulty(i, o.difficulty, stage, before)
  return stage
end

--- The stages of a schedule, checked and filled in: {number, name, from = "epoch"|"step"|"metric", at | metric, above |
-- below, ramp (0 = at once), ramp_in_epochs, shape, augment, augment_name, difficulty = {length_lo, length_hi, charset,
-- noise, warp}}
local function read(list)
  if type(list) ~= "table" or #list == 0 then
    check.fail(OP, "takes a list of stages",
      'augment.schedule{{augment = "minimal"}, {from = {epoch = 3}, augment = "strong"}}')
  end
  for key in pairs(list) do
    if type(key) ~= "number" then
      check.fail(OP, ("takes a list of stages, and has an entry %s"):format(tostring(key)), "each stage is a table")
    end
  end
  if #list > MOST then check.fail(OP, ("at most %d stages, got %d"):format(MOST, #list)) end
  local stages = {}
  for i = 1, #list do stages[i] = read_stage(i, list[i], stages[i - 1] or {}) end
  check_order(stages)
  for i, stage in ipairs(stages) do check_ramp(stage, stages[i + 1]) end
  check_reachable(stages)
  return stages
end

--- The same for the engine.
local function to_engine(stages)
  local out = {}
  for i, s in ipairs(stages) do
    out[i] = {from = s.from, at = s.at, ramp = s.ramp, ramp_in_epochs = s.ramp_in_epochs, shape = s.shape,
      augment = s.augment, difficulty = s.difficulty}
  end
  return out
end

return {read = read, to_engine = to_engine}
