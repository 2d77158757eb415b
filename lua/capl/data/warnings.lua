-- warnings.lua: what is odd about a set of labelled images, each with the files it is about and what to do.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local symbols = require "fields.symbols"

local warnings = {}

local FEW = 200 -- images with labels; below that a net from scratch hardly reads
local ODD_SHAPE = 2 -- times the usual proportions, or half of them

local function refuse(message, hint) core.error{code = "value", message = message, hint = hint} end

-- ---- errors ----

local pretrain = "recipes/finetune.lua trains on generated captchas first, for which a few hundred real ones are enough"

--- Time steps that CTC needs for a text: its characters, and a blank between equal neighbours.
function warnings.steps_of(text)
  local list, repeats = symbols.of(text), 0
  for i = 2, #list do
    if list[i] == list[i - 1] then repeats = repeats + 1 end
  end
  return #list + repeats
end

--- Raises when texts of a source need more time steps than a net has. steps = number, or function(px of the batch) ->
-- number
function warnings.check_steps(source, steps)
  local n, first, by_width = 0, nil, {}
  for id = 0, source.dir and source:count() - 1 or -1 do
    local text, width = source:text(id), source.box:width_of(id)
    by_width[width] = by_width[width] or (type(steps) == "function" and steps(width) or steps)
    local needs = text and warnings.steps_of(text) or 0
    if needs > by_width[width] then
      n = n + 1
      first = first or ('%s: its text "%s" needs %d time steps, one for each character and one between equal ' ..
        'neighbours; '
        .. "an image of %d px gives %d"):format(source:name(id), text, needs, width, by_width[width])
    end
  end
  if not first then return end
  refuse(first .. (n > 1 and ("; %d more need too many"):format(n - 1) or ""),
    "wider images or less pooling of the width give more steps; or leave such texts out")
end

--- Raises when there is nothing to learn from.
function warnings.refuse_few(found, least)
  if found.labelled >= least then return end
  local first = found.bad[1]
  local why = first and ("%s has %d images with a label that can be used, at least %d are needed; the first " ..
    "without: %s"):format(found.path,
    found.labelled, least, first.message) or
    ("%s has %d images with a label, at least %d are needed to train and check a net"):format(found.path,
    found.labelled, least)
  refuse(why, first and "label, charset and case define valid labels; 'capl data check' lists all invalid ones" or
    "label more images; " .. pretrain)
end

--- Raises when a text needs more time steps than a net has.
function warnings.refuse_long(found, steps)
  if found.steps <= steps then return end
  refuse(("%s: its text needs %d time steps, one for each character and one between equal neighbours, and the net " ..
    "has %d"):format(
    found.longest, found.steps, steps),
    "wider images or less pooling of the width give more steps; or leave the longest texts out")
end

-- ---- notes ----

local function are(n) return n == 1 and "1 image is" or n .. " images are" end

