-- repl: what a line at the prompt means: expression or statement, ?name, printing of values, TAB.
-- engine/program/prompt/repl.c reads the lines; show.lua prints, complete.lua answers TAB, globals.lua has the prompt's
-- own names.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local environment = require "cli.environment"
local globals = require "repl.globals"
local scope = require "repl.scope"
local session = require "repl.session"
local term = require "repl.term"

local repl = {}

-- the prompt itself, and no client of a run
if getmetatable(observer) ~= Run then environment.read(Run.of(observer)) end

local SLOW = 0.5 -- seconds from which on a line's time is printed

local incomplete = {"near '<eof>'", "unfinished long string", "unfinished long comment"}

local function is_incomplete(message)
  for _, sign in ipairs(incomplete) do
    if message:find(sign, 1, true) then return true end
  end
  return false
end

-- Whether a statement cannot even begin as text does: then it was meant as a value.
local function fails_at_once(message, text)
  local sign = message:match("unexpected symbol near '(.*)'$")
  return sign ~= nil and text:match("^%s*(.*)$"):sub(1, #sign) == sign
end

local function page(name)
  return function()
    local doc = globals.doc(name) or require("repl.help").page(name)
    core.sys.out(doc .. "\n")
  end
end

-- Words that mean something by themselves, unless they are variables: help, who; exit, quit and their calls.
local function word_alone(text)
  local name, call = text:match("^%s*(%l+)%s*([%(%)]*)%s*;?%s*$")
  if not name or rawget(core.sys.environment(), name) ~= nil then return nil end
  if (name == "exit" or name == "quit") and (call == "" or call == "()") then return "leave" end
  if call ~= "" then return nil end
  if name == "help" then return page("") end
  if name == "who" then return globals.who.fn end
end

-- What is no Lua, but meant for the prompt: ?name; and what other prompts have.
local function command(text)
  local name = text:match("^%s*%?%s*([%w_.:]*)%s*$") or text:match("^%s*([%a_][%w_.:]*)%s*%?%s*$")
  if name then return page(name) end
  if not text:match("%S") then return function() end end
  local word = word_alone(text)
  if word then return word end
  if text:match("^%s*%$") then
    core.error{code = "value", message = "$ does not run shell commands",
      hint = "Ctrl-Z leaves for the shell, `fg` comes back"}
  end
end

-- A final ; keeps a line from printing; its value is _ all the same.
local function quietly(fn)
  local function keep(...)
    if select("#", ...) > 0 then session.keep(select("#", ...), ...) end
  end
  return function() keep(fn()) end
end

-- Compiled with a nil before its values, which keeps its last call from being a tail call: errors then name that call
-- and its line, of which Lua would have forgotten both.
local function without_first(_, ...) return ... end
local function as_expression(fn)
  return function() return without_first(fn()) end
end

--- What text means.
-- in   text, line = the number of its first line in what is piped; 0 or nil = on a terminal
-- out  "more" when the statement is unfinished, "leave" when it asks to leave the prompt; else a function for run().
--      Other syntax errors are raised, with what a line of Python would be here.
function repl.compile(text, line)
  session.begin(globals.open)
  local meant = command(text)
  if meant then return meant end
  text = text:gsub("^(%s*)=", "%1", 1)
  local piped = line and line > 0
  local name, above = piped and "=stdin" or "=prompt", piped and ("\n"):rep(line - 1) or ""
  local silenced, is_quiet = text:gsub(";%s*$", "")
  local expression, as_value = core.sys.try_load(above .. "return nil, " .. silenced, name, scope.environment())
  if expression then
    expression = as_expression(expression)
    return is_quiet > 0 and quietly(expression) or expression
  end
  local statement, message = core.sys.try_load(above .. text, name, scope.environment())
  if statement then
    require("repl.strict").note_locals(text)
    return statement
  end
  if fails_at_once(message, text) then message = as_value end
  local begun = is_incomplete(message)
  local hint = require("repl.advice").on_syntax(text, begun)
  if begun and not hint then return "more" end
  core.error{code = "lua", message = message, hint = hint}
end

local function time_text(seconds)
  if seconds < 60 then return ("%.2f s"):format(seconds) end
  return ("%d min %02.0f s"):format(math.floor(seconds / 60), seconds % 60)
end

local function print_values(n, ...)
  for i = 1, n do core.sys.draw(require("repl.show").value((select(i, ...))) .. "\n") end
  if n > 0 then session.keep(n, ...) end
end

--- Runs a compiled line and prints what it returns; the first value is then called _. On a terminal the time of slow
-- ones is printed.
function repl.run(fn)
  local start = core.clock()
  local function count(...)
    local seconds = core.clock() - start
    print_values(select("#", ...), ...)
    if seconds >= SLOW and core.sys.isatty(1) then core.sys.draw(term.paint("dim", time_text(seconds)) .. "\n") end
  end
  count(fn())
end

--- What TAB does behind text, all of the statement up to the cursor: text to insert (may be ""), and a list to show
-- when there are several candidates.
function repl.complete(text)
  session.begin(globals.open)
  return require("repl.complete").text(text)
end

return repl
