-- repl: what a line at the prompt means: expression or statement, ?name, printing of values, TAB.
-- engine/bind/repl.c reads the lines.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = require "repl.scope"
local show = require "repl.show"

local repl = {}

local incomplete = {"'<eof>'", "unfinished long string", "unfinished long comment"}

local function is_incomplete(message)
  for _, sign in ipairs(incomplete) do
    if message:find(sign, 1, true) then return true end
  end
  return false
end

--- What text means.
-- out  "more" when the statement is unfinished; else a function for run(). Other syntax errors are raised.
function repl.compile(text)
  local name = text:match("^%s*%?%s*([%w_.:]*)%s*$")
  if name then
    return function() core.sys.out(require("repl.help").page(name) .. "\n") end
  end
  if not text:match("%S") then return function() end end
  local quiet = text:match(";%s*$")
  local expression = not quiet and core.sys.try_load("return " .. text, "=prompt", scope.environment())
  if expression then return expression end
  local statement, message = core.sys.try_load(text, "=prompt", scope.environment())
  if statement then return statement end
  if is_incomplete(message) then return "more" end
  core.error{code = "lua", message = message}
end

local function print_values(n, ...)
  for i = 1, n do core.sys.out(show.value((select(i, ...))) .. "\n") end
  if n > 0 then core.sys.environment()._ = (...) end
end

--- Runs a compiled line and prints what it returns; the first value is then called _.
function repl.run(fn)
  local function count(...) return print_values(select("#", ...), ...) end
  count(fn())
end

--- What TAB does after word: text to insert (may be ""), and a list to show when there are several ways to go on.
function repl.complete(word)
  return require("repl.complete").word(word)
end

return repl
