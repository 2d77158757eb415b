-- Errors: fields, exact text, recipe line and layer path.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text = support.error_text

describe("an error", function()
  it("is a table that says code, op, message, where, path and hint", function()
    local net = nn.Sequential{nn.Conv2d(1, 64, 3)}
    local ok, err = pcall(function()
      local y = net(capl.zeros(32, 3, 60, 160))
      return y
    end)
    assert.is_false(ok)
    assert.is_true(capl.is_error(err))
    assert.equal("shape", err.code)
    assert.equal("conv2d", err.op)
    assert.equal("weight expects 1 input channel, x has 3", err.message)
    assert.truthy(err.where:match("error_spec%.lua:%d+$"))
    assert.equal("net > [1] Conv2d(1 -> 64, 3x3)", err.path)
    assert.equal("LINE: conv2d: weight expects 1 input channel, x has 3\n"
      .. "  x (32,3,60,160) f32 cpu   weight (64,1,3,3) f32 cpu\n"
      .. "  in net > [1] Conv2d(1 -> 64, 3x3)\n"
      .. "  hint: make the layer nn.Conv2d(3, 64, …), or change what comes before it",
      (tostring(err):gsub("^[^\n]-_spec%.lua:%d+", "LINE")))
  end)

  it("names the layer in custom networks", function()
    local Block = nn.class("Block")
    function Block:init()
      self.first = nn.Linear(4, 4)
      self.rest = nn.Sequential{nn.ReLU(), nn.Linear(3, 2)}
    end
    function Block:forward(x)
      local y = self.rest(self.first(x))
      return y
    end
    local function run(model)
      local y = model(capl.zeros(2, 4))
      return y
    end
    local _, err = pcall(run, nn.Sequential{nn.Identity(), Block()})
    assert.equal("model > [2] Block > rest Sequential > [2] Linear(3 -> 2)", err.path)
    _, err = pcall(run, Block())
    assert.equal("model > rest Sequential > [2] Linear(3 -> 2)", err.path)
    _, err = pcall(run, nn.Linear(3, 2))
    assert.equal("model Linear(3 -> 2)", err.path)
  end)

  it("still names them when the loop is compiled", function()
    local net = nn.Sequential{nn.ReLU(), nn.Linear(4, 2)}
    local x, path = capl.zeros(1, 4), nil
    for i = 1, 300 do
      if i == 300 then x = capl.zeros(1, 5) end
      local ok, err = pcall(function()
        local y = net(x)
        return y
      end)
      if not ok then path = err.path end
    end
    assert.equal("net > [2] Linear(4 -> 2)", path)
  end)

  it("outside layers has no path", function()
    local _, err = pcall(function() return (capl.zeros(2, 3):matmul(capl.zeros(2, 3))) end)
    assert.is_nil(err.path)
    assert.equal("matmul", err.op)
    assert.equal("LINE: matmul: inner sizes differ: a has 3 columns, b has 2 rows\n  a (2,3) f32 cpu   b (2,3) f32 cpu",
      (tostring(err):gsub("^[^\n]-_spec%.lua:%d+", "LINE")))
  end)

  it("can be raised by recipes", function()
    local _, err = pcall(function() capl.error{code = "value", message = "so not", hint = "so"} end)
    assert.equal("value", err.code)
    assert.equal("LINE: so not\n  hint: so", (tostring(err):gsub("^[^\n]-_spec%.lua:%d+", "LINE")))
    assert.is_false(capl.is_error("text"))
    assert.is_false(capl.is_error{})
  end)
end)

