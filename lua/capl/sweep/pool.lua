-- pool.lua: runs trials side by side, each in a process of its own, as many as cores and memory allow.
--
-- The first trial runs alone until it has shown how much memory it wants: its peak after the first point of its curve.
-- From then on a trial starts when there is a free slot and memory for one more beside what the running ones may still
-- take.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local Pool = {}
Pool.__index = Pool

local TICK = 0.02 -- seconds between polls of the children
local SAMPLE, FIRST = 0.5, 0.1 -- seconds between memory samples; during the first trial
local MARGIN = 1.2 -- of the largest peak so far, which the next trial may exceed
local GRACE = 20 -- seconds that a stopped trial has to save

--- opts  jobs = slots; threads = cores of each; settled(job) -> whether a trial has shown its memory;
--        memory() -> bytes free on this machine, or nil; limit = bytes that all trials together may take, or nil;
--        card() -> bytes free on the GPU they share, nil without one
local function new(opts)
  local self = setmetatable({o = opts, running = {}, count = 0, peak = 0, card_peak = 0, measured = false, sampled = 0,
    waits = 0}, Pool)
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

-- Bytes for one more trial: what is free, less what the running ones may still take beyond what they hold.
local function room(self)
  local free, held, to_come = self.o.memory() or math.huge, 0, 0
  for _, child in pairs(self.running) do
    held, to_come = held + child.memory, to_come + math.max(0, self.peak - child.memory)
  end
  if self.o.limit then free = math.min(free, self.o.limit - held) end
  return free - to_come
end

-- A GPU's memory is known for all trials together, so one begins only when the others hold what they want.
local function fits_card(self)
  if not self.o.card then return true end
  for _, child in pairs(self.running) do
    if not self.o.settled(child.job) then return false end
  end
  return self.o.card() >= MARGIN * self.card_peak
end

-- Whether memory allows one more; one trial always may run.
local function fits(self)
  if self.count == 0 then return true end
  if not self.measured then return false end
  if room(self) >= MARGIN * self.peak and fits_card(self) then return true end
  self.waits = self.waits + 1
  return false
end

--- A slot that may be used now, or nil.
function Pool:slot()
  local slot = free_slot(self)
  return slot and fits(self) and slot or nil
end

--- A trial that has ended reports its peak: it may have been too quick to be seen.
function Pool:learn(bytes) self.peak = math.max(self.peak, bytes or 0) end

--- Starts a trial in a slot. job: {args =, folder =, log =, env =}, handed back when it ends.
function Pool:start(slot, job)
  if self.o.card and self.count == 0 then self.card_before = self.o.card() end
  local child = {job = job, memory = 0, peak = 0, started = core.clock()}
  self.running[slot], self.count = child, self.count + 1 -- before it runs: what Ctrl-C interrupts must find it
  local process, why = core.sys.spawn{args = job.args, log = job.log, env = job.env, cpus = cores_of(self, slot),
    into = child}
  if process then return end
  self.running[slot], self.count = nil, self.count - 1
  core.error{code = "io", message = why}
end

local function sample(self)
  if core.clock() - self.sampled < (self.measured and SAMPLE or FIRST) then return end
  self.sampled = core.clock()
  for _, child in pairs(self.running) do
    child.memory = child.process:memory()
    child.peak = math.max(child.peak, child.memory)
    self.peak = math.max(self.peak, child.peak)
  end
  if self.o.card and self.count == 1 and self.card_before then
    self.card_peak = math.max(self.card_peak, self.card_before - self.o.card())
  end
  for _, child in pairs(self.running) do self.measured = self.measured or self.o.settled(child.job) end
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
  for slot, child in pairs(self.running) do
    if child.process then child.process:stop() else self.running[slot] = nil end
  end
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
