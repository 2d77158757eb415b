-- generate.lua: `capl generate --out=DIR`: captcha images as PNG files named TEXT_INDEX.png.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"
local options = require "cli.options"

local spec = {
  {name = "out", type = "text", required = true, doc = "folder for the images; made when it is missing"},
  {name = "preset", type = "text", default = "lepture", doc = "style of the images"},
  {name = "n", type = "number", default = 1000, doc = "images"},
  {name = "seed", type = "number", default = 1, doc = "the same seed gives the same images"},
  {name = "charset", type = "text", default = "0-9A-Z", doc = "characters, ranges allowed"},
  {name = "length", type = "number", default = 4, doc = "characters per image"},
  {name = "workers", type = "number", default = core.sys.cpus(), doc = "threads"},
}

local function main(job)
  local o, words = options.read(job.args, spec, {command = "generate"})
  if words[1] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[1])} end
  local started = core.clock()
  data.save_captchas{
    dir = o.out, count = o.n, seed = o.seed, preset = o.preset, charset = o.charset, length = o.length, workers = o.workers,
  }
  local seconds = core.clock() - started
  core.sys.out(("%d images (%s, seed %d) in %s, %.0f per second\n"):format(
    o.n, o.preset, o.seed, o.out, o.n / seconds))
end

return {main = main, options = spec}
