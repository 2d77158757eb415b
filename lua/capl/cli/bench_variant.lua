-- bench_variant.lua: one variant of `capl bench --ab` in a process of its own: warms up, then measures rounds on
-- request.
--
-- Requests and answers are files in a shared folder: NAME.go contains the request; the answer is NAME.ready
-- after the warm-up and NAME.round for each round. Between two rounds it sleeps. The first steps of a round are not
-- measured: the loader has made batches ahead meanwhile, which would make data look cheaper than it is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local machine = require "cli.bench_machine"
local precision_counts = require "run.precision_counts"
local recipe = require "cli.execute"

local TICK = 0.005 -- seconds between samples for an order

local Variant = {}
Variant.__index = Variant

-- ---- orders and answers ----

function Variant:answer(what, values)
  local done, why = core.sys.write(self.path .. "." .. what, core.json_encode(values) .. "\n")
  if not done then core.error{code = "io", message = why} end
end

-- Waits for the next order: "round" or "end".
function Variant:order()
  local path = self.path .. ".go"
  while core.sys.kind(path) ~= "file" do core.sys.sleep(TICK) end
  local text = core.sys.read(path)
  core.sys.remove(path)
  if text:match("^end") then core.sys.unwind() end
end

-- ---- a round ----

function Variant:begin_round()
  self.before, self.captured, self.images = precision_counts.all(), core.counters().captured_steps, 0
  self.machine:begin()
  core.mark(0)
end

-- Matmul and convolution calls of a step by dtype, and whether the steps were replays: those do what was counted when
-- they were recorded.
function Variant:counts_of_step()
  if core.counters().captured_steps > self.captured then return self.run.step_precision_counts, true end
  local out = precision_counts.all()
  for name, count in pairs(out) do out[name] = (count - self.before[name]) / self.steps end
  return out, false
end

function Variant:end_round()
  local times, seconds = {}, core.between(0, self.steps)
  for i = 1, self.steps do times[i] = core.between(i - 1, i) end
  local out = self.machine:metrics(seconds)
  out.times, out.seconds, out.images = times, seconds, self.images
  out.precision_counts, out.captured = self:counts_of_step()
  self:answer("round", out)
end

-- ---- the run ----

-- After the warm-up: what the others should know before they wait for it.
function Variant:ready()
  local memory, values, unread = core.memory(), {}, {}
  for _, s in ipairs(self.run.settings) do
    values[s.key] = s.value
    if not s.read then unread[#unread + 1] = s.key end
  end
  self:answer("ready", {device = core.device(), description = core.device_info(core.device()).description,
    unread = unread, values = values, gpu = self.machine:gpu(), rss = core.sys.rss(), threads = core.sys.threads(),
    card_free = memory.card_free, card_held = memory.card_total and memory.live + memory.cached + memory.captured})
end

-- The loader's batches that were made ahead, and one more.
local function settling_steps(run)
  local most = 0
  for _, entry in ipairs(run.loaders) do
    if entry.role == "train" then most = math.max(most, entry.loader.low and entry.loader.low.prefetch or 2) end
  end
  return most + 1
end

-- Sleeps until the next request; the steps of a round are counted from then.
function Variant:rest()
  self:order()
  self.from, self.settle = self.run.steps, settling_steps(self.run)
end

-- The end of a step. at: how many of the round are over, those that are not measured below 0
function Variant:step()
  local run = self.run
  local at = run.steps - self.from - self.settle
  if at > 0 then
    self.images = self.images + run.step_images
    core.mark(at)
  end
  run.step_images = 0
  if at == 0 then self:begin_round() end
  if at < self.steps then return end
  self:end_round()
  self:rest()
end

--- Runs the recipe as a variant. o: variant = path without ending, steps, warmup, fixed
local function main(job, o, words)
  local run = job.run
  local self = setmetatable({run = run, path = o.variant, steps = o.steps}, Variant)
  self.machine = machine.new(run)
  run:on("step", function()
    if run.steps > o.warmup then return self:step() end
    if run.steps < o.warmup then return end
    self:ready()
    self:rest()
  end)
  core.sys.mute(true)
  local ended = recipe.execute(job, {mode = "bench", args = words, quiet = true, fixed = o.fixed})
  core.sys.mute(false)
  self.machine:close()
  if ended then
    core.error{code = "state", message = ("%s ended after %d steps, before all rounds were measured"):format(job.recipe,
      run.steps),
      hint = "fewer --rounds or --steps, or a longer run"}
  end
end

return {main = main}
