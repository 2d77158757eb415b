-- markdown.lua: the reference pages in docs/api: one for each library and kind of object, and the list of all names.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local docs = require "docs.index"

local markdown = {}

-- Some files have pages of their own: nn and tensor have more names than a page should.
local function page_of(record)
  local place = record.place
  if place == "tensor" and record.file:match("/elementwise%.lua$") then return "tensor.functions" end
  local file = place == "nn" and record.file:match("/nn/(.*)%.lua$") or ""
  if file == "activation" then return "nn.activations" end
  if file == "small" or file == "padding" then return "nn.small" end
  return (file:match("^loss") or file == "dice" or file == "ctc") and "nn.losses" or place
end

local function file_name(page) return (page:gsub("%.", "-")) .. ".md" end

-- As GitHub makes the anchor of a heading.
local function anchor(name) return (name:lower():gsub("[^%w_ -]", ""):gsub(" ", "-")) end

local function escape(text) return (text:gsub("[\\*_<>|`%[%]]", "\\%0")) end

-- ---- entries: names that share a docstring stand together ----

local function add_entry(pages, record, by_block)
  local page = page_of(record)
  local key = page .. " " .. record.block
  local entry = by_block[key]
  if not entry then
    entry = {names = {}, record = record, page = page}
    by_block[key] = entry
    pages[page] = pages[page] or {}
    table.insert(pages[page], entry)
  end
  table.insert(entry.names, record)
end

-- Functions before the modules that hold their options, then by name.
local function before(a, b)
  local a_class, b_class = a.kind == "class", b.kind == "class"
  if a_class ~= b_class then return b_class end
  return a.name < b.name
end

-- {page -> list of entries}, {name -> {page, anchor}}
local function collect()
  local pages, by_block, links = {}, {}, {}
  for _, name in ipairs(docs.names()) do
    local record = docs.of(name)
    if record.block then add_entry(pages, record, by_block) end
  end
  for page, entries in pairs(pages) do
    for _, entry in ipairs(entries) do
      table.sort(entry.names, before)
      entry.record = entry.names[1]
      for _, record in ipairs(entry.names) do
        links[record.name] = file_name(page) .. "#" .. anchor(entry.names[1].name)
      end
    end
  end
  return pages, links
end

-- ---- text ----

