-- agree.lua: what all ranks decide at the end of a step: whether to stop, and the time.
--
-- A decision costs one short exchange over the control channel, so it is not taken at every step: rank 0 names the step
-- of the next one, by its own clock about a quarter of a second away, in the answer that all ranks get. Between two
-- exchanges the last decisions hold, the same on every rank: whoever decides by them decides as all others do.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local EVERY = 0.25 -- seconds between two exchanges
local MOST = 1000 -- steps, should the clock stand still
local GROWTH = 4 -- from one gap to the next: the first steps are no measure of the others

local agree = {}

-- One decision from the requests of all ranks. all: list of requests by rank, false where a rank has none.
local rules = {}

--- The first that is there, in order of ranks.
function rules.first(all)
  for _, request in ipairs(all) do
    if request then return request end
  end
end

--- Rank 0's.
function rules.main(all) return all[1] or nil end

--- What can be voted on.
local votes_known = {
  stop = "first", -- the signal that a rank was asked to end by
  seconds = "main", -- the clock
  visit = "main", -- somebody wants to attach
}

local Agreement = {}
Agreement.__index = Agreement

--- world: all_gather_text, rank. clock() -> seconds.
function agree.new(world, clock)
  return setmetatable({world = world, clock = clock, steps = 0, due = 1, gap = 1, decisions = {}}, Agreement)
end

-- Steps from this exchange to the next, which rank 0 says to all.
local function next_gap(self, now)
  local gap = 1
  if self.last then
    local step = (now - self.last) / self.gap
    gap = step > 0 and math.floor(EVERY / step) or MOST
  end
  self.last = now
  return math.max(1, math.min(gap, GROWTH * self.gap, MOST))
end

local function decide(texts)
  local cast, decisions = {}, {}
  for i, text in ipairs(texts) do cast[i] = core.json_decode(text) end
  for key, rule in pairs(votes_known) do
    local all = {}
    for i, requests in ipairs(cast) do all[i] = requests[key] or false end
    decisions[key] = rules[rule](all)
  end
  return decisions, cast[1].gap
end

local function exchange(self, requests)
  local mine, now = {}, self.clock()
  for key, request in pairs(requests) do
    if not votes_known[key] then
      check.fail("agree.step", ("there is no request '%s'"):format(key), "give stop")
    end
    mine[key] = request
  end
  mine.seconds = now
  if self.world.rank == 0 then mine.gap = next_gap(self, now) end
  self.decisions, self.gap = decide(self.world:all_gather_text(core.json_encode(mine)))
  self.due = self.steps + self.gap
  if self.world.rank == 0 then self.last = now end
end

--- The end of a step, on every rank. requests: {stop = signal}, or a function that gives them, called only when they
-- are asked for.
--- -> {stop, seconds} of the last exchange; whether that was just now
function Agreement:step(requests)
  self.steps = self.steps + 1
  if self.steps < self.due then return self.decisions, false end
  if type(requests) == "function" then requests = requests() end
  exchange(self, requests or {})
  return self.decisions, true
end

-- ---- of this process ----

local ours

--- The same for the world of this process; the watchdog learns the number of the step that begins.
function agree.step(requests)
  if not ours then ours = agree.new(require("dist").world(), core.clock) end
  local decisions, fresh = ours:step(requests)
  core.dist.step(ours.steps + (agree.before or 0) + 1)
  return decisions, fresh
end

--- Steps of the run that were made before this process began: a run that was resumed counts on.
function agree.resumed(steps) agree.before = steps end

return agree
