-- shell.lua: commands as a person can paste them into a shell, whatever the names of files are.
-- SPDX-License-Identifier: Apache-2.0

local shell = {}

--- A word as a shell takes it.
function shell.word(word)
  if word:match("^[%w_@%%+=:,./-]+$") then return word end
  if not word:find("%c") then return "'" .. word:gsub("'", "'\\''") .. "'" end
  return "$'" .. word:gsub("[%c'\\]", function(c) return ("\\x%02x"):format(c:byte()) end) .. "'"
end

--- A command of these words.
function shell.command(words)
  local out = {}
  for i, word in ipairs(words) do out[i] = shell.word(word) end
  return table.concat(out, " ")
end

return shell
