--- capl: 1
--- needs: minutes=10
-- augment.lua: how fast a GPU turns, bends, colours, mixes and normalizes images of a resident set, one launch per
-- batch.
--
-- data      generated captchas on large grounds; values do not matter, bytes do
-- expected  on H200 and A100: at most 2 times the floor, 3 times with noise; the floor is bytes at the rate of a copy.
--           Not measured yet, nor has anybody said what the other cases should take
-- time      half a minute
-- run       capl bench/gpu/augment.lua [--images=32] [--side=512] [--times=200] [--copy_gb_s=N]
-- Prints one line of JSON per case; floor_ms and ratio when the copy rate is given (`capl bench --ops --json` measures
-- it).
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {images = 32, side = 512, times = 200, copy_gb_s = 0}

local geometry = {rotate = 15, scale = {0.9, 1.1}, shear = 5, translate_x = 0.05, translate_y = 0.05}
local colour = {contrast = 0.2, brightness = 0.2, invert = 0.2}

local function joined(...)
  local out = {}
  for _, part in ipairs{...} do
    for key, value in pairs(part) do out[key] = value end
  end
  return out
end

local cases = {
  {"warp and colour", joined(geometry, colour)},
  {"warp and colour and noise", joined(geometry, colour, {noise = 8})},
  {"levels only", nil},
}
-- What needs more than one affine map, one gain and noise; gamma and blur are a launch of their own.
local rare = {
  {"hue and saturation", joined(geometry, colour, {hue = 0.1, saturation = 0.3})},
  {"perspective", {perspective = 0.2}},
  {"elastic", {elastic = 8}},
  {"gamma and blur", joined(geometry, {gamma = {0.7, 1.4}, blur = {0.3, 2}})},
  {"mixup", joined(geometry, {mixup = {alpha = 0.2, p = 1}})},
  {"cutmix and erase", joined(geometry, {cutmix = {alpha = 1, p = 1}, erase = {0.05, 0.2}})},
}

local function measure(name, augment, dtype, normalize)
  local source = data.captcha{count = p.images, fixed = true, channels = 3, width = p.side, height = p.side}
  local loader = data.loader{source = source, role = "train", batch = p.images, augment = augment, dtype = dtype,
    normalize = normalize, cache = "device"}
  loader:epoch(1)
  local seconds, bytes = loader:measure(p.times)
  local line = ('{"case": "%s", "dtype": "%s", "normalize": "%s", "ms": %.4f, "bytes": %.0f, "gb_s": %.1f'):format(
    name, dtype, normalize, 1e3 * seconds, bytes, bytes / seconds / 1e9)
  if p.copy_gb_s > 0 then
    local floor = bytes / (p.copy_gb_s * 1e9)
    line = line .. (', "floor_ms": %.4f, "ratio": %.2f'):format(1e3 * floor, seconds / floor)
  end
  print(line .. "}")
end

for _, case in ipairs(cases) do
  for _, dtype in ipairs{"f32", "bf16", "u8"} do measure(case[1], case[2], dtype, "unit") end
end
for _, case in ipairs(rare) do measure(case[1], case[2], "f32", "unit") end
measure("warp and colour", cases[1][2], "f32", "standardize")
