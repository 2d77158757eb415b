-- image.lua: images that a model gives.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"
local named = require "fields.named"

local image = {name = "image"}

image.options = {{"channels", "whole"}, {"mean", "table"}, {"std", "table"}}

function image.check(op, given)
  if given.channels ~= 1 and given.channels ~= 3 then
    check.fail(op, "an image has channels = 1, gray, or 3, RGB; got " .. tostring(given.channels))
  end
  named.check_scale(op, given, given.channels)
end

function image.facts(given) return {image = given.channels, mean = given.mean, std = given.std} end

function image.reads(d) return d.image == 1 and "a gray image" or "an RGB image" end

function image.columns(out) return {tostring(out.levels:size(2)), tostring(out.levels:size(1))} end

function image.json(out) return {image = {width = out.levels:size(2), height = out.levels:size(1)}} end

function image.picture(out)
  if out.levels.ndim == 2 then return out.levels:unsqueeze(1) end
  return out.levels:transpose(1, 3):transpose(2, 3) -- (H,W,C) -> (C,H,W)
end

return image
