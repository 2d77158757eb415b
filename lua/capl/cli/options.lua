-- options.lua: reads --key=value words by a list of what a command knows.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local options = {}

local function fail(message, hint)
  core.error{code = "value", message = message, hint = hint}
end

--- Splits one word.
-- word "--n=5" -> "n", "5"; "--json" -> "json", true; "images" -> nil, "images"
function options.split(word)
  local key, value = word:match("^%-%-([^=]+)=(.*)$")
  if key then return key, value end
  key = word:match("^%-%-(.+)$")
  if key then return key, true end
  return nil, word
end

-- 4294967295, not 4.29497e+09
local function whole(n) return ("%.0f"):format(n) end

--- Raises for a number that its option cannot be; one without `from` can be any.
local function check_range(option, number, text)
  if not option.from or (number % 1 == 0 and number >= option.from and number <= (option.to or math.huge)) then return end
  local range = option.to and ("from %s to %s"):format(whole(option.from), whole(option.to)) or ("from %s on"):format(whole(option.from))
  fail(("--%s is a whole number %s, not %s"):format(option.name, range, text))
end

local convert = {
  number = function(key, text, option)
    local number = text ~= true and tonumber(text)
    if not number or number ~= number then fail("--" .. key .. " is a number, not '" .. tostring(text) .. "'") end
    check_range(option, number, text)
    return number
  end,
  flag = function(key, text)
    if text == true or text == "true" then return true end
    if text == "false" then return false end
    fail("--" .. key .. " is true or false, not '" .. text .. "'")
  end,
  text = function(key, text)
    if text == true then fail("--" .. key .. " needs a value: --" .. key .. "=…") end
    return text
  end,
}

-- --learning-curve is --learning_curve.
local function plain(name) return (name:gsub("-", "_")) end

local function find(spec, key)
  local names = {}
  for _, option in ipairs(spec) do
    if plain(option.name) == plain(key) then return option end
    names[#names + 1] = option.name
  end
  return nil, core.nearest(key, names)
end

local function unknown(key, near, command)
  fail(("unknown option --%s%s"):format(key, near and "; did you mean --" .. near .. "?" or ""),
    "'capl " .. command .. " --help' lists the options")
end

--- Reads words.
-- spec  list of {name=, type="number"|"text"|"flag", default=, required=, doc=}; numbers with from= (and to=) are whole and
--       in that range
-- opts  command = its name for messages; rest = true: unknown options are handed back, not refused
-- out   values by name; positional words; the words of unknown options
function options.read(words, spec, opts)
  local values, positional, rest = {}, {}, {}
  for _, option in ipairs(spec) do values[option.name] = option.default end
  for _, word in ipairs(words) do
    local key, value = options.split(word)
    local option, near
    if key then option, near = find(spec, key) end
    if option then
      values[option.name] = convert[option.type](key, value, option)
    elseif not key then
      positional[#positional + 1] = value
    elseif opts.rest then
      rest[#rest + 1] = word
    else
      unknown(key, near, opts.command)
    end
  end
  for _, option in ipairs(spec) do
    if option.required and values[option.name] == nil then
      fail(("capl %s needs --%s=…: %s"):format(opts.command, option.name, option.doc))
    end
  end
  return values, positional, rest
end

--- Usage page of a command.
function options.help(job, spec)
  local lines = {job.usage, "  " .. job.help}
  for _, option in ipairs(spec) do
    local name = "--" .. option.name .. (option.type == "flag" and "" or option.type == "number" and "=N" or "=TEXT")
    local default = option.default ~= nil and option.default ~= false and (" (%s)"):format(tostring(option.default)) or ""
    lines[#lines + 1] = ("    %-18s %s%s"):format(name, option.doc, default)
  end
  return table.concat(lines, "\n") .. "\n"
end

return options
