-- meters: metrics of texts, masks, places and numbers against plain loops.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, data, train = capl.nn, capl.data, capl.train
local close, error_text = support.close, support.error_text

-- The same numbers in every run.
local function dice(seed)
  local state = seed
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return math.floor(state / 65536) % n
  end
end

describe("a text meter", function()
  local function counted(pairs_of, opts)
    local o = {charset = "ABC"}
    for key, value in pairs(opts or {}) do o[key] = value end
    local meter = train.TextMeter(o)
    for i, pair in ipairs(pairs_of) do meter:count(pair[1], pair[2], pair[3], i - 1) end
    return meter
  end

  -- The edit distance by its definition, without a table.
  local function distance(a, b)
    if a == "" or b == "" then return #a + #b end
    local same = a:byte() == b:byte() and 0 or 1
    return math.min(distance(a:sub(2), b:sub(2)) + same, distance(a:sub(2), b) + 1, distance(a, b:sub(2)) + 1)
  end

  it("counts edits as their definition does, for texts of any length", function()
    local roll, sum, share, chars = dice(5), 0, 0, 0
    local meter = train.TextMeter{charset = "ABC"}
    for _ = 1, 200 do
      local texts = {"", ""}
      for k = 1, 2 do
        for _ = 1, roll(6) do texts[k] = texts[k] .. ("ABC"):sub(roll(3) + 1):sub(1, 1) end
      end
      local edits = distance(texts[1], texts[2])
      sum, chars = sum + edits, chars + #texts[2]
      share = share + edits / math.max(#texts[1], #texts[2], 1)
      meter:count(texts[1], texts[2])
    end
    local r = meter:result()
    assert.is_true(close({sum / 200, share / 200, sum / chars}, {r.edit_distance, r.edit_distance_normalized, r.cer},
      1e-12))
  end)

  it("does not take one character too many for many mistakes", function()
    local meter = counted{{"AABCBA", "ABCBA"}, {"BCBA", "ABCBA"}, {"ABCA", "ABCBA"}}
    local r = meter:result()
    assert.same({{truth = "", read = "A", count = 1}, {truth = "A", read = "", count = 1},
      {truth = "B", read = "", count = 1}}, r.confusions)
    assert.is_true(close({13 / 15, 1, 3 / 15}, {r.chars, r.edit_distance, r.cer}, 1e-12))
    assert.equal("nothing as A 1, A as nothing 1, B as nothing 1", meter:confusion_line())
    -- places of the truth: the first A was left out once, the last B but one too
    assert.is_true(close({2 / 3, 1, 1, 2 / 3, 1}, r.positions, 1e-12))
  end)

  it("lines readings up when a text is shifted, and counts places as they stand", function()
    local r = counted{{"BCAB", "ABCA"}}:result()
    assert.equal(0, r.chars)
    assert.equal(2, r.edit_distance)
    assert.same({{truth = "", read = "B", count = 1}, {truth = "A", read = "", count = 1}}, r.confusions)
  end)

  it("adds up: the matrix holds each character of the truth once", function()
    local roll, meter, wanted = dice(9), train.TextMeter{charset = "ABC"}, {0, 0, 0}
    for _ = 1, 300 do
      local read, truth = "", ""
      for _ = 1, 4 do
        local k = roll(3) + 1
        wanted[k], truth = wanted[k] + 1, truth .. ("ABC"):sub(k, k)
        read = read .. ("ABC"):sub(roll(2) == 0 and k or roll(3) + 1):sub(1, 1)
      end
      meter:count(read, truth)
    end
    local matrix = meter:write().confusion
    assert.same({"A", "B", "C", ""}, matrix.labels)
    for row = 1, 3 do
      local sum = 0
      for column = 1, 4 do sum = sum + matrix.counts[row][column] end
      assert.equal(wanted[row], sum)
    end
  end)

  it("tells lengths apart", function()
    local meter = counted{{"AB", "AB"}, {"AC", "AB"}, {"ABC", "ABC"}}
    local rows = meter:write().by_length
    assert.same({2, 2, 0.5}, {rows[1].length, rows[1].n, rows[1].right})
    assert.same({3, 1, 1}, {rows[2].length, rows[2].n, rows[2].right})
    assert.is_true(rows[1].low < 0.5 and rows[1].high > 0.5)
    assert.equal("2: 50.0 % of 2, 3: 100.0 % of 1", meter:length_line())
    assert.is_nil(counted{{"AB", "AB"}}:length_line())
  end)

  it("gives an interval that holds the share, of none and of all right, too", function()
    for n = 1, 40 do
      local right, wrong = {}, {}
      for i = 1, n do right[i], wrong[i] = {"A", "A"}, {"B", "A"} end
      local all, none = counted(right):result(), counted(wrong):result()
      assert.same({1, 1}, {all.exact, all.high})
      assert.same({0, 0}, {none.exact, none.low})
    end
  end)

  it("keeps the worst readings with their numbers, and samples of each confusion", function()
    local meter = counted({{"A", "B", 0.9}, {"AA", "BB", 0.1}, {"A", "A", 1}, {"A", "B", 0.99}, {"A", "B", 0.5}},
      {worst = 3})
    local ids = {}
    for i, e in ipairs(meter:samples().wrong) do ids[i] = e.id end
    assert.same({1, 3, 0}, ids)
    assert.same({{id = 2, truth = "A", read = "A", confidence = 1, edits = 0}}, meter:samples().right)
    local pair = meter:pairs_with_samples(1)[1]
    assert.same({"B", "A", 5}, {pair.truth, pair.read, pair.count})
    assert.same({{id = 0, place = 1}, {id = 1, place = 2}, {id = 3, place = 1}, {id = 4, place = 1}}, pair.samples)
  end)

  it("reads scores of all batches at once, and texts that a recipe decodes", function()
    local scores = capl.zeros(2, 2, 3)
    local target = capl.tensor({{0, 0}, {1, -1}}, {dtype = "i32"})
    local meter = train.TextMeter{charset = "ABC"}
    for _ = 1, 3 do meter:add(scores, {target = target}) end
    assert.equal(0, meter.n) -- nothing was read yet
    local r = meter:result()
    assert.same({6, 0.5}, {r.n, r.exact})
    assert.is_true(close((1 / 9 + 1 / 3) / 2, r.confidence, 1e-6)) -- padding does not count
    local own = train.TextMeter{charset = "ABC", decode = function() return {"AA", "AB"}, {0.5, 0.5} end}
    own:add(scores, {target = target})
    assert.same({2, 0.5, 0.5}, {own:result().n, own:result().exact, own:result().edit_distance})
    local none = train.TextMeter{charset = "ABC", decode = function() return {} end}
    assert.matches("decode gives a list of 2 texts", error_text(function() none:add(scores, {target = target}) end), 1,
      true)
  end)

  it("reports how often readings of each confidence are right", function()
    local rows = counted{{"A", "A", 0.95}, {"A", "A", 1}, {"A", "B", 0.91}, {"A", "B", 0.05}}:write().by_confidence
    assert.is_true(close({0, 0.1, 1, 0}, {rows[1].from, rows[1].to, rows[1].n, rows[1].right}, 1e-9))
    assert.is_true(close({0.9, 1, 3, 2 / 3}, {rows[2].from, rows[2].to, rows[2].n, rows[2].right}, 1e-9))
  end)

  it("refuses labels that the charset does not have", function()
    local meter = train.TextMeter{charset = "ABC"}
    meter:add(capl.zeros(1, 2, 3), {target = capl.tensor({{0, 3}}, {dtype = "i32"})})
    assert.matches("the label of sample 0 has class 3 at place 2; the charset has 3 characters, 0 to 2",
      error_text(function() return (meter:result()) end), 1, true)
  end)

  it("refuses readings that are no numbers", function()
    local meter = train.TextMeter{charset = "ABC"}
    meter:add(capl.zeros(1, 2, 3) / 0, {target = capl.tensor({{0, 0}}, {dtype = "i32"})})
    assert.matches("the model's output for sample 0 is not finite", error_text(function() return (meter:result()) end),
      1, true)
  end)
end)

describe("a segmentation meter", function()
  local K, N, H, W = 4, 5, 6, 7
  local roll = dice(3)
  local want, got = {}, {}
  for i = 1, N * H * W do
    want[i] = roll(20) == 0 and 255 or roll(K - 1) -- some pixels do not count; class 3 is never meant
    got[i] = roll(3) > 0 and want[i] < K and want[i] or roll(K)
  end

  local function scores_of(first, count)
    local flat, at = {}, 0
    for n = first, first + count - 1 do
      for k = 0, K - 1 do
        for pixel = 1, H * W do
          at = at + 1
          flat[at] = got[(n - 1) * H * W + pixel] == k and 1 or 0
        end
      end
    end
    return capl.tensor(flat):reshape(count, K, H, W)
  end

  local function mask_of(first, count)
    local flat = {}
    for i = 1, count * H * W do flat[i] = want[(first - 1) * H * W + i] end
    return capl.tensor(flat, {dtype = "u8"}):reshape(count, H, W)
  end

  -- By the definitions: sets of pixels.
  local function metrics(first, count)
    local hit, meant, read = {}, {}, {}
    for k = 0, K - 1 do hit[k], meant[k], read[k] = 0, 0, 0 end
    for i = (first - 1) * H * W + 1, (first + count - 1) * H * W do
      if want[i] ~= 255 then
        meant[want[i]], read[got[i]] = meant[want[i]] + 1, read[got[i]] + 1
        if want[i] == got[i] then hit[want[i]] = hit[want[i]] + 1 end
      end
    end
    local iou, f, seen, present, right, all = 0, 0, 0, 0, 0, 0
    for k = 0, K - 1 do
      if meant[k] + read[k] > 0 then iou, seen = iou + hit[k] / (meant[k] + read[k] - hit[k]), seen + 1 end
      if meant[k] > 0 then
        local precision, recall = hit[k] / math.max(read[k], 1), hit[k] / meant[k]
        f, present = f + (hit[k] > 0 and 2 * precision * recall / (precision + recall) or 0), present + 1
      end
      right, all = right + hit[k], all + meant[k]
    end
    return iou / seen, f / present, right / all
  end

  it("gives metrics of the whole set, and those of batches beside them", function()
    local meter = train.SegmentationMeter{classes = K}
    for _, part in ipairs{{1, 2}, {3, 2}, {5, 1}} do
      meter:add(scores_of(unpack(part)), {mask = mask_of(unpack(part))})
    end
    local miou, f, accuracy = metrics(1, N)
    local r = meter:result()
    assert.is_true(close({miou, f, accuracy}, {r.miou, r.f, r.accuracy}, 1e-12))
    local by_batch = 0
    for _, part in ipairs{{1, 2}, {3, 2}, {5, 1}} do by_batch = by_batch + select(2, metrics(unpack(part))) / 3 end
    assert.is_true(close(by_batch, r.f_batch, 1e-12) and math.abs(by_batch - f) > 1e-4)
    assert.same({5, 4}, {r.n, #r.classes})
    assert.matches("^mIoU .* n 5$", meter:line())
  end)

  it("gives the same metrics of the set whatever the batches are", function()
    local whole, single = train.SegmentationMeter{classes = K}, train.SegmentationMeter{classes = K}
    whole:add(scores_of(1, N), {mask = mask_of(1, N)})
    for n = 1, N do single:add(scores_of(n, 1), {mask = mask_of(n, 1)}) end
    for _, key in ipairs{"miou", "f", "accuracy", "pixels"} do
      assert.equal(whole:result()[key], single:result()[key])
    end
    assert.same(whole:write().confusion, single:write().confusion)
  end)

  it("refuses scores that are no numbers", function()
    local meter = train.SegmentationMeter{classes = K}
    meter:add(scores_of(2, 2), {mask = mask_of(2, 2)})
    meter:add(scores_of(1, 1) / 0, {mask = mask_of(1, 1)})
    assert.matches("the model's output for sample 2 is not finite", error_text(function() return (meter:result()) end),
      1, true)
  end)

  it("names the images with the most wrong pixels", function()
    local meter = train.SegmentationMeter{classes = K, worst = 2}
    meter:add(scores_of(1, N), {mask = mask_of(1, N)})
    local worst = meter:samples().wrong
    assert.equal(2, #worst)
    assert.is_true(worst[1].accuracy <= worst[2].accuracy)
    assert.is_true(close(select(3, metrics(worst[1].id + 1, 1)), worst[1].accuracy, 1e-6))
    local best = meter:samples().right
    assert.is_true(#best == 2 and best[1].accuracy >= best[2].accuracy and best[2].accuracy >= worst[2].accuracy)
  end)

  it("gives the mean IoU of one image", function()
    local meter = train.SegmentationMeter{classes = {"a", "b", "c"}}
    local meant, read = capl.tensor{{{0, 0, 1, 255}}}, capl.tensor{{{0, 1, 1, 1}}}
    assert.is_true(close(meter:overlap(meant, read), (1 / 2 + 1 / 2) / 2, 1e-9)) -- 255 does not count
    assert.same({[0] = true, [1] = true}, meter:present(read:reshape(1, 4)))
    assert.equal("c", meter:name(2))
  end)

  it("refuses pixels of no class, but for those to be ignored", function()
    local meter = train.SegmentationMeter{classes = K, ignore = 254}
    meter:add(scores_of(1, N), {mask = mask_of(1, N)})
    assert.matches("SegmentationMeter: %d+ pixels of the masks have none of the 4 classes\n  hint: ignore = 254 is the value of pixels",
      error_text(function() return (meter:result()) end))
    assert.matches("the batch has no mask", error_text(function() meter:add(scores_of(1, 1), {}) end), 1, true)
  end)

  it("says what output it wants", function()
    local meter = train.SegmentationMeter{}
    assert.matches("the model's output is (1,2,3,3), and the mask is (1,6,7)\n  hint: an output (N,2,H,W) has scores of each class",
      error_text(function() meter:add(capl.zeros(1, 2, 3, 3), {mask = mask_of(1, 1)}) end), 1, true)
    assert.matches("unknown main 'iou'; did you mean 'miou'?", error_text(function()
      return (train.SegmentationMeter{main = "iou"})
    end), 1, true)
    assert.matches("classes is how many there are, from 1 on, or their names; got 0", error_text(function()
      return (train.SegmentationMeter{classes = 0})
    end), 1, true)
  end)
end)

describe("a localization meter", function()
  local truth = capl.tensor({{{0, 0, 1}, {10, 10, 1}}, {{5, 5, 1}, {9, 9, 0}}})
  local output = capl.tensor({{3, 4, 10, 11}, {5, 5, 0, 0}}) -- off by 5 and 1; 0 and one that cannot be seen

  it("measures the points that can be seen", function()
    local meter = train.LocalizationMeter{names = {"gap", "piece"}}
    meter:add(output, {points = truth})
    local r = meter:result()
    assert.is_true(close({2, 3, 6 / 3, math.sqrt(26 / 3), 2 / 3, 1}, {r.n, r.points, r.mae, r.rmse, r.hit_2, r.hit_5},
      1e-9))
    assert.is_true(close({2.5, 1, 0.5, 1}, {r.gap_mae, r.piece_mae, r.gap_hit_2, r.piece_hit_2}, 1e-9))
    assert.is_true(close({0.5, 1}, {r.images_2, r.images_5}))
    assert.is_true(r.hit_2_low < 2 / 3 and r.hit_2_high > 2 / 3)
    assert.same({wrong = {{id = 0, distance = 5, read = {{3, 4}, {10, 11}}}},
      right = {{id = 1, distance = 0, read = {{5, 5}, {0, 0}}}}}, meter:samples())
    local rows = meter:write().by_point
    assert.is_true(close({math.sqrt(12.5), 0}, {rows[1].spread, rows[2].spread}, 1e-6))
    assert.same({"gap", 2, 2.5, "piece", 1, 1}, {rows[1].name, rows[1].n, rows[1].mae, rows[2].name, rows[2].n,
      rows[2].mae})
    assert.matches("^MAE 2.00 px, RMSE 2.94 px, within 2 px 66.67 %% %[.*n 2$", meter:line())
  end)

  it("measures otherwise when it is asked, and chooses by another metric", function()
    local meter = train.LocalizationMeter{distance = "l1", hits = {1}, points = {2}, main = "hit_1"}
    meter:add(output:narrow(2, 3, 2), {points = truth})
    local r = meter:result()
    assert.same({1, 1, 1, "max", "hit_1"}, {r.points, r.mae, r.hit_1, meter.better, meter.main})
    assert.equal("min", train.LocalizationMeter{}.better)
    assert.matches("unknown main 'hit_3'", error_text(function() return (train.LocalizationMeter{main = "hit_3"}) end),
      1, true)
  end)

  it("refuses more points than the samples have", function()
    assert.matches("the model gives 3 points, the samples have 2",
      error_text(function() train.LocalizationMeter{}:add(capl.zeros(2, 6), {points = truth}) end), 1, true)
  end)
end)

describe("a regression meter", function()
  it("gives metrics in the numbers' own unit", function()
    local want, got = {1, 2, 4, -3, 0.00001}, {1.5, 2, 3, -1, 0.2}
    local sum, middle, total, absolute, symmetric, relative = 0, 0, 0, 0, 0, 0
    for i = 1, 5 do middle = middle + want[i] / 5 end
    for i = 1, 5 do
      local e = got[i] - want[i]
      sum, total, absolute = sum + e * e, total + (want[i] - middle) ^ 2, absolute + math.abs(e)
      symmetric = symmetric + 2 * math.abs(e) / (math.abs(got[i]) + math.abs(want[i]))
      if i < 5 then relative = relative + math.abs(e / want[i]) end -- the last is next to 0
    end
    local meter = train.RegressionMeter{inverse = function(x) return x * 2 - 1 end}
    local function told(list)
      local out = {}
      for i, x in ipairs(list) do out[i] = {(x + 1) / 2} end
      return capl.tensor(out)
    end
    meter:add(told(got), {value = told(want)})
    local r = meter:result()
    assert.is_true(close({1 - sum / total, math.sqrt(sum / 5), absolute / 5, symmetric / 5, relative / 4},
      {r.r2, r.rmse, r.mae, r.smape, r.mape}, 1e-5))
    assert.same({5, 1}, {r.n, r.mape_left_out})
    local worst = meter:samples().wrong[1]
    assert.equal(3, worst.id)
    assert.is_true(close({2, -1, -3}, {worst.error, worst.predicted, worst.target}, 1e-5))
  end)

  it("gives the metrics of each of several numbers", function()
    local meter = train.RegressionMeter{names = {"x", "y"}, field = "pair"}
    meter:add(capl.tensor{{1, 100}, {2, 300}}, {pair = capl.tensor{{1, 200}, {4, 200}}})
    local r, rows = meter:result(), meter:write().by_number
    assert.is_true(close({math.sqrt(2), 100, 1, 100}, {r.x_rmse, r.y_rmse, r.x_mae, r.y_mae}, 1e-6))
    assert.is_true(close({1 - 4 / 4.5, math.sqrt(2)}, {rows[1].r2, rows[1].rmse}, 1e-6))
    assert.is_nil(rows[2].r2) -- all the same
    assert.equal("y", rows[2].name)
    assert.equal("x", meter:samples().wrong[1].number) -- 2 of 1.4 is farther off than 100 of 100
    assert.same({100, 300}, meter:columns()[2].got)
    assert.equal("y", meter:lines()[4][1])
  end)

  it("leaves out what has no value", function()
    local meter = train.RegressionMeter{}
    meter:add(capl.tensor({{1}, {2}}), {value = capl.tensor({{0}, {0}})})
    local r = meter:result()
    assert.same({2, 2}, {r.smape, r.mape_left_out})
    assert.is_nil(r.r2)
    assert.is_nil(r.mape)
    assert.equal("R2 -, RMSE 1.581, MAE 1.5, sMAPE 200.00 %, n 2", meter:line())
    assert.matches("the model's output for sample 0 is inf", error_text(function()
      local broken = train.RegressionMeter{}
      broken:add(capl.tensor({{1}}) / 0, {value = capl.tensor({{1}})})
      return (broken:result())
    end), 1, true)
  end)
end)

describe("meters of several outputs", function()
  local batch = {points = capl.tensor{{{0, 0, 1}}, {{5, 5, 1}}}, angle = capl.tensor{{1}, {3}}, ids = {0, 1}}
  local image = capl.zeros({2, 1, 4, 4}, {dtype = "u8"})
  local source = data.tensors{image = image, points = batch.points, angle = batch.angle}
  local val = data.loader{source = source, role = "val", batch = 2, workers = 0}
  local Fixed = nn.class("Fixed")
  function Fixed:init(outputs) self.outputs = function() return outputs end end
  function Fixed:forward() return self.outputs() end
  local model = Fixed{gap = capl.tensor{{3, 4}, {5, 5}}, turn = capl.tensor{{1}, {5}}}
  local function turn(loader) return train.RegressionMeter{field = "angle", loader = loader} end

  it("call each metric by its output", function()
    local meter = train.evaluate(model, val, {meter = {gap = "localization", turn = turn}, main = "turn.rmse"})
    local r = meter:result()
    assert.is_true(close({2, 2.5, 1, math.sqrt(2)}, {r.n, r["gap.mae"], r["turn.mae"], r["turn.rmse"]}, 1e-6))
    assert.same({"turn.rmse", "min"}, {meter.main, meter.better})
    assert.equal("gap.mae", train.evaluate(model, val, {meter = {gap = "localization", turn = turn}}).main)
    local lines = meter:lines()
    assert.same({"turn.rmse 1.414, n 2", "gap", "turn"}, {lines[1][2], lines[2][1], lines[3][1]})
    assert.matches("^gap: MAE 2.50 px, .*; turn: R2 .*, n 2$", meter:line())
  end)

  it("take the field of their name where they measure numbers", function()
    local other = Fixed{angle = capl.tensor{{1}, {5}}}
    assert.equal(1, train.evaluate(other, val, {meter = {angle = "regression"}}):result()["angle.mae"])
  end)

  it("say what is wrong", function()
    local function refused(message, opts)
      assert.matches(message, error_text(function() return (train.evaluate(model, val, opts)) end), 1, true)
    end
    refused("unknown output 'gpa'; did you mean 'gap'?", {meter = {gpa = "localization"}})
    refused("unknown metric 'turn.rmsee'; did you mean 'turn.rmse'?", {meter = {turn = turn}, main = "turn.rmsee"})
    refused("meter has an entry 1: a table of meters has the names of the model's outputs", {meter = {"text"}})
    refused("meter.gap is the name of a kind or function(loader), not a number", {meter = {gap = 3}})
    refused("a segmentation meter reads batch.mask, which the val loader does not give", {meter = {gap = "segmentation"}})
    local single = nn.Sequential{nn.Flatten(), nn.Linear(16, 1)}
    assert.matches("meter has turn, and the model gives tensor\n  hint: a model with several outputs returns a table",
      error_text(function() return (train.evaluate(single, val, {meter = {turn = turn}})) end), 1, true)
  end)
end)
