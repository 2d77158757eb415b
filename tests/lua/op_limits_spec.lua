-- Ops given sizes and shapes that only a mistake or an attack would give: an error each, never memory out of bounds.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local op = capl.op
local error_text = support.error_text

local function refused(text, fn)
  local seen = error_text(fn)
  assert.truthy(seen:find(text, 1, true), seen)
end

describe("sizes beyond counting", function()
  it("are refused by reshape, where a product that wraps around would fit", function()
    refused("x (4) has 4 elements and cannot become (111620,429509837,384773)", function()
      return (op.reshape(capl.zeros(4), {size = {111620, 429509837, 384773}})) -- 2^64 + 4 elements
    end)
    refused("cannot become (4294967296,4294967296,-1)", function()
      return (op.reshape(capl.zeros(4), {size = {2 ^ 32, 2 ^ 32, -1}}))
    end)
    refused("cannot become (0,4294967296,4294967296)", function()
      return (op.reshape(capl.zeros(0), {size = {0, 2 ^ 32, 2 ^ 32}}))
    end)
  end)

  it("are refused by expand and by tensors without elements", function()
    refused("a tensor of that size has too many elements", function()
      return (op.expand(capl.zeros(1, 1), {size = {2 ^ 32, 2 ^ 32}}))
    end)
    refused("a tensor of that size has too many elements", function() return (capl.zeros(0, 2 ^ 40, 2 ^ 40)) end)
    assert.same({0, 3}, capl.zeros(0, 3).shape)
  end)

  it("are refused by concat, convolution and pooling", function()
    local long = op.expand(capl.zeros(1), {size = {2 ^ 53}})
    local many = {}
    for i = 1, 1025 do many[i] = long end
    refused("the sizes in dim 1 add up to too many", function() return (op.concat(many)) end)
    local wide = op.expand(capl.zeros(1, 1, 1, 1), {size = {1, 2 ^ 53, 1, 1}})
    refused("weight has size 9007199254740992 in dim 2", function()
      return (op.conv2d(capl.zeros(1, 2, 3, 3), wide, {groups = 2 ^ 20}))
    end)
  end)

  it("narrow names what was asked for", function()
    refused("9007199254740992 elements from 3 on are outside dim 1 of size 4", function()
      return (op.narrow(capl.zeros(4), {dim = 1, start = 3, length = 2 ^ 53}))
    end)
  end)
end)

describe("gradients of losses", function()
  it("want a dloss of the loss's shape", function()
    local x, labels = capl.zeros(4, 3), capl.zeros({4}, {dtype = "i32"})
    for _, device in ipairs{"cpu", "ref"} do
      local at = {device = device}
      x, labels = capl.zeros({4, 3}, at), capl.zeros({4}, {dtype = "i32", device = device})
      refused("dloss is (2,2), the loss is (): they must have the same shape", function()
        return (op.bce_with_logits_grad(x, x, capl.zeros({2, 2}, at)))
      end)
      refused("dloss is (), the loss is (4,3): they must have the same shape", function()
        return (op.bce_with_logits_grad(x, x, capl.zeros({}, at), {reduction = "none"}))
      end)
      refused("dloss is (0), the loss is (): they must have the same shape", function()
        return (op.cross_entropy_grad(x, labels, capl.zeros({0}, at)))
      end)
      refused("dloss is (1), the loss is (4): they must have the same shape", function()
        return (op.cross_entropy_grad(x, labels, capl.zeros({1}, at), {reduction = "none"}))
      end)
    end
  end)
end)

describe("sums of whole numbers", function()
  it("wrap around beyond 64 bits", function()
    local least = capl.full({2}, -2 ^ 63, {dtype = "i64"})
    assert.equal(0, least:sum():item())
  end)
end)
