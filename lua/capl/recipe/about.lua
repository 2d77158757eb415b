-- about.lua: what a recipe's text says of itself, without running it: purpose, needs, claims, the files it requires,
-- its hash.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local claim = require "recipe.claim"
local docs = require "params.docs"
local shell = require "shell"
local tokens = require "recipe.tokens"

local about = {}

--- Folder and name of a path; the folder is "." for one without.
function about.split(path)
  local folder, name = path:match("^(.*)/([^/]*)$")
  if not folder then return ".", path end
  return folder == "" and "/" or folder, name
end

--- Path of a file beside another: ("a/b.lua", "c") -> "a/c"
function about.beside(path, name)
  local folder = path:match("^(.*/)[^/]*$")
  return (folder or "") .. name
end

-- The first sentence of the page on top.
local function purpose_of(text)
  local page = docs.page(text)
  local paragraph = (page .. "\n\n"):match("^%s*(.-)\n%s*\n") or ""
  return (paragraph:gsub("%s+", " "))
end

-- {key = value} of `--- needs:`
local function needs_of(text)
  local out = {}
  for line in text:gmatch("[^\n]*") do
    if line ~= "" and not line:match("^%s*%-%-") and not line:match("^#!") and not line:match("^\239\187\191") then
      break
    end
    local words = line:match("^%-%-%- needs:%s*(.-)%s*$")
    for key, value in (words or ""):gmatch("(%l+)=(%S+)") do out[key] = value end
  end
  return out
end

local function plural(n, word) return ("%s %s%s"):format(n, word, n == "1" and "" or "s") end

-- "faces, /data" and from where a path is taken that does not say so itself.
local function read_text(v)
  local relative = ("," .. v):find(",[^/~]") and " (from the working folder)" or ""
  return "reads " .. v:gsub(",", ", ") .. relative .. " besides its own folder"
end

-- In the order in which people ask.
local words = {
  {"read", read_text},
  {"minutes", function(v) return "ends after " .. plural(v, "minute") .. " at the latest" end},
  {"ranks", function(v) return v == "gpus" and "one process per GPU" or v == "1" and "1 process"
  or v .. " processes" end}, {"memory", function(v) return "memory " .. v end},
  {"output", function(v) return "writes up to " .. v end},
  {"version", function(v) return "capl " .. v .. " or newer" end},
}

--- "reads captchas (from the working folder) besides its own folder; ends after 30 minutes at the latest"
function about.needs_text(needs)
  local parts = {}
  for _, entry in ipairs(words) do
    if needs[entry[1]] then parts[#parts + 1] = entry[2](needs[entry[1]]) end
  end
  local usual = "reads its own folder and what you name on the command line, writes the folder of its run"
  if not needs.read then table.insert(parts, 1, usual) end
  return table.concat(parts, "; ")
end

-- Claims whose values stand in the text; whether there are others.
local function claims_of(list)
  local out, computed = {}, false
  for _, found in ipairs(tokens.tables(list, "expect")) do
    local fine, read = pcall(claim.read, found or nil)
    if found and fine then out[#out + 1] = {claim = read, said = found} else computed = true end
  end
  return out, computed
end

-- "parts.net" -> the file beside the recipe, its hash and bytes; nil for a name that is none
local function module_file(folder, name)
  if not name:match("^[%w_%-]+[%w_%-.]*$") or name:find("..", 1, true) then return nil end
  local path = name:gsub("%.", "/")
  for _, file in ipairs{path .. ".lua", path .. "/init.lua"} do
    local hash, bytes = core.sys.sha256_file(folder, file)
    if hash then return {file = file, sha256 = hash, bytes = bytes} end
  end
end

-- Modules that the recipe requires by plain names, and those that these require.
local function modules_of(folder, list)
  local out, missing, seen, computed = {}, {}, {}, false
  local function visit(words_list, depth)
    local names, unknown = tokens.required(words_list)
    computed = computed or unknown
    for _, name in ipairs(names) do
      if not seen[name] and name ~= "capl" then
        seen[name] = true
        local found = module_file(folder, name)
        if found then
          out[#out + 1] = found
          local text = depth < 20 and core.sys.read(folder .. "/" .. found.file)
          if text then visit(tokens.read(text), depth + 1) end
        else
          missing[#missing + 1] = name
        end
      end
    end
  end
  visit(list, 1)
  table.sort(out, function(a, b) return a.file < b.file end)
  return out, missing, computed
end

-- "captcha" -> the path of the recipe of that name that comes with the program, where no file is called so
local function with_shipped(word)
  local path, mark = word:match("^(.-)(#sha256=.*)$")
  if core.sys.kind(path or word) then return word end
  local shipped = require("cli.list").find(path or word)
  return shipped and shipped.path .. (mark or "") or word
end

--- All that is known of a recipe without running it.
-- word  FILE or FILE#sha256=HEX, or the name of a recipe that comes with the program
-- out   {path, folder, name, text, sha256, bytes, lines, word, purpose, needs, claims, claims_computed, modules,
--       missing, computed, list}
-- errs  io, value, format: it cannot be read, is another one than asked for, or has no header
function about.read(word)
  local file = core.sys.recipe(with_shipped(word))
  local out = {path = file.recipe, text = file.text, sha256 = file.sha256, bytes = #file.text, word = file.word,
    pinned = file.pinned}
  out.folder, out.name = about.split(out.path)
  local _, lines = out.text:gsub("\n", "")
  out.lines = lines
  out.purpose, out.needs = purpose_of(out.text), needs_of(out.text)
  out.list = tokens.read(out.text)
  out.claims, out.claims_computed = claims_of(out.list)
  out.modules, out.missing, out.computed = modules_of(out.folder, out.list)
  return out
end

--- Name without .lua: what manifest and record are called after.
function about.stem(name) return (name:gsub("%.lua$", "")) end

--- Modules that the recipe's text does not name by their hash, so that FILE#sha256=… refuses them.
function about.unnamed(a)
  local out = {}
  for _, m in ipairs(a.modules) do
    if not a.text:find(m.sha256, 1, true) then out[#out + 1] = m end
  end
  return out
end

--- The line to give to others.
function about.share_line(a)
  local word = ("%s#sha256=%s"):format(a.name, a.sha256)
  return "capl run " .. (shell.word(a.name) == a.name and word or shell.word(word))
end

return about
