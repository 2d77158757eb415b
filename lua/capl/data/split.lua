-- split.lua: data.split: one source in parts that share no image, for training, choosing and testing.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local named = require "fields.named"
local symbols = require "fields.symbols"

local split = {}

--- The part's ids, and of the bad labels those of its files.
local function part(parent, ids, make)
  local within = {}
  for place, id in ipairs(ids) do within[id] = place - 1 end
  local bad = {}
  for _, one in ipairs(parent.bad) do
    if within[one.id] then bad[#bad + 1] = {id = within[one.id], name = one.name, message = one.message} end
  end
  local made = make(parent.box:subset(ids), bad)
  made.dir, made.place = parent.dir, parent.place
  made.mask_classes, made.classes, made.n_classes = parent.mask_classes, parent.classes, parent.n_classes
  return made
end

local function check_share(key, share, least)
  if type(share) == "number" and share >= least and share < 1 then return share end
  check.fail("data.split", ("%s is a share of all images, at least %g and below 1, not %s"):format(key, least,
    tostring(share)))
end

local function check_sizes(parts, opts, count)
  for _, name in ipairs{"train", "val", "test"} do
    if #parts[name] == 0 and not (name == "test" and opts.test == 0) then
      check.fail("data.split", ("of %d images none is left for %s with val = %g, test = %g"):format(count, name,
        opts.val, opts.test), "an evaluation needs images: some hundred at least, a tenth of all")
    end
  end
end

local SURELY = 8 -- images for val: a small set has as many even where chance gave it none

--- Where val ends: at its share, or further on, where too few of a small set lie below that. at = list of shares by
-- sample
local function end_of_val(at, shares)
  local count, above = 0, {}
  local wanted = math.min(SURELY, math.floor(#at * shares.val + 0.5))
  for _, share in ipairs(at) do
    if share >= shares.test + shares.val then above[#above + 1] = share elseif share >= shares.test then
      count = count + 1
    end
  end
  table.sort(above)
  local last = above[wanted - count] -- copies have the same share and go together
  return last and count < wanted and last + 1e-15 or shares.test + shares.val
end

--- Shares whose samples stay in train, as {share = true}: the last one of each class that train had nothing of
-- otherwise. A class of one image is said, because nothing measures it.
local function kept_for_classes(parent, at, ends)
  local last, count, lone, kept = {}, {}, {}, {}
  for id = 0, parent.class_names and parent:count() - 1 or -1 do
    for _, class in ipairs(named.split(parent:text(id), parent.several)) do
      last[class], count[class] = math.max(last[class] or 0, at[id + 1]), (count[class] or 0) + 1
    end
  end
  for class, share in pairs(last) do
    if share < ends then kept[share] = true end
    if count[class] == 1 then lone[#lone + 1] = class end
  end
  table.sort(lone)
  if lone[1] then
    observer:print(("note: %s: one image, to train on and none to evaluate, of %s: add images"):format(parent.dir,
      symbols.shown(lone, ", ")))
  end
  return kept
end

-- Below one share is for testing, above it for validation: who wants another val keeps the same test.
local function sort(parent, shares, share_of)
  local parts, at = {train = {}, val = {}, test = {}}, {}
  for id = 0, parent:count() - 1 do at[id + 1] = share_of(id) end
  local ends = end_of_val(at, shares)
  local kept = kept_for_classes(parent, at, ends)
  for id = 0, parent:count() - 1 do
    local share = at[id + 1]
    local name = (share >= ends or kept[share]) and "train" or share < shares.test and "test" or "val"
    table.insert(parts[name], id)
  end
  return parts
end

-- ---- by group ----

local function group_by_pattern(pattern)
  return function(name)
    local fine, group = pcall(string.match, name, pattern)
    if fine then return group end
    check.fail("data.split", ("group = '%s' is no Lua pattern: %s"):format(pattern,
      (group:gsub("^[^:]*:[^:]*:%d+: ", ""))))
  end
end

--- -> function(id) -> share of the sample's group: all samples of a group have the same
local function share_of_group(parent, group)
  local group_of = type(group) == "string" and group_by_pattern(group) or group
  if type(group_of) ~= "function" then
    check.fail("data.split", "group is a Lua pattern or a function(path), not a " .. core.typename(group))
  end
  return function(id)
    local name = parent:name(id)
    local key = group_of(name, parent:text(id))
    if type(key) == "number" then key = tostring(key) end
    if type(key) ~= "string" then
      check.fail("data.split", ("the group rule %s does not fit %s"):format(
        type(group) == "string" and "'" .. group .. "'" or "given", tostring(name)),
        "group is a Lua pattern whose capture in the path is the group's name")
    end
    return core.data.text_share(key)
  end
end

-- ---- by list ----

-- Names in a file: the first field of each line.
local function read_names(path)
  local text, why = core.sys.read(path)
  if not text then core.error{code = "io", message = why} end
  local names = {}
  for line in text:gsub("^\239\187\191", ""):gmatch("[^\r\n]+") do names[#names + 1] = line:match("^[^\t]*") end
  return names
end

local function named_part(parts, part_of, key, list, ids_of)
  local names = type(list) == "string" and read_names(list) or list
  local from = type(list) == "string" and list or key
  for _, name in ipairs(names) do
    local ids = ids_of[name]
    if not ids then
      check.fail("data.split", ("%s names %s, which the source does not have"):format(from, tostring(name)))
    end
    if part_of[name] and part_of[name] ~= key then
      check.fail("data.split", ("%s is named for %s and for %s"):format(name, part_of[name], key))
    end
    if not part_of[name] then
      for _, id in ipairs(ids) do table.insert(parts[key], id) end
    end
    part_of[name] = key
  end
  table.sort(parts[key])
end

--- What val and test name is theirs; the rest is for training.
local function sort_by_names(parent, lists)
  local ids_of, part_of, parts = {}, {}, {train = {}, val = {}, test = {}}
  for id = 0, parent:count() - 1 do
    local name = parent:name(id)
    ids_of[name] = ids_of[name] or {}
    table.insert(ids_of[name], id)
  end
  for _, key in ipairs{"val", "test"} do
    if lists[key] then named_part(parts, part_of, key, lists[key], ids_of) end
  end
  for id = 0, parent:count() - 1 do
    if not part_of[parent:name(id)] then table.insert(parts.train, id) end
  end
  if #parts.train == 0 or #parts.val == 0 then
    check.fail("data.split", ("of %d images none is left for %s"):format(parent:count(), #parts.train == 0 and "train"
      or "val"))
  end
  return parts
end

-- The setting fraction: the ids whose bytes come first in an order that only they decide, so that less is a part of
-- more.
local function fraction_of(parent, ids)
  local fraction = observer:take_setting("fraction") or 1
  if fraction == 1 then return ids end
  local shares, out = {}, table.move(ids, 1, #ids, 1, {})
  for _, id in ipairs(ids) do shares[id] = core.data.text_share(("%.17g"):format(parent.box:share(id))) end
  table.sort(out, function(a, b)
    if shares[a] ~= shares[b] then return shares[a] < shares[b] end
    return a < b
  end)
  for i = math.max(1, math.floor(#ids * fraction + 0.5)) + 1, #ids do out[i] = nil end
  table.sort(out)
  observer:print(("fraction = %g: %d of %d training images are used"):format(fraction, #out, #ids))
  return out
end

local function is_list(value)
  return type(value) == "table" or type(value) == "string" and core.sys.kind(value) == "file"
end

local function sort_into_parts(parent, o)
  if is_list(o.val) or is_list(o.test) then
    if not is_list(o.val) or o.test ~= nil and not is_list(o.test) or o.group ~= nil then
      check.fail("data.split", "val and test are both lists of names, without a group, or both shares")
    end
    return sort_by_names(parent, o)
  end
  local shares = {val = check_share("val", o.val or 0.1, 1e-9), test = check_share("test", o.test or 0, 0)}
  local share_of = o.group ~= nil and share_of_group(parent, o.group) or function(id) return parent.box:share(id) end
  local parts = sort(parent, shares, share_of)
  check_sizes(parts, shares, parent:count())
  return parts
end

--- make(box, bad) makes a source of its box.
function split.new(make)
  --- A source of files in two or three parts that never overlap and stay as they are when files are added (where val
  -- has at
  --- least 8; a small set's is filled up to what its share would be, at most 8). By the bytes
  --- of each file: the same image is never in two of them, whatever its names.
  --- Each class has an image in train. By group: all samples of a writer, a site
  --- or a day are in one part. By list: the parts that somebody else has drawn.
  -- parent source of data.folder, data.list or data.lmdb
  -- opts   val = 0.1, test = 0: shares of all images; group = Lua pattern whose capture in the path is the group's
  --        name, or a function(path, label) -> name; val = {"b/1.png", …} or "val.txt", test likewise: names, or a file
  --        of them, one per line; the rest is for training
  --        The setting --fraction=0.3 of every recipe leaves that share of the images for training, as few as there
  --        might be
  -- out    sources: train, val, and test when it has a share
  -- errs   value: the source has no files, a part is empty, the group rule fits not all, a name is unknown or in two
  --        parts; io: a file cannot be read
  return function(parent, opts)
    local o = check.keys("data.split", opts, {"val", "test", "group"})
    if type(parent) ~= "table" or not parent.dir then
      core.fail("data.split takes a source of data.folder, data.list or data.lmdb")
    end
    local parts = sort_into_parts(parent, o)
    local test = #parts.test > 0 and part(parent, parts.test, make) or nil
    return part(parent, fraction_of(parent, parts.train), make), part(parent, parts.val, make), test
  end
end

return split
