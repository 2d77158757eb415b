--- capl: 1
-- sampling.lua: milliseconds of resampling and indexing forward and backward, for bench/ops/sampling.py.
--
--     capl bench/ops/sampling.lua --dtype=f32 --repeats=3
--
-- One line of JSON: the least time of each case in this process, in the order of sampling.py's.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {dtype = "f32", repeats = 3}
local nn = capl.nn

local function image(...) return capl.randn(...):to(p.dtype):requires_grad_() end
local function grid(shape) return (capl.rand(shape) * 2 - 1):to(p.dtype):requires_grad_() end
local function classes(shape, n) return (capl.rand(shape) * n):to("i64") end

-- By name: the inputs, and what is done with them.
local cases = {
  {"bilinear 64,64,15,40 x2", function() return {image(64, 64, 15, 40)} end,
    function(x) return nn.interpolate(x, {scale_factor = 2, mode = "bilinear"}) end},
  {"bilinear 64,1,50,200 to 32,128", function() return {image(64, 1, 50, 200)} end,
    function(x) return nn.interpolate(x, {size = {32, 128}, mode = "bilinear"}) end},
  {"nearest 64,64,15,40 x2", function() return {image(64, 64, 15, 40)} end,
    function(x) return nn.interpolate(x, {scale_factor = 2}) end},
  {"grid_sample 64,32,30,80", function() return {image(64, 32, 30, 80), grid{64, 30, 80, 2}} end,
    function(x, at) return nn.grid_sample(x, at) end},
  {"grid_sample 64,1,60,160", function() return {image(64, 1, 60, 160), grid{64, 60, 160, 2}} end,
    function(x, at) return nn.grid_sample(x, at) end},
  {"embedding 1000x256 of 64x100", function() return {image(1000, 256), classes({64, 100}, 1000)} end,
    function(weight, index) return nn.embedding(index, weight) end},
  {"gather 2000x500 by 2000x300", function() return {image(2000, 500), classes({2000, 300}, 500)} end,
    function(x, index) return x:gather(2, index) end},
  {"index_select 64x128x100 of dim 2", function() return {image(64, 128, 100), classes({96}, 128)} end,
    function(x, index) return x:index_select(2, index) end},
}

local function milliseconds(make, run)
  local inputs = make()
  local dy = capl.randn(run(unpack(inputs)).shape):to(p.dtype)
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    capl.scope(function()
      local fresh = {} -- without gradients of the round before
      for i, x in ipairs(inputs) do fresh[i] = x.requires_grad and x:detach():requires_grad_() or x end
      local loss = (run(unpack(fresh)) * dy):sum()
      loss:backward()
    end)
    if round > 0 then best = math.min(best, capl.clock() - start) end
  end
  return 1000 * best
end

local out = {}
for i, case in ipairs(cases) do out[i] = ("%.4f"):format(milliseconds(case[2], case[3])) end
print("[" .. table.concat(out, ", ") .. "]")
