-- run.lua: `capl RECIPE [--key=value…]`.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local recipe = require "cli.recipe"
local run = require "run"

local function without_help(args)
  local words, help = {}, false
  for _, word in ipairs(args) do
    if word == "--help" or word == "-h" then help = true else words[#words + 1] = word end
  end
  return words, help
end

local function main(job)
  local words, help = without_help(job.args)
  local ended = recipe.execute(job, {mode = "run", args = words, help = help})
  if help then
    if ended then core.sys.out(job.recipe .. " has no capl.params, and so no settings\n") end
    return 0
  end
  run.finish()
  return 0
end

return {main = main}
