--- capl: 1
-- ctc.lua: milliseconds of log_softmax and the CTC loss forward and backward, for bench/ops/ctc.py.
--
--     capl bench/ops/ctc.lua --shapes=50,64,37,6;... --repeats=20
--
-- A shape is T,N,K,S: time steps, samples, classes, characters; one line of JSON: the least time of each in this
-- process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {shapes = "", repeats = 20}

local function whole(list) return capl.tensor(list, {dtype = "i32"}) end

-- Texts without the blank, class 0; lengths from half of S to S.
local function texts_of(n, k, s)
  local rows, lengths = {}, {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, s do rows[i][j] = (i * 7 + j * 11) % (k - 1) + 1 end
    lengths[i] = s - i % (math.floor(s / 2) + 1)
  end
  return whole(rows), whole(lengths)
end

local function milliseconds(t, n, k, s)
  local scores = capl.randn(n, t, k):requires_grad_()
  local targets, lengths = texts_of(n, k, s)
  local steps = {}
  for i = 1, n do steps[i] = t end
  steps = whole(steps)
  local best = math.huge
  for round = 0, p.repeats do
    local start = capl.clock()
    nn.ctc_loss(scores:permute(2, 1, 3):log_softmax(-1), targets, steps, lengths):backward()
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
