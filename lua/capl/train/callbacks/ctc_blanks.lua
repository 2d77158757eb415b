-- ctc_blanks.lua: while a CTC model predicts only blanks: how long that is usual, when it is over, and what to do if
-- not.
--
-- Blank is right at most time steps, so it is learned first; until steps begin to differ, all of them say it.
-- SPDX-License-Identifier: Apache-2.0

local ALL = 0.999 -- share of blank time steps from which on nothing is read
local USUAL = 600 -- steps after which characters have come in nearly every run that learns
local LONG = 3 -- times that is a warning

local Blank = {}
Blank.__index = Blank

local function new(fit) return fit.o.val and setmetatable({fit = fit, stage = 0}, Blank) or nil end

-- Each is said once in a phase.
local function report_all(self, step)
  local run = self.fit.run
  local stage = step < USUAL and 1 or step < LONG * USUAL and 2 or 3
  if self.stage == stage then return end
  self.stage = stage
  if stage < 3 then
    run:print(("all blank so far: normal until about step %d, because blank is correct at most time steps and is " ..
      "learned first"):format(
      stage == 1 and USUAL or LONG * USUAL))
  else
    run:print(("warning: all blank after %d steps, longer than usual: another learning rate (capl lr RECIPE), " ..
      "clip_norm = 1, " ..
      "batch norm, fewer time steps or easier images first may help; capl doctor searches the cause"):format(step))
  end
end

function Blank:evaluated(e)
  local blanks = e.metrics and e.metrics.blanks
  if not blanks then return end
  if blanks >= ALL then return report_all(self, e.step) end
  if self.stage > 0 then
    self.fit.run:print(("no longer all blank at step %d: %.1f %% of the time steps are"):format(e.step, 100 * blanks))
  end
  self.stage = 0
end

function Blank:state() return {stage = self.stage} end
function Blank:set_state(state) self.stage = state.stage end
function Blank.state_shape() return {stage = "count"} end

return {name = "blank", new = new}
