-- cli: finds the module of a command and runs it; every command is a row in engine/program/commands.c and a file
-- lua/capl/cli/NAME.lua.
--
-- A command's module has main(job) -> exit status, and what its page is made of (page.lua): options (see options.lua;
-- nil when its words go elsewhere), examples = {{"capl NAME …", "what it does"}, …}.
-- job: command, usage, help, recipe, args = the words behind the command, verbose, minutes, read, run = the run that a
-- recipe will be.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local environment = require "cli.environment"
local page = require "cli.page"

local cli = {}

local function wants_help(job)
  for _, word in ipairs(job.args) do
    if word == "--" then return false end
    if word == "--help" or word == "-h" then return true end
  end
  return false
end

--- Runs the job; returns the exit status.
function cli.main(job)
  local command = require("cli." .. job.command:gsub("-", "_"))
  local has_settings = job.recipe and job.command == "run" -- whose own page it is then
  if not has_settings and job.command ~= "help" and wants_help(job) then
    core.sys.out(page.text(page.of(job.command)))
    return 0
  end
  job.run = Run.of(observer) -- to which a recipe's optimizers and loaders report
  environment.read(job.run)
  return command.main(job) or 0
end

return cli
