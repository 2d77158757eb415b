-- eval_code.lua: `capl -e CODE`: one line of Lua in the environment of recipes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local function main(job)
  local code = job.args[1]
  if job.args[2] then
    core.error{code = "value", message = "-e takes one argument with Lua; '" .. job.args[2] .. "' is a second one",
      hint = "put the code into quotes"}
  end
  core.sys.guard(core.sys.load(code, "=-e"))
end

return {main = main, examples = {
  {"capl -e 'print(capl.randn({2, 3}))'", "prints a random 2x3 tensor"},
}}