-- Names of functions become links, but for those of the same entry.
local function linked(text, links, own)
  local out = escape(text):gsub("%f[%w]([%l]+[.:][%w_.\\]+)", function(word)
    local name = word:gsub("\\", "")
    local rest = name:match("[.:]+$") or ""
    name = name:sub(1, #name - #rest):gsub("^x:", "tensor:"):gsub("^opt:", "optimizer:"):gsub("^model:", "module:")
    local link = links[name]
    if link and not own[name] then return ("[%s](%s)%s"):format(word:sub(1, #word - #rest), link, rest) end
  end)
  return out
end

local titles = {["in"] = "In", out = "Out", opts = "Options", init = "First values", errs = "Errors", paper = "Source"}

local function add_parts(lines, record, links, own)
  for _, part in ipairs(record.parts) do
    if titles[part.label] then
      lines[#lines + 1] = ""
      lines[#lines + 1] = ("**%s** %s"):format(titles[part.label], linked(part.text, links, own))
    end
  end
end

local function cell(text) return text and text ~= "" and "`" .. text:gsub("|", "\\|") .. "`" or "" end

local function add_options(lines, record)
  local options = record.options
  if #options == 0 or #options[1].types == 0 then return end
  lines[#lines + 1] = "\n| argument | type | default |\n|---|---|---|"
  for _, option in ipairs(options) do
    lines[#lines + 1] = ("| %s | %s | %s |"):format(cell(option.name), table.concat(option.types, " or "),
      option.required and "needed" or cell(option.default))
  end
end

local function add_examples(lines, record)
  if #record.examples == 0 then return end
  lines[#lines + 1] = "\n```lua"
  for _, example in ipairs(record.examples) do lines[#lines + 1] = (example:gsub("^return ", "")) end
  lines[#lines + 1] = "```"
end

local function add_entry_text(lines, entry, links)
  local own, names = {}, {}
  for i, record in ipairs(entry.names) do
    own[record.name] = true
    names[i] = escape(record.name)
  end
  local record = entry.record
  lines[#lines + 1] = ("\n## %s\n"):format(names[1])
  if #names > 1 then lines[#lines + 1] = "Also " .. table.concat(names, ", ", 2) .. ".\n" end
  lines[#lines + 1] = "```lua\n" .. record.signature .. "\n```\n"
  lines[#lines + 1] = linked(record.text:gsub("^%l", string.upper), links, own)
  add_parts(lines, record, links, own)
  add_options(lines, record)
  add_examples(lines, record)
  for _, see in ipairs(record.see) do lines[#lines + 1] = ("\nSee [%s](../%s)."):format(see, see:gsub("^docs/", "")) end
end

local made = "Made by `scripts/docs` from the docstrings in [lua/capl](../../lua/capl); edit those instead."

-- Titles that are no library or object of the index.
local more = {
  {name = "tensor.functions", about = "functions of tensors that are made of a few ops: rounding, logarithms, logical ones"},
  {name = "nn.activations", about = "layers that treat every element alike, softmax, dropout"},
  {name = "nn.small", about = "small layers: padding, pixels and channels rearranged, seldom used activations"},
  {name = "nn.losses", about = "losses: as functions, and as modules that hold their options"},
}

local function topics()
  local out = {}
  for _, topic in ipairs(docs.topics()) do
    out[#out + 1] = topic
    for _, page in ipairs(more) do
      if page.name:match("^%a+") == topic.name then out[#out + 1] = page end
    end
  end
  return out
end

local function page_text(topic, entries, links)
  local lines = {"# " .. escape(topic.name), "", (topic.about:gsub("^%l", string.upper)) .. ". " .. made, ""}
  for _, entry in ipairs(entries) do
    local names = {}
    for i, record in ipairs(entry.names) do names[i] = escape(record.name) end
    lines[#lines + 1] = ("- [%s](#%s): %s"):format(table.concat(names, ", "), anchor(entry.names[1].name),
      escape(entry.record.summary))
  end
  for _, entry in ipairs(entries) do add_entry_text(lines, entry, links) end
  return table.concat(lines, "\n") .. "\n"
end

local function contents(pages, links)
  local lines = {"# Reference", "",
    made .. " At the prompt, `?NAME` prints the same; in a shell, `capl docs NAME` does.", "", "Arguments in [] may be left out; those in {} are given by name. Dims and indices count from 1, class labels and values of",
    "indices from 0. Operations, which layers are made of: `capl ops` lists them, `capl ops NAME` explains one."}
  for _, topic in ipairs(topics()) do
    local names = {}
    for _, entry in ipairs(pages[topic.name] or {}) do
      for _, record in ipairs(entry.names) do
        names[#names + 1] = ("[%s](%s)"):format(escape(record.name:match("([%w_]+)$")), links[record.name])
      end
    end
    lines[#lines + 1] = ("\n## [%s](%s)\n\n%s.\n\n%s"):format(topic.name, file_name(topic.name),
      (topic.about:gsub("^%l", string.upper)), table.concat(names, ", "))
  end
  return table.concat(lines, "\n") .. "\n"
end

local function put(folder, name, text)
  local written, why = core.sys.write(folder .. "/" .. name, text)
  if not written then core.error{code = "io", message = why} end
end

--- Writes all pages into a folder, which is made when missing.
function markdown.write(folder)
  local there, why = core.sys.mkdir(folder)
  if not there then core.error{code = "io", message = why} end
  local pages, links = collect()
  put(folder, "README.md", contents(pages, links))
  for _, topic in ipairs(topics()) do
    put(folder, file_name(topic.name), page_text(topic, pages[topic.name] or {}, links))
  end
end

return markdown
