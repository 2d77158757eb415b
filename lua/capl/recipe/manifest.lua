-- manifest.lua: NAME.manifest.json beside a recipe: what belongs to it, by hash; and what differs from that here.
--
-- docs/sharing.md states the format. A manifest comes from strangers: every path in it is relative, below its own
-- folder and behind no link; its types, sizes and keys are checked before anything in it is used.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "recipe.about"
local claim = require "recipe.claim"
local contents = require "recipe.contents"

local manifest = {FORMAT = 1}

local MOST_TEXT, MOST_PATH, MOST_LIST = 2000, 400, 1000

-- ---- what it must hold ----

local function refuse(path, message)
  core.error{code = "format", message = ("%s: %s"):format(path, message), path = false}
end

local function is_hash(text) return #text == 64 and text:match("^[0-9a-f]+$") ~= nil end

--- Why a path may not stand in a manifest; nil when it may.
function manifest.bad_path(path)
  if path == "" or #path > MOST_PATH then return "is no path" end
  if path:sub(1, 1) == "/" or path:match("^%a:[/\\]") or path:find("\\", 1, true) then
    return "is absolute, or of another system"
  end
  if path:find("[%c]") then return "holds control characters" end
  for part in (path .. "/"):gmatch("(.-)/") do
    if part == ".." then return "leads out of the folder of the manifest" end
    if part == "" or part == "." then return "is no plain path: a part of it is empty or a dot" end
  end
end

