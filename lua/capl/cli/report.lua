-- report.lua: `capl report RUN`: the page of a run or a sweep, also of one that was killed or is still running.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local html = require "report.html"
local options = require "cli.options"
local report = require "report"

local spec = {
  {name = "out", type = "text", value = "FILE", doc = "output file (report.html in the run folder)"},
}

local function main(job)
  local o, words = options.read(job.args, spec, {command = "report"})
  if not words[1] or words[2] then
    core.error{code = "value", message = "capl report takes the folder of one run or sweep; usage: " .. job.usage}
  end
  local path, bytes = report.write(words[1], o.out)
  core.sys.out(("%s (%s)\n"):format(path, html.bytes(bytes)))
end

return {main = main, options = spec, examples = {
  {"capl report runs/mine", "rewrites runs/mine/report.html"},
}}
