-- progress.lua: how far training is: one line at the bottom of a terminal, or a line every few seconds elsewhere.
--
-- The loss is read only when it is shown, and without waiting: the line is drawn when the number has arrived, on a GPU
-- a step or two later.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local sync = require "dist.sync"
local check = require "check"
local output = require "output"

local progress = {}
progress.__index = progress

local AHEAD = 2 -- steps that may be queued on a GPU beside the one it does: what is shown is about now
local REDRAW = 0.1 -- seconds between two drawings of the live line, at least

local function duration(seconds)
  if seconds >= 3600 then return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60) end
  return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

--- A meter for a training loop.
-- opts  steps = how many there will be (nil: nobody knows); every = seconds between two lines (5)
local function new(opts)
  opts = check.options("capl.progress", {{"steps", "number"}, {"every", "number"}}, opts)
  local now = core.clock()
  local run = Run.of(observer)
  local live = output.is_live() and not run.quiet
  local done, todo = "#", "."
  if observer.console.utf8 then done, todo = "━", "─" end
  return setmetatable({
    run = run, steps = opts.steps,
    every = opts.every or 5, live = live, step_number = 0, images = 0, position = 0, done = done, todo = todo,
    started = now, started_at = 0, from = now, from_images = 0, shown = now, shown_images = 0, next_show = 0,
    waits = {from = 0, shown = 0}, often = sync.of_main(function() return live end),
  }, progress)
end

--- Sets the position of a resumed run: steps, images and completed share.
function progress:resume(step, images, position)
  self.step_number, self.images, self.position, self.started_at = step, images, position, position
  self.from_images, self.shown_images, self.started_images = images, images, images
end

function progress:seconds() return core.clock() - self.started end

--- Images per second since the start.
function progress:rate() return (self.images - (self.started_images or 0)) / math.max(self:seconds(), 1e-9) end

-- A number as what core.fetch gives.
local function known(x)
  return {ready = function() return true end, value = function() return x end}
end

-- The mean loss of the ranks, to be read when it has arrived.
local function fetched(loss)
  if type(loss) ~= "number" then return core.fetch(sync.mean(loss)) end
  local world = sync.world()
  return known(world and world:sum{loss = loss}.loss / world.size or loss)
end

-- Ranks must not differ in when it has arrived: among several it is waited for.
local function is_ready(loss) return sync.world() ~= nil or loss:ready() end

-- Memory to show, now and at most: what a GPU's program holds of the card, else what this process holds.
local function memory_in_use()
  local m = core.memory()
  if m.card_total then return m.live + m.captured, m.peak + m.captured, " on the GPU" end
  local now = core.sys.rss()
  return now, math.max(now, core.sys.peak_rss()), "" -- the system counts the peak a little later
end

-- 0.0312, 6e-05: three digits of a rate, whatever its size
local function rate_text(lr) return ("%.3g"):format(lr) end

-- Of all ranks: the least and the most that one holds, and the highest peak and whose it is.
local function memory_of_ranks(world, memory, peak)
  local out = {least = math.huge, most = 0, peak = 0}
  for i, of_rank in ipairs(world:all_gather_object{memory, peak}) do
    out.least, out.most = math.min(out.least, of_rank[1]), math.max(out.most, of_rank[1])
    if of_rank[2] > out.peak then out.peak, out.rank = of_rank[2], i - 1 end
  end
  return out
end

local function memory_text(f)
  local all = f.ranks
  if all then
    return ("%.0f to %.0f MB a rank, peak %.0f MB (rank %d)%s"):format(all.least / 1e6, all.most / 1e6, all.peak / 1e6,
      all.rank, f.where)
  end
  return ("%.0f MB, peak %.0f MB%s"):format(f.memory / 1e6, f.peak_memory / 1e6, f.where)
end

local function plain_line(f)
  return ("step %6d%s  loss %.4f  lr %-7s  %5.0f images/s  waits %.0f %%  left %s  %s"):format(
    f.step, f.steps and "/" .. f.steps or "", f.loss, rate_text(f.lr), f.rate, 100 * f.wait, duration(f.left),
    memory_text(f))
end

