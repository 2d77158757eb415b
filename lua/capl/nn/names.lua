-- names.lua: parameters of a model by their names: "head.weight", "head", "features.*.bias".
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local names = {}

-- A name with * as a Lua pattern; everything else means itself.
local function pattern_of(text)
  return "^" .. text:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*") .. "$"
end

-- Whether a name is the text, below it as a module, or fits its *.
local function fits(name, text)
  return name == text or name:sub(1, #text + 1) == text .. "."
    or (text:find("*", 1, true) and name:match(pattern_of(text)) ~= nil)
end

-- Every name that the text may have meant: parameters and the modules above them.
local function known(model)
  local out, seen = {}, {}
  for name in model:named_parameters() do
    while name and not seen[name] do
      seen[name] = true
      out[#out + 1] = name
      name = name:match("^(.*)%.[^.]*$")
    end
  end
  table.sort(out)
  return out
end

--- The parameters that a name means: of a parameter, of a module with all below it, or a pattern in which * stands for
-- anything; a list of such means all of theirs.
-- out  {name = parameter}
-- errs value: a name that nothing has, with the nearest one
function names.matching(op, model, what)
  local out = {}
  for _, text in ipairs(type(what) == "table" and what or {what}) do
    if type(text) ~= "string" then check.fail(op, ("names of parameters are texts, got a %s"):format(type(text))) end
    local found = false
    for name, parameter in model:named_parameters() do
      if fits(name, text) then out[name], found = parameter, true end
    end
    if not found then check.unknown(op, "parameter", text, known(model)) end
  end
  return out
end

return names
