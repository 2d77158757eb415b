-- run.lua: `capl RECIPE [--key=value…]`.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local options = require "cli.options"
local output = require "run.output"
local recipe = require "cli.recipe"
local run = require "run"

local function without_help(args)
  local words, help = {}, false
  for _, word in ipairs(args) do
    if word == "--help" or word == "-h" then help = true else words[#words + 1] = word end
  end
  return words, help
end

-- How the run speaks is known before the recipe says its first word; capl.params reads these settings again.
local function choose_output(words)
  for _, word in ipairs(words) do
    local key, value = options.split(word)
    if (key == "json" or key == "quiet") and (value == true or value == "true") then output.set(key) end
  end
end

local function main(job)
  local words, help = without_help(job.args)
  if not help then choose_output(words) end
  local ended = recipe.execute(job, {mode = "run", args = words, help = help})
  if help then
    if ended then core.sys.out(job.recipe .. " has no capl.params, and so no settings\n") end
    return 0
  end
  run.finish()
  return 0
end

return {main = main}