-- Parts of the live line, the least important last; those that do not fit the terminal are left out.
local function live_parts(f)
  return {
    ("%3.0f %%"):format(math.floor(100 * f.position)), ("left %5s"):format(duration(f.left)),
    ("loss %.3f"):format(f.loss), ("%4.0f images/s"):format(f.rate), f.note or "",
    ("step %4d%s"):format(f.step, f.steps and "/" .. f.steps or ""), ("lr %s"):format(rate_text(f.lr)),
    ("waits %.0f %%"):format(100 * f.wait), memory_text(f),
  }
end

-- The same for programs.
local function object(f)
  return {progress = f.position, step = f.step, steps = f.steps, loss = f.loss, lr = f.lr, images_per_s = f.rate,
    wait = f.wait, left_seconds = f.left, memory_bytes = f.memory, peak_memory_bytes = f.peak_memory, ranks = f.ranks}
end

local BAR = 20

local function live_line(self, f)
  local width = core.sys.columns() - 1 -- a full last column makes some terminals wrap
  local parts, used = {}, 0
  for _, part in ipairs(live_parts(f)) do
    if part ~= "" and used + #part + 2 <= width then
      parts[#parts + 1] = part
      used = used + #part + 2
    end
  end
  local bar = math.min(BAR, width - used)
  if bar < 4 then return table.concat(parts, "  ") end
  local filled = math.floor(bar * f.position + 0.5)
  return self.done:rep(filled) .. self.todo:rep(bar - filled) .. "  " .. table.concat(parts, "  ")
end

-- Images per second and the share of waiting for data of the last five to ten seconds, so that a slow start is
-- forgotten.
function progress:recent(now)
  local seconds, wait = math.max(now - self.from, 1e-9), self.run:waited()
  local rate = (self.images - self.from_images) / seconds
  local share = math.min(1, math.max(0, wait - self.waits.from) / seconds)
  if now - self.shown >= self.every then
    self.from, self.from_images, self.shown, self.shown_images = self.shown, self.shown_images, now, self.images
    self.waits.from, self.waits.shown = self.waits.shown, wait
  end
  return rate, share
end

function progress:metrics(now, due)
  local over = math.max(self.position - self.started_at, 1e-9)
  local memory, peak, where = memory_in_use()
  local rate, wait = self:recent(now)
  local world = sync.world()
  return {
    step = due.step, steps = self.steps, loss = due.loss:value(), lr = due.lr, rate = rate, wait = wait,
    left = (1 - self.position) / over * (now - self.started), position = self.position,
    memory = memory, peak_memory = peak, where = where, note = self.note,
    ranks = world and memory_of_ranks(world, memory, peak),
  }
end

-- Shows them as the run speaks.
function progress:show(f, ends)
  if observer.console.mode == "json" then
    if not self.run.quiet then output.object(object(f)) end
  elseif self.live and not ends then
    core.sys.bar(live_line(self, f))
  else
    self.run:print(plain_line(f))
  end
end

--- Counts a step of `images` images on this rank; prints the line when it is due and the loss is known. loss: a number
-- or a scalar tensor, read only then; lr: a number; position: share of the run that is over (that of the steps unless
-- said); together: images of all ranks, where they have unequally many.
-- out  the loss that was shown, of step meter.shown_step; else nil
function progress:step(images, loss, lr, position, together)
  self.step_number = self.step_number + 1
  self.images = self.images + (together or images * sync.size())
  self.position = position or self.step_number / self.steps
  core.pace(AHEAD)
  local now, ends = core.clock(), self.position >= 1
  local clock = sync.world() and sync.clock() or now -- the mean loss takes all ranks, at the same step
  if ends or (clock >= self.next_show and not self.due) then
    self.due = {step = self.step_number, lr = lr, loss = fetched(loss)}
  end
  if not self.due or not (ends or is_ready(self.due.loss)) then return nil end
  self.next_show = clock + (self.often and REDRAW or self.every)
  local f = self:metrics(now, self.due)
  self.shown_step, self.due = self.due.step, nil
  self:show(f, ends)
  return f.loss
end

--- A function(done) that shows "what: done of all" on a terminal, from the second on in which it was made.
local function counter(what, all)
  local next_show = output.is_live() and core.clock() + 1 or math.huge
  return function(done)
    if core.clock() < next_show then return end
    next_show = core.clock() + REDRAW
    core.sys.bar(("%s: %d of %d"):format(what, done, all):sub(1, core.sys.columns() - 1))
  end
end

--- Sets a short text in the live line, such as the last accuracy.
function progress:remember(note) self.note = note end

return {new = new, counter = counter, duration = duration}
