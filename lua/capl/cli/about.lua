-- about.lua: what a recipe says of itself in the comments on top: its purpose, and parts such as "expected  96 % …".
-- SPDX-License-Identifier: Apache-2.0
local docs = require "params.docs"

local about = {}

--- What a recipe's text says: {purpose = its first sentences, parts = {{name, text}}, needs = "minutes=30 …" or nil,
-- page = all lines}.
function about.of(text)
  local page = docs.page(text)
  local purpose, parts, current = {}, {}, nil
  for line in (page .. "\n"):gmatch("(.-)\n") do
    local name, rest = line:match("^(%l[%l ]-)%s%s+(%S.*)$")
    if name and #name <= 9 then
      current = {name = name, text = rest}
      parts[#parts + 1] = current
    elseif current and line:match("^%s%s+%S") then
      current.text = current.text .. " " .. line:match("^%s*(.-)%s*$")
    elseif line:match("%S") and not current then
      purpose[#purpose + 1] = line:match("^%s*(.-)%s*$")
    end
  end
  return {purpose = table.concat(purpose, " "), parts = parts, page = page,
    needs = text:match("\n?%-%-%- needs:%s*([^\n]-)%s*\n")}
end

--- The text of a part; nil when there is none.
function about.part(of, name)
  for _, part in ipairs(of.parts) do
    if part.name == name then return part.text end
  end
end

return about
