-- page.lua: what the prompt and `capl docs` print of a name.
-- SPDX-License-Identifier: Apache-2.0
local docs = require "docs.index"

local page = {}

local WIDTH = 100

-- Words in lines of at most WIDTH characters, all but the first indented.
local function wrap(text, first, indent)
  local lines, line = {}, first
  for word in text:gmatch("%S+") do
    if #line + #word + 1 > WIDTH and line:match("%S") then
      lines[#lines + 1] = line
      line = indent
    end
    line = line .. (line:match("%S") and not line:match("%s$") and " " or "") .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local titles = {["in"] = "in", out = "out", opts = "options", init = "init", errs = "errors", paper = "source"}

local function add_parts(lines, parts)
  for _, part in ipairs(parts) do
    if titles[part.label] then
      lines[#lines + 1] = wrap(part.text, ("%-9s"):format(titles[part.label]), (" "):rep(9))
    end
  end
end

local function option_line(option)
  local what = option.required and "needed" or option.default and "= " .. option.default or ""
  return ("  %-18s %-16s %s"):format(option.name, table.concat(option.types, "|"), what):gsub("%s+$", "")
end

local function add_options(lines, record)
  if #record.options == 0 or #(record.options[1].types) == 0 then return end
  lines[#lines + 1] = "arguments"
  for _, option in ipairs(record.options) do lines[#lines + 1] = option_line(option) end
end

-- "nn.ReLU():forward(x)  --> 3" is shown as what to type and what comes.
local function add_examples(lines, record)
  for _, example in ipairs(record.examples) do
    for line in example:gmatch("[^\n]+") do
      local code, value = line:match("^(.-)%s+%-%->%s+(.+)$")
      lines[#lines + 1] = "example  " .. (code or line):gsub("^return ", "")
      if value then lines[#lines + 1] = "         " .. value end
    end
  end
end

local function add_members(lines, record)
  local sign = record.kind == "object" and ":" or "."
  lines[#lines + 1] = ""
  for _, key in ipairs(record.members) do
    local member = docs.of(record.name .. sign .. key) or docs.of(record.name .. "." .. key)
    lines[#lines + 1] = ("  %-26s %s"):format(key, member and member.summary or ""):sub(1, WIDTH + 10)
  end
end

--- The page of a record of docs.of.
function page.of_record(record)
  if record.kind == "op" then return record.text end
  if not record.text then return record.name .. " (" .. record.kind .. "): nothing is written about it" end
  local lines = {record.signature, record.text}
  if record.members then
    add_members(lines, record)
    return table.concat(lines, "\n")
  end
  add_parts(lines, record.parts)
  add_options(lines, record)
  add_examples(lines, record)
  for _, see in ipairs(record.see) do lines[#lines + 1] = "see      " .. see end
  return table.concat(lines, "\n")
end

local usage = [[
?name     explains a function, a layer, an op or a method: ?nn.Conv2d, ?conv2d, ?x:sum, ?opt:step
help(x)   the same for a value: help(nn.Conv2d), help("data.folder"); for a tensor: what it can do
TAB       completes names
_         the last value; a final ; keeps a line from printing
Ctrl-C    stops what runs; Ctrl-D leaves
topics:]]

local function start()
  local lines = {usage}
  for _, topic in ipairs(docs.topics()) do lines[#lines + 1] = ("  ?%-20s %s"):format(topic.name, topic.about) end
  return table.concat(lines, "\n")
end

-- Of names that hold the word, the one that is the word in other letters: nn.conv2d -> nn.Conv2d before capl.op.conv2d.
local function same_letters(name, word, found)
  local same
  for _, other in ipairs(found) do
    if other:lower() == name:lower() then return other end
    if #word > 1 and other:match("([%w_]+)$"):lower() == word:lower() then same = same or other end
  end
  return same
end

-- A name that does not exist: the nearest one, or those that contain the word.
local function unknown(name)
  local word = name:match("([%w_]+)$") or name
  local found = docs.search(word)
  local same = same_letters(name, word, found)
  if same then return ("nothing is called '%s'; did you mean %s?"):format(name, same) end
  local near = (#found == 0 or #word < 3) and docs.near(name)
  if near then return ("nothing is called '%s'; did you mean %s?"):format(name, near) end
  if #found == 0 then return ("nothing is called '%s'; ? alone lists the topics"):format(name) end
  return ("nothing is called '%s'; names that contain it:\n  %s"):format(name,
    table.concat(found, "\n  ", 1, math.min(#found, 20)))
end

--- The page of a name; for "" how the prompt works, and the topics.
function page.of(name)
  if name == "" then return start() end
  local record = docs.of(name)
  return record and page.of_record(record) or unknown(name)
end

--- The page of a value: help(nn.Conv2d), help(x); a text is a name.
function page.of_value(value)
  if type(value) == "string" then return page.of(value) end
  local name = docs.name_of(value)
  return name and page.of(name) or "nothing is known about a " .. type(value) .. " that is not capl's"
end

return page
