-- repl.lua: the prompt's page for `capl repl --help`; the prompt itself is engine/program/prompt/repl.c.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local function main(job)
  core.error{code = "value", message = ("the prompt takes no arguments, got '%s'"):format(job.args[1]),
    hint = "'capl -e CODE' runs a line"}
end

return {main = main, examples = {
  {"capl", "opens the prompt; Ctrl-D exits"},
}}
