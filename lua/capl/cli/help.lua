-- help.lua: `capl help`: the list of commands; `capl help COMMAND`: the page of one; `capl help exit`: exit codes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local exits = require "cli.exits"
local list = require "cli.list"
local options = require "cli.options"
local page = require "cli.page"

local help = {}

local COLUMN = 14

local begin = {
  {"capl captcha --max_time=1m", "trains on generated captchas; capl list prints the other recipes"},
  {"capl new mine --data=DIR", "writes a recipe for captchas of your own"},
  {"capl help COMMAND", "describes one command and its options"},
}

-- What a help sentence says before it goes into detail.
local function short(text) return (text:gsub(";.*", "")) end

local function heading(lines, text)
  lines[#lines + 1] = ""
  lines[#lines + 1] = text
end

local function add_commands(lines)
  local group
  for _, row in ipairs(core.sys.commands()) do
    if row.group ~= group then heading(lines, row.group) end
    group = row.group
    local word = row.name == "run" and "RECIPE" or row.name == "repl" and "(nothing)" or page.word(row.name)
    page.pairs(lines, {{word, short(row.help)}}, COLUMN)
  end
end

local function add_globals(lines)
  heading(lines, "options, before the command")
  page.pairs(lines, page.globals(), COLUMN + 2)
end

--- The list of commands.
function help.overview()
  local lines = {("capl %s: trains captcha recognition models"):format(core.version()), "",
    "usage: capl [OPTIONS] RECIPE [--key=value…]", "       capl [OPTIONS] COMMAND [words]", "       capl"}
  add_commands(lines)
  add_globals(lines)
  heading(lines, "begin with")
  page.pairs(lines, begin, 30)
  lines[#lines + 1] = ""
  lines[#lines + 1] = "--key=value and --key value are the same. 'capl help exit' lists the exit codes."
  return table.concat(lines, "\n") .. "\n"
end

--- What exit codes mean.
function help.exit_codes()
  local lines = {"exit codes"}
  page.pairs(lines, exits, 10)
  return table.concat(lines, "\n") .. "\n"
end

local function is_recipe(word) return word:find("%.lua$") or (core.sys.recipes() and list.find(word)) end

-- The name in the list of what a user calls a command.
local function name_of(word)
  if page.find(word) then return word end
  local names = {"exit"}
  for _, row in ipairs(core.sys.commands()) do names[#names + 1] = row.name end
  local near = core.nearest(word, names)
  core.error{code = "value",
    message = ("there is no command '%s'%s"):format(word, near and "; did you mean '" .. near .. "'?" or ""),
    hint = is_recipe(word) and ("'capl %s --help' lists the settings of a recipe"):format(word)
    or "'capl help' lists the commands"}
end

-- The words without the --help by which this may have been called.
local function plain_words(args)
  local words = {}
  for _, word in ipairs(args) do
    if word ~= "--help" and word ~= "-h" then words[#words + 1] = word == "-e" and "eval-code" or word end
  end
  return words
end

function help.main(job)
  local _, words = options.read(plain_words(job.args), {}, {command = "help"})
  if words[2] and words[2] ~= "dist" then
    core.error{code = "value", message = "capl help takes one command, not '" .. words[2] .. "' too"}
  end
  if not words[1] then return core.sys.out(help.overview()) end
  if words[1] == "exit" then return core.sys.out(help.exit_codes()) end
  core.sys.out(page.text(page.of(name_of(words[1]), {args = {words[2]}})))
end

help.examples = {
  {"capl help bench", "the same as capl bench --help"},
  {"capl help exit", "lists the exit codes"},
}

return help
