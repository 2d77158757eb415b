-- generate_scenes.lua: `capl generate` for what is no text: slider captchas, faces, the series of fine dust.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local data = require "data"
local pm25 = require "data.pm25"

local scenes = {}

--- What each preset of pictures draws.
local sources = {
  slider = function(o) return data.slider{seed = o.seed, width = o.width, height = o.height, style = o.style} end,
  faces = function(o) return data.faces{seed = o.seed, size = o.width, style = o.style} end,
}

--- Writes pictures; -> words for the report and how many
local function save(o)
  local source = sources[o.preset](o)
  data.save_scenes{source = source, dir = o.out, count = o.n, workers = o.workers, format = o.format}
  return ("%d pictures (%s, %dx%d px, seed %d) in %s"):format(o.n, o.preset, source:width(), source:height(), o.seed,
    o.out), o.n
end

local makers = {slider = save}

function makers.faces(o)
  if o.width and o.height and o.width ~= o.height then
    core.error{code = "value", message = ("faces are as wide as high, not %dx%d"):format(o.width, o.height)}
  end
  o.width = o.width or o.height
  return save(o)
end

--- A CSV file, which --out names.
function makers.pm25(o)
  local days = o.days or 3653
  local written, why = core.sys.write(o.out, pm25.text(data.pm25{seed = o.seed, days = days}))
  if not written then core.error{code = "io", message = why} end
  return ("%d days (pm25, seed %d) in %s"):format(days, o.seed, o.out), days
end

-- The options each preset has beside --out, --seed, --n and --workers.
local takes = {
  slider = {width = true, height = true, style = true}, faces = {width = true, height = true, style = true},
  pm25 = {days = true},
}

--- Raises for options that only other presets have.
local function check_options(o)
  local database = o.format == "lmdb" and o.preset ~= "pm25"
  if o.format and o.format ~= "png" and not database then
    core.error{code = "value", message = ("the preset %s has no --format=%s"):format(o.preset, o.format)}
  end
  local all = {"charset", "length", "font", "width", "height", "days"}
  for _, option in ipairs(data.style_options()) do all[#all + 1] = option.name end
  for _, key in ipairs(all) do
    if o[key] ~= nil and not takes[o.preset][key] then
      core.error{code = "value", message = ("the preset %s has no --%s"):format(o.preset, key)}
    end
  end
end

local names = {"slider", "faces", "pm25"}

--- Raises for a preset that neither texts nor these have.
local function check_preset(preset)
  local all = data.presets()
  for _, name in ipairs(names) do all[#all + 1] = name end
  for _, name in ipairs(all) do
    if name == preset then return end
  end
  local near = core.nearest(preset, all)
  core.error{code = "value", message = ("no preset %s%s"):format(preset, near and "; did you mean " .. near .. "?"
    or ""), hint = "there are: " .. table.concat(all, ", ")}
end

--- Whether the preset is one of these; then it was written.
function scenes.run(o)
  check_preset(o.preset)
  local make = makers[o.preset]
  if not make then
    if o.days then core.error{code = "value", message = ("the preset %s has no --days"):format(o.preset)} end
    return false
  end
  check_options(o)
  local started = core.clock()
  local what, n = make(o)
  core.sys.out(("%s, %.0f per second\n"):format(what, n / (core.clock() - started)))
  return true
end

return scenes
