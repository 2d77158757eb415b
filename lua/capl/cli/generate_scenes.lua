-- generate_scenes.lua: `capl generate` for what is no text: slider captchas, faces, the series of fine dust.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"
local pm25 = require "data.pm25"

local scenes = {}

--- What each preset writes. o: the command's options; -> words for the report
local makers = {}

local function save(o, source, size)
  data.save_scenes{source = source, dir = o.out, count = o.n, workers = o.workers}
  return ("%d pictures (%s, %s px, seed %d) in %s"):format(o.n, o.preset, size, o.seed, o.out), o.n
end

local function size_of(source) return ("%dx%d"):format(source:width(), source:height()) end

function makers.slider(o)
  local source = data.slider{seed = o.seed, width = o.width, height = o.height}
  return save(o, source, size_of(source))
end

function makers.faces(o)
  if o.width and o.height and o.width ~= o.height then
    core.error{code = "value", message = ("faces are as wide as high, not %dx%d"):format(o.width, o.height)}
  end
  local source = data.faces{seed = o.seed, size = o.width or o.height}
  return save(o, source, size_of(source))
end

--- A CSV file, which --out names.
function makers.pm25(o)
  local days = o.days or 3653
  local written, why = core.sys.write(o.out, pm25.text(data.pm25{seed = o.seed, days = days}))
  if not written then core.error{code = "io", message = why} end
  return ("%d days (pm25, seed %d) in %s"):format(days, o.seed, o.out), days
end

local text_options = {"charset", "length", "font"}

--- Whether the preset is one of these; then it was written.
function scenes.run(o)
  local make = makers[o.preset]
  if not make then return false end
  for _, key in ipairs(text_options) do
    if o[key] ~= nil then
      core.error{code = "value", message = ("--%s is for texts; the preset %s has none"):format(key, o.preset)}
    end
  end
  local started = core.clock()
  local what, n = make(o)
  core.sys.out(("%s, %.0f per second\n"):format(what, n / (core.clock() - started)))
  return true
end

return scenes
