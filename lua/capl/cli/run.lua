-- run.lua: `capl RECIPE [--key=value…]`.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local attach = require "run.attach"
local ending = require "report.ending"
local expect = require "recipe.expect"
local machine = require "train.machine"
local options = require "cli.options"
local ranks = require "run.ranks"
local output = require "output"
local recipe = require "cli.execute"

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

-- What `capl attach` gives a client.
local function prompt()
  return {repl = require "repl", strict = require "repl.strict", frames = require "repl.frames",
    scope = require "repl.scope", term = require "repl.term"}
end

-- The run and its last lines, or what it leaves when it did not come that far.
local function whole_run(job, words)
  choose_output(words)
  local run = job.run
  machine.listen(run)
  ranks.listen(run)
  attach.listen(run, prompt, core.sys.getenv("PWD"))
  attach.describe(run, job.recipe)
  expect.listen(run)
  ending.listen(run)
  local how, err = core.sys.protect(function()
    recipe.execute(job, {mode = "run", args = words})
    run:finish()
  end)
  attach.close(how == "done" and "the run has ended" or how == "error" and "an error has ended the run"
    or "the run was stopped")
  if how == "error" then ending.failed(run, err) error(err, 0) end
  if how == "stopped" then ending.stopped(run) core.sys.stop() end
end

local function main(job)
  local words, help = without_help(job.args)
  if not help and job.plan_reason then return require("cli.plan").main(job, words, job.plan_reason) end
  if not help then return whole_run(job, words) end
  local ended = recipe.execute(job, {mode = "run", args = words, help = true})
  if ended then core.sys.out(job.recipe .. " has no capl.params, and so no settings\n") end
end

return {main = main, examples = {
  {"capl captcha --max_time=1m", "trains captcha.lua for one minute"},
  {"capl mine.lua --resume --max_time 10m", "resumes the last run of mine.lua"},
  {"capl mine.lua --ranks=gpus", "starts one process per GPU of this machine"},
}}
