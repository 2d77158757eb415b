-- resize = "letterbox": images that keep their proportions, what moves with them, and a model file that does the same.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data, nn = capl.data, capl.nn
local WIDTH, HEIGHT = 24, 10

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

-- u8 (C,height,width) of edges and slopes
local function picture(channels, width, height)
  local planes = {}
  for c = 1, channels do
    planes[c] = {}
    for y = 1, height do
      planes[c][y] = {}
      for x = 1, width do planes[c][y][x] = (x * 37 + y * 61 + c * 17 + x * y * 5) % 256 end
    end
  end
  return capl.tensor(planes):to("u8")
end

local function read(source)
  return data.loader{source = source, role = "val", batch = source:count(), dtype = "u8", workers = 0}:epoch(1)()
end

describe("a letterbox", function()
  local root

  local function write(name, text)
    local file = assert(io.open(root .. "/" .. name, "w"))
    file:write(text)
    file:close()
    return root .. "/" .. name
  end

  before_each(function()
    root = os.tmpname()
    os.remove(root)
    assert(os.execute("mkdir '" .. root .. "'") == 0)
  end)
  after_each(function() os.execute("rm -rf '" .. root .. "'") end)

  it("keeps proportions and moves points, boxes and masks", function()
    data.png_write(root .. "/a.png", picture(1, 4, 4))
    local mask = {{0, 0, 1, 1}, {0, 0, 1, 1}, {2, 2, 3, 3}, {2, 2, 3, 3}}
    data.png_write(root .. "/a_mask.png", capl.tensor{mask}:to("u8"))
    local list = write("l.csv", "path,x,y,l,t,r,b,mask\na.png,1,1,0,0,4,2,a_mask.png\n")
    local function of(resize)
      return read(data.list(list, {points = {"x y"}, boxes = {"l t r b"}, mask = "mask", width = 8, height = 4,
        resize = resize}))
    end
    local middle = of("letterbox")
    assert.same({{{3, 1, 1}}}, middle.points:tolist())
    assert.same({{{2, 0, 6, 2, 0}}}, middle.boxes:tolist())
    assert.same({{{255, 255, 0, 0, 1, 1, 255, 255}, {255, 255, 0, 0, 1, 1, 255, 255},
      {255, 255, 2, 2, 3, 3, 255, 255}, {255, 255, 2, 2, 3, 3, 255, 255}}}, middle.mask:tolist())
    assert.same(picture(1, 4, 4):tolist(), middle.image:narrow(4, 3, 4)[1]:tolist())
    assert.equal(255 * 16, middle.image:to("f32"):narrow(4, 1, 2):sum():item()
      + middle.image:to("f32"):narrow(4, 7, 2):sum():item())
    local left = of{mode = "letterbox", position = "top-left", fill = 3}
    assert.same({{{1, 1, 1}}}, left.points:tolist())
    assert.same(picture(1, 4, 4):tolist(), left.image:narrow(4, 1, 4)[1]:tolist())
    assert.equal(3 * 16, left.image:to("f32"):narrow(4, 5, 4):sum():item())
  end)

  it("is part of what a source is", function()
    data.png_write(root .. "/a.png", picture(3, 4, 3))
    local function of(resize) return data.folder(root, {channels = 3, width = 8, height = 8, resize = resize}) end
    local box = of{mode = "letterbox", fill = {1, 2, 3}}
    assert.same({mode = "letterbox", position = "center", fill = {1, 2, 3}}, box.box:letterbox())
    assert.same(box.box:letterbox(), of(box.box:letterbox()).box:letterbox())
    assert.same(box.box:letterbox(), box.box:subset{0}:letterbox())
    assert.is_nil(of(true).box:letterbox())
    local hashes = {}
    for _, resize in ipairs{true, "letterbox", box.box:letterbox(), {mode = "letterbox", position = "top-left"}} do
      local hash = of(resize).box:hash()
      assert.is_nil(hashes[hash])
      hashes[hash] = true
    end
  end)

  it("refuses what it is not", function()
    data.png_write(root .. "/a.png", picture(1, 4, 3))
    local function of(resize, more)
      local o = more or {width = 8, height = 8}
      o.resize = resize
      return function() data.folder(root, o) end
    end
    raises("data.folder: unknown mode of resize 'letterbx'; did you mean 'letterbox'?", of "letterbx")
    raises("data.folder: resize: mode is missing", of{fill = 3})
    raises("unknown position of resize 'left'; known: center, top-left", of{mode = "letterbox", position = "left"})
    raises("a level of fill must be a whole number from 0 to 255, got 256", of{mode = "letterbox", fill = 256})
    raises("fill of resize has 3 levels; the images have 1 channels", of{mode = "letterbox", fill = {1, 2, 3}})
    raises("data.folder: resize: unknown option 'colour'", of{mode = "letterbox", colour = 3})
    raises("widths go with a height, and without width and resize", of("letterbox", {height = 8, widths = {8, 16}}))
  end)

  -- A model that gives the image that it sees.
  local function echo(channels, resize)
    local Echo = nn.class("Echo")
    function Echo:forward(x) return x + 0 end -- luacheck: no self
    local path = root .. "/echo.capl"
    os.execute("rm -rf '" .. path .. "'")
    capl.io.save_model(path, Echo(), capl.zeros(1, channels, HEIGHT, WIDTH), {width = WIDTH, height = HEIGHT,
      channels = channels, normalize = "unit", resize = resize, output = "image", image = channels})
    return capl.io.open_model(path, {precision = "fp32"})
  end

  local function same_bytes(image, reading, what)
    assert.same(image:permute(2, 3, 1):reshape(-1):tolist(), reading.outputs[1].levels:reshape(-1):tolist(), what)
  end

  it("of a model file gives the bytes that training saw", function()
    local sizes = {{31, 9}, {7, 40}, {24, 10}, {5, 2}, {1, 1}, {50, 21}}
    for i, size in ipairs(sizes) do
      data.png_write(("%s/%d.png"):format(root, i), picture(i % 2 == 0 and 3 or 1, unpack(size)))
    end
    for _, channels in ipairs{1, 3} do
      for _, position in ipairs{"center", "top-left"} do
        local source = data.folder(root, {channels = channels, width = WIDTH, height = HEIGHT,
          resize = {mode = "letterbox", position = position, fill = channels == 3 and {9, 99, 199} or 77}})
        local seen, model = read(source).image, echo(channels, source.box:letterbox())
        for _, readings in ipairs{model.box:files(source.box):next()} do
          for i, reading in ipairs(readings) do
            same_bytes(seen[i], reading, i .. " as a file")
          end
        end
        for i = 1, #sizes do
          local image = capl.data.png_read(("%s/%d.png"):format(root, i), channels)
          local reading = model:read(image)[1]
          same_bytes(seen[i], reading, i .. " in memory")
        end
        os.execute("rm -rf '" .. root .. "/echo.capl'")
      end
    end
  end)

  it("pads in the channels of the model", function()
    local gray = picture(1, 6, 5)
    local three = capl.cat({gray, gray, gray}, 1)
    local model = echo(3, {mode = "letterbox", position = "center", fill = {9, 99, 199}})
    local a, b = model:read(gray:unsqueeze(1))[1], model:read(three:unsqueeze(1))[1]
    assert.same(b.outputs[1].levels:tolist(), a.outputs[1].levels:tolist())
    assert.same({9, 99, 199}, a.outputs[1].levels[1][1]:tolist())
  end)
end)
