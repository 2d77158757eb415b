-- guess.lua: which part of the names of image files is their text: label = "auto".
--
-- Names are cut at '_', '-', '.', or blanks, whichever they have. A part that counts the files, or is a long hash, is no text;
-- of the others the first is. A stray file among many decides nothing.
-- SPDX-License-Identifier: Apache-2.0
local guess = {}

local LOOKED_AT = 2000 -- names, evenly spread
local TEXT_MAX = 32

--- Without folders and ending.
local function stem_of(name) return name:match("([^/]+)%.[^./]*$") or name:match("([^/]+)$") end

local function parent_of(name) return name:match("([^/]+)/[^/]+$") end

-- ---- what parts are ----

--- Names that may be unlike the others.
local function strays(n) return n < 10 and 0 or math.max(1, math.floor(n / 20)) end

local function nearly_all(values, fits)
  local left = strays(#values)
  for _, value in ipairs(values) do
    if not fits(value) then
      if left == 0 then return false end
      left = left - 1
    end
  end
  return true
end

--- Different whole numbers that lie close together: they count the files.
local function counts(values)
  local seen, numbers, stray = {}, {}, strays(#values)
  local function is_new(value)
    local number = value:match("^%d+$") and tonumber(value)
    if not number or seen[number] then return false end
    seen[number], numbers[#numbers + 1] = true, number
    return true
  end
  if not nearly_all(values, is_new) or #numbers == 0 then return false end
  table.sort(numbers)
  local limit = 2 * #numbers + 8
  for left = 0, math.min(stray, #numbers - 1) do -- strays below the others, and above them
    if numbers[#numbers - stray + left] and numbers[#numbers - stray + left] - numbers[1 + left] < limit then return true end
  end
  return false
end

-- Digits of a checksum or of a time: long, all different, all of one length.
local function is_hash(values)
  local seen, length = {}, #values[math.ceil(#values / 2)]
  return nearly_all(values, function(value)
    if #value < 10 or #value ~= length or not value:match("^%x+$") or seen[value] then return false end
    seen[value] = true
    return true
  end)
end

-- The same word in every name: "captcha_3K9Q".
local function is_constant(values)
  local middle = {}
  for i, value in ipairs(values) do middle[i] = value end
  table.sort(middle)
  middle = middle[math.ceil(#middle / 2)]
  return #values > 1 and nearly_all(values, function(value) return value == middle end)
end

-- Characters of a text, of more than one byte too; nil if there are blanks or control characters among them.
local function length_of(value)
  if not value:match("^[!-~\128-\255]*$") then return nil end
  return select(2, value:gsub("[^\128-\191]", ""))
end

local function is_text(values)
  if is_constant(values) or is_hash(values) then return false end
  local longest = 0
  local short = nearly_all(values, function(value)
    local length = length_of(value)
    if not length or length > TEXT_MAX then return false end
    longest = math.max(longest, length)
    return true
  end)
  return short and longest > 0
end

-- ---- cutting ----

local function split(stem, separator)
  local parts = {}
  for part in (stem .. separator):gmatch("(.-)%" .. separator) do parts[#parts + 1] = part end
  return parts
end

-- How many parts most names have.
local function usual_number(all)
  local times, best = {}, 0
  for _, parts in ipairs(all) do
    times[#parts] = (times[#parts] or 0) + 1
    if times[#parts] > (times[best] or 0) then best = #parts end
  end
  return best
end

--- -> columns[k] = parts k of the stems; nil unless all, but for strays, have as many parts
local function cut(stems, separator)
  local all, columns = {}, {}
  for i, stem in ipairs(stems) do all[i] = split(stem, separator) end
  local n = usual_number(all)
  if not nearly_all(all, function(parts) return #parts == n end) then return nil end
  for k = 1, n do columns[k] = {} end
  for _, parts in ipairs(all) do
    for k = 1, #parts == n and n or 0 do table.insert(columns[k], parts[k]) end
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
