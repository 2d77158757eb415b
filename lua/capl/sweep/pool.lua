-- pool.lua: runs trials side by side, each in a process of its own, as many as cores and memory allow.
--
-- The first trial runs alone until it has shown how much memory it wants: its peak after the first point of its curve.
-- From then on a trial starts when there is a free slot and memory for one more beside what the running ones may still take.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local Pool = {}
Pool.__index = Pool

local TICK = 0.05 -- seconds between two looks at the children
local SAMPLE = 0.5 -- seconds between two looks at their memory
local MARGIN = 1.2 -- of the largest peak so far, which the next trial may exceed
local GRACE = 20 -- seconds that a stopped trial has to save

--- opts  program words of every trial; jobs = slots; threads = cores of each; memory() -> bytes free, or nil
--        settled(folder) -> whether a trial has shown its memory; tick() called now and then
local function new(opts)
  local self = setmetatable({o = opts, running = {}, count = 0, peak = 0, measured = false, sampled = 0, waits = 0}, Pool)
  self.cpus = core.sys.cpu_list()
  return self
end

-- The cores of a slot: neighbours; all of them when there are too few to share out.
local function cores_of(self, slot)
  local n, out = self.o.threads, {}
  if self.o.jobs * n > #self.cpus or self.o.jobs == 1 then return nil end
  for i = 1, n do out[i] = self.cpus[(slot - 1) * n + i] end
  return out
end

local function free_slot(self)
  for slot = 1, self.o.jobs do
    if not self.running[slot] then return slot end
  end
end

-- What the running trials may still take beyond what they hold.
local function still_to_come(self)
  local bytes = 0
  for _, child in pairs(self.running) do bytes = bytes + math.max(0, self.peak - child.memory) end
  return bytes
end

-- Whether memory allows one more; one trial always may run.
local function fits(self)
  if self.count == 0 then return true end
  if not self.measured then return false end
  local free = self.o.memory()
  if not free or free - still_to_come(self) >= MARGIN * self.peak then return true end
  self.waits = self.waits + 1
  return false
end

--- A slot that may be used now, or nil.
function Pool:slot()
  local slot = free_slot(self)
  return slot and fits(self) and slot or nil
end

--- Starts a trial in a slot. job: {args =, folder =, log =, env =}, handed back when it ends.
function Pool:start(slot, job)
  local process, why = core.sys.spawn{args = job.args, log = job.log, env = job.env, cpus = cores_of(self, slot)}
  if not process then core.error{code = "io", message = why} end
  self.running[slot] = {process = process, job = job, memory = 0, peak = 0, started = core.clock()}
  self.count = self.count + 1
end

local function sample(self)
  if core.clock() - self.sampled < SAMPLE then return end
  self.sampled = core.clock()
  for _, child in pairs(self.running) do
    child.memory = child.process:memory()
    child.peak = math.max(child.peak, child.memory)
    self.peak = math.max(self.peak, child.peak)
    if not self.measured then self.measured = self.o.settled(child.job) end
  end
end

--- Waits until a trial ends or `seconds` are over. -> job, exit status, seconds it took, its peak memory; nil
function Pool:wait(seconds)
  local until_then = core.clock() + seconds
  repeat
    for slot, child in pairs(self.running) do
      local status = child.process:poll()
      if status then
        self.running[slot], self.count, self.measured = nil, self.count - 1, true
        return child.job, status, core.clock() - child.started, child.peak
      end
    end
    sample(self)
    core.sys.sleep(TICK)
  until core.clock() >= until_then
end

--- Ends all that run: they may save first.
function Pool:stop()
  for _, child in pairs(self.running) do child.process:stop() end
  local until_then = core.clock() + GRACE
  while next(self.running) and core.clock() < until_then do
    for slot, child in pairs(self.running) do
      if child.process:poll() then self.running[slot], self.count = nil, self.count - 1 end
    end
    core.sys.sleep(TICK)
  end
  for _, child in pairs(self.running) do child.process:kill() end
  self.running, self.count = {}, 0
end

return {new = new}
