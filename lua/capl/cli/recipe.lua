-- recipe.lua: `capl recipe info|pack|verify FILE`: what a recipe is, what belongs to it, and whether all of that is
-- here.
--
-- Nothing of the recipe runs in this process: info and verify read its text, pack asks `capl check`, which runs it in
-- the sandbox.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "recipe.about"
local digit_groups = require "digit_groups"
local claim = require "recipe.claim"
local manifest = require "recipe.manifest"
local options = require "cli.options"
local shell = require "shell"

local spec = {
  {name = "json", type = "flag", default = false, doc = "info, verify: prints one JSON object"},
  {name = "data", type = "text", value = "SOURCE",
    doc = "pack, verify: the training images: folders, lists or databases, separated by commas"},
  {name = "weights", type = "text", value = "MODEL",
    doc = "pack, verify: models or files of weights of the recipe, separated by commas"},
  {name = "out", type = "text", value = "FILE",
  doc = "pack: file to write (default: NAME.manifest.json beside the recipe)"},
  {name = "without", type = "text", value = "PARTS", doc = "verify: data, weights or both: not verified"},
}

local function out(text) core.sys.out(text .. "\n") end

-- "a,b" -> {"a", "b"}; a name with a comma that is there is one
local function list_of(text)
  if not text then return {} end
  if core.sys.kind(text) then return {text} end
  local parts = {}
  for part in text:gmatch("[^,]+") do parts[#parts + 1] = part end
  return parts
end

-- ---- info ----

-- The manifest beside a recipe, and what differs; nil without one.
local function beside(a)
  local path = manifest.path_of(a)
  if core.sys.kind(path) ~= "file" then return nil end
  local fine, m = pcall(manifest.read, path)
  if not fine then return {path = path, broken = core.is_error(m) and m.message or tostring(m)} end
  local differs = manifest.differences(m, a.folder, {data = {}, weights = {}, without = {data = true, weights = true}})
  return {path = path, written_by = m.written_by, differences = differs, result = m.result, manifest = m}
end

local function claims_lines(a)
  local lines = {}
  for _, c in ipairs(a.claims) do lines[#lines + 1] = claim.text(c.claim) end
  if a.claims_computed then lines[#lines + 1] = "a capl.expect whose values are computed; capl check shows it" end
  if #lines == 0 then lines[1] = "nothing: it has no capl.expect" end
  return lines
end

local function modules_lines(a)
  local lines = {}
  for _, m in ipairs(a.modules) do
    lines[#lines + 1] = ("%s, %s bytes, sha256 %s"):format(m.file, digit_groups(m.bytes), m.sha256)
  end
  for _, name in ipairs(a.missing) do lines[#lines + 1] = ("module '%s', which is not here"):format(name) end
  if a.computed then lines[#lines + 1] = "and modules whose names are computed" end
  if #lines == 0 then lines[1] = "no other file" end
  return lines
end

local function manifest_lines(found)
  if not found then return {"none; capl recipe pack writes one"} end
  if found.broken then return {found.broken} end
  if #found.differences == 0 then return {("%s, by %s: agrees"):format(found.path, found.written_by)} end
  return {("%s, by %s: %s"):format(found.path, found.written_by, table.concat(found.differences, "; "))}
end

-- What a record of capl test says in one line.
local function proof_line(record)
  local machine = record.machine
  local where = type(machine) == "table" and type(machine.processor) == "string" and machine.processor
    or "an unknown machine"
  local lines = type(record.result) == "table" and type(record.result.lines) == "table" and record.result.lines or {}
  local first = type(lines[1]) == "string" and lines[1] or "no metrics"
  return ("%s: %s (%s)"):format(record.held == true and "it held" or "it did not hold", first, where)
end

local function proof_of(a, found)
  if found and found.result then return found.result end
  local path = about.beside(a.path, about.stem(a.name) .. ".result.json")
  if core.sys.kind(path) ~= "file" then return nil end
  local fine, record = pcall(function() return core.json_decode(core.sys.read(path) or "", path) end)
  return fine and type(record.recipe) == "table" and record.recipe.sha256 == a.sha256 and record or nil
end

local function print_field(name, lines)
  for i, line in ipairs(lines) do out(("  %-10s %s"):format(i == 1 and name or "", line)) end
end

local function share_lines(a)
  local lines, unnamed = {about.share_line(a)}, about.unnamed(a)
  if #unnamed == 0 then return lines end
  lines[#lines + 1] = "for that, the recipe must name its modules by their hashes, in a comment:"
  for _, m in ipairs(unnamed) do lines[#lines + 1] = ("-- %s sha256 %s"):format(m.file, m.sha256) end
  return lines
end

local function print_info(a, found, proof)
  out(("%s: %s"):format(a.path, a.purpose ~= "" and a.purpose or "it has no description"))
  print_field("file", {("%s bytes, %s lines; nothing of it was run"):format(digit_groups(a.bytes), digit_groups(a.lines))})
  print_field("needs", {about.needs_text(a.needs)})
  print_field("expected", claims_lines(a))
  print_field("proved", {proof and proof_line(proof)
    or "not on record; " .. shell.command{"capl", "test", a.path} .. " proves it"})
  print_field("requires", modules_lines(a))
  print_field("manifest", manifest_lines(found))
  print_field("sha256", {a.sha256})
  print_field("share", share_lines(a))
end

local function said_of(a)
  local list = {}
  for i, c in ipairs(a.claims) do list[i] = c.said end
  return list[1] and list or nil
end

local function info_object(a, found, proof)
  local expected = {}
  for i, c in ipairs(a.claims) do expected[i] = claim.text(c.claim) end
  return {file = a.path, bytes = a.bytes, sha256 = a.sha256, purpose = a.purpose, language = 1, needs = a.needs,
    needs_text = about.needs_text(a.needs), expected = said_of(a), expected_text = expected[1] and expected,
    modules = a.modules[1] and a.modules, missing = a.missing[1] and a.missing, computed = a.computed or nil,
    manifest = found and found.path, manifest_written_by = found and found.written_by,
    differences = found and (found.broken and {found.broken} or found.differences[1] and found.differences),
    result = proof, share = about.share_line(a), version = core.version()}
end

local jobs = {}

function jobs.info(_, word, o)
  local a = about.read(word)
  local found = beside(a)
  local proof = proof_of(a, found)
  if o.json then return out(core.json_encode(info_object(a, found, proof), true)) end
  print_info(a, found, proof)
end

-- ---- pack ----

function jobs.pack(job, word, o, words)
  local path, m = require("recipe.pack").write(job, word,
    {data = list_of(o.data), weights = list_of(o.weights), out = o.out, words = words})
  local n = #m.files
  out(("%s: the recipe, %s beside it, %s, %s"):format(path, n == 0 and "no file" or n == 1 and "1 file"
    or n .. " files", m.data and #m.data .. " set" .. (#m.data > 1 and "s" or "") .. " of images" or "no images",
    m.weights and #m.weights .. " model" .. (#m.weights > 1 and "s" or "") or "no weights"))
  out("give away the recipe, the files named in it, and this one; whoever gets them checks with")
  out("  " .. shell.command{"capl", "recipe", "verify", (path:match("[^/]+$"))})
end

-- ---- verify ----

local function without_of(text)
  local left = {}
  for part in (text or ""):gmatch("[^,]+") do
    if part ~= "data" and part ~= "weights" then
      core.fail(("--without is data, weights, or both with a comma, not '%s'"):format(part))
    end
    left[part] = true
  end
  return left
end

-- The manifest that a word names: itself, or the one beside a recipe.
local function manifest_path(word)
  if word:match("%.json$") then return word end
  local a = about.read(word)
  local path = manifest.path_of(a)
  if core.sys.kind(path) == nil then
    core.fail(("%s has no manifest: %s is not there"):format(a.path, path),
      shell.command{"capl", "recipe", "pack", a.path} .. " writes it")
  end
  return path
end

local function count_text(m, without)
  local parts = {"the recipe"}
  if #m.files > 0 then parts[#parts + 1] = ("%d file%s beside it"):format(#m.files, #m.files > 1 and "s" or "") end
  for _, what in ipairs{"data", "weights"} do
    if m[what] and not without[what] then parts[#parts + 1] = what end
  end
  return table.concat(parts, ", ")
end

function jobs.verify(_, word, o)
  local path, without = manifest_path(word), without_of(o.without)
  local m = manifest.read(path)
  local differs = manifest.differences(m, (about.split(path)),
    {data = list_of(o.data), weights = list_of(o.weights), without = without})
  if o.json then
    out(core.json_encode({manifest = path, agrees = #differs == 0, differences = differs[1] and differs or nil}, true))
  elseif #differs == 0 then
    out(("%s: %s: as they were packed"):format(path, count_text(m, without)))
  else
    for _, line in ipairs(differs) do out(path .. ": " .. line) end
    out(("%d difference%s"):format(#differs, #differs > 1 and "s" or ""))
  end
  return #differs == 0 and 0 or 1
end

-- ---- which ----

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "recipe", rest = true})
  local what, word = words[1], words[2]
  if not jobs[what or ""] then
    local near = what and core.nearest(what, {"info", "pack", "verify"})
    core.fail(what and ("'%s' is none of info, pack and verify%s"):format(what, near
      and "; did you mean " .. near .. "?" or "")
      or "usage: capl recipe info|pack|verify FILE", "usage: " .. job.usage)
  end
  if not word then
    core.fail(("capl recipe %s needs a recipe%s"):format(what, what == "verify" and " or a manifest" or ""))
  end
  if words[3] then core.fail(("'%s' is an extra argument; write --key=value"):format(words[3])) end
  if rest[1] and what ~= "pack" then
    local key, names = options.split(rest[1]), {}
    for i, option in ipairs(spec) do names[i] = option.name end
    local near = core.nearest(key, names)
    core.fail(("unknown option --%s%s"):format(key, near and "; did you mean --" .. near .. "?" or ""))
  end
  return jobs[what](job, word, o, rest)
end

return {main = main, options = spec, examples = {
  {"capl recipe info recipes/captcha.lua", "prints purpose, permissions, claims and hash, without running the recipe"},
  {"capl recipe pack mine.lua --data=captchas", "writes mine.manifest.json, to share with the recipe"},
  {"capl recipe verify mine.manifest.json", "compares all files with the manifest"},
}}
