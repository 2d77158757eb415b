-- recipe.lua: `capl recipe info FILE`: what a recipe is, from its text; nothing of it runs.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "recipe.about"
local grouped = require "grouped"
local claim = require "recipe.claim"
local options = require "cli.options"
local shell = require "shell"

local spec = {{name = "json", type = "flag", default = false, doc = "prints one JSON object"}}

local function out(text) core.sys.out(text .. "\n") end

local function claims_lines(a)
  local lines = {}
  for _, c in ipairs(a.claims) do lines[#lines + 1] = claim.text(c.claim) end
  if a.claims_computed then lines[#lines + 1] = "a capl.expect whose values are computed; capl check shows it" end
  if #lines == 0 then lines[1] = "nothing: it has no capl.expect" end
  return lines
end

local function modules_lines(a)
  local lines = {}
  for _, m in ipairs(a.modules) do lines[#lines + 1] = ("%s, %s bytes, sha256 %s"):format(m.file, grouped(m.bytes), m.sha256) end
  for _, name in ipairs(a.missing) do lines[#lines + 1] = ("module '%s', which is not here"):format(name) end
  if a.computed then lines[#lines + 1] = "and modules whose names are computed" end
  if #lines == 0 then lines[1] = "no other file" end
  return lines
end

-- What a record of capl test says in one line.
local function proof_line(record)
  local machine = record.machine
  local where = type(machine) == "table" and type(machine.processor) == "string" and machine.processor or "an unknown machine"
  local lines = type(record.result) == "table" and type(record.result.lines) == "table" and record.result.lines or {}
  local first = type(lines[1]) == "string" and lines[1] or "no figures"
  return ("%s: %s (%s)"):format(record.held == true and "it held" or "it did not hold", first, where)
end

local function proof_of(a)
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

local function print_info(a, proof)
  out(("%s: %s"):format(a.path, a.purpose ~= "" and a.purpose or "it has no description"))
  print_field("file", {("%s bytes, %s lines; nothing of it was run"):format(grouped(a.bytes), grouped(a.lines))})
  print_field("needs", {about.needs_text(a.needs)})
  print_field("expected", claims_lines(a))
  print_field("proved", {proof and proof_line(proof) or "not on record; " .. shell.command{"capl", "test", a.path} .. " proves it"})
  print_field("requires", modules_lines(a))
  print_field("sha256", {a.sha256})
  print_field("share", share_lines(a))
end

local function said_of(a)
  local list = {}
  for i, c in ipairs(a.claims) do list[i] = c.said end
  return list[1] and list or nil
end

local function info_object(a, proof)
  local expected = {}
  for i, c in ipairs(a.claims) do expected[i] = claim.text(c.claim) end
  return {file = a.path, bytes = a.bytes, sha256 = a.sha256, purpose = a.purpose, language = 1, needs = a.needs,
    needs_text = about.needs_text(a.needs), expected = said_of(a), expected_text = expected[1] and expected,
    modules = a.modules[1] and a.modules, missing = a.missing[1] and a.missing, computed = a.computed or nil,
    result = proof,
    share = about.share_line(a), version = core.version()}
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "recipe"})
  if words[1] ~= "info" then
    core.fail(words[1] and ("'%s' is not info"):format(words[1]) or "usage: capl recipe info FILE", "usage: " .. job.usage)
  end
  if not words[2] then core.fail("capl recipe info needs a recipe") end
  if words[3] then core.fail(("'%s' is an extra argument; write --key=value"):format(words[3])) end
  local a = about.read(words[2])
  local proof = proof_of(a)
  if o.json then return out(core.json_encode(info_object(a, proof), true)) end
  print_info(a, proof)
end

return {main = main, options = spec, examples = {
  {"capl recipe info recipes/captcha.lua", "prints purpose, permissions, claims and hash, without running the recipe"},
}}
