-- lr.lua: `capl lr RECIPE`: raises the learning rate from step to step of the recipe's own loop, and suggests one.
--
-- The recipe runs as it is; its losses are seen when a backward pass starts, its rates set before each step.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local hooks = require "hooks"
local json = require "run.json"
local lr_find = require "train.lr_find"
local lr_range = require "train.lr_range"
local options = require "cli.options"
local recipe = require "cli.execute"
local run = require "run"
local snapshot = require "train.snapshot"

local spec = {
  {name = "min_lr", type = "number", default = 1e-6, doc = "the first rate"},
  {name = "max_lr", type = "number", default = 10, doc = "the last one"},
  {name = "steps", type = "number", default = 100, doc = "steps from one to the other"},
  {name = "out", type = "text", value = "FILE", default = "lr.png", doc = "picture of the losses"},
  {name = "json", type = "flag", default = false, doc = "one JSON object instead of lines"},
}

-- Sees the losses of a step, of which accumulated batches have several, and sets its rates.
local function listen(range)
  local seen = {losses = {}}
  table.insert(hooks.on_loss, function(opt, loss)
    if not seen.peaks then seen.optimizer, seen.peaks = opt, lr_find.peaks_of(opt) end
    if opt ~= seen.optimizer then return end
    table.insert(seen.losses, loss:item())
    lr_find.set_rates(opt, seen.peaks, range:next_lr())
  end)
  run.on("step", function(opt)
    if #seen.losses == 0 then
      core.error{code = "state", message = "a step was made, but no loss was seen",
        hint = "losses are seen by opt:backward_step(loss) and opt:backward(loss), and not in a captured step (capture = false)"}
    end
    if opt ~= seen.optimizer then return end
    local sum = 0
    for _, loss in ipairs(seen.losses) do sum = sum + loss end
    local mean = sum / #seen.losses
    seen.losses = {}
    if range:add(mean) then core.sys.unwind() end
  end)
  return seen
end

-- "--lr=0.012": the setting that holds the rate, if one can be told by its value.
local function setting_of(value)
  for _, s in ipairs(run.settings) do
    if type(s.value) == "number" and s.value == value and s.key:find("lr") then return s.key end
  end
end

-- One line per optimiser or group whose rate differs from the first one's.
local function advice(seen, result)
  local lines, told = {}, {}
  for i in ipairs(snapshot.members(seen.optimizer)) do
    for _, peak in ipairs(seen.peaks[i]) do
      local key = setting_of(peak)
      local line = ("  %s %.3g (the recipe's: %.3g)"):format(key and "--" .. key .. " =" or "lr =", peak * result.factor, peak)
      if not told[line] then lines[#lines + 1] = line end
      told[line] = true
    end
  end
  return lines
end

local function print_result(o, seen, result)
  local out = core.sys.out
  local ended = result.stopped == "diverged" and "the loss ran away"
    or result.stopped == "max_lr" and "the highest rate was reached"
    or ("the recipe ended before the %d steps to %.3g: give it more of them, or --steps=%d"):format(o.steps, o.max_lr, #result.lr)
  out(("%s: %d steps, lr from %.3g to %.3g; %s\n"):format(run.recipe, #result.lr, result.lr[1] or o.min_lr,
    result.lr[#result.lr] or o.min_lr, ended))
  out("suggested: " .. lr_range.words(result) .. "\n")
  if result.suggestion then out(table.concat(advice(seen, result), "\n") .. "\n") end
  out("picture: " .. o.out .. "\n")
end

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "lr", rest = true})
  if words[1] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[1])} end
  local range = lr_range.new{min_lr = o.min_lr, max_lr = o.max_lr, steps = o.steps}
  local seen = listen(range)
  table.insert(hooks.on_fit, function(fit) if fit.steps then fit.steps = math.max(fit.steps, o.steps) end end) -- a short run has too few
  core.sys.mute(true)
  core.can_capture = function() return false end -- in a captured step no loss is seen
  recipe.execute(job, {mode = "bench", args = rest, quiet = true})
  core.sys.mute(false)
  if #range.lr < 12 then
    core.error{code = "state", message = ("%s ended after %d steps; %d are wanted"):format(job.recipe, #range.lr, o.steps),
      hint = "a step ends with opt:step() or opt:backward_step(loss); is its loss finite from the first step on?"}
  end
  local result = range:result()
  result.peak = seen.peaks[1][1]
  result.factor = result.suggestion and result.suggestion / result.peak
  run.mode = "none" -- pictures are drawn
  lr_range.draw(o.out, result, run.name() .. ": learning rates")
  if o.json then core.sys.out(json.encode(result, true) .. "\n") return 0 end
  print_result(o, seen, result)
  return result.suggestion and 0 or 1
end

return {main = main, options = spec, examples = {
  {"capl lr mine.lua --steps=200", "writes lr.png and says which rate to write"},
}}
