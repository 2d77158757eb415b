-- environment.lua: what the environment says of runs and of the terminal: read once, when a command or the prompt
-- begins. The library itself asks no environment.
-- SPDX-License-Identifier: Apache-2.0
local core = ...


local environment = {}

local function variable(name)
  local value = core.sys.getenv(name)
  return value ~= "" and value or nil
end

-- Whether standard output is a terminal that takes a line back.
local function takes_a_line_back()
  local term = variable("TERM")
  return core.sys.isatty(1) and term ~= nil and term ~= "dumb" and not variable("NO_COLOR")
end

local function has_utf8()
  local locale = variable("LC_ALL") or variable("LC_CTYPE") or variable("LANG") or ""
  return locale:lower():match("utf%-?8") ~= nil
end

-- CAPL_RESTART of engine/program/launch/restart.h -> {number, of, status, ranks = those it was begun with, folder}; nil
-- without.
local function restart()
  local number, of, status, ranks, folder = (variable("CAPL_RESTART") or ""):match("^(%d+) (%d+) (%d+) (%d+) (.*)$")
  return number and {number = tonumber(number), of = tonumber(of), status = tonumber(status), ranks = tonumber(ranks),
    folder = folder ~= "" and folder or nil}
end

--- Gives a run and the output what is theirs.
function environment.read(run)
  run.console.live, run.console.utf8 = takes_a_line_back(), has_utf8()
  run.given_folder = variable("CAPL_RUN_FOLDER") -- of a trial: the sweep that runs it has chosen the place
  run.temporary = variable("CAPL_TEMPORARY")
  run.restart = restart() -- --restart=N: this start follows the loss of a rank
  run.is_trial = variable("CAPL_SWEEP") ~= nil -- of a sweep, which chooses by the val images
  run.is_test = variable("CAPL_TEST") ~= nil -- of `capl test`, which names the files that a claim is about
end

return environment
