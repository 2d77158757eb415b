-- data.split: parts of a folder that share no image, the same ones every time.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function new_folder()
  local path = os.tmpname()
  os.remove(path)
  return path
end

local function remove_folder(path) os.execute("rm -rf '" .. path .. "'") end

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

local function names(source)
  local out = {}
  for i = 0, source:count() - 1 do out[i + 1] = source:name(i) end
  return out
end

local function copy(from, to)
  local file = assert(io.open(from, "rb"))
  local bytes = file:read("*a")
  file:close()
  file = assert(io.open(to, "wb"))
  file:write(bytes)
  file:close()
end

describe("data.split", function()
  local dir, all

  setup(function()
    dir = new_folder()
    data.save_captchas{dir = dir, count = 200, seed = 3, charset = "0-9", length = 3}
    all = data.folder(dir, {charset = "0-9", length = 3})
  end)
  teardown(function() remove_folder(dir) end)

  it("puts every image into one part, about as many as asked for, the same ones again", function()
    local train, val = data.split(all, {val = 0.25})
    assert.equal(200, train:count() + val:count())
    assert.is_true(val:count() > 30 and val:count() < 70)
    local seen = {}
    for _, name in ipairs(names(train)) do seen[name] = true end
    for _, name in ipairs(names(val)) do assert.is_nil(seen[name]) end
    local _, again = data.split(data.folder(dir, {charset = "0-9", length = 3}), {val = 0.25})
    assert.same(names(val), names(again))
  end)

  it("keeps a third part for the test metric, whatever share the second has", function()
    local train, val, test = data.split(all, {val = 0.2, test = 0.3})
    local _, other, same = data.split(all, {val = 0.4, test = 0.3})
    assert.equal(200, train:count() + val:count() + test:count())
    assert.same(names(test), names(same))
    assert.is_true(other:count() > val:count())
    local _, _, none = data.split(all, {val = 0.2})
    assert.is_nil(none)
  end)

  it("keeps copies of an image together, whatever their names", function()
    local other = new_folder()
    os.execute("mkdir '" .. other .. "'")
    finally(function() remove_folder(other) end)
    for i, name in ipairs(names(all)) do
      copy(dir .. "/" .. name, ("%s/%s"):format(other, name))
      copy(dir .. "/" .. name, ("%s/%s_copy%d.png"):format(other, name:match("^%d+"), 1000 - i))
    end
    local train, val = data.split(data.folder(other, {charset = "0-9", length = 3}), {val = 0.25})
    local _, single = data.split(all, {val = 0.25})
    assert.equal(400, train:count() + val:count())
    assert.equal(2 * single:count(), val:count())
  end)

  it("serves the images and labels that the folder has", function()
    local _, val = data.split(all, {val = 0.25})
    local batch = data.loader{source = val, role = "val", batch = val:count(), workers = 0}:epoch(1)()
    local targets = batch.target:tolist()
    for i, name in ipairs(names(val)) do assert.equal(name:match("^%d+"), table.concat(targets[i])) end
  end)

  it("counts bad labels where their files are", function()
    local source = data.folder(dir, {charset = "0-8", length = 3})
    local train, val = data.split(source, {val = 0.25})
    assert.is_true(#val.bad > 0 and #train.bad > 0)
    assert.equal(#source.bad, #train.bad + #val.bad)
    local inside = {}
    for _, name in ipairs(names(val)) do inside[name] = true end
    for _, bad in ipairs(val.bad) do assert.is_true(inside[bad.name]) end
  end)

  it("finds some images to check on in a small set, too", function()
    for n = 5, 40 do
      local ids = {}
      for i = 1, n do ids[i] = i * 4 - 1 end
      local few = setmetatable({dir = dir, box = all.box:subset(ids), bad = {}}, getmetatable(all))
      local train, val = data.split(few, {val = 0.2})
      assert.equal(n, train:count() + val:count())
      assert(val:count() >= math.min(8, math.floor(n * 0.2 + 0.5)) and train:count() >= n * 0.4, val:count())
    end
  end)

  it("refuses what cannot be split", function()
    raises("data.split takes a source of data.folder", data.split, data.captcha{count = 5}, {})
    raises("val is a share of all images, at least 1e-09 and below 1, not 2", data.split, all, {val = 2})
    raises("test is a share of all images, at least 0 and below 1, not yes", data.split, all, {test = "yes"})
    raises("of 200 images none is left for train with val = 0.9, test = 0.9", data.split, all, {val = 0.9, test = 0.9})
    raises("unknown option 'vall'; did you mean 'val'?", data.split, all, {vall = 0.1})
    raises("of 200 images none is left for val with val = 1e-09, test = 0", data.split, all, {val = 1e-9})
  end)
end)

describe("data.split of classes", function()
  local dir
  setup(function()
    dir = new_folder()
    data.save_captchas{dir = dir, count = 30, preset = "icons", charset = "☀☂", seed = 1, format = "folders"}
    data.save_captchas{dir = dir, count = 1, preset = "icons", charset = "★", seed = 1, format = "folders"}
  end)
  teardown(function() remove_folder(dir) end)

  it("leaves an image of each in train, whatever the shares", function()
    local all = data.folder(dir, {label = "folder"})
    assert.same({"☀", "☂", "★"}, all.class_names)
    for _, test in ipairs{0, 0.4, 0.7} do
      local train, val = data.split(all, {val = 0.25, test = test})
      local seen = {}
      for i = 0, train:count() - 1 do seen[train:text(i)] = true end
      assert.same({["★"] = true, ["☀"] = true, ["☂"] = true}, seen)
      for i = 0, val:count() - 1 do assert.not_equal("★", val:text(i)) end
    end
  end)
end)
