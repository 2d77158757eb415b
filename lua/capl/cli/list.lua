-- list.lua: `capl list`: the recipes that come with the program, what each is for and what to expect; `capl list NAME`:
-- one of them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "cli.about"
local options = require "cli.options"
local wrap = require "cli.wrap"

local spec = {{name = "json", type = "flag", default = false, doc = "prints a JSON list with all header fields"}}

local list = {options = spec}

local COLUMN = 18

--- The recipes beside the program, by name: {name, path, text}.
-- errs io: there is no folder of recipes, or one cannot be read
function list.all()
  local folder = core.sys.recipes()
  if not folder then
    core.error{code = "io", message = "no recipes are found beside this program",
      hint = "CAPL_RECIPES=DIR sets their folder; 'capl new NAME' creates one"}
  end
  local out = {}
  for _, file in ipairs(core.sys.list(folder)) do
    local name, path = file:match("^([%w_-]+)%.lua$"), folder .. "/" .. file
    local text, why = nil, nil
    if name then text, why = core.sys.read(path) end
    if name and not text then core.error{code = "io", message = why} end
    if name then out[#out + 1] = {name = name, path = path, text = text} end
  end
  return out
end

--- One of them by what a user calls it: captcha, captcha.lua or recipes/captcha.lua; nil when there is none.
function list.find(word)
  local wanted = word:gsub("^recipes/", ""):gsub("%.lua$", "")
  local names = {}
  for i, recipe in ipairs(list.all()) do
    if recipe.name == wanted then return recipe end
    names[i] = recipe.name
  end
  return nil, core.nearest(wanted, names)
end

-- A paragraph beside its heading.
local function paragraph(lines, first, text)
  for _, line in ipairs(wrap.lines(text, first .. (" "):rep(COLUMN - #first), (" "):rep(COLUMN))) do
    lines[#lines + 1] = line
  end
end

local MOST = 230 -- bytes of what a run reaches

-- What a run reaches, without the details behind a semicolon or very far behind.
local function expected(of)
  local text = about.part(of, "expected") or about.part(of, "gain")
  if not text then return nil end
  text = text:gsub(";.*", "")
  return #text <= MOST and text or text:sub(1, MOST):gsub("%s+%S*$", "") .. " …"
end

local function print_all(recipes)
  local lines = {}
  for _, recipe in ipairs(recipes) do
    local of = about.of(recipe.text)
    paragraph(lines, recipe.name, (of.purpose:gsub("^(.-%.) .*", "%1")))
    if expected(of) then paragraph(lines, "", "expected: " .. expected(of)) end
    lines[#lines + 1] = ""
  end
  lines[#lines + 1] = "capl NAME runs one, capl NAME --help lists its settings, capl list NAME prints"
  lines[#lines + 1] = "more, capl new mine --from=NAME copies it, to be changed."
  core.sys.out(table.concat(lines, "\n") .. "\n")
end

local function as_object(recipe)
  local of = about.of(recipe.text)
  local object = {name = recipe.name, path = recipe.path, purpose = of.purpose, needs = of.needs}
  for _, part in ipairs(of.parts) do object[part.name] = part.text end
  return object
end

local function print_json(recipes)
  local out = {}
  for i, recipe in ipairs(recipes) do out[i] = as_object(recipe) end
  core.sys.out(core.json_encode(out) .. "\n")
end

local function print_one(word, recipe, as_json)
  if not recipe then
    local _, near = list.find(word)
    core.error{code = "value",
      message = ("no recipe '%s' comes with the program%s"):format(word, near and "; did you mean '" .. near .. "'?"
      or ""), hint = "'capl list' names them"}
  end
  if as_json then return core.sys.out(core.json_encode(as_object(recipe)) .. "\n") end
  core.sys.out(("%s\n\n%s\n\n'capl %s --help' lists its settings.\n"):format(recipe.path, about.of(recipe.text).page,
    recipe.name))
end

function list.main(job)
  local o, words = options.read(job.args, spec, {command = "list"})
  if words[2] then core.error{code = "value", message = "capl list takes one recipe, not '" .. words[2] .. "' too"} end
  if words[1] then return print_one(words[1], (list.find(words[1])), o.json) end
  return (o.json and print_json or print_all)(list.all())
end

list.examples = {
  {"capl list captcha", "prints the header fields and the path of a recipe"},
}

return list
