-- page.lua: what there is to say of a command, gathered from its row in engine/program/commands.c and its module, and
-- written as text.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local wrap = require "cli.wrap"

local page = {}

local COLUMN = 22 -- where the meaning of an option begins
local MOST = 30 -- columns of an option that its meaning may still follow on the line

--- The row of a command in the list; nil when there is none.
function page.find(name)
  for _, row in ipairs(core.sys.commands()) do
    if row.name == name then return row end
  end
end

--- How a command is called: eval-code is -e, repl nothing.
function page.word(name)
  return name == "eval-code" and "-e" or name == "repl" and "" or name
end

--- The options of capl itself: {{"--minutes=N", meaning}}.
function page.globals()
  local out = {}
  for i, global in ipairs(core.sys.globals()) do
    out[i] = {global.name .. (global.value and "=" .. global.value or ""), global.help}
  end
  return out
end

local default_value = {number = "N", text = "TEXT"}

--- "--out=FILE"
function page.option_name(option)
  local value = option.value or default_value[option.type]
  return "--" .. option.name .. (value and "=" .. value or "")
end

--- "file to write (lr.png)"; the choices, where the meaning does not name them.
function page.option_doc(option)
  local doc, default = option.doc or "", option.default
  for _, choice in ipairs(option.choices or {}) do
    if not doc:find(choice, 1, true) then
      doc = doc .. ": " .. table.concat(option.choices, ", ")
      break
    end
  end
  if default == nil or default == false or type(default) == "table" then return doc end
  return ("%s (%s)"):format(doc, option.default_doc or tostring(default))
end

--- Rows {"--out=FILE", meaning} of a command's options.
function page.option_rows(options)
  local rows = {}
  for i, option in ipairs(options) do rows[i] = {page.option_name(option), page.option_doc(option)} end
  return rows
end

local function usages(text)
  local out = {}
  for form in text:gsub(" | capl", "\ncapl"):gmatch("[^\n]+") do out[#out + 1] = form end
  return out
end

--- Everything about a command: {name, word, help, usage = {…}, options = {…}, examples = {{command, what}}, recipe,
-- ranks}.
function page.of(name)
  local row = page.find(name)
  local module = require("cli." .. name:gsub("-", "_"))
  return {name = name, word = page.word(name), group = row.group, help = row.help, usage = usages(row.usage),
    options = module.options or {}, examples = module.examples or {}, recipe = row.recipe, ranks = row.ranks}
end

--- Lines of "name  meaning", the meaning wrapped beside its name.
function page.pairs(lines, rows, column)
  for _, row in ipairs(rows) do
    local name = "  " .. row[1]
    local indent = (" "):rep(column)
    local wide = wrap.width(name) > column - 2
    local first = wide and wrap.width(name) <= MOST and name .. "  " or not wide
      and name .. (" "):rep(column - wrap.width(name))
    if not first then lines[#lines + 1], first = name, indent end
    for _, line in ipairs(wrap.lines(row[2], first, indent)) do lines[#lines + 1] = line end
  end
end

local function heading(lines, text)
  if #lines > 0 then lines[#lines + 1] = "" end
  lines[#lines + 1] = text
end

local function add_options(lines, p)
  if #p.options == 0 then return end
  heading(lines, "options")
  page.pairs(lines, page.option_rows(p.options), COLUMN)
end

local function add_recipe(lines, p)
  if not p.recipe then return end
  heading(lines, "settings")
  page.pairs(lines, {{"--KEY=VALUE", "of the recipe; 'capl RECIPE --help' lists them" ..
    (#p.options > 0 and ". Those that are named like an option stand behind --" or "")}}, COLUMN)
end

local function add_examples(lines, p)
  if #p.examples == 0 then return end
  heading(lines, "examples")
  for _, example in ipairs(p.examples) do
    lines[#lines + 1] = "  " .. example[1]
    for _, line in ipairs(wrap.lines(example[2], "      ", "      ")) do lines[#lines + 1] = line end
  end
end

--- The page as text of 80 columns.
function page.text(p)
  local lines = {}
  for _, usage in ipairs(p.usage) do
    for _, line in ipairs(wrap.lines(usage, "", "    ")) do lines[#lines + 1] = line end
  end
  for _, line in ipairs(wrap.lines(p.help, "  ", "  ")) do lines[#lines + 1] = line end
  add_options(lines, p)
  add_recipe(lines, p)
  add_examples(lines, p)
  return table.concat(lines, "\n") .. "\n"
end

return page
