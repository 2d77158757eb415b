-- presets.lua: named augmentations for data.loader and augment.schedule.
--
-- Numbers of the face-parsing ones are those of the training scripts they come from; ops that were applied together
-- there share a coin here. fill = 0 shows black, and class 0 of masks, where the source does not reach.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"

-- Sizes and places by one coin, as an affine transform of other libraries is.
local function affine(p, scale, shift, shear)
  return {
    scale = {1 - scale, 1 + scale, p = p, coin = 1}, translate_x = {-shift, shift, p = p, coin = 1},
    translate_y = {-shift, shift, p = p, coin = 1}, shear = shear and {-shear, shear, p = p, coin = 1},
  }
end

local function jitter(p, brightness, contrast, saturation, hue)
  return {
    brightness = {1 - brightness, 1 + brightness, p = p, coin = 2},
    contrast = {1 - contrast, 1 + contrast, p = p, coin = 2},
    saturation = {1 - saturation, 1 + saturation, p = p, coin = 2}, hue = hue and {-hue, hue, p = p, coin = 2},
  }
end

local function join(...)
  local out = {}
  for _, part in ipairs{...} do
    for key, value in pairs(part) do out[key] = value end
  end
  return out
end

-- ORDER names
local makers = {
  minimal = function() return {flip = 0.5} end,
  default = function()
    return join(affine(0.3, 0.1, 0.05), jitter(0.5, 0.2, 0.2, 0.1), {flip = 0.5, rotate = {-15, 15, p = 0.3}, fill = 0})
  end,
  strong = function()
    return join(affine(0.4, 0.15, 0.1), jitter(0.5, 0.3, 0.3, 0.15), {
      flip = 0.5, rotate = {-20, 20, p = 0.4}, blur = {0.1, 2, size = 3, p = 0.2}, fill = 0,
    })
  end,
  ultra = function()
    return join(affine(0.5, 0.2, 0.1, 10), jitter(0.7, 0.4, 0.4, 0.2, 0.1), {
      flip = 0.5, rotate = {-25, 25, p = 0.5}, blur = {0.1, 2, size = 3, p = 0.3}, noise = {12.75, 12.75, p = 0.2},
      perspective = {0.2, 0.2, p = 0.3}, fill = 0,
    })
  end,
  cutmix = function() return {mixup = {alpha = 0.2, p = 0.15}, cutmix = {alpha = 1, p = 0.15}} end,
  ultra_cpu = function()
    return {
      flip = 0.5, rotate = {-20, 20, p = 0.6}, scale = {0.8, 1.2, p = 0.6}, fill = 0,
      brightness = {0.7, 1.3, p = 0.5, coin = 2}, contrast = {0.8, 1.2, p = 0.25, coin = 2}, noise = {3, 8, p = 0.3},
    }
  end,
  captcha = function()
    return {
      rotate = {-4, 4, p = 0.5}, scale = {0.92, 1.08, p = 0.5}, translate_x = {-0.04, 0.04},
      translate_y = {-0.04, 0.04}, shear = {-8, 8, p = 0.5}, perspective = {0.15, 0.15, p = 0.3},
      elastic = {0.5, 2, p = 0.3}, brightness = {0.8, 1.2}, contrast = {0.7, 1.2}, noise = {2, 12, p = 0.5},
      blur = {0.3, 1, p = 0.2},
    }
  end,
  captcha_strong = function()
    return {
      rotate = {-7, 7, p = 0.8}, scale = {0.85, 1.12, p = 0.8}, translate_x = {-0.06, 0.06},
      translate_y = {-0.08, 0.08}, shear = {-20, 20, p = 0.8}, perspective = {0.25, 0.25, p = 0.5},
      elastic = {0.5, 3, p = 0.6}, brightness = {0.8, 1.2}, contrast = {0.6, 1.2}, noise = {2, 12, p = 0.5},
      blur = {0.3, 1, p = 0.2},
    }
  end,
}

local presets = {}

--- Names of all, from gentle to strong and special.
presets.names = {"minimal", "default", "strong", "ultra", "ultra_cpu", "cutmix", "captcha",
  "captcha_strong"}

--- The options of a preset, as a table that may be changed.
-- in   name: "minimal" (flip), "default" (small turns, sizes, places and colours), "strong", "ultra" (shear, hue, noise
--      and perspective too), "ultra_cpu", "cutmix" (mixup and cutmix alone), "captcha" (for text: no flips),
--      "captcha_strong" (for hundreds of characters, each in few images); changes: options that take the place of its
--      own; false takes one out
-- errs value: unknown name
-- eg   capl.augment.preset("minimal").flip  --> 0.5
function presets.preset(name, changes)
  local make = makers[name]
  if not make then check.unknown("augment.preset", "preset", name, presets.names) end
  local out = make()
  for key, value in pairs(changes or {}) do
    if value == false then out[key] = nil else out[key] = value end
  end
  return out
end

--- The loss of two mixed samples: mix * loss(target) + (1 - mix) * loss(target2), mean over the batch.
-- in   loss: a function of a target that gives one loss per sample, (N) or (N,…); batch: of a loader whose augmentation
--      mixes, or of any other, which has target alone
-- paper H. Zhang and others: mixup, 2018; S. Yun and others: CutMix, 2019
-- eg   augment.mixed(function(target) return nn.cross_entropy(logits, target, {reduction = "none"}) end, batch)
function presets.mixed(loss, batch)
  if not core.is_callable(loss) then check.fail("augment.mixed",
    "loss is a " .. core.typename(loss) .. ", not a function of a target") end
  local own = loss(batch.target)
  if not batch.mix then return own:mean() end
  local share = batch.mix
  local shape = own.shape
  if shape[1] ~= share.shape[1] then
    check.fail("augment.mixed", ("loss gave %d numbers for %d samples"):format(shape[1] or 1, share.shape[1]),
      'reduction = "none" keeps one per sample')
  end
  local sizes = {share.shape[1]}
  for i = 2, #shape do sizes[i] = 1 end
  share = share:view(unpack(sizes))
  return (own * share + loss(batch.target2) * (1 - share)):mean()
end

return presets
