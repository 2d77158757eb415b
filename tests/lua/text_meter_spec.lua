-- text_meter: counts, intervals and confusions.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

describe("text_meter", function()
  local function filled()
    local meter = capl.text_meter("ABC")
    meter:add({0, 1, 2, 2, 0, 1}, {0, 1, 2, 1, 0, 0}, 2) -- AB CC AB read; AB CB AA meant
    return meter
  end

  it("counts samples and characters", function()
    local r = filled():result()
    assert.equal(3, r.n)
    assert.is_true(support.close(r.exact, 1 / 3))
    assert.is_true(support.close(r.chars, 4 / 6))
  end)

  it("gives Wilson's 95 % interval", function()
    local meter = capl.text_meter("AB")
    for i = 1, 100 do meter:add({i <= 95 and 0 or 1}, {0}, 1) end
    local r = meter:result()
    assert.is_true(support.close(r.low, 0.8882, 1e-4) and support.close(r.high, 0.9785, 1e-4))
  end)

  it("has an interval from 0 to 1 before it has seen anything", function()
    local r = capl.text_meter("AB"):result()
    assert.same({0, 1, 0}, {r.low, r.high, r.n})
  end)

  it("names what was read as what, most frequent first", function()
    local meter = capl.text_meter("ABC")
    meter:add({1, 1, 2}, {0, 0, 0}, 1)
    assert.same({{truth = "A", read = "B", count = 2}, {truth = "A", read = "C", count = 1}}, meter:confusions(5))
    assert.equal("A as B 2", meter:confusion_line(1))
    assert.equal("none", capl.text_meter("AB"):confusion_line())
  end)

  it("keeps right readings from all over the set", function()
    local meter = capl.text_meter("A")
    for _ = 1, 1000 do meter:add({0}, {0}, 1) end
    local late, right = 0, meter:samples().right
    for _, e in ipairs(right) do late = late + (e.id >= 500 and 1 or 0) end
    assert.equal(24, #right)
    assert.is_true(late >= 6 and late <= 18, late .. " of the second half")
  end)

  it("leaves padding out of the count", function()
    local meter = capl.text_meter("ABC")
    meter:add({0, 2, 1, 1}, {0, -1, 1, 0}, 2)
    local r = meter:result()
    assert.is_true(support.close(r.chars, 2 / 3))
    assert.is_true(support.close(r.exact, 1 / 2))
  end)

  it("counts look-alikes as one beside the strict metric", function()
    local meter = capl.text_meter("0O1I", {merge = {"0O"}})
    meter:add({0, 2, 1, 2, 0, 3, 3, 0}, {0, 2, 0, 2, 0, 2, 3, 1}, 2) -- 01 right; O1 for 01; 0I for 01; I0 for IO
    local r = meter:result()
    assert.equal(0.25, r.exact)
    assert.same({"0O"}, r.merged.sets)
    assert.equal(0.75, r.merged.exact)
    assert.is_true(r.merged.low < 0.75 and r.merged.high > 0.75)
    assert.matches("^75.00 %% %[.*%] with 0=O$", meter:merged_line())
    local both = capl.text_meter("0O1I") -- those of the charset
    both:add({0, 2, 1, 2, 0, 3, 3, 0}, {0, 2, 0, 2, 0, 2, 3, 1}, 2)
    assert.equal(1, both:result().merged.exact)
    assert.matches("with 0=O, 1=I$", both:merged_line())
    assert.is_nil(capl.text_meter("01"):result().merged)
    assert.matches("'1I' has fewer than two of the charset",
      support.error_text(capl.text_meter, "01", {merge = {"1I"}}), 1, true)
  end)

  it("counts by position", function()
    local meter = capl.text_meter("AB")
    meter:add({0, 0, 0, 1, 1, 0}, {0, 1, 0, 1, 1, 1}, 2)
    assert.is_true(support.close({1, 1 / 3}, meter:result().positions))
    assert.equal("100.0 33.3 %", meter:position_line())
  end)

  it("gives the mean confidence, when it is asked", function()
    local meter = capl.text_meter("AB")
    meter:add({0, 1, 0, 1}, {0, 1, 0, 1}, 2, {0.5, 1})
    assert.equal(0.75, meter:result().confidence)
    assert.is_nil(capl.text_meter("AB"):result().confidence)
  end)

  it("rejects lists that do not fit", function()
    assert.matches("read has 3 characters, truth has 4", support.error_text(function()
      capl.text_meter("AB"):add({0, 0, 0}, {0, 0, 0, 0}, 2)
    end))
    assert.matches("needs the charset", support.error_text(capl.text_meter, 3))
  end)
end)
