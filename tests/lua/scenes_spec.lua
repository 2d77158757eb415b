-- data.slider, data.faces: generated scenes through the loader, and the mistakes one can make with them.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

--- All that an epoch gives, as one number per field.
local function sums(source, workers, fields)
  local out = {}
  local loader = data.loader{source = source, role = "train", batch = 5, workers = workers, dtype = "u8",
    shuffle = true}
  for batch in loader:epoch(2) do
    for _, name in ipairs(fields) do
      local t = batch[name]:to("f32"):reshape(-1)
      local weights = capl.arange(1, t:size(1) + 1):to("f32")
      out[#out + 1] = ("%s %.9g"):format(name, (t * weights):sum():item())
    end
  end
  return table.concat(out, "\n")
end

describe("generated scenes", function()
  it("come in batches with their fields", function()
    local batch = data.loader{source = data.slider{count = 6, seed = 2}, role = "train", batch = 6,
      workers = 1}:epoch(1)()
    assert.same({6, 3, 160, 320}, batch.image:size())
    assert.same({6, 4, 3}, batch.points:size())
    assert.same({6, 4, 5}, batch.boxes:size())
    assert.same({6, 1}, batch.angle:size())
    assert.same({6, 4}, batch.facts:size())
    batch = data.loader{source = data.faces{count = 3, size = 64}, role = "val", batch = 3, workers = 0}:epoch(1)()
    assert.same({3, 3, 64, 64}, batch.image:size())
    assert.same({3, 64, 64}, batch.mask:size())
    assert.equal("u8", batch.mask.dtype)
  end)

  it("have the same bytes for any number of threads", function()
    local fields = {"image", "points", "boxes", "angle", "facts"}
    local function slider() return data.slider{count = 11, seed = 4, width = 240, height = 120} end
    local first = sums(slider(), 0, fields)
    for _, workers in ipairs{1, 3} do assert.equal(first, sums(slider(), workers, fields)) end
    local function faces() return data.faces{count = 11, seed = 4, size = 64} end
    first = sums(faces(), 0, {"image", "mask"})
    for _, workers in ipairs{1, 3} do assert.equal(first, sums(faces(), workers, {"image", "mask"})) end
  end)

  it("have other styles: the first is the usual one, the others show something else", function()
    for _, kind in ipairs{{data.slider, {}, data.slider_styles}, {data.faces, {size = 64}, data.face_styles}} do
      local shown = {}
      for i = 0, #kind[3] do
        local make, o = kind[1], {count = 1, seed = 3, size = kind[2].size, style = kind[3][i]}
        shown[i] = make(o).box:read(1, 0)
      end
      assert.equal(0, (shown[0]:to("f32") - shown[1]:to("f32")):abs():sum():item())
      assert.is_true((shown[0]:to("f32") - shown[2]:to("f32")):abs():mean():item() > 10)
    end
  end)

  it("split by background: two ranges share none", function()
    local function backgrounds(range)
      local seen = {}
      local source = data.slider{count = 60, seed = 6, backgrounds = range}
      for id = 0, 59 do
        local _, _, fields = source.box:read(1, id)
        seen[fields.facts:reshape(-1):tolist()[1]] = true
      end
      return seen
    end
    local train, val = backgrounds{0, 179}, backgrounds{180, 199}
    for id in pairs(val) do
      assert.is_nil(train[id])
      assert.is_true(id >= 180 and id <= 199)
    end
  end)

  it("name their shapes, confusions, classes and swaps", function()
    assert.equal("circle", data.slider_shapes[1])
    assert.same({"shaded", "outline"}, data.slider_styles)
    assert.same({"painted", "drawing"}, data.face_styles)
    assert.equal(6, #data.slider_confusions)
    assert.equal(19, #data.face_classes)
    assert.same({{4, 5}, {6, 7}, {8, 9}}, data.face_swaps)
    assert.equal(data.face_swaps, data.faces{count = 1}.swaps)
    for _, pair in ipairs(data.face_swaps) do
      local left, right = data.face_classes[pair[1] + 1], data.face_classes[pair[2] + 1]
      assert.equal(left:gsub("left", "right"), right)
    end
  end)

  it("say what is wrong with their options", function()
    raises("data.slider: unknown option 'shape'; did you mean 'shapes'?", data.slider, {shape = "circle"})
    raises("data.slider: unknown shape 'circel'; did you mean 'circle'?", data.slider, {shapes = {"circel"}})
    raises("data.slider: shapes is an empty list; leave it out for all of them", data.slider, {shapes = {}})
    raises('data.slider: sizes is "one" or "mixed", not many', data.slider, {sizes = "many"})
    raises("data.slider: backgrounds is {first, last}, whole numbers from 0 on", data.slider, {backgrounds = {5, 1}})
    raises("data.slider: count is a number of pictures from 1 on, got 0", data.slider, {count = 0})
    raises("data.slider: unknown style 'outlines'; did you mean 'outline'?", data.slider, {style = "outlines"})
    raises("data.faces: unknown style 'outline'", data.faces, {style = "outline"})
    raises("a slider captcha is 240..2048 px wide, not 100", data.slider, {width = 100})
    raises("a face is 64..1024 px wide and high, not 2000", data.faces, {size = 2000})
    raises("data.save_scenes needs source", data.save_scenes, {dir = "x", count = 1})
  end)
end)
