-- time.lua: where the time of the run goes, in each line of its metrics and at its end.
-- SPDX-License-Identifier: Apache-2.0
local timing = require "train.timing"

local LEAST = 0.05 -- seconds of a split

local Time = {}
Time.__index = Time

local function new(fit)
  local run = fit.run
  if run.mode == "check" or run.mode == "bench" then return nil end
  return setmetatable({fit = fit, timing = timing.new(run, fit.o.train)}, Time)
end

function Time:begin() self.timing:open() end
function Time:before_step() self.timing:step_begins() end
function Time:after_step(loss) self.timing:step_ended(loss) end
-- Points that follow each other quickly share one split: it belongs to the last of them.
function Time:point(at)
  if self.timing:elapsed() >= LEAST then at.time = self.timing:take() end
end

function Time:before_evaluation() self.timing:evaluation_begins() end
function Time:after_evaluation() self.timing:evaluation_ended() end

local words = {load = "waiting for data", augment = "waiting for augmentation", step = "steps", other = "other"}

-- "time: 12.3 s: forward 31 %, backward 50 %, …"
local function line(totals)
  local sum, parts = 0, {}
  for _, part in ipairs(totals) do sum = sum + part[2] end
  for _, part in ipairs(totals) do
    if part[2] / sum >= 0.0005 then
      parts[#parts + 1] = ("%s %.1f %%"):format(words[part[1]] or part[1], 100 * part[2] / sum)
    end
  end
  return ("time: %.1f s: %s"):format(sum, table.concat(parts, ", "))
end

function Time:finish(result)
  local run = self.fit.run
  local totals = self.timing:totals()
  result.time = {}
  for _, part in ipairs(totals) do result.time[part[1]] = part[2] end
  if run.mode == "run" and #totals > 0 then run:print(line(totals)) end
end

Time.stopped = Time.finish
function Time:close() self.timing:close() end
function Time:state() return self.timing:state() end
function Time:set_state(state) self.timing:set_state(state) end
function Time.state_shape() return {total = {["*"] = "number"}} end

return {name = "time", new = new, line = line}
