-- check.lua: `capl check RECIPE`: the recipe's first step on device meta, where tensors have shapes but no numbers.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check_files = require "cli.check_files"
local hooks = require "hooks"
local recipe = require "cli.recipe"
local run = require "run"

--- 24576 -> "24.0 KiB"
local function bytes(n)
  local units = {"B", "KiB", "MiB", "GiB"}
  local i = 1
  while n >= 1024 and i < #units do n, i = n / 1024, i + 1 end
  return i == 1 and ("%d B"):format(n) or ("%.1f %s"):format(n, units[i])
end

local function print_summary()
  local out = core.sys.out
  if hooks.model and run.image_shape then
    out(tostring(require("nn.summary")(hooks.model, run.image_shape)) .. "\n")
  elseif not hooks.model then
    out("no layers to show: the recipe does not call capl.model\n")
  end
  out(("first step: peak %s of tensors%s\n"):format(bytes(core.memory("meta").peak),
    run.image_shape and ", batch " .. run.image_shape[1] or ""))
end

local function main(job)
  core.device("meta")
  run.on("step", function() core.sys.unwind() end)
  local ended = recipe.execute(job, {mode = "check", args = job.args, quiet = true})
  if ended then
    core.error{code = "state", message = job.recipe .. " ended without a training step, so there is nothing to check",
      hint = "a step ends with opt:step() or opt:backward_step(loss)"}
  end
  print_summary()
  for _, line in ipairs(check_files(run.loaders)) do core.sys.out(line .. "\n") end
  core.sys.out(job.recipe .. ": ok\n")
end

return {main = main}
