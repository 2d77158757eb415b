--- capl: 1
-- recurrent.lua: milliseconds of LSTM and GRU layers forward and backward, for bench/ops/recurrent.py.
--
--     capl bench/ops/recurrent.lua --shapes="LSTM,50,64,128,128,2,1,0;..." --dtype=f32 --repeats=3
--
-- A shape is kind,T,N,I,hidden,layers,bidirectional,lengths; one line of JSON: the least time of each in this process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {shapes = "", dtype = "f32", repeats = 3}

local function lengths_of(steps, batch)
  local list = {}
  for i = 1, batch do list[i] = steps - (i - 1) % math.floor(steps / 2) end
  return capl.tensor(list, {dtype = "i32"})
end

local function forward_and_backward(model, x, options)
  capl.scope(function()
    local loss = capl.autocast(p.dtype == "bf16" and "bf16" or "f32", function()
      return (model(x, options)):float():sum() end)
    loss:backward()
    model:zero_grad()
    x:zero_grad()
  end)
end

local function milliseconds(kind, steps, batch, inputs, hidden, layers, both, ragged)
  local model = nn[kind](inputs, hidden, layers, {bidirectional = both == 1})
  local x = capl.randn(steps, batch, inputs):requires_grad_()
  local options = {lengths = ragged == 1 and lengths_of(steps, batch) or nil}
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    forward_and_backward(model, x, options)
    if round > 0 then best = math.min(best, capl.clock() - start) end
  end
  return 1000 * best
end

local out = {}
for shape in p.shapes:gmatch("[^;]+") do
  local words = {}
  for word in shape:gmatch("[^,]+") do words[#words + 1] = tonumber(word) or word end
  out[#out + 1] = ("%.4f"):format(milliseconds(unpack(words)))
end
print("[" .. table.concat(out, ", ") .. "]")
