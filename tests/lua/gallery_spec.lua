-- plot.gallery: what it takes and what it refuses. What is drawn where is tested in C (unit/report_gallery.c).
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local plot, data = capl.plot, capl.data

local function refused(message, view)
  local path = os.tmpname()
  local text = support.error_text(plot.gallery, {path = path, sections = {{views = {view}}}})
  os.remove(path)
  assert.equal(message, (text:gsub("^LINE: ", ""):gsub("\n.*", "")))
end

describe("plot.gallery", function()
  local image = capl.zeros({1, 40, 60}, {dtype = "u8"})

  it("draws images with masks, points and boxes", function()
    local path = os.tmpname()
    local function draw(view)
      view.image = image
      plot.gallery{path = path, columns = 1, sections = {{title = "s", views = {view}}}}
      return data.png_read(path):to("f32"):sum():item()
    end
    local plain = draw{}
    assert.not_equal(plain, draw{mask = capl.ones({40, 60}, {dtype = "u8"})})
    assert.not_equal(plain, draw{points = capl.tensor{{20, 20, 1}}})
    assert.not_equal(plain, draw{boxes = capl.tensor{{5, 5, 30, 30, 2}}})
    assert.equal(plain, draw{boxes = capl.tensor{{5, 5, 30, 30, -1}}, points = capl.tensor{{500, 500, 1}}})
    os.remove(path)
  end)

  it("returns the picture where there is no path", function()
    local picture = plot.gallery{columns = 1, sections = {{views = {{image = image}}}}}
    assert.same({1, 3}, {picture:size(1), picture:size(2)})
    local path = os.tmpname()
    plot.gallery{path = path, columns = 1, sections = {{views = {{image = image}}}}}
    local written = data.png_read(path)
    os.remove(path)
    assert.same(written.shape, picture.shape)
    assert.is_true(written:eq(picture):to("f32"):sum():item() == picture:numel())
  end)

  it("refuses shapes that do not fit", function()
    refused("plot.gallery: sections[1].views[1]: mask is (40,61)",
      {image = image, mask = capl.zeros({40, 61}, {dtype = "u8"})})
    refused("plot.gallery: sections[1].views[1]: points is (3)", {image = image, points = capl.zeros(3)})
    refused("plot.gallery: sections[1].views[1]: boxes is (2,4)", {image = image, boxes = capl.zeros(2, 4)})
    refused("plot.gallery: sections[1].views[1]: truth is (1,3)",
      {image = image, points = capl.zeros(2, 3), truth = capl.zeros(1, 3)})
    refused("plot.gallery: sections[1].views[1]: image is missing", {})
    refused("plot.gallery: sections[1].views[1]: unknown option 'masks'; did you mean 'mask'?",
      {image = image, masks = image})
    local text = support.error_text(plot.gallery,
      {path = "a.png", sections = {{views = {{image = capl.zeros(3, 4, 5, 6)}}}}})
    assert.truthy(text:find("plot.gallery: views[1].image: one image (H,W), (C,H,W) or (H,W,C)", 1, true), text)
  end)
end)
