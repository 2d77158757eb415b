-- new.lua: `capl new NAME`: writes NAME.lua, a recipe to begin with: a short one of its own, or a copy of one that is
-- there.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local list = require "cli.list"
local options = require "cli.options"
local page = require "cli.page"
local shell = require "shell"
local starter = require "cli.starter"

local spec = {
  {name = "data", type = "text", value = "SOURCE",
  doc = "folder, list or database of your captchas; default: generated captchas"},
  {name = "from", type = "text", value = "RECIPE",
    doc = "recipe to copy, such as captcha (capl list) or a file; default: a short recipe"},
}

-- ---- what is asked for ----

--- "mine.lua" -> "mine"; raises for what no recipe can be called.
local function check_name(word)
  local name = word:gsub("%.lua$", "")
  if name:find("/", 1, true) then
    core.fail(("'%s' is a path; a recipe is written into this folder under a plain name"):format(word))
  end
  if not name:match("^[%w_][%w_%-]*$") then
    core.fail(("'%s' is no name for a recipe: letters, digits, _ and -"):format(word), "a name such as my_captchas")
  end
  if page.find(name) then
    core.fail(("'%s' is a command of capl; 'capl %s' would not run your recipe"):format(name, name),
      "give it another name")
  end
  return name
end

-- ["a\"b"]: the text of a path as Lua writes it.
local function quoted(text) return ("%q"):format(text):gsub("\\\n", "\\n") end

local function check_data(path)
  if core.sys.kind(path) then
    if path:find("%c") then
      core.fail("the name of the data holds a line break or the like, which no header can name", "rename it")
    end
    return
  end
  core.error{code = "io", message = ("there is no %s"):format(path),
    hint = "--data names a folder of images, a list of files or an LMDB database; without it captchas are generated"}
end

-- ---- the text ----

-- What a recipe must ask for to read what is not beside it; nothing with letters that a header cannot hold.
local function read_need(path)
  local elsewhere = path and (path:sub(1, 1) == "/" or path:find("%f[^/%z]%.%.%f[/%z]"))
  return elsewhere and not path:find("[%s,]") and " read=" .. path or ""
end

local function short_recipe(name, o)
  local words = {NAME = name, FILE = name .. ".lua", VERSION = tostring(core.sys.built().recipe_version),
    READ = read_need(o.data), DATA = o.data, DATA_TEXT = o.data and quoted(o.data), WORD = o.data
    and shell.word(o.data)}
  return starter.text(o.data and "folder" or "drawn", words)
end

-- A recipe by its file or its shipped name.
local function source_text(word)
  local text, why
  if core.sys.kind(word) == "file" then
    text, why = core.sys.read(word)
    if not text then core.error{code = "io", message = why} end
    return text, word
  end
  local found, near = list.find(word)
  if found then return found.text, found.path end
  core.fail(("there is no recipe '%s'%s"):format(word, near and "; did you mean '" .. near .. "'?" or ""),
    "'capl list' names those that come with capl")
end

-- The default of its setting data, where it has one.
local function with_data(text, path, from)
  local changed, n = text:gsub('(\n%s*data = )"[^"\n]*"', function(before) return before .. quoted(path) end, 1)
  if n == 0 then
    core.fail(("%s has no setting 'data', so it cannot learn from %s"):format(from, path), "take another: capl list")
  end
  if read_need(path) == "" then return changed end
  local needs
  changed, needs = changed:gsub("(\n%-%-%- needs:[^\n]*)", function(line)
    return line:find(" read=") and line or line .. read_need(path)
  end, 1)
  return needs > 0 and changed or changed:gsub("^(%-%-%- capl:[^\n]*\n)", "%1--- needs:" .. read_need(path) .. "\n", 1)
end

-- Commands in its comments name the new file.
local function copy(name, o)
  local text, from = source_text(o.from)
  local base = from:match("([^/]+)%.lua$") or from
  text = text:gsub("recipes/" .. base:gsub("%p", "%%%0") .. "%.lua", name .. ".lua")
  return o.data and with_data(text, o.data, o.from) or text
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "new"})
  if not words[1] then core.fail("no name is given; usage: " .. job.usage) end
  if words[2] then core.fail(("capl new takes one name, not '%s' too"):format(words[2])) end
  local name = check_name(words[1])
  local file = name .. ".lua"
  if core.sys.kind(file) then
    core.fail(file .. " is there already, and stays as it is", "give another name, or remove the file")
  end
  if o.data then check_data(o.data) end
  local text = (o.from and copy or short_recipe)(name, o)
  local written, why = core.sys.write(file, text)
  if not written then core.error{code = "io", message = why} end
  local program = job.program
  local short_run = text:find("\n%s*max_time = ") and " --max_time=1m" or ""
  core.sys.out(("%s: written; edit it or run it as it is\n  train:   %s %s%s\n  look:    %s check %s\n"
    .. "  options: %s %s --help\n"):format(file, program, file, short_run, program, file, program, file))
end

return {main = main, options = spec, examples = {
  {"capl new first", "first.lua: a short recipe for generated captchas"},
  {"capl new mine --data=captchas", "mine.lua: a recipe for the images in this folder"},
  {"capl new long --from=captcha", "long.lua: a copy of an included recipe"},
}}
