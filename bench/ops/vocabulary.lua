--- capl: 1
-- vocabulary.lua: milliseconds of what follows a model's last layer, for bench/ops/vocabulary.py.
--
--     capl bench/ops/vocabulary.lua --rows=1920 --classes=20001 --names=copy,softmax --dtype=f32 --repeats=5
--
-- `copy` is what memory allows: the scores are read and written once. One line of JSON: the least time of each in this
-- process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {rows = 1920, classes = 20001, names = "copy", dtype = "f32", repeats = 5}
local N, STEPS, SYMBOLS = math.floor(p.rows / 60), 60, 4
local K = p.classes
local x, dy = capl.randn(p.rows, K):to(p.dtype), capl.randn(p.rows, K):to(p.dtype)

local function gradient(op, kind)
  local y = x[op](x, -1):to(p.dtype)
  return function() return kind(y, dy, {dim = -1}) end
end

-- Loss and gradient of f32 scores.
local function trained(loss)
  local scores = x:float():requires_grad_()
  return function()
    loss(scores):backward()
    scores:zero_grad()
  end
end

local function cross_entropy()
  local labels = (capl.rand(p.rows) * K):to("i64")
  return trained(function(scores) return nn.cross_entropy(scores, labels) end)
end

local function ctc()
  local texts = (capl.rand(N, SYMBOLS) * (K - 1)):to("i32")
  local function each(value) return capl.full({N}, value, {dtype = "i32"}) end
  local steps, lengths = each(STEPS), each(SYMBOLS)
  return trained(function(scores)
    local log_probs = scores:view(N, STEPS, K):permute(2, 1, 3):log_softmax(-1)
    return nn.ctc_loss(log_probs, texts, steps, lengths, {blank = K - 1})
  end)
end

local makers = {
  copy = function() return function() return x:clone() end end,
  amax = function() return function() return x:amax(-1) end end,
  argmax = function() return function() return x:argmax(-1) end end,
  softmax = function() return function() return x:softmax(-1) end end,
  log_softmax = function() return function() return x:log_softmax(-1) end end,
  softmax_grad = function() return gradient("softmax", capl.op.softmax_grad) end,
  log_softmax_grad = function() return gradient("log_softmax", capl.op.log_softmax_grad) end,
  cross_entropy = cross_entropy, ctc = ctc,
}

local function milliseconds(name)
  local run = makers[name]()
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    capl.scope(run)
    if round > 0 then best = math.min(best, capl.clock() - start) end
  end
  return 1000 * best
end

local out = {}
for name in p.names:gmatch("[^,]+") do out[#out + 1] = ("%.4f"):format(milliseconds(name)) end
print("[" .. table.concat(out, ", ") .. "]")
