-- split.lua: data.split: one folder in two parts, for training and for checking.
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

local function check_sizes(train, val, share)
  local empty = #train == 0 and "train" or #val == 0 and "val"
  if not empty then return end
  check.fail(("data.split: of %d images none is left for %s with val = %g"):format(#train + #val, empty, share),
    "a checked figure needs images to check on: a few hundred at least, 10 to 20 % of all")
end

--- make(box, bad) makes a source of its box.
function split.new(make)
  --- A folder in two parts, sorted by the bytes of each file: the same image is never in both, whatever its names, and
  --- stays where it is when files are added.
  -- parent source of data.folder
  -- opts   val = 0.1: share of the images in the second part
  -- out    two sources: the rest, and val
  -- errs   value: the source has no files, a part is empty; io: a file cannot be read
  return function(parent, opts)
    local o = check.options("data.split", opts, {"val"})
    if type(parent) ~= "table" or not parent.dir then check.fail("data.split takes a source of data.folder") end
    local share = o.val or 0.1
    if type(share) ~= "number" or not (share > 0 and share < 1) then
      check.fail(("data.split: val is a share between 0 and 1, not %s"):format(tostring(share)))
    end
    local train, val = {}, {}
    for id = 0, parent:count() - 1 do
      local into = core.data.file_share(parent.dir .. "/" .. parent:name(id)) < share and val or train
      into[#into + 1] = id
    end
    check_sizes(train, val, share)
    return part(parent, train, make), part(parent, val, make)
  end
end

return split
