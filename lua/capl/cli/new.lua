-- new.lua: `capl new NAME`: writes NAME.lua, a recipe to begin with: a short one of its own, or a copy of one that is
-- there.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local list = require "cli.list"
local options = require "cli.options"
local page = require "cli.page"
local shell = require "shell"
local starter = require "cli.starter"
local guess = require "data.guess"
local symbols = require "fields.symbols"

local spec = {
  {name = "data", type = "text", value = "SOURCE",
  doc = "folder, list or database of your captchas, or folder of classes; default: generated captchas"},
  {name = "label", type = "text", value = "folder", choices = {"auto", "folder"}, default = "auto",
    doc = "folder: the folder of an image is its class; auto: so where the names of files hold no text"},
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

-- ---- classes ----

local function parent_of(name) return name:match("([^/]+)/[^/]+$") end

-- Whether each folder's files have one text, which then names the folder: cat/cat_1.png.
local function one_text_per_folder(box, rule)
  local texts = {}
  for i = 0, box:count() - 1 do
    local name = box:name(i)
    local text, folder = guess.text(rule, name), parent_of(name)
    if (texts[folder] or text) ~= text then return false end
    texts[folder] = text
  end
  return true
end

local function says_folder(box)
  local rule, doubts = guess.rule(box)
  if rule then return rule == "folder" or one_text_per_folder(box, rule) end
  return #doubts < 2 or doubts[1] == "folder" or doubts[2] == "folder"
end

-- The classes that a folder's images are of, by the folders they lie in; nil: they are captchas, which is said where
-- there are folders.
local function classes_of(path, label)
  local is_folder = path and core.sys.kind(path) == "folder" and not core.sys.kind(path .. "/data.mdb")
  if not is_folder and label == "auto" then return nil end
  if not is_folder then
    core.fail(("--label=folder is of a folder of images, and %s"):format(path and path .. " is none"
      or "--data is missing"), "--data=DIR names a folder with a folder of images for each class")
  end
  local box = core.data.folder_source(path, {width = 1, height = 1}) -- only its names are wanted; no file is opened
  local seen, classes = {}, {}
  for i = 0, box:count() - 1 do
    local class = parent_of(box:name(i))
    if not class and label == "auto" then return nil end
    if class and not seen[class] then
      seen[class], classes[#classes + 1] = true, class
    end
  end
  if #classes < 2 and label == "folder" then
    core.fail(("%s has images of %d classes, the names of its folders; two are needed"):format(path, #classes))
  end
  if #classes < 2 then return nil end
  if label == "auto" and not says_folder(box) then
    core.sys.out(path .. ": captchas, as the names of the files hold texts; with --label=folder its folders are classes\n")
    return nil
  end
  table.sort(classes)
  return classes
end

-- ---- the text ----

-- What a recipe must ask for to read what is not beside it; nothing with letters that a header cannot hold.
local function read_need(path)
  local elsewhere = path and (path:sub(1, 1) == "/" or path:find("%f[^/%z]%.%.%f[/%z]"))
  return elsewhere and not path:find("[%s,]") and " read=" .. path or ""
end

local function short_recipe(name, o, classes)
  local words = {NAME = name, FILE = name .. ".lua", VERSION = tostring(core.sys.built().recipe_version),
    READ = read_need(o.data), DATA = o.data, DATA_TEXT = o.data and quoted(o.data), WORD = o.data
    and shell.word(o.data)}
  return starter.text(classes and "classes" or o.data and "folder" or "drawn", words)
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
  local classes = not o.from and classes_of(o.data, o.label)
  local text = (o.from and copy or short_recipe)(name, o, classes)
  local written, why = core.sys.write(file, text)
  if not written then core.error{code = "io", message = why} end
  if classes then
    core.sys.out(("%s: %d classes, the names of its folders: %s\n"):format(o.data, #classes, symbols.shown(classes, ", ")))
  end
  local program = job.program
  local short_run = text:find("\n%s*max_time = ") and " --max_time=1m" or ""
  core.sys.out(("%s: written; edit it or run it as it is\n  train:   %s %s%s\n  look:    %s check %s\n"
    .. "  options: %s %s --help\n"):format(file, program, file, short_run, program, file, program, file))
end

return {main = main, options = spec, examples = {
  {"capl new first", "first.lua: a short recipe for generated captchas"},
  {"capl new mine --data=captchas", "mine.lua: a recipe for the captchas, or the folders of classes, in this folder"},
  {"capl new long --from=captcha", "long.lua: a copy of an included recipe"},
}}
