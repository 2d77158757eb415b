-- A net of convolution, LSTM and CTC loss on images of several widths, captured, on a GPU: as on the cpu, in fp16,
-- twice.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local nn, optim = capl.nn, capl.optim
local WIDTHS, STEPS = {12, 16, 24}, 12

local function whole(list) return capl.tensor(list, {dtype = "i32"}) end

-- Step i has width number i % 3.
local function batch(i)
  local width = WIDTHS[i % 3 + 1]
  return capl.rand({2, 1, 8, width}, {seed = 3, stream = {i, 0, 0}}), whole{{1, i % 4 + 1, -1}, {2, 2, 3}}, whole{2, 3}
end

local function make_net()
  local net = {conv = nn.Conv2d(1, 4, {8, 3}, {padding = {0, 1}}),
    lstm = nn.LSTM(4, 6, {bidirectional = true, batch_first = true}), read = nn.Linear(12, 6)}
  function net.forward(x)
    local y = net.lstm(net.conv(x):relu():squeeze(3):transpose(2, 3))
    return net.read(y)
  end
  net.parameters = {}
  for _, part in ipairs{net.conv, net.lstm, net.read} do
    for _, p in ipairs(part:parameters()) do table.insert(net.parameters, p) end
  end
  return net
end

-- {losses, state of the captured step}
local function trained(device, precision)
  local before = capl.device()
  capl.device(device)
  capl.manual_seed(9)
  local net = make_net()
  local opt = optim.AdamW(net.parameters, {lr = 0.01})
  local step = capl.capture(function(image, texts, lengths)
    local loss = capl.autocast(precision, function()
      local scores = net.forward(image)
      return nn.ctc_loss(scores:transpose(1, 2):log_softmax(-1), texts, scores:size(2), lengths, {blank = 5})
    end)
    opt:backward_step(loss)
    return loss
  end, {strict = true})
  local losses = {}
  for i = 1, STEPS do losses[i] = step(batch(i)):item() end
  capl.device(before)
  return losses, step:state()
end

describe("texts on images of several widths, captured,", function()
  it("train on cuda as on the cpu, one recording for each width", function()
    local got, state = trained("cuda", "fp32")
    local want = trained("cpu", "fp32")
    for i, loss in ipairs(want) do
      assert.is_true(math.abs(got[i] / loss - 1) < 1e-3, ("step %d: %.7g, on the cpu %.7g"):format(i, got[i], loss))
    end
    assert.same({3, 3, STEPS - 6}, {state.kinds, state.captured, state.replays})
    assert.is_true(got[STEPS] < got[1])
  end)

  it("train in fp16 near fp32", function()
    local got, want = trained("cuda", "fp16"), trained("cpu", "fp32")
    for i, loss in ipairs(want) do
      assert.is_true(math.abs(got[i] / loss - 1) < 0.02, ("step %d: %.7g, %.7g"):format(i, got[i], loss))
    end
  end)

  it("give the same bits twice where that is asked for", function()
    local before = capl.deterministic()
    capl.deterministic(true)
    local once, again = trained("cuda", "bf16"), trained("cuda", "bf16")
    capl.deterministic(before)
    assert.same(once, again)
  end)
end)
