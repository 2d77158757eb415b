-- ctc_spec.lua: the CTC loss as recipes use it. Its arithmetic: tests/op/ctc_loss.lua.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

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
    assert.matches("input_lengths: a list of 2 lengths for 3 samples",
      error_text(nn.ctc_loss, x, texts, {8, 8}, {3, 1, 2}), 1, true)
  end)

  it("is a module that keeps what it said of its samples", function()
    local criterion = nn.CTCLoss {reduction = "sum"}
    local loss = criterion(scores:permute(2, 1, 3):log_softmax(-1), texts, {8, 8, 2}, {3, 1, 2})
    assert.same({0, 0, 1}, criterion.infeasible:tolist())
    near(nn.ctc_loss(scores:permute(2, 1, 3):log_softmax(-1), texts, {8, 8, 2}, {3, 1, 0},
      {reduction = "none"}):tolist()[1]
      + nn.ctc_loss(scores:permute(2, 1, 3):log_softmax(-1), texts, {8, 8, 2}, {3, 1, 0},
        {reduction = "none"}):tolist()[2], loss:item())
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
      local loss = nn.ctc_loss(x, capl.tensor({text}, {dtype = "i32", device = device}), 1020, 1001,
        {reduction = "sum"})
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

  it("falls when a few texts are learned by heart", function()
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

describe("decoding", function()
  local text = capl.text
  -- Two steps of "a" at 0.4, the blank at 0.6: blank blank is the best path, "a" the best text.
  local close_call = capl.tensor {{{math.log(0.4), math.log(0.6)}, {math.log(0.4), math.log(0.6)}}}

  it("is greedy by path, and by beam the best text", function()
    local path, best = text.ctc_greedy(close_call, {charset = "a"})[1],
      text.ctc_beam(close_call, {charset = "a", n = 5})[1]
    assert.equal("", path.text)
    near(0.36, path.confidence)
    assert.equal(2, #best)
    assert.equal("a", best[1].text)
    near(0.64, best[1].confidence)
    near(0.4, best[1].confidences[1])
    near(0.36, best[2].confidence)
  end)

  it("keeps to lengths, characters and patterns", function()
    capl.manual_seed(9)
    local scores = capl.randn(6, 12, 6) * 3
    local function check_all(opts, pattern)
      opts.charset = "abcde"
      for i, one in ipairs(text.ctc_greedy(scores, opts)) do
        local beam = text.ctc_beam(scores:narrow(1, i, 1), opts)[1][1]
        assert.matches(pattern, one.text)
        assert.matches(pattern, beam.text)
        assert.is_true(beam.log_prob >= one.log_prob)
        assert.equal(#one.text, #one.steps)
        assert.equal(#one.text, #one.confidences)
      end
    end
    check_all({length = 4}, "^[a-e][a-e][a-e][a-e]$")
    check_all({allowed = "ab", max_length = 3}, "^[ab]?[ab]?[ab]?$")
    check_all({allowed = {0, 4}, min_length = 1}, "^[ae]+$")
    check_all({pattern = {"ab", "e", "cd"}}, "^[ab]e[cd]$")
  end)

  it("takes a blank at any class, and time steps of each sample", function()
    local scores = capl.tensor {{{0, 9, 0}, {9, 0, 0}, {0, 0, 9}}, {{0, 9, 0}, {9, 0, 0}, {0, 0, 9}}}
    local out = text.ctc_greedy(scores, {charset = "xy", blank = 0, lengths = {3, 2}})
    assert.same({"xy", "x"}, {out[1].text, out[2].text})
    assert.same({1, 2}, out[1].classes)
    assert.same({1, 3}, out[1].steps)
    assert.same({{}}, {text.ctc_greedy(capl.zeros(0, 3, 4))})
  end)

  it("names what is wrong", function()
    local bad = capl.tensor {{{0, 1}, {0, 1}}, {{0, 1}, {0 / 0, 1}}}
    local function refuses(fn, scores, opts, message) assert.matches(message, error_text(fn, scores, opts), 1, true) end
    assert.matches("class 0 at time step 1 is not a number.*sample 2 of 2", error_text(text.ctc_greedy, bad))
    refuses(text.ctc_greedy, close_call, {length = 3}, "a text of 3 characters needs as many time steps, there are 2")
    refuses(text.ctc_beam, close_call, {charset = "a", allowed = "z"}, "'z' is not in the charset")
    refuses(text.ctc_greedy, close_call, {allowed = "z"}, "characters were given, but no charset")
    refuses(text.ctc_greedy, close_call, {charset = "abc"}, "charset of 3 characters and a blank, but 2 classes")
    refuses(text.ctc_greedy, close_call, {allowed = {7}}, "7 is no class")
    refuses(text.ctc_greedy, bad, {lengths = {1}}, "1 lengths for 2 samples")
    refuses(text.ctc_greedy, close_call, {lengths = {3}}, "3 time steps of 2")
    refuses(text.ctc_beam, close_call, {width = 0}, "width must be a whole number from 1 on")
    refuses(text.ctc_greedy, close_call, {lenghts = {3}}, "did you mean 'lengths'")
  end)

  it("searches tenfold symbols in little more than tenfold time", function()
    local function seconds(n)
      local symbols, best = {}, math.huge
      for code = 0x4E00, 0x4DFF + n do
        symbols[#symbols + 1] = string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64,
          0x80 + code % 64)
      end
      local charset, scores = table.concat(symbols), capl.randn({1, 4, n + 1})
      for _ = 1, 3 do
        local from = os.clock()
        capl.text.ctc_beam(scores, {charset = charset})
        best = math.min(best, os.clock() - from)
      end
      return best
    end
    assert.is_true(seconds(20000) < 40 * seconds(2000)) -- sorting the symbols by insertion took a hundredfold
  end)
end)

describe("train.fit with the CTC loss", function()
  it("names samples that have too few time steps, once", function()
    local function loss_of(output, batch)
      return nn.ctc_loss(output:view(-1, 3, 4):permute(2, 1, 3):log_softmax(-1), batch.target, {3, 3, 1, 3}, 2,
        {blank = 3})
    end
    local model = nn.Sequential {nn.Flatten(), nn.Linear(800, 12)}
    local result = training.fit {model = model, train = training.loader("train", 8), loss = loss_of, steps = 6,
      optimizer = capl.optim.SGD(model:parameters(), {lr = 0.01})}
    assert.equal(1, #result.ctc_infeasible)
    assert.matches("1 of 4 samples of step 1 have fewer time steps than characters.* count nothing: %d",
      result.ctc_infeasible[1])
  end)
end)