-- Checks of one value: each gives what it should be, nil when it is right.
local kinds = {
  text = function(v) return (type(v) ~= "string" or #v > MOST_TEXT or v:find("[%z\1-\8\11-\31\127]"))
  and "a short text" end, hash = function(v)
    return (type(v) ~= "string" or not is_hash(v)) and "64 small hexadecimal digits" end,
  count = function(v) return (type(v) ~= "number" or v < 0 or v % 1 ~= 0 or v > 2 ^ 53)
  and "a whole number from 0 on" end, object = function(v) return (type(v) ~= "table" or #v > 0) and "an object" end,
  list = function(v) return (type(v) ~= "table" or (next(v) ~= nil and #v == 0) or #v > MOST_LIST) and "a list" end,
  path = function(v)
    if type(v) ~= "string" then return "a path" end
    local why = manifest.bad_path(v)
    return why and ("a path below its folder; '%s' %s"):format(v:sub(1, 80):gsub("%c", "?"), why)
  end,
}

local file_keys = {file = "path", bytes = "count", sha256 = "hash"}
local content_keys = {name = "text", ["path?"] = "path", files = "count", bytes = "count", sha256 = "hash"}

local spec = {
  format = "count", recipe = "object", files = "list", needs = "object", ["requires"] = "object", written_by = "text",
  purpose = "text", ["data?"] = "list", ["weights?"] = "list", ["expected?"] = "list", ["generators?"] = "object",
  ["result?"] = "object",
}

-- Raises unless an object has the keys of a spec and no others; where: what it is called in messages
local function check_object(path, where, object, keys)
  for key, kind in pairs(keys) do
    local name, optional = key:match("^(.-)(%??)$")
    local value = object[name]
    if value == nil and optional == "" then refuse(path, ("%s%s is missing"):format(where, name)) end
    local wrong = value ~= nil and kinds[kind](value)
    if wrong then refuse(path, ("%s%s must be %s"):format(where, name, wrong)) end
  end
  for key in pairs(object) do
    if not keys[key] and not keys[tostring(key) .. "?"] then
      refuse(path, ("%sunknown key '%s'"):format(where, tostring(key):sub(1, 80):gsub("%c", "?")))
    end
  end
end

local function check_list(path, name, list, keys)
  for i, object in ipairs(list or {}) do
    local wrong = kinds.object(object)
    if wrong then refuse(path, ("%s[%d] must be %s"):format(name, i, wrong)) end
    check_object(path, ("%s[%d]: "):format(name, i), object, keys)
  end
end

-- No file twice: the second hash would hide the first.
local function check_once(path, m)
  local seen = {[m.recipe.file] = true}
  for _, f in ipairs(m.files) do
    if seen[f.file] then refuse(path, ("files: %s is there twice"):format(f.file)) end
    seen[f.file] = true
  end
end

--- Checks a decoded manifest; path: for messages
function manifest.check(m, path)
  if type(m.format) == "number" and m.format > manifest.FORMAT then
    core.error{code = "unsupported",
      message = ("%s: a manifest of format %g; capl %s reads format %d"):format(path, m.format, core.version(),
      manifest.FORMAT), hint = "a newer capl wrote it: update capl", path = false}
  end
  check_object(path, "", m, spec)
  if m.format ~= manifest.FORMAT then refuse(path, ("format must be %d"):format(manifest.FORMAT)) end
  check_object(path, "recipe: ", m.recipe, file_keys)
  if m.recipe.file:find("/", 1, true) then refuse(path, "recipe: file must be beside the manifest") end
  check_list(path, "files", m.files, file_keys)
  check_list(path, "data", m.data, content_keys)
  check_list(path, "weights", m.weights, content_keys)
  check_object(path, "requires: ", m.requires, {language = "count", ["version?"] = "text"})
  for i, said in ipairs(m.expected or {}) do
    local fine, why = pcall(claim.read, said)
    if not fine then
      refuse(path, ("expected[%d]: %s"):format(i, core.is_error(why) and why.message or tostring(why)))
    end
  end
  check_once(path, m)
  return m
end

--- Reads and checks a manifest.
-- errs io, format: each names what is wrong; unsupported: of a newer capl
function manifest.read(path)
  local folder, name = about.split(path)
  local hash, bytes = core.sys.sha256_file(folder, name)
  if not hash then core.error{code = "io", message = ("%s %s"):format(path, bytes), path = false} end
  if bytes > 1048576 then refuse(path, ("%d bytes, more than any manifest has"):format(bytes)) end
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why, path = false} end
  return manifest.check(core.json_decode(text, path), path)
end

--- Writes a manifest; what this program would refuse to read is not written.
function manifest.write(path, m)
  local text = core.json_encode(m, true):gsub('"files": {}', '"files": []', 1)
  manifest.check(core.json_decode(text, path), path)
  local done, why = core.sys.write(path, text .. "\n")
  if not done then core.error{code = "io", message = why, path = false} end
end

--- Path of the manifest of a recipe.
function manifest.path_of(a) return about.beside(a.path, about.stem(a.name) .. ".manifest.json") end

-- ---- what differs ----

local function short(hash) return hash:sub(1, 12) .. "…" end

local function bytes_text(n) return ("%.0f byte%s"):format(n, n == 1 and "" or "s") end

local function compare_file(out, folder, f)
  local hash, bytes = core.sys.sha256_file(folder, f.file)
  if not hash then
    out[#out + 1] = ("%s %s"):format(f.file, bytes)
  elseif bytes ~= f.bytes then
    out[#out + 1] = ("%s has %s, packed were %.0f"):format(f.file, bytes_text(bytes), f.bytes)
  elseif hash ~= f.sha256 then
    out[#out + 1] = ("%s has other bytes: sha256 %s, packed was %s"):format(f.file, short(hash), short(f.sha256))
  end
end

-- Where a set or model of the manifest is here: as named by the user, else below its folder.
local function place_of(folder, entry, given)
  if given then return given end
  if entry.path and core.sys.kind(folder .. "/" .. entry.path) then return folder .. "/" .. entry.path end
end

local function compare_content(out, folder, what, entry, given)
  local place = place_of(folder, entry, given)
  if not place then
    out[#out + 1] = ("%s %s is not here: --%s=%s names it, --without=%s leaves it out"):format(what, entry.name, what,
      what == "data" and "SOURCE" or "MODEL", what)
    return
  end
  local fine, found = pcall(what == "data" and contents.data or contents.model, place)
  if not fine then
    out[#out + 1] = ("%s %s cannot be read: %s"):format(what, entry.name, core.is_error(found) and found.message
      or tostring(found))
  elseif found.files ~= entry.files then
    local s = found.files == 1 and "" or "s"
    out[#out + 1] = ("%s %s has %d file%s, packed were %d"):format(what, entry.name, found.files, s, entry.files)
  elseif found.sha256 ~= entry.sha256 then
    out[#out + 1] = ("%s %s has other contents: sha256 %s, packed was %s"):format(what, entry.name, short(found.sha256),
      short(entry.sha256))
  end
end

-- What the recipe needs now and the manifest does not have, and the other way round.
local function compare_modules(out, a, m)
  local packed = {}
  for _, f in ipairs(m.files) do packed[f.file] = true end
  for _, found in ipairs(a.modules) do
    if not packed[found.file] then
      out[#out + 1] = ("%s is required by the recipe, but was not packed"):format(found.file)
    end
  end
  for _, name in ipairs(a.missing) do
    out[#out + 1] = ("module '%s' is required by the recipe, but is not here"):format(name)
  end
end

local function texts_of(list)
  local out = {}
  for i, said in ipairs(list or {}) do out[i] = claim.text(claim.read(said)) end
  return table.concat(out, "; ")
end

local function compare_claims(out, a, m)
  if a.claims_computed then return end
  local said = {}
  for i, c in ipairs(a.claims) do said[i] = c.said end
  local now, then_ = texts_of(said), texts_of(m.expected)
  if now ~= then_ then
    out[#out + 1] = ("the recipe expects %s, packed was %s"):format(now ~= "" and now or "nothing", then_ ~= ""
      and then_ or "nothing")
  end
end

local function compare_recipe(out, folder, m)
  local before = #out
  compare_file(out, folder, m.recipe)
  if core.sys.kind(folder .. "/" .. m.recipe.file) ~= "file" then return end
  local fine, a = pcall(about.read, folder .. "/" .. m.recipe.file)
  if not fine then
    out[#out + 1] = core.is_error(a) and a.message or tostring(a)
    return
  end
  compare_modules(out, a, m)
  if #out > before then compare_claims(out, a, m) end -- of the same bytes it is the same
end

--- Everything in which what lies here differs from a manifest.
-- in   m: of manifest.read; folder it lies in; opts: data, weights = where they are here, {[n] = path}; without = {data
--      = true}
-- out  list of sentences, empty when all is as it was packed
function manifest.differences(m, folder, opts)
  local out = {}
  compare_recipe(out, folder, m)
  for _, f in ipairs(m.files) do compare_file(out, folder, f) end
  for _, what in ipairs{"data", "weights"} do
    for i, entry in ipairs(m[what] or {}) do
      if not opts.without[what] then compare_content(out, folder, what, entry, opts[what][i]) end
    end
    if #opts[what] > #(m[what] or {}) then
      out[#out + 1] = ("--%s names %d, packed were %d"):format(what, #opts[what], #(m[what] or {}))
    end
  end
  local of_result = m.result and type(m.result.recipe) == "table" and m.result.recipe.sha256
  if m.result and of_result ~= m.recipe.sha256 then
    out[#out + 1] = "the result in the manifest is of another text of the recipe"
  end
  return out
end

return manifest
