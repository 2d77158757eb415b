--- capl: 1
-- attention.lua: milliseconds of layer norm, dropout and attention forward and backward, for bench/ops/attention.py.
--
--     capl bench/ops/attention.lua --shapes="layer_norm,4096,256;attention,32,4,128,64;..." --dtype=f32 --repeats=5
--
-- layer_norm,rows,features; dropout: likewise; attention,N,heads,L,features of a head; causal: likewise;
-- layer,N,heads,L,features: of nn.MultiheadAttention. One line of JSON: the least time of each in this process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {shapes = "", dtype = "f32", repeats = 5}

local function tensor(...)
  local x = capl.randn(...)
  return (p.dtype == "bf16" and x:to("bf16") or x):requires_grad_()
end

local makers = {}

function makers.layer_norm(rows, features)
  local layer, x = nn.LayerNorm(features), tensor(rows, features)
  return function() return layer(x) end, {x, layer.weight, layer.bias}
end

function makers.dropout(rows, features)
  local layer, x = nn.Dropout(0.2), tensor(rows, features)
  return function() return layer(x) end, {x}
end

local function attention(causal)
  return function(N, heads, L, E)
    local q, k, v = tensor(N, heads, L, E), tensor(N, heads, L, E), tensor(N, heads, L, E)
    return function() return nn.scaled_dot_product_attention(q, k, v, {is_causal = causal}) end, {q, k, v}
  end
end
makers.attention, makers.causal = attention(false), attention(true)

function makers.layer(N, heads, L, E)
  local layer, x = nn.MultiheadAttention(heads * E, heads, {batch_first = true}),
    capl.randn(N, L, heads * E):requires_grad_()
  local all = layer:parameters()
  all[#all + 1] = x
  return function()
    return capl.autocast(p.dtype == "bf16" and "bf16" or "f32", function() return (layer(x)) end)
  end, all
end

local function milliseconds(what, ...)
  local forward, inputs = makers[what](...)
  local dy = capl.ones(forward().shape):to(forward().dtype)
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    capl.scope(function()
      local loss = (forward() * dy):sum()
      loss:backward()
    end)
    if round > 0 then best = math.min(best, capl.clock() - start) end
    for _, x in ipairs(inputs) do x:zero_grad() end
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
