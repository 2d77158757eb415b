-- output.lua: what a run says on standard output: lines for people, objects for programs (--json), or hardly anything
-- (--quiet).
--
-- With --json every line of standard output is one JSON object: what metrics.jsonl holds as it comes, {"progress": …},
-- {"text": …} for everything that people would read, print() of the recipe included, and {"final": …} at the end.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local console = observer.console

local output = {}

-- What a terminal would obey shown as \x1b.
local function harmless(text)
  return (text:gsub("[%c]", function(c) return c ~= "\n" and c ~= "\t" and ("\\x%02x"):format(c:byte()) or nil end))
end

-- Text of print's arguments.
local function printed(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = tostring((select(i, ...))) end
  return harmless(table.concat(parts, "\t"))
end

--- Chooses how a run speaks.
-- errs value: quiet after json or json after quiet
function output.set(mode)
  if console.mode == mode then return end
  if console.mode ~= "lines" then
    core.error{code = "value", message = ("--%s and --%s exclude each other"):format(console.mode, mode),
      hint = "--json gives objects for programs, --quiet nothing but the last line"}
  end
  console.mode = mode
  if mode == "json" and core.sys.environment then
    core.sys.environment().print = function(...) output.text(printed(...)) end
  end
end

--- Whether a line at the bottom of the terminal is drawn and drawn again.
function output.is_live() return console.live and not console.silent and console.mode == "lines" end

--- A line, or several, for people.
function output.text(text)
  if console.silent then return end
  if console.mode == "json" then
    output.object{text = text}
  elseif console.mode == "lines" then
    core.sys.out(harmless(text) .. "\n")
  end
end

--- An object for programs; nothing in the other modes.
function output.object(object)
  if console.mode == "json" and not console.silent then core.sys.out(core.json_encode(object) .. "\n") end
end

--- The same for the text of an object.
function output.line(text)
  if console.mode == "json" and not console.silent then core.sys.out(text .. "\n") end
end

--- The last line of a run, which --quiet shows too.
function output.final(line, values)
  if console.silent then return end
  if console.mode == "json" then output.object{final = values} else core.sys.out(line .. "\n") end
end

return output
