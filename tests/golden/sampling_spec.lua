-- Resampling and embeddings against PyTorch, gradients included.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("sampling.json")
local nn = capl.nn

-- How each golden op is called here: function(inputs by name, PyTorch's attributes) -> y
local calls = {
  interpolate = function(t, a) return nn.interpolate(t.x, a) end,
  grid_sample = function(t, a) return nn.grid_sample(t.x, t.grid * 1.7, a) end,
  affine_grid = function(t, a) return nn.affine_grid(t.theta, {2, 1, 4, 5}, a) end,
  embedding = function(t, a) return nn.embedding(t.index, t.weight, a) end,
  gather = function(t, a) return t.x:gather(a.dim + 1, t.index) end,
  scatter_add = function(t, a) return t.x:scatter_add(a.dim + 1, t.index, t.src) end,
  index_select = function(t, a) return t.x:index_select(a.dim + 1, t.index) end,
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
        assert.is_true(checked >= 2)
      end)
    end
  end
  teardown(function() capl.device("cpu") end)
end)
