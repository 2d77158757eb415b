-- decoding.lua: the options of predict, eval and verify: on what a model runs, and how texts are read from what it
-- says.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local devices = require "devices"

local decoding = {}

local BEAM = 16

decoding.device = {name = "device", type = "text", value = "DEVICE", open = true, choices = devices.choices(),
  default = "cpu", doc = "cpu, cuda, cuda:1 or auto: a GPU if one works"}

decoding.precision = {name = "precision", type = "text", value = "TYPE", open = true,
  choices = {"auto", "fp32", "bf16"}, default = "auto", doc = "auto, fp32 or bf16"}

--- For a command's list of options.
decoding.options = {
  {name = "decode", type = "text", value = "WAY", open = true, choices = {"greedy", "beam"},
    doc = "CTC models: greedy, or beam: the most probable text instead of the most probable path (greedy)"},
  {name = "beam", type = "number", from = 1, to = 4096,
    doc = ("beam width; implies --decode=beam (%d)"):format(BEAM)},
  {name = "chars", type = "text", value = "CHARS", doc = "only these characters of the charset, such as 0-9"},
  {name = "length", type = "text", value = "N..M", doc = "CTC models: length of the text, 4 or 4-6"},
}

-- "4" or "4-6" -> 4, 6
local function lengths(text)
  if not text then return 0, 0 end
  local least, most = text:match("^(%d+)%-(%d+)$")
  if not least then least, most = text:match("^(%d+)%.%.(%d+)$") end
  least, most = tonumber(least or text:match("^%d+$")), tonumber(most or text:match("^%d+$"))
  if not least or least < 1 or most < least then
    core.fail(("--length is a number of characters or two, 4 or 4-6, not '%s'"):format(text))
  end
  return least, most
end

local function beam_of(o)
  if o.decode and o.decode ~= "greedy" and o.decode ~= "beam" then
    core.fail(("--decode is greedy or beam, not '%s'"):format(o.decode))
  end
  if o.decode == "greedy" and o.beam then core.fail("--beam is for --decode=beam, and --decode=greedy was given") end
  if o.decode == "beam" or o.beam then return o.beam or BEAM end
  return 0
end

--- Sets the decoding of an open model.
-- errs value: no such decoding or length, characters that the model does not read, a beam without CTC
function decoding.set(model, o)
  local least, most = lengths(o.length)
  local beam = beam_of(o)
  if beam == 0 and not o.chars and least == 0 then return end
  model:decoding{beam = beam, characters = o.chars, length_min = least, length_max = most}
end

--- spec with these options behind its own.
function decoding.add_to(spec)
  for _, option in ipairs(decoding.options) do spec[#spec + 1] = option end
  return spec
end

return decoding
