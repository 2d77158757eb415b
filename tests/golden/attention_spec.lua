-- Layer, RMS, group norm, attention and its layers against PyTorch, gradients included.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("attention.json")
local nn, op = capl.nn, capl.op

local PADDING = {{0, 0, 0, 0, 0}, {0, 0, 0, 1, 1}, {0, 1, 0, 1, 0}}

-- A module whose parameters are the inputs of their names.
local function with_parameters(module, t)
  for name, parameter in module:named_parameters() do
    capl.no_grad(function() parameter:copy_(t[name]) end)
    t[name] = parameter
  end
  return module
end

local attention = {}
function attention.none() return {} end
function attention.causal() return {is_causal = true} end
function attention.float(t) return {attn_mask = t.mask} end
function attention.bool(t)
  local every_first = op.eq(capl.arange(0, 6, {dtype = "f32"}), capl.zeros({})) -- so that every query has a key
  return {attn_mask = op.where(every_first, capl.ones(5, 6), t.mask):to("bool")}
end

-- How each golden op is called here: function(inputs by name, PyTorch's attributes) -> y
local calls = {
  layer_norm = function(t, a)
    return (op.layer_norm(t.x, t.weight, t.bias, {normalized_shape = a.normalized_shape, eps = a.eps}))
  end,
  rms_norm = function(t, a) return (op.rms_norm(t.x, t.weight, a)) end,
  group_norm = function(t, a) return (op.group_norm(t.x, t.weight, t.bias, a)) end,
  attention = function(t, a) return nn.scaled_dot_product_attention(t.q, t.k, t.v, attention[a.mask](t)) end,
  MultiheadAttention = function(t, a)
    local module = with_parameters(nn.MultiheadAttention(8, 2, {batch_first = true}), t)
    return module(t.x, t.x, t.x, {is_causal = a.mask == "causal",
      key_padding_mask = a.mask == "padding" and capl.tensor(PADDING, {dtype = "bool"}) or nil})
  end,
  TransformerEncoderLayer = function(t, a)
    local options = {dropout = 0, activation = "gelu", norm_first = a.norm_first}
    return with_parameters(nn.TransformerEncoderLayer(8, 2, 12, options), t)(t.x)
  end,
}

describe("golden", function()
  for _, device in ipairs{"cpu", "ref"} do
    for _, case in ipairs(golden.ops) do
      it(support.title(case) .. " on " .. device, function()
        capl.device(device)
        local checked = 0
        for name, off in pairs(support.distances(case, calls[case.op])) do
          assert.is_true(off < 2e-5, ("%s is off by %.2g of its largest value"):format(name, off))
          checked = checked + 1
        end
        assert.is_true(checked >= 3)
      end)
    end
  end
  teardown(function() capl.device("cpu") end)
end)
