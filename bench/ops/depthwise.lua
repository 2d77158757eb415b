--- capl: 1
-- depthwise.lua: milliseconds of depthwise convolutions forward and backward, for bench/ops/depthwise.py.
--
--     capl bench/ops/depthwise.lua --shapes=64,32,15,40,3,1,1;... --dtype=f32 --repeats=3
--
-- A shape is N,C,H,W,kernel,stride,groups; one line of JSON: the least time of each in this process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {shapes = "", dtype = "f32", repeats = 3}
local op = capl.op

local function forward_and_backward(t, attrs)
  local y = op.conv2d(t.x, t.w, t.b, attrs)
  local dx = op.conv2d_grad_x(t.dy, t.w, {stride = attrs.stride, padding = attrs.padding, groups = attrs.groups,
    size = {t.x:size(3), t.x:size(4)}})
  local dw, db = op.conv2d_grad_w(t.x, t.dy, {stride = attrs.stride, padding = attrs.padding, groups = attrs.groups,
    kernel = t.w:size(3)})
  for _, gone in ipairs{y, dx, dw, db} do gone:free() end
end

local function milliseconds(n, c, h, w, kernel, stride, groups)
  local attrs = {stride = stride, padding = (kernel - 1) / 2, groups = groups}
  local t = {x = capl.randn(n, c, h, w):to(p.dtype), w = capl.randn(c, c / groups, kernel, kernel):to(p.dtype),
    b = capl.randn(c)}
  t.dy = capl.randn(op.conv2d(t.x, t.w, t.b, attrs).shape):to(p.dtype)
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    forward_and_backward(t, attrs)
    if round > 0 then best = math.min(best, capl.clock() - start) end
  end
  return 1000 * best
end

local out = {}
for shape in p.shapes:gmatch("[^;]+") do
  local numbers = {}
  for word in shape:gmatch("[^,]+") do numbers[#numbers + 1] = tonumber(word) end
  out[#out + 1] = ("%.4f"):format(milliseconds(unpack(numbers)))
end
print("[" .. table.concat(out, ", ") .. "]")
