-- Kinds of outputs: each case of engine/fields/KIND/cases.lua goes through a model file, and the commands' Lua of its
-- kind reads what the model says.
--
-- A case is {name, meta = keys of meta.json, output = what the network says of one image, width, height = px of the
-- image that is given (16 x 8, as the model sees it), gives = what reading it gives, columns = what predict prints of
-- it, json = the same of --json; or fails = part of the error that opening it gives, wrong = of reading it}; or {name,
-- evaluation = an evaluation.json of its meter, finds = {severity, part of what capl doctor says of it}}.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local within = getfenv(capl.distributed).require
local nn = capl.nn
local WIDTH, HEIGHT = 16, 8

-- A network that says the same of every image.
local function constant(output)
  local Constant = nn.class("Constant")
  function Constant:init() self:register_buffer("said", capl.tensor(output):unsqueeze(1)) end
  function Constant:forward(x)
    local none = x:reshape(x:size(1), -1):sum(2) * 0
    local sizes = {-1}
    for i = 2, self.said.ndim do sizes[i] = 1 end
    return none:reshape(unpack(sizes)) + self.said
  end
  return Constant()
end

local function with_model(case, fn)
  local path = os.tmpname()
  os.remove(path)
  local meta = {width = WIDTH, height = HEIGHT, channels = 1, normalize = "unit"}
  for key, value in pairs(case.meta) do meta[key] = value end
  local ok, err = pcall(function()
    capl.io.save_model(path, constant(case.output), capl.zeros(1, 1, HEIGHT, WIDTH), meta)
    fn(path, meta)
  end)
  os.execute("rm -rf " .. path)
  if not ok then error(err, 0) end
end

local function open(path) return capl.io.open_model(path, {precision = "fp32"}) end

-- Numbers within 1e-5, everything else equal; only the keys of `want` are looked at.
local function same(want, got, where)
  if capl.is_tensor(got) then got = got:tolist() end
  if type(want) == "number" then
    assert.is_true(type(got) == "number" and math.abs(got - want) < 1e-5, ("%s is %s, not %s"):format(where,
      tostring(got), want))
  elseif type(want) == "table" then
    assert.equal("table", type(got), where)
    if #want > 0 then assert.equal(#want, #got, "length of " .. where) end
    for key, value in pairs(want) do same(value, got[key], where .. "." .. key) end
  else assert.equal(want, got, where) end
end

local function check_case(case)
  with_model(case, function(path)
    if case.fails then
      local text = support.error_text(open, path)
      return assert.is_truthy(text:find(case.fails, 1, true), text)
    end
    local model = open(path)
    local d, reading = model.outputs[1], model:read(capl.zeros({1, 1, case.height or HEIGHT, case.width or WIDTH},
      {dtype = "u8"}))[1]
    if case.wrong then return assert.is_truthy((reading.error or ""):find(case.wrong, 1, true), reading.error) end
    assert.is_nil(reading.error)
    local out = reading.outputs[1]
    same(case.gives or {}, out, d.kind.name)
    if case.columns then assert.same(case.columns, d.kind.columns(out, {}, d)) end
    if case.json then same(case.json, d.kind.json(out, {}, d), "json") end
    assert.equal("string", type(d.kind.reads(d)))
  end)
end

-- What capl doctor says of an evaluation: all is well without finds.
local function check_faults(kind, case)
  local found, ctx = {}, {line = function() end}
  for _, severity in ipairs{"error", "warn", "skip"} do
    ctx[severity] = function(_, text) found[#found + 1] = {severity, text} end
  end
  case.evaluation.kind = within("fields").kind(kind).meter
  ctx.r = {evaluation = case.evaluation}
  within("doctor.run_readings").check(ctx)
  if not case.finds then return assert.same({}, found) end
  assert.same({1, case.finds[1]}, {#found, (found[1] or {})[1]})
  assert.is_truthy(found[1][2]:find(case.finds[2], 1, true), found[1][2])
end

-- Every folder of engine/fields is a kind, and has cases.
local found = io.popen("ls -d engine/fields/*/")

for folder in found:lines() do
  local name = folder:match("([%w_]+)/$")
  describe("kind " .. name, function()
    for _, case in ipairs(dofile(folder .. "cases.lua")) do
      it(case[1], function()
        if case.evaluation then check_faults(name, case) else check_case(case) end
      end)
    end
  end)
end
found:close()
