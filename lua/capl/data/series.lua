-- series.lua: data.series: a table ordered by time as windows for training, choosing and testing.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"

local series = {}

local Series = {}
Series.__index = Series

local keys = {"key", "target", "features", "window", "horizon", "split", "scale"}

local parts = {"train", "val", "test"}

--- split = {train, val, test}, shares that add up to one.
local function read_split(split)
  if split == nil then return 0.7, 0.15 end
  check.value("data.series", {"split", "table"}, split)
  local sum = 0
  for i = 1, 3 do
    local share = split[i] or 0
    if type(share) ~= "number" or share < 0 or share > 1 then
      check.fail("data.series", ("split is {train, val, test}, shares of the rows, not %s"):format(tostring(share)))
    end
    sum = sum + share
  end
  if math.abs(sum - 1) > 1e-6 then
    check.fail("data.series", ("the shares of split add up to %g, not to 1"):format(sum))
  end
  if (split[1] or 0) == 0 then check.fail("data.series", "split leaves nothing to train on") end
  return split[1], split[2] or 0
end

local function check_whole(key, x)
  if x == nil or type(x) == "number" and x >= 1 and x % 1 == 0 then return end
  check.fail("data.series", ("%s is a number of rows from 1 on, not %s"):format(key, tostring(x)))
end

--- In a run: that windows go across holes.
local function note_holes(from, facts)
  if facts.holes == 0 or observer.mode ~= "run" then return end
  local in_file = type(from) == "string"
  observer:print(("note: %s: %d hole%s in time, the first before %s %d: windows go across; add rows with empty cells"):format(
    in_file and from or "the table", facts.holes, facts.holes == 1 and "" or "s", in_file and "line" or "row",
    facts.hole_line))
end

local function vector(list, like) return core.tensor(list, {device = like.device}) end

--- What the network says (or batch.value), in the targets' own units: a tensor (N,D), or a number of one target.
function Series:inverse(x)
  if #self.targets == 1 then return x * self.std + self.mean end
  return x * vector(self.std, x) + vector(self.mean, x)
end

-- "pm25" or {"pm25", "o3"} -> list
local function read_targets(target)
  check.value("data.series", {"target", "string", "table"}, target)
  if type(target) == "string" then return {target} end
  if #target == 0 then check.fail("data.series", "target is an empty list") end
  for _, name in ipairs(target) do check.value("data.series", {"a target", "string"}, name) end
  return target
end

--- make(box) makes a source of its box.
function series.new(make)
  --- Rows ordered by time as windows, and the values that follow each. Rows may come in any order: they are sorted by
  -- the key, which every row has once. The rows are split by time; no window reaches from one part into the next, so
  -- the first window + horizon - 1 rows of val and of test are never a target. A number that is missing is the one
  -- before, or train's mean when there is none; a row that lacks a target is never one. Features and targets
  -- become (x - mean) / std with the mean and deviation of train.
  -- in    from: path of a CSV file, or a table of columns as of data.pm25 or data.read_csv
  -- opts  target: column to foretell, or a list of them; key = "date": column of dates, dates with times, or numbers;
  --       features = list of columns (all but key and targets); window = 7 rows; horizon = 1: rows from a window's last
  --       to its targets; split = {0.7, 0.15, 0.15}; scale = "standard" | "none"
  -- out   {train, val, test = sources (nil without rows) with the fields input (T,F) and value (D), whose names are the
  --       keys of the targets' rows; features, target, targets (a list), window, horizon; mean, std: of the target, of
  --       several a list; inverse(x); facts: rows, filled, and of the key irregular steps and holes among them}
  -- errs  io; format, with the line: no CSV, a key or number that is none, a key that occurs twice; value: no such
  --       column, a part shorter than a window, unknown option
  return function(from, opts)
    local o = check.keys("data.series", opts, keys)
    if type(from) ~= "string" and not (type(from) == "table" and type(from.columns) == "table") then
      core.fail("data.series takes the path of a CSV file, or a table of columns as of data.pm25")
    end
    local targets = read_targets(o.target)
    check_whole("window", o.window)
    check_whole("horizon", o.horizon)
    if o.features ~= nil then
      check.value("data.series", {"features", "table"}, o.features)
      if #o.features == 0 then check.fail("data.series", "features is an empty list; leave it out for all columns") end
    end
    if o.scale ~= nil and o.scale ~= "standard" and o.scale ~= "none" then
      check.fail("data.series", ('scale is "standard" or "none", not %s'):format(tostring(o.scale)))
    end
    local train, val = read_split(o.split)
    local box = core.data.series(from, {
      key = o.key, targets = targets, features = o.features, window = o.window, horizon = o.horizon, train = train,
      val = val, unscaled = o.scale == "none",
    })
    local facts, one = box:facts(), #targets == 1
    local self = setmetatable({
      facts = facts, features = facts.features, target = o.target, targets = targets, window = o.window or 7,
      horizon = o.horizon or 1,
      mean = one and facts.target_mean[1] or facts.target_mean, std = one and facts.target_std[1] or facts.target_std,
    }, Series)
    note_holes(from, facts)
    for i, part in ipairs(parts) do
      if facts.part_rows[i] > 0 then
        self[part] = make(box:source(part))
        self[part].series = self
      end
    end
    return self
  end
end

return series
