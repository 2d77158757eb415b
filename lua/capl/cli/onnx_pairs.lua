-- onnx_pairs.lua: golden pairs of a model as inputs and outputs of its ONNX file, and their comparison.
--
-- They lie beside FILE.onnx, in FILE.golden.safetensors: GROUP/in/NAME and GROUP/out/NAME, a group for each width.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local fields = require "fields"
local session = require "cli.onnx_session"
local symbols = require "fields.symbols"
require "tensor"

local pairs_of = {}

local op = core.op

--- Where the pairs of an ONNX file lie.
function pairs_of.path(file) return (file:gsub("%.onnx$", "") .. ".golden.safetensors") end

-- ---- names ----

local function image_of(meta)
  if not meta.inputs then return meta end
  for _, one in ipairs(meta.inputs) do
    if one.kind == "image" then return one end
  end
end

-- As export.c names an only output that has no name.
local function output_name(meta, d)
  if d.name ~= "" then return d.name end
  return not meta.inputs and d.kind.name == "image" and "output" or d.kind.name
end

-- ---- ddddocr ----

local NEVER = -10000 -- of ddddocr.c

local function classes_of(d)
  local count = symbols.count(d.charset)
  return d.blank and count + 1 or count
end

-- Scores (n,T,K) as the file for ddddocr gives them: (n,T',K+1), the blank first.
local function as_ddddocr(scores, d)
  local n, K = scores:size(1), classes_of(d)
  local y = op.reshape(scores, {size = {n, -1, K}})
  if d.blank then
    return op.concat(op.narrow(y, {dim = 3, start = K, length = 1}), op.narrow(y, {dim = 3, start = 1, length = K - 1}),
      {dim = 3})
  end
  local T = y:size(2)
  local function filled(width, value) return op.affine(core.zeros({n, T, 1, width}), {shift = value}) end
  local place = op.concat(filled(1, NEVER), op.reshape(y, {size = {n, T, 1, K}}), {dim = 4})
  local between = op.concat(filled(1, 0), filled(K, NEVER), {dim = 4})
  return op.reshape(op.concat(place, between, {dim = 3}), {size = {n, 2 * T, K + 1}})
end

-- ---- making them ----

local function images(path, from, n)
  local list = {}
  for i = 1, n do list[i] = core.data.png_read(("%s/golden/%02d.png"):format(path, from + i - 1)) end
  list[n + 1] = {dim = 1}
  return (op.concat(unpack(list)))
end

local function input_of(levels, ddddocr)
  if ddddocr then return op.affine(op.cast(levels, {dtype = "f32"}), {scale = 1 / 255}) end
  return op.contiguous(op.permute(levels, {dims = {1, 3, 4, 2}}))
end

local function add_images(into, path, meta, outputs, ddddocr)
  local widths, from = image_of(meta).widths or {}, 0
  for w = 1, math.max(#widths, 1) do
    local suffix, n = #widths > 1 and "." .. widths[w] or "", 0
    for _, d in ipairs(fields.outputs_of(meta)) do
      local y = outputs[(d.name ~= "" and d.name or "output") .. suffix]
      if y then
        n = y:size(1)
        into[("%d/out/%s"):format(w, output_name(meta, d))] = ddddocr and as_ddddocr(y, d) or y
      end
    end
    local name = meta.inputs and image_of(meta).name or "image"
    if n > 0 then into[("%d/in/%s"):format(w, name)] = input_of(images(path, from, n), ddddocr) end
    from = from + n
  end
end

-- Numbers as the network takes them, in their units again.
local function in_units(x, d)
  local D = x:size(x.ndim)
  local function row(list, value)
    local out = {}
    for i = 1, D do out[i] = list and list[i] or value end
    return core.tensor(out)
  end
  return op.add(op.mul(x, row(d.std, 1)), row(d.mean, 0))
end

local function add_numbers(into, meta, inputs, outputs)
  for _, d in ipairs(meta.inputs) do into["1/in/" .. d.name] = in_units(inputs[d.name] or inputs.input, d) end
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
  elseif image_of(meta) then return nil, "its golden pairs hold the image as numbers, not as levels"
  else add_numbers(tensors, meta, core.safetensors_load(inputs), outputs) end
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
  local n = y:size(1)
  local text = d.kind.name == "text"
  local K = text and classes_of(d) + (ddddocr and not d.blank and 1 or 0) or y:size(y.ndim)
  local blank = ddddocr and 0 or d.blank
  local out = {}
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

-- Scores without the rows of certain blanks.
local function sizes_of(y, ddddocr)
  if not ddddocr then return op.abs(y) end
  return op.abs(op.mul(y, op.cast(op.gt(y, core.tensor(NEVER / 2)), {dtype = "f32"})))
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
  v.largest = math.max(v.largest, op.amax(sizes_of(before, v.ddddocr)):item())
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
