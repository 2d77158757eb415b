-- tree.lua: a tree of state as one JSON text and its tensors by name, and back, bit for bit.
--
-- A tree is a table with text keys or a list, of such tables and of numbers, texts, booleans and tensors. What JSON
-- cannot say is an object with one key that begins with "$": {"$tensor": NAME}, {"$number": "nan" | "inf" | "-inf"},
-- {"$hex": bytes of a text that is no UTF-8}; a user's key that begins with "$" gets another one.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local tree = {}

local DEPTH = 64 -- deeper trees are those that contain themselves

local function refuse(where, message)
  core.error{code = "value", path = false,
    message = ("state%s: %s"):format(where == "" and "" or " '" .. where .. "'", message),
    hint = "state is made of tables with text keys, lists, numbers, texts, booleans and tensors"}
end

-- ---- to text ----

-- UTF-8, as readers of JSON want it, and without a NUL, which no text of C can hold.
local function is_plain(text) return not text:find("%z") and core.utf8(text) == text end

local function hex(text) return (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

local function text_of(text) return is_plain(text) and text or {["$hex"] = hex(text)} end

local function number_of(x)
  if x ~= x then return {["$number"] = "nan"} end
  if x == math.huge or x == -math.huge then return {["$number"] = x > 0 and "inf" or "-inf"} end
  return x
end

-- A name nobody has yet; a tensor that occurs twice keeps its first.
local function tensor_of(out, tensor, where)
  local name = out.names[tensor]
  if not name then
    name = where
    for i = 2, math.huge do
      if not out.tensors[name] and name ~= "" and name ~= "sha256" then break end
      name = where .. "#" .. i
    end
    out.names[tensor], out.tensors[name] = name, tensor
  end
  return {["$tensor"] = name}
end

local plain

local function join(where, key) return where == "" and tostring(key) or where .. "." .. key end

local function list_of(out, value, where, depth)
  local list = {}
  for i = 1, #value do list[i] = plain(out, value[i], join(where, i), depth) end
  return list
end

local function keys_of(value, where)
  local keys = {}
  for key in pairs(value) do
    if type(key) ~= "string" then refuse(where, ("a key is a %s, in no list"):format(core.typename(key))) end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

local function object_of(out, value, where, depth)
  local object = {}
  for _, key in ipairs(keys_of(value, where)) do
    if not is_plain(key) then refuse(where, "a key is no UTF-8 text") end
    local name = key:sub(1, 1) == "$" and "$" .. key or key
    object[name] = plain(out, value[key], join(where, key), depth)
  end
  return object
end

local function is_list(value)
  local count = 0
  for _ in pairs(value) do count = count + 1 end
  return count > 0 and count == #value
end

-- A value as JSON can say it; tensors go to out.
function plain(out, value, where, depth)
  local kind = type(value)
  if kind == "number" then return number_of(value) end
  if kind == "string" then return text_of(value) end
  if kind == "boolean" then return value end
  if core.is_tensor(value) then return tensor_of(out, value, where) end
  if kind ~= "table" then refuse(where, "it is a " .. core.typename(value)) end
  if depth > DEPTH then
    refuse(where:sub(1, 60) .. "…", "it is deeper than " .. DEPTH .. " tables; it may contain itself")
  end
  return (is_list(value) and list_of or object_of)(out, value, where, depth + 1)
end

--- A tree as JSON text, and {name = tensor}. Tensors are named by their place: "model.0.weight".
-- errs value: something that is no state, with its place
function tree.pack(value)
  local out = {tensors = {}, names = {}}
  return core.json_encode(plain(out, value, "", 1)), out.tensors
end

-- ---- from text ----

local numbers = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

local function bytes_of(text) return (text:gsub("%x%x", function(c) return string.char(tonumber(c, 16)) end)) end

local special = {
  ["$number"] = function(word) return numbers[word] end,
  ["$hex"] = function(text) return bytes_of(text) end,
  ["$tensor"] = function(name, tensors) return tensors[name] end,
}

local function read(value, tensors)
  if type(value) ~= "table" then return value end
  local key, inner = next(value)
  if special[key] then
    local found = special[key](inner, tensors)
    if found == nil then
      core.error{code = "format", message = ("the tree does not contain the target of %s = %s"):format(key,
        tostring(inner))}
    end
    return found
  end
  local out = {}
  for name, entry in pairs(value) do
    if type(name) == "string" and name:sub(1, 2) == "$$" then name = name:sub(2) end
    out[name] = read(entry, tensors)
  end
  return out
end

--- The tree of tree.pack's two results.
function tree.unpack(text, tensors) return read(core.json_decode(text), tensors) end

--- Writes state of any kind into one file, atomically: a reader sees the old file or the complete new one.
-- in   path; value: tables with text keys or lists, of numbers (kept to the bit), texts, booleans, tensors
-- errs value: something that is no state, with its place in the table; io
-- eg   train.save("/tmp/capl_eg.capl", {step = 3, w = capl.ones(2)})
function tree.save(path, value)
  local text, tensors = tree.pack(value)
  core.checkpoint_save(path, text, tensors)
end

--- What train.save wrote, its tensors on the default device.
-- errs io; format: the file is damaged, of another version, or no checkpoint
function tree.load(path)
  local text, tensors = core.checkpoint_load(path)
  return tree.unpack(text, tensors)
end

return tree
