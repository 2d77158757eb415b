-- image.lua: how near images that a model gives come to target images: PSNR, MAE and MSE of levels from 0 to 1.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local kept = require "meter.kept"
local meters = require "meter"
local named = require "fields.named"
local pending = require "meter.pending"

local OP = "ImageMeter"
local WORST = 24
local SAME = 100 -- dB of an image without a difference

local Image = {kind = "image", ways = {psnr = "max", mae = "min", mse = "min"}}
Image.__index = Image

local mains = {"psnr", "mae", "mse"}

local spec = {
  {"field", "string", default = "target_image"}, {"mean", "table"}, {"std", "table"}, {"loader", "table"},
  {"main", "string", default = "psnr"}, {"merge", "table"}, {"worst", "whole", default = WORST},
}

local function worse(a, b)
  if a.psnr ~= b.psnr then return a.psnr < b.psnr end
  return a.id < b.id
end

--- train.ImageMeter{…}: a meter for images.
-- opts field = "target_image": name of the target images in a batch; mean, std = of each channel: output * std + mean
--      is the image; loader = names its samples; main = "psnr" | "mae" | "mse": the metric that says which of two
--      models is better; worst = 24 images to keep
-- errs value: unknown option
-- eg   capl.train.ImageMeter{main = "mae"}:result().n  --> 0
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  check.one_of(OP, "main", o.main, mains)
  for _, key in ipairs{"mean", "std"} do
    if o[key] then named.check_scale(OP, {[key] = o[key]}, #o[key]) end
  end
  local self = setmetatable({
    field = o.field, mean = o.mean, std = o.std, loader = o.loader, main = o.main, better = Image.ways[o.main], n = 0,
    sums = {psnr = 0, mae = 0, mse = 0}, kept = kept.ends(o.worst, worse),
  }, Image)
  self.waiting = pending.new(function(columns, ids) self:read_columns(columns, ids) end)
  return self
end

-- ---- counting ----

local function check_sizes(self, output, truth)
  local fits = output.ndim == 4 and truth.ndim == 4
  for dim = 1, 4 do fits = fits and output:size(dim) == truth:size(dim) end
  if not fits then
    check.fail("train.evaluate", ("the model's output is (%s), and %s is (%s)"):format(table.concat(output:size(), ","),
      self.field, table.concat(truth:size(), ",")), "both are images (N,C,H,W)")
  end
  for _, key in ipairs{"mean", "std"} do
    if self[key] and #self[key] ~= output:size(2) then
      check.fail(OP, ("%s has %d numbers, and the images have %d channels"):format(key, #self[key], output:size(2)))
    end
  end
end

-- (C) -> (1,C,1,1)
local function by_channel(list, like) return core.tensor(list, {device = like.device}):reshape(1, #list, 1, 1) end

--- Levels from 0 to 1 of an output (N,C,H,W), cut beyond.
function Image:levels(output)
  local x = output:to("f32")
  if self.std then x = x * by_channel(self.std, x) end
  if self.mean then x = x + by_channel(self.mean, x) end
  return x:clamp(0, 1)
end

--- The same of target images: u8 levels, or numbers from 0 to 1.
function Image:meant(truth)
  local x = truth:to("f32")
  return truth.dtype == "u8" and x / 255 or x
end

local function add(self, output, batch)
  local truth = meters.field(OP, batch, self.field, 'target_image = "_target.png" of data.folder gives target images')
  check_sizes(self, output, truth)
  local N = truth:size(1)
  local off, x = (self:levels(output) - self:meant(truth)):reshape(N, -1), output:to("f32")
  local finite = (x - x):reshape(N, -1):sum(2) -- NaN where a number is none, or infinite
  self.waiting:add({(off * off):mean(2), off:abs():mean(2), finite}, batch.ids or N)
end

--- Counts a batch; nothing is read from the device until metrics are computed.
-- in   output (N,C,H,W); batch with target images (N,C,H,W) under the field's name: u8 levels, or f32 from 0 to 1
-- errs value: other sizes
function Image:add(output, batch) return core.no_grad(add, self, output, batch) end

-- PSNR in dB of a mean squared error.
local function psnr_of(mse) return math.min(SAME, -10 * math.log10(math.max(mse, 1e-30))) end

function Image:read_columns(columns, ids)
  for i, id in ipairs(ids) do
    local mse, mae = columns[1][i], columns[2][i]
    if columns[3][i] ~= 0 then
      core.error{code = "value", op = OP, path = false,
        message = ("the model's output for sample %d is not finite"):format(id)}
    end
    local entry = {id = id, psnr = psnr_of(mse), mae = mae, mse = mse}
    for key, sum in pairs(self.sums) do self.sums[key] = sum + entry[key] end
    self.kept:add(entry)
  end
  self.n = self.n + #ids
end

-- ---- metrics ----

--- The metrics, of levels from 0 to 1.
-- out  n: images; psnr: in dB, mean over images, of which one without a difference has 100; mae, mse: mean over images
function Image:result()
  self.waiting:flush()
  local out = {role = self.role, n = self.n}
  for key, sum in pairs(self.n > 0 and self.sums or {}) do out[key] = sum / self.n end
  return out
end

--- "PSNR 24.31 dB, MAE 0.0312, MSE 0.003702, n 100"
function Image:line()
  local r = self:result()
  return r.psnr and ("PSNR %.2f dB, MAE %.4f, MSE %.4g, n %d"):format(r.psnr, r.mae, r.mse, r.n) or "n 0"
end

--- {wrong = the images that are farthest off: {id, psnr, mae, mse}, right = the nearest}
function Image:samples()
  self.waiting:flush()
  return self.kept:samples(function(e) return e.psnr == SAME end)
end

return {new = new, any_field = true}
