-- Meters of texts of any length: what CTC's time steps say, beside labels padded with -1.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

-- Scores (N,T,K) with `high` at the class that each row of classes names.
local function scores(rows, K, high)
  local out = {}
  for n, row in ipairs(rows) do
    out[n] = {}
    for t, class in ipairs(row) do
      out[n][t] = {}
      for k = 1, K do out[n][t][k] = k == class + 1 and (high or 9) or 0 end
    end
  end
  return capl.tensor(out)
end

local function target(rows) return capl.tensor(rows, {dtype = "i32"}) end

local function meter() return capl.text_meter("ABC", {decoding = "ctc"}) end

describe("a meter of CTC readings", function()
  it("joins equal neighbours and leaves blanks out", function()
    local m = meter()
    m:add(scores({{0, 0, 3, 0, 1}, {3, 3, 3, 3, 3}, {2, 2, 2, 3, 3}}, 4),
      {target = target{{0, 0, 1}, {0, -1, -1}, {2, -1, -1}}})
    local r = m:result()
    assert.same({3, 2 / 3}, {r.n, r.exact})
    assert.is_true(support.close(r.blanks, 8 / 15))
    assert.equal("A as nothing 1", m:confusion_line())
    assert.same({{length = 1, n = 2, right = 0.5}, {length = 3, n = 1, right = 1}}, (function()
      local out = {}
      for i, row in ipairs(m:write().by_length) do out[i] = {length = row.length, n = row.n, right = row.right} end
      return out
    end)())
  end)

  it("reads batches of different numbers of time steps and of places", function()
    local m = meter()
    m:add(scores({{0, 3, 1}, {2, 3, 3}}, 4), {target = target{{0, 1}, {2, -1}}})
    m:add(scores({{3, 0, 3, 0, 3, 0}}, 4), {target = target{{0, 0, 0, -1}}})
    assert.equal(1, m:result().exact)
  end)

  it("is as sure as all paths of the text are likely together", function()
    local function sure(classes, truth)
      local m = meter()
      m:add(scores({classes}, 4, 2), {target = target{truth}})
      return m:result().confidence
    end
    local best = math.exp(2) / (math.exp(2) + 3)
    local other = 1 / (math.exp(2) + 3)
    -- "A" in two steps: A-blank, blank-A, A-A
    assert.is_true(support.close(sure({0, 3}, {0}), best * best + other * other + other * best, 1e-6))
    assert.is_true(support.close(sure({3, 3}, {-1}), best * best, 1e-6)) -- nothing: blanks alone
    local whole = capl.text.ctc_greedy(scores({{0, 0, 1}}, 4, 2), {blank = 3})[1]
    assert.is_true(support.close(sure({0, 0, 1}, {0, 1}), math.exp(whole.log_prob), 1e-6))
  end)

  it("is what train.fit counts a registered CTC model with", function()
    local function loader(role)
      local source = capl.data.captcha{charset = "AB", length = {1, 2}, width = 32, height = 16, count = 4,
        fixed = true}
      return capl.data.loader{source = source, role = role, batch = 4, workers = 0}
    end
    local nn = capl.nn
    local Net = nn.class("Net")
    function Net:init() self.columns, self.read = nn.AvgPool2d({16, 8}), nn.Linear(1, 3) end
    function Net:forward(x) return self.read(self.columns(x):view(x:size(1), -1, 1)) end -- (N,T,3)
    local net = Net()
    capl.model(net, {output = "text", charset = "AB", decoding = "ctc"})
    local result = capl.train.fit{
      model = net, train = loader("train"), val = loader("val"), steps = 1, precision = "fp32",
      optimizer = capl.optim.SGD(net:parameters(), {lr = 0.1}),
      loss = function(output, batch)
        return (nn.ctc_loss(output:transpose(1, 2):log_softmax(-1), batch.target, output:size(2), batch.target_length,
          {blank = 2}))
      end,
    }
    capl.model(nn.Linear(1, 1))
    assert.equal(4, result.val.n)
  end)

  it("names both numbers when the classes are no charset with a blank", function()
    assert.matches("output is %(1,2,3%); CTC reads %(1,T,4%): 3 characters and a blank", support.error_text(function()
      meter():add(scores({{0, 1}}, 3), {target = target{{0}}})
    end))
    assert.matches("batch first", support.error_text(function()
      meter():add(scores({{0, 1}, {0, 1}, {0, 1}}, 4), {target = target{{0}, {1}}})
    end), 1, true)
  end)

  it("is asked for where the classes are a charset with a blank", function()
    assert.matches("4 classes, one more than the 3 characters.*decoding = \"ctc\"", support.error_text(function()
      capl.text_meter("ABC"):add(scores({{0, 1}}, 4), {target = target{{0, 1}}})
    end))
  end)

  it("refuses places for texts of several lengths, which cannot show where one ends", function()
    assert.matches("the texts have 2 to 4 characters", support.error_text(function()
      capl.train.TextMeter{loader = {charset = "ABC", length_min = 2, length = 4}}
    end))
  end)

  it("names the sample whose output is no number", function()
    local m = meter()
    m:add(scores({{0, 1}}, 4, 0 / 0), {target = target{{0, 1}}})
    assert.matches("output for sample 0 is not finite", support.error_text(m.result, m))
  end)

  it("keeps nothing on the device", function()
    support.no_leak(function()
      local m = meter()
      capl.scope(function() m:add(scores({{0, 1}}, 4), {target = target{{0, 1}}}) end)
      m:result()
    end)
  end)
end)

describe("capl.model", function()
  after_each(function() capl.model(capl.nn.Linear(1, 1)) end)

  it("takes the way in which texts are read", function()
    local model = capl.nn.Linear(2, 4)
    assert.matches("unknown decoding 'ctcc'; did you mean 'ctc'",
      support.error_text(capl.model, model, {decoding = "ctcc"}))
    assert.matches("needs the charset", support.error_text(capl.model, model, {output = "text", decoding = "ctc"}))
    assert.equal(model, capl.model(model, {output = "text", charset = "ABC", decoding = "ctc"}))
  end)
end)
