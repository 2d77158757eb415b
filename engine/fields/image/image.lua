-- image.lua: images that a model gives.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local named = require "fields.named"

local image = {name = "image", meter = "image", metric = "psnr", field = "target_image", is_levels = true}

image.options = {{"channels", "whole"}, {"mean", "table"}, {"std", "table"}}

function image.check(op, given)
  if given.channels ~= 1 and given.channels ~= 3 then
    check.fail(op, "an image has channels = 1, gray, or 3, RGB; got " .. tostring(given.channels))
  end
  named.check_scale(op, given, given.channels)
end

function image.facts(given)
  return given.channels and {image = given.channels, mean = given.mean, std = given.std} or nil
end

function image.reads(d) return d.image == 1 and "a gray image" or "an RGB image" end

function image.columns(out) return {tostring(out.levels:size(2)), tostring(out.levels:size(1))} end

function image.json(out) return {image = {width = out.levels:size(2), height = out.levels:size(1)}} end

function image.picture(out)
  if out.levels.ndim == 2 then return out.levels:unsqueeze(1) end
  return out.levels:transpose(1, 3):transpose(2, 3) -- (H,W,C) -> (C,H,W)
end

image.files = {{name = "target_image", value = "ENDING",
  doc = "images: ending of the target images beside the images (_target.png)"}}

--- What an ONNX file takes of levels u8 (N,C,H,W): (N,H,W,C); one for ddddocr (N,C,H,W) from 0 to 1.
function image.onnx_input(_, _, levels, ddddocr)
  local op = core.op
  if ddddocr then return op.affine(op.cast(levels, {dtype = "f32"}), {scale = 1 / 255}) end
  return op.contiguous(op.permute(levels, {dims = {1, 3, 4, 2}}))
end

--- How capl eval reads the truth: target images beside the images.
function image.truth(d, o) return {target_image = {file = o.target_image or "_target.png", channels = d.image}} end

function image.measures(given) return {mean = given.mean, std = given.std} end

function image.counted() return {} end

--- What an ImageMeter takes, (N,C,H,W) from 0 to 1, of the outputs of several images.
function image.measured(outs)
  local images = {}
  for i, out in ipairs(outs) do images[i] = image.picture(out):contiguous():unsqueeze(1) end
  return core.op.concat(images, {dim = 1}):to("f32") / 255
end

--- What the sheet of samples shows of an entry of the meter: the image that was meant, the one that was read, u8
-- (1,C,H,W), and words. nil: the model has changed since
function image.compared(meter, e, batch, output)
  local meant, read = meter:meant(batch[meter.field]), meter:levels(output)
  local off = read - meant
  if math.abs((off * off):mean():item() - e.mse) > 1e-6 + 1e-3 * e.mse then return nil end
  local function picture(x) return (x * 255 + 0.5):to("u8") end
  return picture(meant), picture(read), ("read, PSNR %.1f dB"):format(e.psnr)
end

return image
