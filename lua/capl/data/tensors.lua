-- tensors.lua: data.tensors: samples that lie in memory already, as a source for data.loader.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local field_names = require "fields.field_names"
local kinds = require("fields").kinds
local symbols = require "fields.symbols"

local OP = "data.tensors"
local FIELDS, DIMS = 4, 3 -- at most, beside image and target; of one sample's field
local options = {image = true, target = true, charset = true, classes = true}

local function refuse(text, ...) check.fail(OP, text:format(...)) end

local function shown(t) return ("(%s) %s"):format(table.concat(t.shape, ","), t.dtype) end

-- Raises unless a tensor has one of the dims and the type.
local function expect(name, t, dims, dtype, what, hint)
  if not core.is_tensor(t) then refuse("%s is a tensor %s, not a %s", name, what, core.typename(t)) end
  if dims[#t.shape] and t.dtype == dtype then return end
  check.fail(OP, ("%s is %s, got %s"):format(name, what, shown(t)), t.dtype ~= dtype and hint or nil)
end

local function dims_of(...)
  local out = {}
  for _, n in ipairs{...} do out[n] = true end
  return out
end

-- ---- the parts ----

local function check_image(image)
  expect("image", image, dims_of(4), "u8", "(N,C,H,W) u8 levels",
    "values in 0..1 become levels by (image * 255):to(\"u8\")")
  local channels = image.shape[2]
  if channels ~= 1 and channels ~= 3 then
    refuse("image has %d channels; it has 1 (gray) or 3 (red, green, blue)", channels)
  end
end

local function check_target(target)
  expect("target", target, dims_of(1, 2), "i32", "(N) or (N,T) i32 class numbers from 0 on, -1 = none",
    'target:to("i32")')
end

local function check_area(o, name, t)
  local image = o.image
  if not image then refuse("a %s is of an image, and there is none", name) end
  if t.shape[2] ~= image.shape[3] or t.shape[3] ~= image.shape[4] then
    refuse("%s is %dx%d px, but image is %dx%d", name, t.shape[3], t.shape[2], image.shape[4], image.shape[3])
  end
end

-- The kind whose tensors have this name; nil: they are numbers that nothing moves.
local function kind_of(name)
  for _, kind in ipairs(kinds) do
    if kind.tensor and kind.field == name then return kind end
  end
end

local function check_kind(o, name, t, want)
  expect(name, t, dims_of(want.dims), want.dtype, want.what, want.hint)
  if want.of_image then check_area(o, name, t) end
  if want.width and t.shape[3] ~= want.width then refuse("%s is %s, got %s", name, want.what, shown(t)) end
end

local function check_field(o, name, t)
  field_names.check(OP, name)
  local kind = kind_of(name)
  if kind then return check_kind(o, name, t, kind.tensor) end
  local dims = {}
  for n = 1, DIMS + 1 do dims[n] = true end
  expect(name, t, dims, "f32", "(N,…) f32 of up to 4 dims", name .. ':to("f32")')
end

-- Names of the fields, in the order in which a source has them.
local function names_of(o)
  local names = {}
  for name in pairs(o) do
    if not options[name] then names[#names + 1] = name end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

-- N, the same for all parts.
local function count_of(o, names)
  local first, count
  for _, name in ipairs{"image", "target", unpack(names)} do
    local n = o[name] and o[name].shape[1]
    if n and count and n ~= count then refuse("%s has %d samples, but %s has %d", first, count, name, n) end
    if n and not count then first, count = name, n end
  end
  if not count then refuse("nothing to give: image, target, mask, points, boxes or tensors of other names") end
  if count == 0 then refuse("%s has no sample", first) end
  return count
end

local function fields_of(o, names)
  local fields = {}
  for i, name in ipairs(names) do
    local kind, t = kind_of(name), o[name]
    -- (N) is one number for each sample.
    fields[i] = {name = name, kind = kind and kind.moves or "values", tensor = #t.shape == 1 and t:reshape(-1, 1) or t}
  end
  if #fields > FIELDS then refuse("%d parts beside image and target; there can be %d", #fields, FIELDS) end
  return fields
end

local function check_classes(o)
  if not o.target then
    if o.charset or o.classes then refuse("charset and classes are of the target, and there is none") end
    return
  end
  check_target(o.target)
  local classes = o.classes
  if classes ~= nil and not (type(classes) == "number" and classes >= 1 and classes % 1 == 0) then
    refuse("classes is how many there are, got %s", tostring(classes))
  end
  if o.charset == nil then return classes end
  if type(o.charset) ~= "string" then refuse("charset is a string, not a %s", type(o.charset)) end
  local n = symbols.count(core.data.charset(o.charset))
  if classes and classes ~= n then refuse("classes = %d, but charset has %d", classes, n) end
  return n
end

local tensors = {}

--- new(source): how a source is made of an engine's.
function tensors.new(source)
  --- Tensors as samples, one for each place of the first dim; they are copied.
  -- opts  image = (N,C,H,W) u8 levels, C 1 or 3; target = (N,T) or (N) i32, -1 = none, with charset = "0-9" when they
  --       spell texts, or classes = how many there are; mask = (N,H,W) u8; points = (N,P,3) f32: x, y in px, 1 =
  --       visible; boxes = (N,B,5) f32: left, top, right, bottom in px, class; and up to four tensors (N,…) f32 in all
  --       beside image and target, under names of your own: batches have them by the same names, and augmentation
  --       leaves those alone
  -- out   source for data.loader, in this order unless it is shuffled
  -- errs  value: sizes or types that do not fit, a label outside the classes
  return function(opts)
    if type(opts) ~= "table" then check.value(OP, {"the options", "table"}, opts) end
    local classes = check_classes(opts)
    if opts.image then check_image(opts.image) end
    local names = names_of(opts)
    for _, name in ipairs(names) do check_field(opts, name, opts[name]) end
    local box = core.data.arrays{
      count = count_of(opts, names), image = opts.image, target = opts.target, charset = opts.charset,
      classes = classes, fields = fields_of(opts, names),
    }
    local made = source(box)
    made.ordered, made.n_classes = true, classes or made.n_classes
    return made
  end
end

return tensors
