-- plot.overlay: points, masks and boxes lie where they should, at any size of the image.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local overlay = capl.plot.overlay

local function gray(height, width) return capl.full({1, 1, height, width}, 200, {dtype = "u8"}) end

-- {r, g, b} of a picture.
local function at(picture, x, y)
  return picture:narrow(3, y + 1, 1):narrow(4, x + 1, 1):reshape(3):tolist()
end

describe("overlay", function()
  it("has a colour for each class, and none for the background", function()
    local palette, seen = overlay.palette(300), {}
    assert.same({0, 0, 0, 0}, palette[1])
    for k = 2, 256 do
      local key = table.concat(palette[k], " ")
      assert.is_nil(seen[key], key)
      seen[key] = true
    end
  end)

  it("draws a ring where a point is, and nothing elsewhere", function()
    local red = overlay.palette(2)[2]
    local picture = overlay.points(gray(40, 60), {{20.5, 10.5}})
    assert.same({1, 3, 40, 60}, picture.shape)
    assert.same({red[1], red[2], red[3]}, at(picture, 23, 10))
    assert.same({200, 200, 200}, at(picture, 20, 10))
    assert.same({200, 200, 200}, at(picture, 40, 30))
    local hidden = overlay.points(gray(40, 60), {{20.5, 10.5, visible = false}})
    assert.not_same({200, 200, 200}, at(hidden, 20, 10))
  end)

  it("writes names beside points and boxes", function()
    local function sum(picture) return picture:to("f32"):sum():item() end
    local plain, named = {{20, 20}}, {{20, 20, name = "gap"}}
    assert.not_equal(sum(overlay.points(gray(60, 90), plain)), sum(overlay.points(gray(60, 90), named)))
    plain, named = {{20, 20, 40, 40}}, {{20, 20, 40, 40, name = "眼"}}
    assert.not_equal(sum(overlay.boxes(gray(60, 90), plain)), sum(overlay.boxes(gray(60, 90), named)))
  end)

  it("tints the pixels of a mask in the colours of a palette", function()
    local labels = capl.tensor({{0, 1}, {2, 0}}, {dtype = "u8"})
    local picture = overlay.mask(gray(2, 2), labels, {{0, 0, 0}, {255, 0, 0}, {0, 0, 255}}, 1)
    assert.same({200, 200, 200}, at(picture, 0, 0))
    assert.same({255, 0, 0}, at(picture, 1, 0))
    assert.same({0, 0, 255}, at(picture, 0, 1))
    local blue = overlay.palette(3)[3]
    assert.same({blue[1], blue[2], blue[3]}, at(overlay.mask(gray(2, 2), labels, nil, 1), 0, 1))
  end)

  it("takes what it made, and images of 1 x 1 and of 4000 px", function()
    local one = overlay.boxes(overlay.points(gray(1, 1), {{0.5, 0.5, name = "p"}}), {{0, 0, 1, 1, class = 3}})
    assert.same({1, 3, 1, 1}, one.shape)
    local large = overlay.points(gray(1000, 4000), {{2000, 500}})
    assert.same({200, 200, 200}, at(large, 2002, 500)) -- its ring is larger than that of a small image
    assert.not_same({200, 200, 200}, at(large, 2007, 500))
  end)

  it("refuses what cannot be drawn", function()
    local function refused(message, fn, ...) assert.equal("LINE: " .. message, support.error_text(fn, ...)) end
    refused("overlay.points: entry 1: value 2 is nan; px from -1e6 to 1e6 can be drawn", overlay.points, gray(4, 4),
      {{1}})
    refused("overlay.mask: the mask has class 2, and the palette 2 colours\n  hint: overlay.palette(n) makes one for n classes",
      overlay.mask, gray(1, 1), capl.tensor({{2}}, {dtype = "u8"}), overlay.palette(2))
    refused("overlay.mask: the mask is (1,2), and the image 1 px high and 1 px wide\n  hint: resize one of them first",
      overlay.mask, gray(1, 1), capl.zeros({1, 2}, {dtype = "u8"}))
  end)
end)
