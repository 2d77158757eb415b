-- values.lua: the text of arguments: what is right, what is nearly right, and what nobody would give.
-- SPDX-License-Identifier: Apache-2.0
local fuzz = ...

local random = fuzz.random
local pick, chance, upto, weighted = random.pick, random.chance, random.upto, random.weighted

local values = {slots = 24}

local small = {"0", "1", "2", "3", "4", "5", "8", "0.5", "1", "2", "3"}
local extreme = {"-1", "-2", "-3", "0/0", "1/0", "-1/0", "-0.0", "2^31", "2^31-1", "-2^31", "2^32", "2^53", "2^53+2", "-2^53", "2^62", "2^63",
  "-2^63", "2^64", "1e308", "-1e308", "1e-320", "4096", "65536", "1e9", "255", "256", "257", "1.5", "-0.5", "0.999999", "3e9", "64", "100"}
local dtypes = {"f32", "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool", "c64", ""}
local devices = {"cpu", "cpu", "ref", "meta", "cuda:0", "auto", "cpu:7", ""}
local odd_texts = {[[""]], [["\0"]], [["a\0b"]], [[("x"):rep(5000)]], [["%s%n%d"]], [["\27[2J"]], [["\255\254"]], [["é"]], [["0-9A-Z"]],
  [["A-Z"]], [["ABC"]], [["z-a"]], [["nowhere/x"]], [["x.png"]], [["x.csv"]], [["x"]], [["model"]], [["."]], [["__index"]], [["1"]], [["nan"]],
  [["*"]], [["[[["]], [["(h w) c"]], [["b c h w -> b (c h) w"]], [["\n"]], [["-"]]}
local callbacks = {"H.raising", "H.raising_table", "H.raising_nil", "H.yielding", "H.releasing", "H.collecting", "H.same", "H.nothing", "H.number",
  "H.text", "H.tensor", "H.again", "H.at(2, H.raising)", "H.at(3, H.yielding)", "H.at(2, H.releasing)", "H.at(2, H.nothing)",
  "function(x) return x * 2 end", "function(x, y) return (x - y):abs():mean() end", "function() return nn.Linear(2, 2) end"}
local foreign = {"H.hostile", "H.endless", "H.liar", "H.fake_module", "H.thread", "H.cycle()", "H.deep()", "H.net_cycle()", "H.released()",
  "H.escaped()", "_G", "capl", "nn.Linear", "coroutine.create(H.same)", "print", "string", "setmetatable({}, {__mode = 'kv'})", "(\"x\").rep"}
local views = {":t()", ":transpose(1, -1)", ":detach()", "[1]", ":narrow(1, 1, 1)", ":unsqueeze(1)", ":expand(2, -1)", ":requires_grad_()",
  ":to('f64')", ":to('ref')", ":to('f16')", ":to('i32')", ":flip(1)", ":contiguous()", ":view(-1)", ":clone()", ":double()"}

function values.number()
  if chance(0.7) then return pick(small) end
  return pick(extreme)
end

function values.text()
  if chance(0.25) then return pick(odd_texts) end
  return ("%q"):format(pick(fuzz.docs.texts))
end

function values.sizes(most)
  local list = {}
  for i = 1, upto(most) - 1 do list[i] = chance(0.9) and pick(small) or values.number() end
  return "{" .. table.concat(list, ", ") .. "}"
end

-- A tensor that is made for the call; now and then a strange one.
function values.tensor()
  local maker = pick{"zeros", "ones", "rand", "randn", "empty"}
  local text = ("capl.%s(%s"):format(maker, values.sizes(6))
  if chance(0.3) then text = ("%s, {dtype = %q, device = %q})"):format(text, pick(dtypes), pick(devices)) else text = text .. ")" end
  if chance(0.1) then text = "capl.tensor({{1, 0}, {3, 2}}, {dtype = 'i32'})" end
  while chance(0.3) do text = text .. pick(views) end
  return text
end

function values.slot() return "v" .. upto(values.slots) end

function values.option_table(names, depth)
  local parts = {}
  for i = 1, upto(4) do
    local key = #names > 0 and chance(0.8) and pick(names) or pick(fuzz.docs.options)
    if chance(0.04) then key = key .. "x" end
    parts[i] = ("[%q] = %s"):format(key, values.any(depth + 1))
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function list_of(depth)
  local parts = {}
  for i = 1, upto(5) - 1 do parts[i] = values.any(depth + 1) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- The text of any value. names: options that it may have.
function values.any(depth, names)
  if depth > 2 then return chance(0.5) and values.number() or values.text() end
  local kind = weighted{24, "number", 16, "text", 14, "tensor", 16, "slot", 4, "bool", 4, "nil", 6, "list", 8, "options", 4, "sizes", 5,
    "callback", 5, "foreign", 6, "example"}
  if kind == "number" then return values.number() end
  if kind == "text" then return values.text() end
  if kind == "tensor" then return values.tensor() end
  if kind == "slot" then return values.slot() end
  if kind == "bool" then return pick{"true", "false"} end
  if kind == "nil" then return "nil" end
  if kind == "list" then return list_of(depth) end
  if kind == "options" then return values.option_table(names or {}, depth) end
  if kind == "sizes" then return values.sizes(5) end
  if kind == "callback" then return pick(callbacks) end
  if kind == "foreign" then return pick(foreign) end
  return pick(fuzz.docs.examples)
end

--- Arguments with their parentheses; names: of options that may be among them.
function values.arguments(names)
  local parts = {}
  for i = 1, weighted{2, 0, 6, 1, 6, 2, 3, 3, 1, 5} do parts[i] = values.any(0, names) end
  if #names > 0 and chance(0.35) then parts[#parts + 1] = values.option_table(names, 0) end
  return "(" .. table.concat(parts, ", ") .. ")"
end

return values
