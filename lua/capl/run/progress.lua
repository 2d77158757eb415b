-- progress.lua: how far training is: one line at the bottom of a terminal, or a line every few seconds elsewhere.
--
-- The loss is read only when it is shown, and without waiting: the line is drawn when the number has arrived, on a GPU a
-- step or two later.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local run = require "run"

local progress = {}
progress.__index = progress

local AHEAD = 2 -- steps that may be queued on a GPU beside the one it does: what is shown is about now
local REDRAW = 0.1 -- seconds between two drawings of the live line, at least

local function duration(seconds)
  if seconds >= 3600 then return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60) end
  return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

-- Whether standard output is a terminal that takes a line back.
local function is_live()
  local term = core.sys.getenv("TERM")
  local plain = core.sys.getenv("NO_COLOR")
  return not run.quiet and core.sys.isatty(1) and term ~= nil and term ~= "dumb" and (plain == nil or plain == "")
end

local function has_utf8()
  local locale = ""
  for _, name in ipairs{"LANG", "LC_CTYPE", "LC_ALL"} do
    local value = core.sys.getenv(name)
    if value and value ~= "" then locale = value end
  end
  return locale:lower():match("utf%-?8") ~= nil
end

--- A meter for a training loop.
-- opts  steps = how many there will be (nil: nobody knows); every = seconds between two lines (5)
local function new(opts)
  local now = core.clock()
  local live = is_live()
  local done, todo = "#", "."
  if has_utf8() then done, todo = "━", "─" end
  return setmetatable({
    steps = opts.steps, every = opts.every or 5, live = live, step_number = 0, images = 0, position = 0, done = done, todo = todo,
    started = now, from = now, from_images = 0, shown = now, shown_images = 0, next_show = now,
  }, progress)
end

function progress:seconds() return core.clock() - self.started end

--- Images per second since the start.
function progress:rate() return self.images / math.max(self:seconds(), 1e-9) end

-- A number as what core.fetch gives.
local function known(x)
  return {ready = function() return true end, value = function() return x end}
end

-- Memory to show: what a GPU's program has taken of the card, else the most this process had.
local function memory_in_use()
  local m = core.memory()
  if m.card_total then return m.live + m.cached + m.captured, " on the GPU" end
  return core.sys.peak_rss(), ""
end

local function plain_line(f)
  return ("step %6d%s  loss %.4f  lr %.5f  %5.0f images/s  left %s"):format(
    f.step, f.steps and "/" .. f.steps or "", f.loss, f.lr, f.rate, duration(f.left))
end

-- Parts of the live line, the least important last; those that do not fit the terminal are left out.
local function live_parts(f)
  return {
    ("%3.0f %%"):format(math.floor(100 * f.position)), ("left %5s"):format(duration(f.left)), ("loss %.3f"):format(f.loss),
    ("%4.0f images/s"):format(f.rate), f.note or "", ("step %4d%s"):format(f.step, f.steps and "/" .. f.steps or ""),
    ("lr %.5f"):format(f.lr), ("%.0f MB%s"):format(f.memory / 1e6, f.where),
  }
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

-- Images per second of the last five to ten seconds, so that a slow start is forgotten.
function progress:recent_rate(now)
  local rate = (self.images - self.from_images) / math.max(now - self.from, 1e-9)
  if now - self.shown >= self.every then
    self.from, self.from_images, self.shown, self.shown_images = self.shown, self.shown_images, now, self.images
  end
  return rate
end

function progress:figures(now, due)
  local over = math.max(self.position, 1e-9)
  local memory, where = memory_in_use()
  return {
    step = due.step, steps = self.steps, loss = due.loss:value(), lr = due.lr, rate = self:recent_rate(now),
    left = (1 - self.position) / over * (now - self.started), position = self.position,
    memory = memory, where = where, note = self.note,
  }
end

--- Counts a step of `images` images; shows it when it is time and its loss has arrived. loss: a number or a scalar tensor,
-- read only then; lr: a number; position: share of the run that is over (that of the steps unless said).
-- out  the loss that was shown, of step meter.shown_step; else nil
function progress:step(images, loss, lr, position)
  self.step_number = self.step_number + 1
  self.images = self.images + images
  self.position = position or self.step_number / self.steps
  core.pace(AHEAD)
  local now = core.clock()
  local ends = self.position >= 1
  if ends or (now >= self.next_show and not self.due) then
    self.due = {step = self.step_number, lr = lr, loss = type(loss) == "number" and known(loss) or core.fetch(loss)}
  end
  if not self.due or not (ends or self.due.loss:ready()) then return nil end
  self.next_show = now + (self.live and REDRAW or self.every)
  local f = self:figures(now, self.due)
  self.shown_step, self.due = self.due.step, nil
  if self.live and not ends then
    core.sys.bar(live_line(self, f))
  else
    run.print(plain_line(f))
  end
  return f.loss
end

--- A function(done) that shows "what: done of all" on a terminal, from the second on in which it was made.
local function counter(what, all)
  local next_show = is_live() and core.clock() + 1 or math.huge
  return function(done)
    if core.clock() < next_show then return end
    next_show = core.clock() + REDRAW
    core.sys.bar(("%s: %d of %d"):format(what, done, all):sub(1, core.sys.columns() - 1))
  end
end

--- A few words for the live line, such as the last accuracy.
function progress:remember(note) self.note = note end

return {new = new, counter = counter, duration = duration}
