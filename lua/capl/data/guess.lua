-- guess.lua: which part of the names of image files is their text: label = "auto".
--
-- Names are cut at '_', '-', '.', or blanks, whichever all of them have. A part that counts the files, or is a long hash, is
-- no text; of the others the first is.
-- SPDX-License-Identifier: Apache-2.0
local guess = {}

local LOOKED_AT = 2000 -- names, evenly spread
local TEXT_MAX = 32

--- Without folders and ending.
local function stem_of(name) return name:match("([^/]+)%.[^./]*$") or name:match("([^/]+)$") end

local function parent_of(name) return name:match("([^/]+)/[^/]+$") end

-- ---- what parts are ----

--- Different whole numbers that lie close together: they count the files.
local function counts(values)
  local seen, least, most, n = {}, math.huge, -math.huge, 0
  for _, value in ipairs(values) do
    local number = value:match("^%d+$") and tonumber(value)
    if not number or seen[number] then return false end
    seen[number] = true
    least, most, n = math.min(least, number), math.max(most, number), n + 1
  end
  return n > 0 and most - least + 1 <= 2 * n + 8
end

-- Digits of a checksum or of a time: long, all different, all of one length.
local function is_hash(values)
  local seen, length = {}, #values[1]
  for _, value in ipairs(values) do
    if #value < 10 or #value ~= length or not value:match("^%x+$") or seen[value] then return false end
    seen[value] = true
  end
  return true
end

-- The same word in every name: "captcha_3K9Q".
local function is_constant(values)
  for _, value in ipairs(values) do
    if value ~= values[1] then return false end
  end
  return #values > 1
end

local function is_text(values)
  if is_constant(values) or is_hash(values) then return false end
  local longest = 0
  for _, value in ipairs(values) do
    if not value:match("^[!-~]*$") then return false end
    longest = math.max(longest, #value)
  end
  return longest > 0 and longest <= TEXT_MAX
end

-- ---- cutting ----

local function split(stem, separator)
  local parts = {}
  for part in (stem .. separator):gmatch("(.-)%" .. separator) do parts[#parts + 1] = part end
  return parts
end

--- -> columns[k][i] = part k of stem i; nil unless all have as many parts
local function cut(stems, separator)
  local columns = {}
  for i, stem in ipairs(stems) do
    local parts = split(stem, separator)
    if i > 1 and #parts ~= #columns then return nil end
    for k, part in ipairs(parts) do
      columns[k] = columns[k] or {}
      columns[k][i] = part
    end
  end
  return columns
end

--- A pattern whose capture is part k of n, of a name with its ending.
local function pattern_of(k, n, separator)
  local s = "%" .. separator
  local before = ("[^" .. s .. "]*" .. s):rep(k - 1)
  if k == n then return "^" .. before .. "(.-)%.[^.]*$" end
  return "^" .. before .. "(.-)" .. s
end

local function by_parts(stems)
  for _, separator in ipairs{"_", "-", " ", "."} do
    local columns = cut(stems, separator)
    if columns and #columns > 1 then
      local second
      for k, values in ipairs(columns) do
        if is_text(values) then
          if not counts(values) then return pattern_of(k, #columns, separator) end
          second = second or k
        end
      end
      if second then return pattern_of(second, #columns, separator) end
    end
  end
end

-- ---- guessing ----

local function spread(source)
  local names, count = {}, source:count()
  local n = math.min(count, LOOKED_AT)
  for i = 1, n do names[i] = source:name(math.floor((i - 1) * count / n)) end
  return names
end

-- TEXT/whatever.png: every file is in a folder of the same depth, and several share one.
local function in_folders(names)
  local seen, n = {}, 0
  for _, name in ipairs(names) do
    local parent = parent_of(name)
    if not parent then return false end
    if not seen[parent] then n = n + 1 end
    seen[parent] = true
  end
  return n > 1
end

--- The rule that fits the names of a source's files: a Lua pattern, or "folder"; nil when none does.
function guess.rule(source)
  local names, stems = spread(source), {}
  for i, name in ipairs(names) do stems[i] = stem_of(name) end
  local plain, counted = is_text(stems), counts(stems)
  if in_folders(names) and (counted or not plain or is_hash(stems)) and not by_parts(stems) then return "folder" end
  local rule = by_parts(stems)
  if rule then return rule end
  if plain and not (counted and #stems > 1) then return "^(.-)%.[^.]*$" end
  return nil
end

--- What a rule is called: "TEXT_….png".
function guess.name(rule)
  if rule == "folder" then return "TEXT/….png" end
  local before, rest = rule:match("^%^(.-)%(%.%-%)(.*)$")
  if not before then return rule end
  local head = before:gsub("%[%^%%(.)%]%*%%.", "…%1")
  if rest == "%.[^.]*$" then return head .. "TEXT.png" end
  return head .. "TEXT" .. rest:sub(2) .. "….png"
end

--- What a rule reads of one name.
function guess.text(rule, name)
  if rule == "folder" then return parent_of(name) end
  return name:match("([^/]+)$"):match(rule)
end

return guess
