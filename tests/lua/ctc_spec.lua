-- ctc_spec.lua: the CTC loss as recipes use it. Its arithmetic: tests/op/ctc_loss.lua.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text = support.error_text
local function near(a, b) assert.is_true(support.close(a, b, 1e-5), ("%.9g is not %.9g"):format(a, b)) end

local function whole(list) return capl.tensor(list, {dtype = "i32"}) end

describe("the CTC loss", function()
  local scores, texts
  before_each(function()
    capl.manual_seed(3)
    scores = capl.randn(3, 8, 5):requires_grad_()
    texts = whole {{1, 2, 2}, {3, -1, -1}, {4, 4, -1}}
  end)

  it("takes lengths as a tensor, a list, or one number for all", function()
    local x = scores:permute(2, 1, 3):log_softmax(-1)
    local loss = nn.ctc_loss(x, texts, whole {8, 8, 8}, whole {3, 1, 2}):item()
    near(loss, nn.ctc_loss(x, texts, 8, {3, 1, 2}):item())
    near(nn.ctc_loss(x, texts, {8, 8, 8}, 1):item(), nn.ctc_loss(x, texts:narrow(2, 1, 1), 8, {1, 1, 1}):item())
    assert.matches("input_lengths: a list of 2 lengths for 3 samples", error_text(nn.ctc_loss, x, texts, {8, 8}, {3, 1, 2}), 1, true)
  end)

  it("is a module that keeps what it said of its samples", function()
    local criterion = nn.CTCLoss {reduction = "sum"}
    local loss = criterion(scores:permute(2, 1, 3):log_softmax(-1), texts, {8, 8, 2}, {3, 1, 2})
    assert.same({0, 0, 1}, criterion.infeasible:tolist())
    near(nn.ctc_loss(scores:permute(2, 1, 3):log_softmax(-1), texts, {8, 8, 2}, {3, 1, 0}, {reduction = "none"}):tolist()[1]
      + nn.ctc_loss(scores:permute(2, 1, 3):log_softmax(-1), texts, {8, 8, 2}, {3, 1, 0}, {reduction = "none"}):tolist()[2], loss:item())
    loss:backward()
    for _, step in ipairs(scores.grad:tolist()[3]) do
      for _, v in ipairs(step) do assert.equal(0, v) end
    end
    assert.matches("did you mean 'zero_infinity'", error_text(nn.CTCLoss, {zero_infinities = true}), 1, true)
  end)

  it("runs on the fast kernels for scores of either order, f32 and bf16", function()
    local long, steps = texts:to("i64"), whole {8, 7, 6}:to("i64")
    for _, dtype in ipairs {"f32", "bf16"} do
      local x = scores:detach():to(dtype):requires_grad_()
      local turned = x:permute(2, 1, 3):contiguous()
      local before = capl.counters().ref_fallbacks
      nn.ctc_loss(x:permute(2, 1, 3), texts, 8, {3, 1, 2}):backward()
      nn.ctc_loss(turned, long, steps, {3, 1, 2}, {reduction = "none"}):sum():backward()
      assert.equal(before, capl.counters().ref_fallbacks)
    end
  end)

  it("takes a text of more than a thousand characters", function()
    local text = {}
    for s = 1, 1001 do text[s] = s % 3 + 1 end
    local steps = capl.randn(1020, 1, 4):log_softmax(-1):detach()
    local function run(device)
      local x = steps:to(device):requires_grad_()
      local loss = nn.ctc_loss(x, capl.tensor({text}, {dtype = "i32", device = device}), 1020, 1001, {reduction = "sum"})
      loss:backward()
      return loss:item(), x.grad:to("ref"):to("f32"):tolist()
    end
    local loss, slope = run("cpu")
    local want, want_slope = run("ref")
    assert.is_true(math.abs(loss - want) < 1e-6 * want, ("%.9g is not %.9g"):format(loss, want))
    -- shares of probability; a thousand steps of roundings
    assert.is_true(support.close(want_slope, slope, 4e-4))
  end)

  it("is wide under autocast", function()
    capl.autocast("bf16", function()
      local loss = nn.ctc_loss(scores:to("bf16"):permute(2, 1, 3):log_softmax(-1), texts, 8, {3, 1, 2})
      assert.equal("f32", loss.dtype)
    end)
  end)

  it("falls when a few texts are learnt by heart", function()
    local lengths, steps = {3, 1, 2}, {8, 8, 8}
    local first, last
    for _ = 1, 60 do
      local loss = nn.ctc_loss(scores:permute(2, 1, 3):log_softmax(-1), texts, steps, lengths)
      loss:backward()
      first, last = first or loss:item(), loss:item()
      scores = (scores:detach() - scores.grad * 20):requires_grad_()
    end
    assert.is_true(last < 0.05 and first > 0.5, ("%g to %g"):format(first, last))
  end)
end)
