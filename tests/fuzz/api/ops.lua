-- ops.lua: calls of ops, whose kernels see nothing but what the rules of shapes let through: cases of tests/op with parts
-- changed, and inputs whose sizes come from a few numbers, so that they fit each other now and then.
-- SPDX-License-Identifier: Apache-2.0
local fuzz = ...

local random, values = fuzz.random, fuzz.values
local pick, chance, upto = random.pick, random.chance, random.upto

local ops = {}

-- ---- cases of tests/op ----------------------------------------------------------------------------

local families = {"activation", "elementwise", "loss", "optim", "reduce", "sample", "pointwise", "matmul", "take", "shape", "select"}

local function literal(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, entry in ipairs(value) do parts[i] = literal(entry) end
  for key, entry in next, value do
    if type(key) == "string" then parts[#parts + 1] = ("[%q] = %s"):format(key, literal(entry)) end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function load_text(path, require)
  local ok, text = pcall(fuzz.read, path)
  if not ok then return nil end
  local chunk = loadstring(text, "@" .. path)
  return setfenv(chunk, setmetatable({require = require}, {__index = _G}))()
end

--- List of {op, inputs, attrs} of all case files that are there.
function ops.cases(list)
  local folder = fuzz.folder .. "/../../op/"
  local gen = load_text(folder .. "gen.lua", function() return bit end)
  local out, names = {}, {}
  for i, name in ipairs(families) do names[i] = name end
  for _, op in ipairs(list) do names[#names + 1] = op.name end
  for _, name in ipairs(names) do
    for _, case in ipairs(load_text(folder .. name .. ".lua", function() return gen end) or {}) do
      if case.inputs then out[#out + 1] = {op = case.op or name, inputs = case.inputs, attrs = case.attrs} end
    end
  end
  return out
end

local function input_text(input)
  if not input then return "nil" end
  local sizes = input.size or input
  local whole = input.kind == "whole"
  local text = ("capl.rand(%s)"):format(literal{unpack(sizes)})
  if whole then text = ("(%s * 3):to('%s')"):format(text, input.dtype or "i32") end
  if chance(0.06) then text = text .. ":to('" .. pick{"f16", "bf16", "f64", "i32", "u8", "bool", "ref"} .. "')" end
  if chance(0.06) then text = text .. pick{":flip(1)", ":transpose(1, -1)", ":narrow(1, 1, 1)", ":unsqueeze(1)", ":t()", "[1]"} end
  if not whole and chance(0.3) then text = text .. ":requires_grad_()" end
  return text
end

local function small(sizes)
  local n = 1
  for _, size in ipairs(sizes) do n = n * size end
  return n <= 4096
end

local function from_case()
  local case, parts = pick(fuzz.cases), {}
  for i = 1, 12 do
    local input = case.inputs[i]
    if input == nil then break end
    if input and not small(input.size or input) then return nil end
    parts[i] = input_text(input)
  end
  if case.attrs or chance(0.1) then parts[#parts + 1] = literal(case.attrs or {}) end
  local text = ("capl.op.%s(%s)"):format(case.op, table.concat(parts, ", "))
  return chance(0.3) and text or fuzz.statements.changed(text)
end

-- ---- sizes that may fit ---------------------------------------------------------------------------

local shapes = {"N,C,H,W", "N,C,H,W", "O,C,K,K", "C", "O", "N", "N,C", "N,O", "C,O", "O,C", "N,T,C", "T,N,C", "", "1", "N,H,W", "N,C,1,1", "N,T", "T,N,O",
  "D,N,C", "G,C", "N,G,T,C", "4", "2"}

local function shape_text(sizes) return "{" .. pick(shapes):gsub("%u", sizes) .. "}" end

local function attribute(attr)
  if attr.kind == "bool" then return pick{"true", "false"} end
  if attr.kind == "ints" then return chance(0.5) and values.number() or values.sizes(5) end
  if attr.kind == "int" then return chance(0.7) and pick{"1", "2", "-1", "3", "0"} or values.number() end
  if attr.kind == "dtype" then return pick{"'f32'", "'f16'", "'i32'", "'bf16'", "'u8'"} end
  if attr.kind == "enum" and attr.values then return ("%q"):format(tostring(pick(attr.values))) end
  return chance(0.7) and pick{"0.5", "1", "0", "2", "1e-5"} or values.any(1)
end

local function fitting()
  local op, parts, sizes = pick(fuzz.ops), {}, {}
  for name in ("NCHWOKTDG"):gmatch(".") do sizes[name] = tostring(pick{1, 2, 3, 4, 5, 8}) end
  local same = chance(0.4) and shape_text(sizes)
  for name in op.ins:gmatch("[%w_]+%??") do
    if name:match("%?") and chance(0.4) then parts[#parts + 1] = "nil" else
      local text = ("capl.rand(%s)"):format(same and chance(0.9) and same or shape_text(sizes))
      if chance(0.12) then text = "(" .. text .. " * 3):to('i32')" end
      parts[#parts + 1] = chance(0.05) and values.tensor() or text
    end
  end
  local attrs = {}
  for _, attr in ipairs(op.attrs) do
    if chance(0.5) then attrs[#attrs + 1] = ("%s = %s"):format(attr.name, attribute(attr)) end
  end
  if #attrs > 0 then parts[#parts + 1] = "{" .. table.concat(attrs, ", ") .. "}" end
  return ("capl.op.%s(%s)"):format(op.name, table.concat(parts, ", "))
end

--- The text of one call; a third of them go backwards, too.
function ops.one()
  local text = chance(0.5) and from_case() or fitting()
  if chance(0.35) then return ("local y = %s v%d = y y:sum():backward()"):format(text, upto(values.slots)) end
  return values.slot() .. " = " .. text
end

return ops
