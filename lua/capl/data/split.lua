-- split.lua: data.split: one folder in parts that share no image, for training, choosing and testing.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "data.check"

local split = {}

--- The part's ids, and of the bad labels those of its files.
local function part(parent, ids, make)
  local names = {}
  for _, id in ipairs(ids) do names[parent.box:name(id)] = true end
  local bad = {}
  for _, one in ipairs(parent.bad) do
    if names[one.name] then bad[#bad + 1] = one end
  end
  local made = make(parent.box:subset(ids), bad)
  made.dir = parent.dir
  return made
end

local function check_share(key, share, least)
  if type(share) == "number" and share >= least and share < 1 then return share end
  check.fail(("data.split: %s is a share of all images, at least %g and below 1, not %s"):format(key, least, tostring(share)))
end

local function check_sizes(parts, opts, count)
  for _, name in ipairs{"train", "val", "test"} do
    if #parts[name] == 0 and not (name == "test" and opts.test == 0) then
      check.fail(("data.split: of %d images none is left for %s with val = %g, test = %g"):format(count, name, opts.val, opts.test),
        "a figure needs images to check on: some hundred at least, a tenth of all")
    end
  end
end

-- Files below one share are for testing, those above it for validation: who wants another val keeps the same test.
local function sort(parent, shares)
  local parts = {train = {}, val = {}, test = {}}
  for id = 0, parent:count() - 1 do
    local at = core.data.file_share(parent.dir .. "/" .. parent:name(id))
    local name = at < shares.test and "test" or at < shares.test + shares.val and "val" or "train"
    table.insert(parts[name], id)
  end
  return parts
end

--- make(box, bad) makes a source of its box.
function split.new(make)
  --- A folder in two or three parts, sorted by the bytes of each file: the same image is never in two of them, whatever
  --- its names, and stays where it is when files are added.
  -- parent source of data.folder
  -- opts   val = 0.1, test = 0: shares of all images
  -- out    sources: train, val, and test when it has a share
  -- errs   value: the source has no files, a part is empty; io: a file cannot be read
  return function(parent, opts)
    local o = check.options("data.split", opts, {"val", "test"})
    if type(parent) ~= "table" or not parent.dir then check.fail("data.split takes a source of data.folder") end
    local shares = {val = check_share("val", o.val or 0.1, 1e-9), test = check_share("test", o.test or 0, 0)}
    local parts = sort(parent, shares)
    check_sizes(parts, shares, parent:count())
    local test = #parts.test > 0 and part(parent, parts.test, make) or nil
    return part(parent, parts.train, make), part(parent, parts.val, make), test
  end
end

return split
