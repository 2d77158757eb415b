-- term.lua: what the terminal behind standard output can do: size, colours, characters.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local term = {}

local sys = core.sys

local function env(name)
  local value = sys.getenv(name)
  return value ~= "" and value or nil
end

--- rows, columns; rows = nil where nobody scrolls: in a pipe
function term.size()
  local rows, columns = sys.prompt.window()
  return rows, columns or sys.columns()
end

--- Whether colours are wanted: on a terminal that has them, unless NO_COLOR is set; $CAPL_COLOR = always | never
-- decides.
function term.has_color()
  local asked = env("CAPL_COLOR")
  if asked == "always" or asked == "never" then return asked == "always" end
  return sys.isatty(1) and not env("NO_COLOR") and env("TERM") ~= "dumb" and env("TERM") ~= nil
end

--- How many colours pictures may have: "all", "256", or nil for none.
function term.color_depth()
  if not term.has_color() then return nil end
  local name, more = env("TERM") or "", env("COLORTERM") or ""
  if more == "truecolor" or more == "24bit" or name:find("direct", 1, true) or name:find("kitty", 1, true) then
    return "all"
  end
  return "256"
end

--- Whether it shows more than ASCII.
function term.has_utf8() return sys.prompt.utf8() end

--- "…" where the terminal has it.
function term.dots() return term.has_utf8() and "…" or "..." end

--- Columns that text takes.
function term.width(text) return sys.prompt.width(text) end

--- text without what could steer the terminal.
function term.plain(text) return sys.prompt.plain(text) end

local codes = {number = "36", string = "32", word = "35", name = "34", kind = "33", dim = "2", warning = "33",
  error = "31", head = "1"}

--- text in the colour of its role, where there are colours.
function term.paint(role, text)
  if not term.has_color() then return text end
  return "\27[" .. codes[role] .. "m" .. text .. "\27[0m"
end

--- A note that is no result: to standard error, so that results stay what they are.
function term.warn(text)
  local head = "warning: "
  if sys.isatty(2) and term.has_color() then
    sys.draw(term.paint("warning", head) .. term.plain(text) .. "\n")
  else
    sys.err(head .. text .. "\n")
  end
end

--- text (with its colours) cut to a number of columns, its end marked by dots.
function term.cut(text, columns)
  if term.width((text:gsub("\27%[[%d;]*m", ""))) <= columns then return text end
  local out, used, at, dots = {}, 0, 1, term.dots()
  local room = columns - (term.has_utf8() and 1 or 3)
  local color = false
  while at <= #text do
    local escape = text:match("^\27%[[%d;]*m", at)
    local piece = escape or text:match("^[%z\1-\127\194-\244][\128-\191]*", at) or text:sub(at, at)
    if escape then
      color = escape ~= "\27[0m"
    else
      used = used + term.width(piece)
      if used > room then break end
    end
    out[#out + 1] = piece
    at = at + #piece
  end
  return table.concat(out) .. (color and "\27[0m" or "") .. dots
end

local from_client = {TERM = true, COLORTERM = true, NO_COLOR = true, LANG = true, LC_ALL = true, LC_CTYPE = true,
  KITTY_WINDOW_ID = true, TERM_PROGRAM = true}

--- fn(…) with the terminal of somebody who is attached in place of this process's own -> up to 4 results.
-- in   hello: {columns (0: no terminal), utf8, TERM …}, as `capl attach` has sent it
function term.as(hello, fn, ...)
  local getenv, isatty, utf8 = sys.getenv, sys.isatty, sys.prompt.utf8
  sys.getenv = function(name)
    if from_client[name] then return hello[name] end
    return getenv(name)
  end
  sys.isatty = function(fd) return (fd == 1 or fd == 2) and hello.columns > 0 end
  sys.prompt.utf8 = function() return hello.utf8 == true end
  local results = {fn(...)}
  sys.getenv, sys.isatty, sys.prompt.utf8 = getenv, isatty, utf8
  return unpack(results, 1, 4)
end

return term
