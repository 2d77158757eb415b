-- Model files of CTC models: graphs of several widths.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local nn = capl.nn
local support = require "lua.support"

local Net = nn.class("Net")

-- Time steps of 4 px; odd widths round as the convolution does.
function Net:init()
  self.conv = nn.Conv2d(1, 6, 3, {stride = 2, padding = 1})
  self.pool = nn.MaxPool2d(2)
  self.head = nn.Linear(6 * 3, 4)
end

function Net:forward(x)
  local y = self.pool(self.conv(x):relu())
  local N, C, H, T = unpack(y:size())
  return self.head(y:permute(1, 4, 2, 3):reshape(N * T, C * H)):reshape(N, T, 4)
end

local function saved(model, widths)
  local path = os.tmpname()
  os.remove(path)
  capl.io.save_model(path, model, capl.zeros(1, 1, 12, widths[1]), {widths = widths})
  return path
end

local function remove(path)
  for _, name in ipairs{"weights.safetensors", "graph.json", "meta.json"} do os.remove(path .. "/" .. name) end
  os.remove(path)
end

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  return text
end

describe("a model file of several widths", function()
  it("gives the same numbers at each of them, for any batch", function()
    local model = Net()
    local path = saved(model, {16, 21, 40})
    local loaded = capl.io.load_model(path)
    for _, size in ipairs{{1, 16}, {5, 21}, {3, 40}, {2, 40}} do
      local x = capl.randn(size[1], 1, 12, size[2])
      assert.same(model(x):tolist(), loaded.forward(x):tolist())
    end
    local graph = text_of(path .. "/graph.json")
    assert.matches('"capl_graph":%s*2', graph)
    assert.matches("%[16, 21, 40%]", graph)
    assert.matches("the model takes %(N,1,12,16|21|40%) f32, the input is %(1,1,12,24%)",
      support.error_text(loaded.forward, capl.zeros(1, 1, 12, 24)))
    remove(path)
  end)

  it("of one width is what it was", function()
    local path = os.tmpname()
    os.remove(path)
    capl.io.save_model(path, Net(), capl.zeros(1, 1, 12, 16), {})
    assert.matches('"capl_graph":%s*1', text_of(path .. "/graph.json"))
    remove(path)
  end)

  it("cannot hold what follows a width without an op of it", function()
    local Odd = nn.class("Odd")
    function Odd:init() self.scale = nn.Linear(1, 1) end
    function Odd:forward(x) return x * capl.full({1}, x:size(4)) end
    assert.matches("makes a tensor that follows the width", support.error_text(saved, Odd(), {16, 24}))
    function Odd:forward(x) return x:size(4) > 20 and x:relu() or x:exp() end
    assert.matches("calls other ops for another width %(exp, then relu%)", support.error_text(saved, Odd(), {16, 24}))
    function Odd:forward(x) return x + capl.zeros(x:size(1), 1, 1, 1) end
    assert.matches("makes a tensor that follows the batch size", support.error_text(saved, Odd(), {16, 24}))
    function Odd:forward(x) return x:relu() end
    assert.matches("widths of a graph ascend", support.error_text(saved, Odd(), {24, 16}))
  end)
end)
