-- image.lua: images that a model gives.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local count = require "count"
local named = require "fields.named"

local image = {name = "image", meter = "image", metric = "psnr", field = "target_image", is_levels = true,
  beside = "target images"}

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

--- Pixels of the samples, as the model is given them.
function image.input(name, _, facts)
  if name ~= "image" then return nil end
  return {width = facts.width, widths = facts.widths, height = facts.height, channels = facts.channels,
    normalize = facts.normalize, resize = facts.resize}
end

image.files = {{name = "target_image", value = "ENDING", absent = "_target.png",
  doc = "images: ending of the target images beside the images, the column of a list, or true for those of a database"}}

-- target_image = "_target.png" | {file =, column =, root =, channels =} -> for the engine
local function read_target(op, given)
  local in_list = op == "data.list"
  if op == "data.lmdb" then given = {file = "target", channels = type(given) == "table" and given.channels or nil} end
  if type(given) == "string" then given = {[in_list and "column" or "file"] = given} end
  check.value(op, {"target_image", "string", "table"}, given)
  local o = check.keys(op .. ": target_image", given, {"file", "column", "root", "channels"})
  if not o.file == not o.column or o.column and not in_list or o.file == "" then
    check.fail(op, in_list and "target_image names a column, or a file: the ending of the images beside the images"
      or 'target_image names a file: the ending of the images beside the images, such as "_target.png"')
  end
  return {ending = o.file, column = o.column, root = o.root, channels = o.channels}
end

--- Option target_image of a source of files: out.target is what the engine gets.
function image.read(op, given, out) out.target = read_target(op, given) end

--- The option as one of a database: which file a target lies in is of no account there.
function image.of_database(given) return type(given) == "table" and {channels = given.channels} or true end

--- The option as one of a list in the images' folder, where targets lie, too.
function image.of_folder(given) return type(given) == "string" and {file = given} or given end

-- {from, to, mean} of all levels, from 0 to 1; images of one level alone; what is wrong with others.
local function look_at(source)
  local found = {from = 1, to = 0, mean = 0, n = 0, flat = {}, bad = {}}
  for i = 0, source:count() - 1 do
    local from, to, mean = source.box:target_levels(i)
    if not from then found.bad[#found.bad + 1] = to
    else
      found.from, found.to = math.min(found.from, from), math.max(found.to, to)
      found.mean, found.n = found.mean + mean, found.n + 1
      if from == to then found.flat[#found.flat + 1] = source:name(i) end
    end
  end
  return found
end

--- A line of capl data stat.
function image.stat(source)
  local found = look_at(source)
  if found.n == 0 then return "none that can be used" end
  return ("%s, levels %.3g to %.3g, mean %.3g; %d of one level alone"):format(count.of(found.n, "target image"),
    found.from, found.to, found.mean / found.n, #found.flat)
end

--- What is wrong, for capl data check.
function image.look(r, source)
  local found = look_at(source)
  r:add("target images that cannot be used", #found.bad, function(i) return found.bad[i] end)
  if #found.flat > 0 then
    r:note(("target images of one level alone: %d, such as %s"):format(#found.flat, found.flat[1]))
  end
end

--- What an ONNX file takes of levels u8 (N,C,H,W): (N,H,W,C); one for ddddocr (N,C,H,W) from 0 to 1.
function image.onnx_input(_, _, levels, ddddocr)
  local op = core.op
  if ddddocr then return op.affine(op.cast(levels, {dtype = "f32"}), {scale = 1 / 255}) end
  return op.contiguous(op.permute(levels, {dims = {1, 3, 4, 2}}))
end

--- How capl eval reads the truth: target images beside the images, or in a column of a list.
function image.truth(d, o)
  local out = {channels = d.image}
  out[o.in_list and o.target_image and "column" or "file"] = o.target_image or "_target.png"
  return {target_image = out}
end

function image.measures(given) return {mean = given.mean, std = given.std} end

function image.counted() return {} end

--- What an ImageMeter takes, (N,C,H,W) from 0 to 1, of the outputs of several images.
function image.measured(outs)
  local images = {}
  for i, out in ipairs(outs) do images[i] = image.picture(out):contiguous():unsqueeze(1) end
  return core.op.concat(images, {dim = 1}):to("f32") / 255
end

--- How the sheet of samples shows them: the image, the one that was meant, the one that was read.
image.sheet = {columns = 6, together = 3, worst = 8, best = 4, thumb = 3}

--- What was meant and read of entry e, which is the i-th of a batch, as views. nil: the model has changed since
function image.compared(meter, e, batch, output, i)
  local meant, read = meter:meant(batch[meter.field]:narrow(1, i, 1)), meter:levels(output:narrow(1, i, 1))
  local off = read - meant
  if math.abs((off * off):mean():item() - e.mse) > 1e-6 + 1e-3 * e.mse then return nil end
  local function picture(x) return (x * 255 + 0.5):to("u8") end
  return {{image = picture(meant), caption = "meant"},
    {image = picture(read), caption = ("read, PSNR %.1f dB"):format(e.psnr)}}
end

return image