local function both_cases(found)
  local pairs_of, class_of = {}, symbols.class_of(found.charset)
  for _, c in ipairs(symbols.list(found.charset)) do
    local large = symbols.fold(c, "upper")
    if large ~= c and class_of[large] then pairs_of[#pairs_of + 1] = c .. " and " .. large end
  end
  if #pairs_of == 0 then return nil end
  return {
    what = "case", message = ("%s: letters occur in both cases, such as %s: %s more to distinguish"):format(found.path,
      table.concat(pairs_of, ", ", 1, math.min(3, #pairs_of)), #pairs_of == 1 and "one character"
      or #pairs_of .. " characters"),
    hint = 'if the site accepts either, case = "lower" of the source merges them',
  }
end

local function listed(entries, most)
  local parts = {}
  for i = 1, math.min(most, #entries) do parts[i] = entries[i] end
  if #entries > most then parts[#parts + 1] = ("and %d more"):format(#entries - most) end
  return table.concat(parts, "; ")
end

local function messages_of(list)
  local out = {}
  for i = 1, math.min(3, #list) do out[i] = list[i].message end
  return out
end

local function bad_labels(found)
  if #found.bad == 0 then return nil end
  return {
    what = "labels", message = ("%d of %d images have no usable label: %s"):format(#found.bad, found.images,
      listed(messages_of(found.bad), 3)),
    hint = 'on_error = "skip" of the loader leaves them out',
  }
end

local function unreadable(found)
  if #found.unreadable == 0 then return nil end
  return {
    what = "unreadable", message = ("%d of %d files cannot be read: %s"):format(#found.unreadable, found.images,
      listed(messages_of(found.unreadable), 3)),
    hint = 'on_error = "skip" of the loader leaves them out',
  }
end

local function left_out(found, source)
  local n, first = source.box:left_out()
  if n == 0 then return nil end
  return {what = "kinds", message = ("%d images of other kinds are not read, such as %s/%s"):format(n, found.path,
    first), hint = "convert them to PNG"}
end

local function few(found)
  if found.labelled >= FEW then return nil end
  return {what = "few", message =
    ("%s has %d images with labels; a net from scratch wants some hundred at least"):format(found.path, found.labelled),
      hint = pretrain}
end

--- Two files of one name in different folders.
local function same_names(found, source)
  local first, pairs_of = {}, {}
  if found.label == "folder" then return nil end
  for id = 0, source:count() - 1 do
    local name = source:name(id)
    local base = found.label and name:match("([^/]+)$") or name -- a list may well name files of many folders
    if first[base] then pairs_of[#pairs_of + 1] = ("%s and %s"):format(first[base], name) end
    first[base] = first[base] or name
  end
  if #pairs_of == 0 then return nil end
  return {
    what = "names", message = ("%s the name of another one%s: %s"):format(#pairs_of == 1 and "1 image has"
    or #pairs_of .. " images have",
      found.label and " in another folder" or "", listed(pairs_of, 2)),
    hint = "both are used; if one set was unpacked over another, 'capl data check' lists the duplicates",
  }
end

--- The same bytes under two texts, and copies at all.
local function copies(found, source, scan)
  local same, contradicting, n = scan:same(false), {}, 0
  for i = 1, #same, 2 do
    local id, other = same[i], same[i + 1]
    local text, before = source:text(id), source:text(other)
    n = n + 1
    if text ~= before then
      contradicting[#contradicting + 1] = ('%s says "%s", %s says "%s"'):format(source:name(other), before or "",
        source:name(id), text or "")
    end
  end
  found.copies, found.contradictions = n, contradicting
  local out = {}
  if #contradicting > 0 then
    out[1] = {what = "contradictions", message = ("%s there under another text, too: %s"):format(are(#contradicting),
      listed(contradicting, 2)), hint = "one label of each pair is wrong: check them and remove the wrong one"}
  end
  if n > #contradicting then
    out[#out + 1] = {what = "copies",
      message = ("%s there a second time under the same text, byte by byte"):format(are(n - #contradicting)),
      hint = "they count twice in training; data.split keeps copies in one part"}
  end
  return out
end

--- Images of quite another shape or size than most.
local function odd_sizes(found, source)
  local usual = found.width.median / found.height.median
  local odd, worst, by = {}, nil, 0
  for _, size in ipairs(found.sizes) do
    local times = size.width / size.height / usual
    local tall = math.max(size.height / found.height.median, found.height.median / size.height)
    local off = math.max(math.abs(math.log(times)), math.log(tall) / 2)
    if off > math.log(ODD_SHAPE) then
      odd[#odd + 1] = size
      if off > by then worst, by = size, off end
    end
  end
  if #odd == 0 or #odd * 5 > #found.sizes and found.length_min ~= found.length_max then return nil end
  return {
    what = "sizes",
    message = ("%d of %d images are of another shape or size than most, which are %d x %d px: %s is %d x %d px"):format(#odd,
      #found.sizes, found.width.median, found.height.median, source:name(worst.id), worst.width, worst.height),
    hint = "they are squeezed or blown up to what the others are; remove what is no captcha",
  }
end

--- -> list of {what=, message=, hint=}
function warnings.find(found, source, scan)
  local list = {}
  for _, look in ipairs{bad_labels, unreadable, left_out, both_cases, few, same_names, odd_sizes} do
    list[#list + 1] = look(found, source)
  end
  for _, warning in ipairs(copies(found, source, scan)) do list[#list + 1] = warning end
  return list
end

return warnings
