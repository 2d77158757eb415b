-- pack.lua: `capl recipe pack`: asks the recipe what it uses, in the sandbox, and writes its manifest.
--
-- What the child says is a stranger's word: paths are taken only when they lie below the recipe's folder behind no
-- link, and every hash is made here.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "recipe.about"
local contents = require "recipe.contents"
local json_file = require "json_file"
local manifest = require "recipe.manifest"
local tokens = require "recipe.tokens"

local pack = {}

local SECONDS = 600 -- that the check may take
local MOST_OUTPUT = 1048576 -- bytes of its last line

-- ---- asking the recipe ----

-- What the child printed last, when it is an object.
local function last_object(log)
  local text = core.sys.read(log, MOST_OUTPUT) or ""
  return json_file.decode(("\n" .. text):match("\n({[^\n]*})%s*$"))
end

local function wait(process, seconds)
  local began = core.clock()
  while true do
    local status = process:poll()
    if status then return status end
    if core.clock() - began > seconds then process:kill() return nil end
    core.sys.sleep(0.01)
  end
end

--- `capl check --json` of the recipe in a process of its own.
-- words  --key=value words for the recipe; flags: --allow or --trust, as this command was called
function pack.ask(a, words, log, flags)
  local args = {}
  for _, word in ipairs(flags or {}) do args[#args + 1] = word end
  for _, word in ipairs{"check", a.word, "--json"} do args[#args + 1] = word end
  for _, word in ipairs(words) do args[#args + 1] = word end
  local process, why = core.sys.spawn{args = args, log = log, env = {"NO_COLOR=1"}}
  if not process then core.fail(why, nil, "io") end
  local status = wait(process, SECONDS)
  local said, found = core.sys.read(log) or "", last_object(log)
  core.sys.remove(log)
  if status == 0 and found then return found end
  local last = said:gsub("%s+$", "")
  core.fail(("capl check %s failed, so what it uses is not known:\n%s"):format(a.path, #last > 4000
    and "…" .. last:sub(-4000) or last),
    "settings behind the recipe are handed on to it: capl recipe pack FILE --key=value")
end

-- ---- files ----

-- The path below the recipe's folder of a path that was read; nil for others.
local function below(a, path)
  local real, folder = core.sys.real(path), core.sys.real(a.folder)
  if not real or not folder or core.sys.kind(real) ~= "file" then return nil end
  if folder ~= "/" then folder = folder .. "/" end
  if real:sub(1, #folder) ~= folder then return nil end
  local name = real:sub(#folder + 1)
  return name ~= a.name and not name:match("^runs/") and not name:match("%.manifest%.json$")
    and not name:match("%.result%.json$")
    and not manifest.bad_path(name) and name or nil
end

-- Whether a file is part of a set of images that has a hash of its own.
local function is_data(a, name, sets)
  local path = core.sys.real(a.folder .. "/" .. name) or ""
  for _, set in ipairs(sets) do
    local root = core.sys.real(set) or set
    if path == root or path:sub(1, #root + 1) == root .. "/" then return true end
  end
  return false
end

local function strings(list)
  local out = {}
  for key, value in pairs(type(list) == "table" and list or {}) do
    out[#out + 1] = type(value) == "string" and type(key) == "number" and value or nil
  end
  return out
end

-- Files beside the recipe: modules that were required when it ran or stand in its text, and what else it read there.
local function files_of(a, answer, sets)
  local names = {}
  for _, m in ipairs(a.modules) do names[m.file] = true end
  for _, file in ipairs(strings(answer.modules)) do
    if not manifest.bad_path(file) then names[file] = true end
  end
  for _, path in ipairs(strings(answer.read)) do
    local name = below(a, path)
    if name and not is_data(a, name, sets) then names[name] = true end
  end
  local list = {}
  for name in pairs(names) do
    local hash, bytes = core.sys.sha256_file(a.folder, name)
    if not hash then core.fail(("%s %s, so it cannot be packed"):format(about.beside(a.path, name), bytes)) end
    list[#list + 1] = {file = name, sha256 = hash, bytes = bytes}
  end
  table.sort(list, function(x, y) return x.file < y.file end)
  return list
end

-- ---- sets and models ----

-- Name of a set, and its path when it lies below the folder of the manifest.
local function entry(folder, path, found)
  local real, root = core.sys.real(path) or path, core.sys.real(folder) or folder
  local inside = real:sub(1, #root + 1) == root .. "/" and real:sub(#root + 2) or nil
  if inside and manifest.bad_path(inside) then inside = nil end
  return {name = real:match("([^/]+)/*$") or real, path = inside, files = found.files, bytes = found.bytes,
    sha256 = found.sha256}
end

local function entries(folder, list, hash)
  local out = {}
  for i, path in ipairs(list) do out[i] = entry(folder, path, hash(path)) end
  return out[1] and out or nil
end

-- Presets and seeds of drawn images, by role; plain values only.
local function generators_of(answer)
  local out = {}
  for role, data in pairs(type(answer.data) == "table" and answer.data or {}) do
    local g = type(data) == "table" and type(role) == "string" and type(data.generator) == "table" and data.generator
    if g then
      out[role] = {}
      for key, value in pairs(g) do
        local kind = type(value)
        if type(key) == "string" and (kind == "number" or kind == "boolean" or kind == "string" and #value < 200) then
          out[role][key] = value
        end
      end
    end
  end
  return next(out) and out or nil
end

-- What the recipe claims: as it stood in its text, else as it said when it ran.
local function expected_of(a, answer)
  local list = {}
  if not a.claims_computed then
    for i, c in ipairs(a.claims) do list[i] = c.said end
    return list[1] and list or nil
  end
  local claim = require "recipe.claim"
  for i, said in ipairs(type(answer.expected) == "table" and answer.expected or {}) do
    claim.read(said)
    list[i] = said
  end
  return list[1] and list or nil
end

-- The record of capl test, when it is of this text.
local function result_of(a)
  local path = about.beside(a.path, about.stem(a.name) .. ".result.json")
  if core.sys.kind(path) ~= "file" then return nil end
  local text, why = core.sys.read(path)
  if not text then core.fail(why, nil, "io") end
  local record = core.json_decode(text, path)
  return type(record.recipe) == "table" and record.recipe.sha256 == a.sha256 and record or nil
end

-- ---- the manifest ----

-- A file that is none of ours is not replaced.
local function check_out(path)
  local kind = core.sys.kind(path)
  if kind == "folder" then core.fail(("--out: %s is a folder"):format(path)) end
  if not kind then return end
  local kept = json_file.read(path)
  if not kept or kept.written_by == nil or kept.recipe == nil then
    core.fail(path .. " is there and is no manifest, so it is not replaced", "--out=FILE names another")
  end
end

local function words_for(a, o)
  local words = {}
  for i, word in ipairs(o.words) do words[i] = word end
  local _, has_data = tokens.setting(a.list, "data")
  if o.data[1] and has_data then words[#words + 1] = "--data=" .. o.data[1] end
  return words
end

--- Writes the manifest of a recipe.
-- in   job: of the command; word: the recipe; o: data, weights = lists of paths, words = settings for the recipe, out =
--      file
-- out  its path, and what it holds
function pack.write(job, word, o)
  local a = about.read(word)
  local path = o.out or manifest.path_of(a)
  check_out(path)
  local folder = about.split(path)
  if core.sys.real(folder) ~= core.sys.real(a.folder) then
    core.fail(("--out: a manifest lies beside its recipe, in %s"):format(a.folder),
      "paths in it are relative to its own folder")
  end
  local flags = job.allowed and {"--allow"} or job.trusted and {"--trust"}
  local answer = pack.ask(a, words_for(a, o), path .. ".log", flags)
  local m = {
    format = manifest.FORMAT, written_by = "capl " .. core.version(), purpose = a.purpose:sub(1, 1000), needs = a.needs,
    requires = {language = 1, version = a.needs.version}, recipe = {file = a.name, bytes = a.bytes, sha256 = a.sha256},
    files = files_of(a, answer, o.data), data = entries(folder, o.data, contents.data),
    weights = entries(folder, o.weights, contents.model), generators = generators_of(answer),
    expected = expected_of(a, answer), result = result_of(a),
  }
  manifest.write(path, m)
  return path, m
end

return pack
