-- version.lua: `capl --version` and `capl version`: which program this is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local options = require "cli.options"

local spec = {{name = "json", type = "flag", default = false, doc = "prints one JSON object"}}

local function all()
  local built = core.sys.built()
  local cpu = core.device_info("cpu")
  local libraries = {built.luajit, unpack(built.libraries)}
  if cpu and cpu.description then table.insert(libraries, 1, (cpu.description:match("^[^,]+"))) end
  return {version = core.version(), recipe_version = built.recipe_version, compiler = built.compiler,
    build = built.type, libraries = libraries}
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "version"})
  if words[1] then
    core.error{code = "value", message = "capl version takes no arguments, got '" .. words[1] .. "' is one"}
  end
  if o.json then return core.sys.out(core.json_encode(all()) .. "\n") end
  core.sys.out(("capl %s\n"):format(core.version()))
end

return {main = main, options = spec, examples = {{"capl version --json", "prints also compiler and libraries"}}}
