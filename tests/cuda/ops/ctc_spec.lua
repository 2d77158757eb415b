-- The CTC loss on a GPU: numbers out of range, which it cannot refuse, and texts of several warps.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local inf = math.huge

local function values(t) return t:to("ref"):tolist() end
local function whole(list, dtype, device)
  return capl.tensor(list, {dtype = dtype or "i32", device = device or "cuda"})
end

describe("the CTC loss of numbers out of range", function()
  -- The first sample is fine; each of the others has one number that is not.
  local texts = {{1, 2}, {1, 3}, {1, -1}, {0, 1}, {1, 2}, {1, 2}, {1, 2}, {1, 2}}
  local steps, lengths = {4, 4, 4, 4, 5, -1, 4, 4}, {2, 2, 2, 2, 2, 2, 3, -2 ^ 31}

  it("is that of infeasible samples, and their gradient 0", function()
    capl.manual_seed(1)
    for _, dtype in ipairs {"i32", "i64"} do
      for _, zero in ipairs {true, false} do
        local x = capl.randn(4, 8, 3, {device = "ref"}):log_softmax(-1):detach():to("cuda"):requires_grad_()
        local loss, infeasible = capl.op.ctc_loss(x, whole(texts, dtype), whole(steps, dtype), whole(lengths, dtype),
          {reduction = "none", zero_infinity = zero})
        assert.same({0, 3, 3, 3, 3, 3, 3, 3}, values(infeasible))
        local each = values(loss)
        assert.is_true(each[1] > 0 and each[1] < inf)
        for n = 2, 8 do assert.equal(zero and 0 or inf, each[n]) end
        loss:narrow(1, 1, 1):sum():backward()
        for _, step in ipairs(values(x.grad)) do
          for n = 2, 8 do assert.same({0, 0, 0}, step[n]) end
          assert.is_true(math.abs(step[1][1] + step[1][2] + step[1][3] + 1) < 1e-5)
        end
      end
    end
  end)
end)

describe("the CTC loss of a long text", function()
  it("is that of ref with states for several warps, and for more than a block has threads", function()
    for _, length in ipairs {40, 150} do
      local text, T = {}, length + 3
      for s = 1, length do text[s] = s % 6 + 1 end
      local scores = capl.rand(T, 1, 8, {device = "ref"})
      local function run(device)
        local x = scores:to(device):requires_grad_()
        local loss = capl.op.ctc_loss(x, whole({text}, "i32", device), whole({T}, "i32", device),
          whole({length}, "i32", device), {reduction = "sum"})
        loss:backward()
        return loss:to("ref"):item(), x.grad:to("ref")
      end
      local want, want_slope = run("ref")
      local got, slope = run("cuda")
      assert.is_true(math.abs(got - want) < 1e-5 * math.abs(want), ("%.9g is not %.9g"):format(got, want))
      assert.is_true((slope - want_slope):abs():max():item() < 1e-4)
    end
  end)
end)

describe("the CTC loss in a captured step", function()
  local device_before = capl.device()
  teardown(function() capl.device(device_before) end)

  it("trains as on the cpu, and nothing is read back", function()
    capl.manual_seed(4)
    local scores = capl.randn(3, 8, 5, {device = "ref"})
    local function losses(device)
      capl.device(device)
      local x = capl.nn.Parameter(scores:to(device))
      local texts, lengths = whole({{1, 2, 2}, {3, -1, -1}, {4, 4, -1}}, "i32", device), whole({3, 1, 2}, "i32", device)
      local steps = whole({8, 8, 2}, "i32", device)
      local opt = capl.optim.SGD({x}, {lr = 5})
      local step = capl.capture(function()
        opt:zero_grad()
        local loss = capl.nn.ctc_loss(x:permute(2, 1, 3):log_softmax(-1), texts, steps, lengths)
        loss:backward()
        opt:step()
        return loss
      end)
      local out = {}
      for i = 1, 6 do out[i] = step():item() end
      return out
    end
    local want, before = losses("cpu"), capl.counters().captured_steps
    local got = losses("cuda")
    assert.is_true(capl.counters().captured_steps > before)
    for i = 1, 6 do
      assert.is_true(math.abs(got[i] - want[i]) < 1e-4, ("step %d: %.9g is not %.9g"):format(i, got[i], want[i]))
    end
  end)
end)
