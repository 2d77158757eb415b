-- pairs.lua: the pairs, next and table.foreach of recipes and of this library, which never leave out a key.
--
-- LuaJIT has a loop of its own for pairs and next (ITERN: it walks by the place in the table, not by the key), and its
-- compiler goes wrong on it: when such a loop is given up for compiling while it runs, or calls itself, it may end early
-- or before its first key, without an error. Debian 12's LuaJIT (2.1.0~beta3) loses keys in any loop within a loop that
-- ran some ten thousand times and in deep recursion; later ones still lose some, if rarely. A loop over a function that
-- is not LuaJIT's own next is an ordinary loop from its first run on, which all versions compile as they should; hence
-- these functions. A key costs about 15 ns more in compiled and in interpreted code. Loops over ipairs and numbers are
-- what they were.
-- SPDX-License-Identifier: Apache-2.0

local next, type = next, type -- LuaJIT's; called as the last thing done, for its errors to name the caller's line

local own = {}

function own.next(t, key) return next(t, key) end

function own.pairs(t)
  if type(t) ~= "table" then return next(t) end
  return own.next, t, nil
end

function own.foreach(t, f)
  for key, value in own.pairs(t) do
    local result = f(key, value)
    if result ~= nil then return result end
  end
end

return own
