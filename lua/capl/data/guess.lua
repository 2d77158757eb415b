-- guess.lua: which part of the names of image files is their text: label = "auto".
--
-- Names are cut at '_', '-', '.', ',', blanks and brackets. Each way to read them is a rule for data.folder, a Lua
-- pattern; its texts score by the list `signs`. The best rule is used only when it leads clearly: else both are shown
-- and the user chooses. A dot never belongs to a text. A stray file among many decides nothing.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"

local guess = {}

local LOOKED_AT = 2000 -- names, evenly spread
local TEXT_MAX = 32
local LEAST = 3 -- points that a reading needs to be one
local LEAD = 1 -- points that the best reading has more than the next one

--- Without folders and ending.
local function stem_of(name) return name:match("([^/]+)%.[^./]*$") or name:match("([^/]+)$") end

local function parent_of(name) return name:match("([^/]+)/[^/]+$") end

-- ---- texts ----

-- The texts of one reading: all = {text or false, …} in the order of the names, given = those there are, count =
-- {[text] = times}.
local function texts_of(rule, names)
  local t = {rule = rule, names = names, all = {}, given = {}, count = {}, different = 0, lengths = {}}
  for i, name in ipairs(names) do
    local text = guess.text(rule, name)
    t.all[i] = text and text ~= "" and text or false
    if t.all[i] then
      t.given[#t.given + 1] = text
      t.different = t.different + (t.count[text] and 0 or 1)
      t.count[text] = (t.count[text] or 0) + 1
      local length = symbols.length(text)
      t.lengths[length] = (t.lengths[length] or 0) + 1
    end
  end
  return t
end

--- Share of the texts for which fits holds.
local function share(t, fits)
  local n = 0
  for _, text in ipairs(t.given) do n = n + (fits(text) and 1 or 0) end
  return #t.given > 0 and n / #t.given or 0
end

--- Names that may be unlike the others.
local function strays(n) return n < 10 and 0 or math.max(1, math.floor(n / 20)) end

local function nearly_all(t, fits) return (1 - share(t, fits)) * #t.given <= strays(#t.given) + 1e-6 end

local function commonest(count)
  local best, most = nil, 0
  for value, n in pairs(count) do
    if n > most then best, most = value, n end
  end
  return best, most
end

-- ---- signs ----

local function one_length(t)
  local _, most = commonest(t.lengths)
  return most / #t.given
end

local function clean(text) return text:find("^[%w\128-\255]+$") ~= nil end

local function is_clean(t) return nearly_all(t, clean) end

local function has_letters(t) return share(t, function(text) return text:find("[%a\128-\255]") ~= nil end) > 0.5 end

local function all_digits(t) return nearly_all(t, function(text) return text:find("^%d+$") ~= nil end) end

-- Whole numbers that lie close together, none twice in a folder, bare or all behind one word ("img17"): they count the
-- files.
local function counts(t)
  local seen, numbers = {}, {}
  local word = t.given[1]:match("^%a*")
  for i, text in ipairs(t.all) do
    local number = text and tonumber(text:match("^" .. word .. "(%d+)$"))
    local key = number and (parent_of(t.names[i]) or "") .. "/" .. number
    if number and not seen[key] then
      seen[key], numbers[#numbers + 1] = true, number
    end
  end
  local stray = math.max(strays(#t.given), math.floor(#t.given / 4)) -- what was added later has other numbers
  if #numbers < #t.given - stray or #numbers == 0 then return false end
  table.sort(numbers)
  for left = 0, math.min(stray, #numbers - 1) do -- strays below the others, and above them
    local last = numbers[#numbers - stray + left]
    if last and last - numbers[1 + left] < 2 * #numbers + 8 then return true end
  end
  return false
end

-- "004821": a number that was filled up with zeros.
local function is_padded(t)
  return #t.given > 4 and all_digits(t) and nearly_all(t, function(text) return text:find("^0.") ~= nil end)
end

-- Numbers of many lengths, none beginning with 0: "7", "48", "1203".
local function is_number(t)
  return all_digits(t) and one_length(t) < 0.95 and share(t, function(text) return text:find("^0.") ~= nil end) == 0
end

-- So many random numbers would repeat some: these were given out one by one.
local function never_twice(t)
  local length = commonest(t.lengths)
  local n = #t.given
  local expected = n * n / (2 * 10 ^ (length or 0))
  return not t.whole and all_digits(t) and t.different == #t.given and expected > 5
end

-- Digits of a checksum or of a time: of one length, and all different where they are no plain number.
local function is_hash(t, shortest)
  if shortest >= 10 and nearly_all(t, function(text) return #text >= shortest and text:find("^%d+$") ~= nil end) then
    return true end
  if t.different < #t.given - strays(#t.given) or one_length(t) < 0.95 then return false end
  return nearly_all(t, function(text) return #text >= shortest and text:find("^[%x%-]+$") ~= nil end)
end

local function is_short_hash(t)
  return not is_hash(t, 10) and is_hash(t, 6) and has_letters(t)
    and share(t, function(text) return text:find("%d") ~= nil end) > 0.8
end

local function is_date(t)
  return nearly_all(t, function(text) return text:find("^20[0-4]%d[01]%d[0-3]%d$") ~= nil end)
end

-- The same few words again and again: "train", "blue".
local function is_few(t) return #t.given >= 20 and t.different * 4 <= #t.given end

-- "copy" of "AB12 - copy.png", where the other names have no such word.
local function has_word(t)
  local _, most = commonest(t.count)
  return most > 2 and most > 0.1 * #t.given and t.different * 2 > #t.given
end

-- Texts are known to be of some characters and lengths, which nearly all of these are.
local function is_wanted(t) return t.wanted and nearly_all(t, t.wanted) end

local signs = { -- points for what texts are like; a number as the test's result is a share of them
  {points = 4, what = "letters and digits only", test = is_clean},
  {points = 3, what = "all of one length", test = one_length},
  {points = 3, what = "of the characters and the length that were given", test = is_wanted},
  {points = 1, what = "has letters", test = has_letters},
  {points = 0.5, what = "stands first", test = function(t) return t.first end},
  {points = -1, what = "numbers of many lengths", test = is_number},
  {points = -2, what = "numbers none of which occurs twice", test = never_twice},
  {points = -3, what = "numbers filled up with zeros", test = is_padded},
  {points = -3, what = "a few repeated words", test = is_few},
  {points = -3, what = "one repeated word among others", test = has_word},
  {points = -3, what = "looks like a short checksum", test = is_short_hash},
  {points = -5, what = "a date", test = is_date},
  {points = -6, what = "counts the files", test = function(t) return #t.given > 1 and counts(t) end},
  {points = -6, what = "a checksum or a time", test = function(t) return is_hash(t, 10) end},
}

-- The same word in every name: "captcha_3K9Q".
local function is_constant(t)
  local _, most = commonest(t.count)
  return #t.given > 1 and most >= #t.given - strays(#t.given)
end

local function can_be_text(text) return #text <= 4 * TEXT_MAX and not text:find("[%z\1-\31\127.]") end

--- nil when these can be no texts at all
local function score_of(t)
  if #t.all - #t.given > strays(#t.all) or #t.given == 0 or is_constant(t) or not nearly_all(t, can_be_text) then
    return nil
  end
  local score = 0
  for _, sign in ipairs(signs) do
    local found = sign.test(t)
    if found then score = score + sign.points * (found == true and 1 or found) end
  end
  return score
end

-- ---- rules ----

local separators = "_-~()[]{}@#,; " -- and the dot, which is always one

local function escaped(s) return (s:gsub("[%-%]%[]", "%%%0")) end

--- The k-th part from the front: "^[^_.]*[_.]([^_.]*)"; from the back, up to the ending: "([^_.]*)[_.][^_.]*%.[^.]*$"
local function front_rule(set, k)
  return "^" .. ("[^%s]*[%s]+"):format(set, set):rep(k - 1) .. ("([^%s]*)"):format(set)
end
local function back_rule(set, k)
  return ("([^%s]*)"):format(set) .. ("[%s][^%s]*"):format(set, set):rep(k - 1) .. "%.[^.]*$"
end

local uuid = ("%x"):rep(8) .. ("%-" .. ("%x"):rep(4)):rep(3) .. "%-" .. ("%x"):rep(12)

--- Separators that occur, each alone and all together: {"", "_", "-", "_-"}. The dashes of a UUID are none.
local function sets_of(stems)
  local used, sets = "", {""}
  for c in separators:gmatch(".") do
    for _, stem in ipairs(stems) do
      if stem:find(c, 1, true) and not (c == "-" and stem:find(uuid)) then
        used = used .. c
        sets[#sets + 1] = c
        break
      end
    end
  end
  if #used > 1 then sets[#sets + 1] = used end
  return sets
end

-- Parts that most names have when they are cut at these characters.
local function usual_parts(stems, set)
  local count = {}
  for _, stem in ipairs(stems) do
    local n = 1 + select(2, stem:gsub("[" .. set .. "]+", ""))
    count[n] = (count[n] or 0) + 1
  end
  return (commonest(count))
end

--- All ways to read the names: by the front part, by the others from the front, by the last one.
local function rules_for(stems)
  local rules = {}
  for _, s in ipairs(sets_of(stems)) do
    local set = escaped(s) .. "."
    local n = math.min(6, usual_parts(stems, set))
    for k = 1, n do
      local last = k == n and n > 1
      rules[#rules + 1] = {rule = last and back_rule(set, 1) or front_rule(set, k), first = k == 1, whole = n == 1}
    end
    if n == 1 then rules[#rules + 1] = {rule = back_rule(set, 1)} end
  end
  return rules
end

-- ---- guessing ----

local function spread(source)
  local names, count = {}, source:count()
  local n = math.min(count, LOOKED_AT)
  for i = 1, n do names[i] = source:name(math.floor((i - 1) * count / n)) end
  return names
end

-- TEXT/whatever.png: every file is in a folder, and there are several.
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

--- Do two readings give nearly all names the same text?
local function same(a, b)
  local differ = 0
  for i, text in ipairs(a.all) do differ = differ + (text ~= b.all[i] and 1 or 0) end
  return differ <= strays(#a.all)
end

--- Readings that are different and have a score, the best first.
local function readings(names, wanted)
  local stems, found = {}, {}
  for i, name in ipairs(names) do stems[i] = stem_of(name) end
  local rules = rules_for(stems)
  if in_folders(names) then rules[#rules + 1] = {rule = "folder"} end
  for order, candidate in ipairs(rules) do
    local t = texts_of(candidate.rule, names)
    t.first, t.whole, t.order, t.wanted = candidate.first, candidate.whole, order, wanted
    t.score = score_of(t)
    if t.score then found[#found + 1] = t end
  end
  table.sort(found, function(a, b) return a.score > b.score or a.score == b.score and a.order < b.order end)
  local different = {}
  for _, t in ipairs(found) do
    local known = false
    for _, other in ipairs(different) do known = known or same(t, other) end
    if not known then different[#different + 1] = t end
  end
  return different
end

--- The rule that fits the names of a source's files: a Lua pattern, or "folder"; nil when none does. wanted(text):
-- whether a
--- text is as those that are asked for; nil where nothing is known of them
-- out  rule or nil; list of rules between which only the user can choose
function guess.rule(source, wanted)
  local names = spread(source)
  local found = readings(names, wanted)
  local best, next_best = found[1], found[2]
  if not best then return nil, {} end
  if best.score < LEAST then return nil, {best.rule} end
  if #names > 1 and next_best and next_best.score > best.score - LEAD then return nil, {best.rule, next_best.rule} end
  return best.rule
end

-- ---- saying what was found ----

local known_names = {folder = "TEXT/….png", ["^(.-)_"] = "TEXT_….png", ["^([^_]+)_"] = "TEXT_….png"}

-- "_" for the set "_."; the first of several.
local function separator_of(set)
  local s = set:gsub("%%", ""):sub(1, -2)
  return s == "" and "." or s:sub(1, 1)
end

--- What a rule is called: "TEXT_….png".
function guess.name(rule)
  if known_names[rule] then return known_names[rule] end
  local before, set = rule:match("^%^(.-)%(%[%^(.-%.)%]%*%)$")
  if before then
    local skipped = select(2, before:gsub("%+", ""))
    local s = separator_of(set)
    return ("…" .. s):rep(skipped) .. (set == "." and skipped == 0 and "TEXT.png" or "TEXT" .. s .. "….png")
  end
  set = rule:match("^%(%[%^(.-%.)%]%*%)%%%.%[%^%.%]%*%$$")
  return set and "…" .. separator_of(set) .. "TEXT.png" or rule
end

--- What a rule reads of one name.
function guess.text(rule, name)
  if rule == "folder" then return parent_of(name) end
  return name:match("([^/]+)$"):match(rule)
end

return guess
