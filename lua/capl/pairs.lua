-- pairs.lua: the pairs, next and table.foreach of recipes and of this library, which never leave out a key.
--
-- For pairs and next LuaJIT has a loop of its own (ITERN) that walks by the place in the table, not by the key. Its
-- compiler goes wrong there in two ways, both without an error, both in Debian 12's LuaJIT (2.1.0~beta3):
--  1. A loop that was given up for compiling continues by keys, but a trace made before still takes what is in the slot
--     for a place: the loop ends early. Any loop within a loop can come to that after some ten thousand rounds.
--  2. A trace that continues into a compiled loop of pairs takes the instruction behind that loop for where it
--     stops itself. When it stops there, as it does for a stack that has to grow, the loop is skipped: recursion meets
--     a table without keys.
-- Later versions have mended these, and another way to lose a key only in 2026. A loop over a function that is not
-- LuaJIT's next becomes an ordinary one in its first run, before anything is compiled: none of that can happen to it.
-- Hence these functions, under all versions. A key costs some 15 ns more than it did; other loops cost nothing more.
-- SPDX-License-Identifier: Apache-2.0

local readonly = require "readonly"

local contents = readonly.contents -- tables that recipes only read have their entries behind them
local whole = readonly.whole
local next, type = next, type -- LuaJIT's; called as the last thing done, for its errors to name the caller's line

local own = {}

function own.next(t, key)
  if key == nil then whole(t) end
  return next(contents[t] or t, key)
end

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
