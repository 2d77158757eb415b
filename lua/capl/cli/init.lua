-- cli: finds the module of a command and runs it; every command is lua/capl/cli/NAME.lua.
--
-- A command's module has options (see options.lua; nil when its words go elsewhere) and main(job) -> exit status; and
-- options_of(job), where they depend on its words.
-- job: command, usage, help, recipe, args = the words behind the command, verbose, minutes, read.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local options = require "cli.options"

local cli = {}

local function wants_help(args)
  for _, word in ipairs(args) do
    if word == "--help" or word == "-h" then return true end
  end
  return false
end

--- Runs the job; returns the exit status.
function cli.main(job)
  local command = require("cli." .. job.command:gsub("-", "_"))
  if not job.recipe and job.command ~= "eval-code" and wants_help(job.args) then
    core.sys.out(options.help(job, command.options_of and command.options_of(job) or command.options or {}))
    return 0
  end
  return command.main(job) or 0
end

return cli