describe("library arguments", function()
  it("are checked by name, with the nearest one", function()
    assert.equal("LINE: nn.Conv2d: unknown option 'paddin'; did you mean 'padding'?",
      error_text(function() local m = nn.Conv2d(1, 2, 3, {paddin = 1}) return m end))
    assert.equal("LINE: nn.Conv2d: kernel_size is missing",
      error_text(function() local m = nn.Conv2d(1, 2) return m end))
    assert.equal("LINE: nn.Linear: in_features must be a whole number from 1 on, got 1.5",
      error_text(function() local m = nn.Linear(1.5, 2) return m end))
    assert.equal("LINE: nn.Linear: at most 3 arguments, got 4",
      error_text(function() local m = nn.Linear(1, 2, true, false) return m end))
    assert.equal("LINE: nn.Conv2d: in_channels = 3 is not divisible by groups = 2",
      error_text(function() local m = nn.Conv2d(3, 4, 3, {groups = 2}) return m end))
    assert.equal("LINE: nn.Sequential: layer 2 is a function, not a module",
      error_text(function() local m = nn.Sequential{nn.ReLU(), print} return m end))
    assert.equal("LINE: capl: unknown name 'zeroes'; did you mean 'zeros'?",
      error_text(function() return capl.zeroes end))
  end)

  it("name what was meant by a name that a table of the library does not have", function()
    for path, name in pairs{nn = "Linaer", optim = "Adem", data = "foldre", train = "EarlyStoping", augment = "presett",
      plot = "gallry", op = "rellu", io = "lod", text = "ctc_bean"} do
      local text = error_text(function() return capl[path][name] end)
      assert.truthy(text:find(("%s: unknown name '%s'; did you mean '"):format(path, name), 1, true), text)
    end
    assert.equal("LINE: capl: unknown name 'matmul'\n  hint: it is a method of tensors: x:matmul(y)",
      error_text(function() return capl.matmul end))
    assert.equal("LINE: nn: unknown name 'AdamW'\n  hint: did you mean optim.AdamW?",
      error_text(function() return nn.AdamW end))
    assert.truthy(error_text(function() return nn.functional end):find("has is in nn", 1, true))
    assert.is_nil(nn[1])
  end)

  it("refuse switches that are always on", function()
    assert.equal("LINE: optim.SGD: option 'set_to_none' is always on\n"
      .. "  hint: zero_grad releases the gradients: leave the key out",
      error_text(function() local o = capl.optim.SGD({capl.zeros(1)}, {lr = 1, set_to_none = true}) return o end))
  end)
end)

describe("ops by name", function()
  local x = capl.zeros(2, 3)

  it("check attributes", function()
    assert.equal("LINE: conv2d: unknown attribute 'strid'; did you mean 'stride'?",
      error_text(function() local y = capl.op.conv2d(x, x, {strid = 2}) return y end))
    assert.equal("LINE: pow: attribute 'exponent' is needed",
      error_text(function() local y = capl.op.pow(x) return y end))
    assert.equal("LINE: sum: dim 3 is outside 1..2",
      error_text(function() local y = capl.op.sum(x, {dims = 3}) return y end))
    assert.equal("LINE: sum: dims counts from 1, got 0",
      error_text(function() local y = capl.op.sum(x, {dims = 0}) return y end))
    assert.equal("LINE: conv2d: stride cannot be a function",
      error_text(function() local y = capl.op.conv2d(x, x, {stride = print}) return y end))
    assert.truthy(error_text(function() local y = capl.op.mse(x, x, {reduction = "men"}) return y end):find(
      "reduction must be one of mean|sum|none, not 'men'", 1, true))
  end)

  it("check inputs", function()
    assert.equal("LINE: relu: x must be a tensor, got number",
      error_text(function() local y = capl.op.relu(1) return y end))
    assert.truthy(error_text(function() local y = capl.op.add(x) return y end):find("add", 1, true))
    assert.truthy(error_text(function() local y = capl.op.relu() return y end):find("relu", 1, true))
  end)

  it("count no arguments as none, whatever the stack held there before", function()
    local relu = capl.op.relu
    assert.equal("LINE: relu: relu takes other inputs (x), not 0 inputs", error_text(function()
      do local _ = type({1}) end
      local y = relu()
      return y
    end))
  end)

  it("take optional inputs as nil and any number as a list", function()
    assert.same({1, 4, 1, 1}, capl.op.conv2d(capl.zeros(1, 2, 3, 3), capl.zeros(4, 2, 3, 3), nil).shape)
    assert.same({4, 3}, capl.op.concat({x, x}, {dim = 1}).shape)
    assert.same({2, 6}, capl.op.concat(x, x, {dim = 2}).shape)
  end)

  it("are listed with their descriptors", function()
    local by_name = {}
    for _, op in ipairs(capl.ops()) do
      by_name[op.name] = op
      assert.is_function(capl.op[op.name])
      assert.is_true(#op.doc > 0 and #op.ins > 0, op.name)
    end
    local conv = by_name.conv2d
    assert.equal("x, weight, bias?", conv.ins)
    assert.equal("low", conv.amp)
    assert.is_true(conv.has.ref and conv.has.cpu and conv.differentiable)
    assert.is_true(by_name.bn_act.fused)
    assert.is_true(by_name.permute.view)
    assert.equal("stride", conv.attrs[1].name)
    assert.equal("ints", conv.attrs[1].kind)
    local mse = by_name.mse.attrs[1]
    assert.same({"reduction", "enum", "mean|sum|none", "mean"}, {mse.name, mse.kind, mse.choices, mse.default})
  end)
end)
