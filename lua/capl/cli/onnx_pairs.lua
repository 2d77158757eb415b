-- onnx_pairs.lua: golden pairs of a model as inputs and outputs of its ONNX file, and their comparison.
--
-- They lie beside FILE.onnx, in FILE.golden.safetensors: GROUP/in/NAME and GROUP/out/NAME, a group for each width.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local fields = require "fields"
local session = require "cli.onnx_session"
require "tensor"

local pairs_of = {}

local op = core.op

--- Where the pairs of an ONNX file lie.
function pairs_of.path(file) return (file:gsub("%.onnx$", "") .. ".golden.safetensors") end

-- ---- names ----

-- The input of images, as the file describes it; nil: there is none.
local function image_of(meta)
  if not meta.inputs then return meta end
  for _, one in ipairs(meta.inputs) do
    if fields.kind(one.kind).is_levels then return one end
  end
end

local ONLY = "image" -- what an only input is called

-- As export.c names an only output that has no name.
local function output_name(meta, d)
  if d.name ~= "" then return d.name end
  return not meta.inputs and d.kind.name == ONLY and "output" or d.kind.name
end

-- ---- making them ----

local function images(path, from, n)
  local list = {}
  for i = 1, n do list[i] = core.data.png_read(("%s/golden/%02d.png"):format(path, from + i - 1)) end
  list[n + 1] = {dim = 1}
  return (op.concat(unpack(list)))
end

