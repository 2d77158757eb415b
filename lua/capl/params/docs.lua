-- docs.lua: reads from a recipe's text what its settings mean and in which order they stand.
--
-- The comment behind a setting is its documentation:   batch = 64, -- images per step
-- SPDX-License-Identifier: Apache-2.0
local docs = {}

--- The leading comment block without its header lines.
function docs.page(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do
    if not line:match("^%s*%-%-") and not line:match("^#!") then break end
    if not line:match("^%-%-%- %l+:") and not line:match("^#!") and not line:match("SPDX") then
      lines[#lines + 1] = line:gsub("^%s*%-%-%-? ?", "")
    end
  end
  return table.concat(lines, "\n")
end

--- The text between the braces of the first capl.params call.
local function body(text)
  return text and text:match("capl%.params%s*(%b{})") or ""
end

--- {key = comment behind it}
function docs.settings(text)
  local out = {}
  for line in body(text):gmatch("[^\n]+") do
    local key, comment = line:match("^[%s{]*([%a_][%w_]*)%s*=.-%-%-%s*(.-)%s*$")
    if key and not out[key] then out[key] = comment end
  end
  return out
end

--- keys sorted as they stand in the recipe; those not found there last, by name.
function docs.in_order(keys, text)
  local inside, place = body(text), {}
  for _, key in ipairs(keys) do
    place[key] = (inside:find("%f[%w_]" .. key .. "%s*=")) or math.huge
  end
  table.sort(keys, function(a, b)
    if place[a] ~= place[b] then return place[a] < place[b] end
    return a < b
  end)
  return keys
end

return docs
