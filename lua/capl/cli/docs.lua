-- docs.lua: `capl docs NAME` explains a name; --write=DIR makes pages of all names, --json is for other programs.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local index = require "docs.index"
local options = require "cli.options"

local spec = {
  {name = "write", type = "text", value = "DIR", doc = "writes a page for each library and class to this folder"},
  {name = "json", type = "flag", default = false,
  doc = "prints all names, or the given one, as a JSON list, for editors"},
}

-- What is known of a name without what only the prompt's page needs.
local function plain(record)
  return {name = record.name, kind = record.kind, signature = record.signature, text = record.text,
    summary = record.summary, options = record.options, examples = record.examples, see = record.see,
    file = record.file, line = record.line}
end

local function print_json(name)
  local out = {}
  for _, one in ipairs(name and {name} or index.names()) do out[#out + 1] = plain(index.of(one)) end
  core.sys.out(core.json_encode(out, true) .. "\n")
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "docs"})
  if o.write then return require("docs.markdown").write(o.write) end
  if words[2] then core.error{code = "value", message = "capl docs takes one name, not '" .. words[2] .. "' too"} end
  if words[1] and not index.of(words[1]) then
    core.error{code = "value", message = require("docs.page").of(words[1]), hint = "'capl docs' lists the topics"}
  end
  if o.json then return print_json(words[1]) end
  core.sys.out(require("docs.page").of(words[1] or "") .. "\n")
end

return {main = main, options = spec}
