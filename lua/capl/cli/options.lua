-- options.lua: reads --key=value words by a list of what a command knows.
--
-- --key=value and --key value are the same; --flag, --no-flag and --flag=false; words behind -- are no options, and of
-- a command that runs a recipe they are the recipe's. An option that is given twice is an error: nobody could say which
-- was meant.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

local options = {}

--- Splits one word.
-- word "--n=5" -> "n", "5"; "--json" -> "json", true; "images" -> nil, "images"
function options.split(word)
  local key, value = word:match("^%-%-([^=]+)=(.*)$")
  if key then return key, value end
  key = word:match("^%-%-(.+)$")
  if key then return key, true end
  return nil, word
end

--- "no-color", "no_color" -> "color"
function options.without_no(key) return key:match("^no[-_](.+)$") end

--- Whether a word may be the value of the --key before it.
function options.is_value(word) return word ~= nil and word:sub(1, 2) ~= "--" and word ~= "-h" end

--- Raises for a key that has a value already.
function options.once(seen, key, value)
  if seen[key] ~= nil then
    local function shown(v) return "--" .. key .. (v == true and "" or "=" .. tostring(v)) end
    core.fail(("--%s is given twice: %s and %s"):format(key, shown(seen[key]), shown(value)))
  end
  seen[key] = value
end

-- ---- values ----

--- From the text behind --key, or true where there is none, by the type of an option.
options.convert = {
  number = function(key, text, option)
    local number = text ~= true and tonumber(text)
    if not number or number ~= number then
      core.fail(("--%s must be a number, got '%s'"):format(key, tostring(text)))
    end
    return check.value(nil, {"--" .. key, option.from and "whole" or "number", from = option.from, to = option.to},
      number)
  end,
  flag = function(key, text)
    if text == true or text == "true" then return true end
    if text == "false" then return false end
    core.fail(("--%s must be true or false, got '%s'"):format(key, text))
  end,
  text = function(key, text, option)
    if text == true then core.fail("--" .. key .. " needs a value: --" .. key .. "=…") end
    return option.choices and not option.open and check.word(nil, "--" .. key, text, option.choices) or text
  end,
}

-- ---- names ----

-- --learning-curve is --learning_curve.
local function plain(name) return (name:gsub("-", "_")) end

--- A hint for an option of earlier versions, or nil.
function options.gone(key)
  local instead = core.sys.gone and core.sys.gone("--" .. plain(key))
  return instead and "removed: " .. instead
end

local function by_name(spec, key)
  for _, option in ipairs(spec) do
    if plain(option.name) == plain(key) then return option end
  end
end

--- The option of a key, and true when it is --no-KEY.
local function find(spec, key)
  local option, negated = by_name(spec, key), options.without_no(key)
  local flag = negated and by_name(spec, negated)
  if flag and flag.type ~= "flag" then flag = nil end
  if option and flag then
    core.fail(("--%s may be the option %s, or %s=false; write --%s=false for that"):format(key, option.name, flag.name,
      flag.name))
  end
  return option or flag, not option and flag ~= nil
end

local function unknown(spec, key, command)
  local names = {}
  for i, option in ipairs(spec) do names[i] = option.name end
  local negated = options.without_no(key)
  local near = core.nearest(key, names)
  if not near and negated then
    near = core.nearest(negated, names)
    near = near and "no-" .. near
  end
  local gone = options.gone(key)
  core.fail(("unknown option --%s%s"):format(key, near and not gone and "; did you mean --" .. near .. "?" or ""),
    gone or "'capl " .. command .. " --help' lists the options")
end

-- ---- reading ----

-- A flag before "true" or "false": its value, or a word of its own?
local function check_clear(key, after)
  if after ~= "true" and after ~= "false" then return end
  core.fail(("'--%s %s' is ambiguous: --%s=%s, or --%s and the argument '%s'"):format(key, after, key, after, key,
    after),
    ("write --%s=%s, or put the argument first"):format(key, after))
end

-- The value of option number i, and how many words it took.
local function value_of(option, key, negated, words, i)
  local _, value = options.split(words[i])
  if negated then
    if value ~= true then core.fail(("--%s is already negated; write --%s=%s"):format(key, option.name, value)) end
    return false, 1
  end
  if option.type == "flag" and value == true then check_clear(key, words[i + 1]) end
  if option.type == "flag" or value ~= true then return options.convert[option.type](key, value, option), 1 end
  local after = options.is_value(words[i + 1]) and words[i + 1] or true
  return options.convert[option.type](key, after, option), after == true and 1 or 2
end

local function check_required(values, spec, command)
  for _, option in ipairs(spec) do
    if option.required and values[option.name] == nil then
      core.fail(("capl %s needs --%s=…: %s"):format(command, option.name, option.doc))
    end
  end
end

-- "-x" is an option nobody knows; "-" is standard input, "-0.5" a number.
local function is_short(word) return word:find("^%-[^%-%d%.]") ~= nil end

-- The words from i on, behind "--".
local function take_rest(words, i, list)
  for k = i, #words do list[#list + 1] = words[k] end
end

local function keep(r, option, value)
  if not option.many then
    options.once(r.seen, option.name, value)
    r.values[option.name] = value
    return
  end
  r.seen[option.name] = r.seen[option.name] or {}
  table.insert(r.seen[option.name], value)
  r.values[option.name] = r.seen[option.name]
end

-- Reads word number i -> how many it were.
local function read_word(r, words, i)
  local key, word = options.split(words[i]), words[i]
  local option, negated
  if key then option, negated = find(r.spec, key) end
  if option then
    local value, taken = value_of(option, key, negated, words, i)
    keep(r, option, value)
    return taken
  end
  if key and not r.opts.rest then unknown(r.spec, key, r.opts.command) end
  if is_short(word) then
    core.fail("unknown option " .. word, "'capl " .. r.opts.command .. " --help' lists the options")
  end
  local list = key and r.rest or r.positional
  list[#list + 1] = word
  return 1
end

--- Reads words.
-- spec  list of {name=, type="number"|"text"|"flag", default=, required=, doc=}; numbers with from= (and to=) are whole
--       and in that range; texts with choices= are one of them, which with open=true the command checks itself; value=
--       is what help calls the value, such as FILE, default_doc= the default; an option with many=true may be given
--       again, and its value is a list
-- opts  command = its name for messages; rest = true: unknown options are handed back, not refused
-- out   values by name; positional words; the words of unknown options
function options.read(words, spec, opts)
  local r, i = {spec = spec, opts = opts, values = {}, seen = {}, positional = {}, rest = {}}, 1
  for _, option in ipairs(spec) do r.values[option.name] = option.default end
  while i <= #words and words[i] ~= "--" do i = i + read_word(r, words, i) end
  take_rest(words, i + 1, opts.rest and r.rest or r.positional)
  check_required(r.values, spec, opts.command)
  return r.values, r.positional, r.rest
end

return options
