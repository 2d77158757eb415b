-- train.save, train.load and train.Checkpoint: what is saved is what comes back, to the bit; what cannot be saved is refused.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local train = capl.train
local error_text = support.error_text

local path = os.tmpname()

local function there_and_back(value)
  train.save(path, value)
  return (train.load(path))
end

describe("train.save", function()
  teardown(function() os.remove(path) end)

  it("keeps numbers to the bit, also those JSON does not know", function()
    local numbers = {0.1, 1 / 3, 2 ^ 53 - 1, -2 ^ 60, 5e-324, 1.7976931348623157e308, math.huge, -math.huge, 1e-7, 123456.789}
    assert.same(numbers, there_and_back(numbers))
    local back = there_and_back{nan = 0 / 0, zero = -0.0}
    assert.is_true(back.nan ~= back.nan)
    assert.equal(-math.huge, 1 / back.zero)
  end)

  it("keeps texts byte for byte, whatever they are", function()
    local bytes = {}
    for i = 0, 255 do bytes[i + 1] = string.char(i) end
    local texts = {table.concat(bytes), "", "验证码 é 😀", 'a "quoted" \\ word\n', "a\0b", "\200\200", "$", "${tensor}"}
    assert.same(texts, there_and_back(texts))
  end)

  it("keeps tables, lists and keys as they are", function()
    local tree = {list = {1, {2, "x"}, true, false}, ["a.b"] = {["$tensor"] = "x", ["$"] = 1}, ["$hex"] = 5, empty = {},
      ["é"] = 0, [""] = 1}
    assert.same(tree, there_and_back(tree))
  end)

  it("keeps tensors of every dtype and layout to the bit", function()
    capl.manual_seed(3)
    local w = capl.randn(4, 3, 2, 2)
    local tree = {model = {["0.weight"] = w, ["0"] = {weight = capl.ones(2)}}, turned = capl.randn(3, 5):t(),
      count = capl.tensor(7, {dtype = "i64"}), half = capl.randn(9):to("bf16"),
      none = capl.zeros(0, 4), yes = capl.tensor({1, 0}, {dtype = "u8"}),
      sha256 = capl.ones(1), again = w}
    local back = there_and_back(tree)
    for _, key in ipairs{"turned", "count", "half", "none", "yes", "sha256", "again"} do
      assert.equal(tree[key].dtype, back[key].dtype)
      assert.same(tree[key].shape, back[key].shape)
      assert.same(tree[key]:tolist(), back[key]:tolist())
    end
    assert.same(w:tolist(), back.model["0.weight"]:tolist())
    assert.same({1, 1}, back.model["0"].weight:tolist())
  end)

  it("leaves nothing behind", function()
    support.no_leak(function() there_and_back{a = capl.ones(100), b = {capl.zeros(3, 3)}} end)
  end)

  it("refuses what is no state and says where it is", function()
    assert.equal("LINE: state 'optimizer.fn': it is a function\n  hint: state is made of tables with text keys, lists, numbers, " ..
      "texts, booleans and tensors", error_text(train.save, path, {optimizer = {fn = print}}))
    assert.matches("state 'a': a key is a number, in no list", error_text(train.save, path, {a = {[1] = 1, [3] = 2}}), 1, true)
    local loop = {}
    loop.loop = loop
    assert.matches("it may contain itself", error_text(train.save, path, loop), 1, true)
  end)

  it("says what is wrong with a file", function()
    assert.matches("cannot open /no/such: No such file or directory", error_text(train.load, "/no/such"), 1, true)
    train.save(path, {step = 1})
    local file = io.open(path, "rb")
    local bytes = file:read("*a")
    file:close()
    file = io.open(path, "wb")
    file:write(bytes:sub(1, -10))
    file:close()
    assert.matches(("the checkpoint %s is damaged: it has %d bytes of the %d it should have"):format(path, #bytes - 9, #bytes),
      error_text(train.load, path), 1, true)
  end)
end)
