-- man.lua: `capl man`: the manual page capl(1); with --markdown the page docs/commands.md.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local manual = require "cli.manual"
local options = require "cli.options"

local spec = {{name = "markdown", type = "flag", default = false, doc = "prints Markdown"}}

local function main(job)
  local o, words = options.read(job.args, spec, {command = "man"})
  if words[1] then
    core.error{code = "value", message = ("capl man takes no arguments, got '%s'"):format(words[1]),
      hint = "'capl help " .. words[1] .. "'"}
  end
  core.sys.out(o.markdown and manual.markdown() or manual.roff())
end

return {main = main, options = spec, examples = {{"capl man | man -l -", "shows the manual without an installation"}}}
