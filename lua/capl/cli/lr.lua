-- lr.lua: `capl lr RECIPE`: raises the learning rate from step to step of the recipe's own loop, and suggests one.
--
-- The recipe runs as it is; its losses are seen when a backward pass starts, its learning rates are set before each
-- step.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local lr_find = require "train.lr_find"
local lr_sweeps = require "train.lr_sweeps"
local options = require "cli.options"
local recipe = require "cli.execute"

local spec = {
  {name = "min_lr", type = "number", default = 1e-6, doc = "first learning rate"},
  {name = "max_lr", type = "number", default = 10, doc = "last learning rate"},
  {name = "steps", type = "number", default = 100, doc = "steps per sweep; there are two sweeps"},
  {name = "out", type = "text", value = "FILE", default = "lr.png", doc = "plot of the losses"},
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

-- Sees the losses of a step, of which accumulated batches have several, and sets its learning rates.
local function listen(run, sweeps)
  local seen = {losses = {}, steps = 0}
  run:on("loss", function(opt, loss)
    if not seen.peaks then
      seen.optimizer, seen.peaks = opt, lr_find.peaks_of(opt)
      sweeps:begin(run.model, opt)
    end
    if opt ~= seen.optimizer then return end
    table.insert(seen.losses, loss:item())
    lr_find.set_rates(opt, seen.peaks, sweeps:next_lr())
  end)
  run:on("step", function(opt)
    if #seen.losses == 0 then
      core.error{code = "state", message = "there was a step, but no loss",
        hint = "losses come from opt:backward_step(loss) and opt:backward(loss), not from a captured step (capture " ..
        "= false)"}
    end
    if opt ~= seen.optimizer then return end
    local sum = 0
    for _, loss in ipairs(seen.losses) do sum = sum + loss end
    local mean = sum / #seen.losses
    seen.losses = {}
    seen.steps = seen.steps + 1
    seen.over = sweeps:add(mean)
    if seen.over then core.sys.unwind() end
  end)
  return seen
end

-- One line per optimizer or group whose rate differs from the first one's.
local function advice(run, seen, result)
  local lines = {}
  for i, s in ipairs(lr_find.settings_of(run.settings, seen.optimizer, seen.peaks, result.factor)) do
    lines[i] = ("  %s %.3g (the recipe's: %.3g)"):format(s.key and "--" .. s.key .. " =" or "lr =", s.lr, s.was)
  end
  return lines
end

-- How a recipe's sweeps ended.
local function ending(o, seen, result)
  local full = #result.sweeps == 2
  if full and result.runs_away then return ("from %.3g on the loss ran away"):format(result.runs_away) end
  if full then return "the highest learning rate was reached" end
  if seen.over then return "capl.model is not called, so there is one sweep" end
  return ("the recipe ended before 2 sweeps of %d steps to %.3g: give it more of them, or --steps=%d"):format(o.steps,
    o.max_lr, math.max(20, math.floor(seen.steps / 2)))
end

local function print_result(run, o, seen, result)
  local out = core.sys.out
  out(("%s: %d steps, lr from %.3g to %.3g; %s\n"):format(run.recipe, seen.steps, result.lr[1] or o.min_lr,
    result.lr[#result.lr] or o.min_lr, ending(o, seen, result)))
  out((result.suggestion and "suggested: " or "") .. lr_sweeps.words(result, true) .. "\n")
  if result.suggestion then out(table.concat(advice(run, seen, result), "\n") .. "\n") end
  out("picture: " .. o.out .. "\n")
end

local function look(job, o, rest)
  local run = job.run
  local sweeps = lr_sweeps.new{min_lr = o.min_lr, max_lr = o.max_lr, steps = o.steps}
  local seen = listen(run, sweeps)
  run:on("fit", function(fit) -- a short run has too few
    if fit.steps then fit.steps = math.max(fit.steps, 2 * o.steps) end
  end)
  core.sys.mute(true)
  core.can_capture = function() return false end -- in a captured step no loss is seen
  recipe.execute(job, {mode = "bench", args = rest, quiet = true})
  core.sys.mute(false)
  if seen.steps < 12 then
    core.error{code = "state", message = ("%s ended after %d steps; %d are wanted"):format(job.recipe, seen.steps,
      2 * o.steps), hint = "a step ends with opt:step() or opt:backward_step(loss); is its loss finite from the " ..
      "first step on?"}
  end
  return seen, sweeps:result(seen.peaks[1][1])
end

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "lr", rest = true})
  if words[1] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[1])} end
  local run = job.run
  local seen, result = look(job, o, rest)
  run.mode = "none" -- pictures are drawn
  lr_sweeps.draw(o.out, result, run:name() .. ": learning rates")
  if o.json then core.sys.out(core.json_encode(result, true) .. "\n") return 0 end
  print_result(run, o, seen, result)
  return result.suggestion and 0 or 1
end

return {main = main, options = spec, examples = {
  {"capl lr mine.lua --steps=200", "writes lr.png and suggests a learning rate"},
}}
