-- screen.lua: tables for a terminal: columns as wide as what is in them, nothing that could move the cursor.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local width = require("repl.term").width

local screen = {}

--- Text without the bytes that a terminal would obey, or that are no UTF-8.
function screen.clean(text) return (core.utf8(tostring(text)):gsub("[%c\127]", "?"):gsub("\194[\128-\159]", "?")) end

--- Lines of a table.
-- in   rows: lists of texts (nil = nothing known, shown as -); right = {[column] = true} for numbers; indent
function screen.lines(rows, columns, right, indent)
  local widths, out = {}, {}
  for i = 1, columns do
    widths[i] = 0
    for _, row in ipairs(rows) do
      row[i] = screen.clean(row[i] == nil and "-" or row[i])
      widths[i] = math.max(widths[i], width(row[i]))
    end
  end
  for k, row in ipairs(rows) do
    local cells = {}
    for i = 1, columns do
      local room = (" "):rep(widths[i] - width(row[i]))
      cells[i] = right and right[i] and room .. row[i] or row[i] .. room
    end
    out[k] = (indent or "") .. table.concat(cells, "  "):gsub("%s+$", "")
  end
  return out
end

return screen
