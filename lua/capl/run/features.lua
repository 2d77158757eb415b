-- features.lua: what a run was asked for, and how often it really happened.
--
-- A requested feature whose count is 0 at the end is an error: nobody shall train for months with a switch that does
-- nothing.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local Features = {}
Features.__index = Features

--- Those of one run.
function Features.new()
  return setmetatable({
    list = {},
    counting = false, -- a recipe runs: at its end somebody looks
    is_apart = false,
  }, Features)
end

local spec = {
  {"name", "string", required = true}, {"what", "string", required = true}, {"count", "function", required = true},
  {"explicit", "boolean", default = true}, {"used", "function"}, {"of_all", "boolean"},
}

--- Adds a feature.
-- opts name = as the recipe asked for it, such as "ema = 0.999"; what = what is counted, such as "updates of the
--      averages";
--      count = function() -> number; explicit = true: 0 is an error; used = function() -> false where it could not
--      happen;
--      of_all = true: each rank counts its own part, and the sum is printed
function Features:add(opts) table.insert(self.list, check.options("run.add_feature", spec, opts)) end

--- What objects that a recipe's own loop makes count of themselves, such as the updates of a train.EMA.
-- in  as of add, without explicit
function Features:add_own(opts)
  if self.counting and not self.is_apart then self:add(opts) end
end

--- fn(…), whose objects do not count for themselves: train.fit counts for those that it makes.
function Features:apart(fn, ...)
  local was = self.is_apart
  self.is_apart = true
  local function back(ok, ...)
    self.is_apart = was
    if not ok then error((...), 0) end
    return ...
  end
  return back(pcall(fn, ...))
end

--- Adds up what the ranks of a world have counted each for itself, at the end; every rank calls it. world: nil for a
-- process alone
function Features:sum(world)
  local counts, any = {}, false
  for i, f in ipairs(self.list) do
    if f.of_all then counts[tostring(i)], any = f.count(), true end
  end
  if not world or not any then return end
  local sums = world:sum(counts)
  for i, f in ipairs(self.list) do f.sum = sums[tostring(i)] end
end

--- -> list of {name, what, count, explicit}
function Features:counts()
  local out = {}
  for i, f in ipairs(self.list) do
    out[i] = {name = f.name, what = f.what, count = f.sum or f.count(), explicit = f.explicit
      and not (f.used and f.used() == false)}
  end
  return out
end

--- Raises for a feature that was asked for and never happened.
function Features:check()
  for _, f in ipairs(self:counts()) do
    if f.explicit and f.count == 0 then
      core.error{code = "state", message = ("%s was asked for, but the run counted 0 %s"):format(f.name, f.what)}
    end
  end
end

return Features