local function add_images(into, path, meta, outputs, ddddocr)
  local d = image_of(meta)
  local name, kind, widths, from = d.kind and d.name or ONLY, fields.kind(d.kind or ONLY), d.widths or {}, 0
  for w = 1, math.max(#widths, 1) do
    local suffix, n = #widths > 1 and "." .. widths[w] or "", 0
    for _, one in ipairs(fields.outputs_of(meta)) do
      local y = outputs[(one.name ~= "" and one.name or "output") .. suffix]
      if y then
        n = y:size(1)
        into[("%d/out/%s"):format(w, output_name(meta, one))] = ddddocr and one.kind.as_ddddocr(y, one) or y
      end
    end
    if n > 0 then into[("%d/in/%s"):format(w, name)] = kind.onnx_input(d, nil, images(path, from, n), ddddocr) end
    from = from + n
  end
end

-- Inputs that are described, among them perhaps an image.
local function add_inputs(into, path, meta, inputs, outputs)
  for _, d in ipairs(meta.inputs) do
    local kind, x = fields.kind(d.kind), inputs[d.name] or inputs.input
    into["1/in/" .. d.name] = kind.onnx_input(d, x, kind.is_levels and images(path, 0, x:size(1)) or nil)
  end
  for _, d in ipairs(fields.outputs_of(meta)) do
    into["1/out/" .. output_name(meta, d)] = outputs[d.name ~= "" and d.name or "output"]
  end
end

--- Writes the pairs of a model beside its ONNX file.
-- out  their number; or nil and why there are none
function pairs_of.write(model, file, meta, ddddocr)
  local tensors, inputs = {}, model .. "/golden/inputs.safetensors"
  if core.sys.kind(model .. "/golden.safetensors") ~= "file" then return nil, "the model has no golden pairs" end
  local outputs = core.safetensors_load(model .. "/golden.safetensors")
  if core.sys.kind(inputs) ~= "file" then add_images(tensors, model, meta, outputs, ddddocr)
  elseif image_of(meta) and core.sys.kind(model .. "/golden/00.png") ~= "file" then
    return nil, "its golden pairs hold the image as numbers, not as levels: an older capl saved it"
  else add_inputs(tensors, model, meta, core.safetensors_load(inputs), outputs) end
  local n, seen = 0, {}
  for name, tensor in pairs(tensors) do
    local group = name:match("^(%d+)/in/")
    if group and not seen[group] then n, seen[group] = n + tensor:size(1), true end
  end
  core.safetensors_save(pairs_of.path(file), tensors)
  return n
end

-- ---- comparing them ----

-- What each sample's scores say, as a text: the best class of each place, CTC's repeats merged. (n,…,K)
local function answers(y, d, ddddocr)
  local n, out = y:size(1), {}
  local K, blank = y:size(y.ndim), nil
  if d.kind.places then K, blank = d.kind.places(y, d, ddddocr) end
  for i, places in ipairs(op.argmax(op.reshape(y, {size = {n, -1, K}}), {dim = 3}):tolist()) do
    local kept, before = {}, nil
    for _, class in ipairs(places) do
      if not blank or (class ~= blank and class ~= before) then kept[#kept + 1] = class end
      before = class
    end
    out[i] = table.concat(kept, " ")
  end
  return out
end

local function compare(v, now, before, d, group)
  local after = now[("%s/out/%s"):format(group, v.port)]
  if not after or after:numel() ~= before:numel() then
    core.fail(("the ONNX file gives %s as %s of its golden pairs, not %s"):format(after and core.describe(after)
      or "nothing", v.port, core.describe(before)))
  end
  after = op.reshape(after, {size = before.shape})
  local difference = op.amax(op.abs(op.sub(after, before))):item()
  if not (difference <= v.difference) then v.difference = difference end -- NaN counts as the greatest
  v.largest = math.max(v.largest, op.amax(op.abs(v.ddddocr and d.kind.sure_scores(before) or before)):item())
  if not d.kind.answers then return end
  v.answers = d.kind.answers
  local a, b = answers(after, d, v.ddddocr), answers(before, d, v.ddddocr)
  for i = 1, #a do
    if a[i] ~= b[i] then v.other[group .. "/" .. i] = true end
  end
end

-- meta.json of the model as a table, and whether the file is for ddddocr.
local function described(file, about)
  local ok, meta = pcall(core.json_decode, about.meta or "")
  if ok and type(meta) == "table" then return meta, about.format == "ddddocr" end
  core.fail(("%s was not written by capl export: its metadata has no capl_meta"):format(file))
end

--- Runs the pairs beside an ONNX file through ONNX Runtime.
-- out  verdict as of capl verify, with runtime = version of ONNX Runtime; or nil and why it is not installed
-- errs value: there are no pairs, or the file gives other outputs
function pairs_of.replay(file)
  local path = pairs_of.path(file)
  if core.sys.kind(path) ~= "file" then
    core.fail(("%s has no golden pairs: %s is missing"):format(file, path), "capl export writes both; keep them together")
  end
  local now, about = session.run(file, path)
  if not now then return nil, about end
  local thens = core.safetensors_load(path)
  local meta, ddddocr = described(file, about)
  local v = {n = 0, difference = 0, largest = 0, other = {}, precision = "fp32", runtime = about.version,
    ddddocr = ddddocr}
  for number, d in ipairs(fields.outputs_of(meta)) do
    v.port = output_name(meta, d)
    for key, before in pairs(thens) do
      local group, port = key:match("^(%d+)/out/(.*)$")
      if port == v.port then compare(v, now, before, d, group) end
      if port == v.port and number == 1 then v.n = v.n + before:size(1) end
    end
  end
  v.same_texts = v.n
  for _ in pairs(v.other) do v.same_texts = v.same_texts - 1 end
  v.tolerance = math.max(1e-3 * v.largest, 1e-4)
  v.ok = v.difference <= v.tolerance and v.same_texts == v.n
  v.port, v.other, v.ddddocr = nil, nil, nil
  return v
end

--- A verdict for people.
function pairs_of.line(v)
  local texts = v.answers and ("%d of %d %s the same, "):format(v.same_texts, v.n, v.answers) or ""
  return ("ONNX Runtime %s, %d golden pairs: %sgreatest difference %.2g of outputs up to %.3g (%.2g allowed): %s\n")
    :format(v.runtime, v.n, texts, v.difference, v.largest, v.tolerance, v.ok and "ok" or "FAILED")
end

return pairs_of
