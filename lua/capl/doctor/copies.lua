-- copies.lua: images that occur twice in the training set, or in training and in val or test: a leak.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local SETS = 60000 -- files of a set that are read at most
local DRAWN = 512 -- images of a generator that are compared

-- ---- files ----

local function scan(source) return source.box:scan{pixels = true, threads = 0} end

-- {id, first, …}: files of other (without it: of scan itself) that scan has (earlier) too, in the same or in other
-- bytes.
local function same_of(own, other)
  local out = {}
  for _, pixels in ipairs{false, true} do
    for _, id in ipairs(other and own:same(other, pixels) or own:same(pixels)) do out[#out + 1] = id end
  end
  return out
end

local function of_files(ctx, train, other, role, where)
  local pairs_found = same_of(train, other)
  if #pairs_found == 0 then return end
  local source = ctx.loaders[role].source
  ctx:error(("%d of %d %s images are in the training set, such as %s"):format(#pairs_found / 2, source:count(), role,
    source:name(pairs_found[1])),
    {where = where, write = "another split: metrics on training images are not meaningful"})
end

local function files(ctx)
  local train = ctx.loaders.train
  if train.source:count() > SETS then
    return ctx:skip(("more than %d files; capl data check reads them"):format(SETS))
  end
  local where = ctx:line("data%.split", "role%s*=%s*[\"']val", "data%.folder")
  local own = scan(train.source)
  local same = same_of(own)
  if #same > 0 then
    ctx:warn(("%d training images occur twice, such as %s and %s"):format(#same / 2, train.source:name(same[1]),
      train.source:name(same[2])), {where = where, write = "each image once, else it counts double"})
  end
  for _, role in ipairs{"val", "test"} do
    local loader = ctx.loaders[role]
    if loader and loader.source.dir and loader.source:count() <= SETS then
      of_files(ctx, scan(loader.source), own, role, where)
    end
  end
  return ("%d training files, none twice"):format(train.source:count())
end

-- ---- generators ----

-- What stands for an image: its values along a few directions, to the last digit.
local function marks_of(loader)
  local out, directions = {}, nil
  for batch in loader:epoch(1) do
    local images = batch.image and batch.image:to("f32"):reshape(batch.count, -1)
    if not images then return out end
    directions = directions or core.randn(images.shape[2], 2, {seed = 7, stream = {1, 2, 3}})
    for _, row in ipairs(images:matmul(directions):tolist()) do out[#out + 1] = ("%.9g %.9g"):format(row[1], row[2]) end
    if #out >= DRAWN then break end
  end
  return out
end

local function drawn(ctx)
  local seen, count = {}, 0
  for _, mark in ipairs(marks_of(ctx.loaders.train)) do seen[mark], count = true, count + 1 end
  for _, role in ipairs{"val", "test"} do
    local common = 0
    for _, mark in ipairs(ctx.loaders[role] and marks_of(ctx.loaders[role]) or {}) do
      if seen[mark] then common = common + 1 end
    end
    if common > 0 then
      ctx:error(("%d of the first images of %s are training images, too"):format(common, role),
        {where = ctx:line("seed%s*=.*", "role%s*=%s*[\"']" .. role), write = "another seed for each set"})
    end
  end
  return ("%d generated training images compared with val and test"):format(count)
end

local function check(ctx)
  local train = ctx.loaders.train
  if not train then return ctx:skip("there is no train loader") end
  if train.source.dir then return files(ctx) end
  return drawn(ctx)
end

return {name = "copies and leaks", check = check}
