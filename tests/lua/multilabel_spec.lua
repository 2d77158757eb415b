-- Labels of several classes: files that give them, batches, what is refused; the meter.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data, train = capl.data, capl.train
local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end
local root = os.tmpname()

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

setup(function()
  os.remove(root)
  assert(os.execute("mkdir -p " .. root .. "/set") == 0)
  for i, text in ipairs{"cat\ndog\n", "\n", "dog| 两 "} do
    data.png_write(("%s/set/%d.png"):format(root, i), capl.zeros({1, 2, 4}, {dtype = "u8"}))
    write(("%s/set/%d.txt"):format(root, i), text)
  end
end)
teardown(function() os.execute("rm -rf " .. root) end)

local function batch_of(source, augment)
  return data.loader{source = source, role = "train", shuffle = false, batch = 3, workers = 0,
    augment = augment}:epoch(1)()
end

describe("labels of several classes", function()
  local rows = {{1, 1, 0}, {0, 0, 0}, {0, 1, 1}} -- cat, dog, 两

  local function of_set(opts)
    opts.label, opts.several, opts.classes = opts.label or ".txt", opts.several or true, opts.classes or "auto"
    return data.folder(root .. "/set", opts)
  end

  it("are lines or names with a mark between, beside the images", function()
    local source = of_set{}
    assert.same({"cat", "dog", "两"}, source.classes)
    local batch = batch_of(source)
    assert.same({{0, 1}, {-1, -1}, {1, 2}}, batch.target:tolist())
    assert.same(rows, batch.onehot:tolist())
  end)

  it("are the same in lists of every format", function()
    write(root .. "/a.tsv", "set/1.png\tcat|dog\nset/2.png\t\nset/3.png\tdog|两\n")
    write(root .. "/a.csv", "path,label\nset/1.png,cat;dog\nset/2.png,\nset/3.png,dog; 两\n")
    write(root .. "/a.jsonl", '{"path": "set/1.png", "label": ["cat", "dog"]}\n{"path": "set/2.png", "label": []}\n' ..
      '{"path": "set/3.png", "label": "dog|两"}\n')
    for name, several in pairs{["a.tsv"] = true, ["a.csv"] = ";", ["a.jsonl"] = true} do
      local source = data.list(root .. "/" .. name, {classes = "auto", several = several})
      assert.same(rows, batch_of(source).onehot:tolist())
    end
  end)

  it("are mixed by their shares", function()
    local batch = batch_of(of_set{}, {mixup = {alpha = 1, p = 1}})
    for i, row in ipairs(batch.onehot:tolist()) do
      local share, want = batch.mix:tolist()[i], {0, 0, 0}
      for key, part in pairs{target = share, target2 = 1 - share} do
        for _, class in ipairs(batch[key]:tolist()[i]) do
          if class >= 0 then want[class + 1] = want[class + 1] + part end
        end
      end
      for k = 1, 3 do assert.near(want[k], row[k], 1e-6) end
    end
  end)

  it("name the mark, the name and the file where they are wrong", function()
    raises("several is of classes", data.folder, root .. "/set", {several = true})
    raises("several is true, or the mark between the names of classes, such as ';'; got ab", data.folder, root .. "/set",
      {label = ".txt", classes = "auto", several = "ab"})
    raises('classes = "auto" with several finds names beside the images', data.folder, root .. "/set",
      {classes = "auto", several = true})
    local source = of_set{classes = {"cat", "dog"}}
    assert.equal(1, #source.bad)
    assert.equal(root .. "/set/3.png: '两' is none of the 2 classes", source.bad[1].message)
    write(root .. "/b.jsonl", '{"path": "set/1.png", "label": ["cat|dog"]}\n')
    raises('/b.jsonl:1: the name "cat|dog" has \'|\', which separates names', data.list, root .. "/b.jsonl",
      {classes = "auto", several = true})
    write(root .. "/c.jsonl", '{"path": "set/1.png", "label": ["cat", 1]}\n')
    raises('/c.jsonl:1: a label is a list of names, ["cat", "dog"]', data.list, root .. "/c.jsonl",
      {classes = "auto", several = true})
    for k = 1, 3 do write(("%s/set/%d.json"):format(root, k), '{"label": ["c\166t", "dog"]}') end
    raises("/set/1.json: a name of its label is not UTF-8", of_set, {label = ".json"})
    raises('"label" is no text', data.list, root .. "/b.jsonl", {classes = "auto"})
    write(root .. "/d.tsv", "set/1.png\tcat||dog\nset/2.png\tcat|cat\nset/3.png\tcat|\n")
    local bad = data.list(root .. "/d.tsv", {classes = {"cat", "dog"}, several = true}).bad
    assert.matches("d.tsv:1: .*'' is none of the 2 classes", bad[1].message)
    assert.matches("d.tsv:2: .*its label has 'cat' twice", bad[2].message)
    assert.matches("d.tsv:3: .*'' is none of the 2 classes", bad[3].message)
  end)

  it("are missing, not none of the classes, where a rule does not fit", function()
    local function rule(name) return name ~= "2.png" and "cat" or nil end
    local source = data.folder(root .. "/set", {label = rule, classes = {"cat", "dog"}, several = true})
    assert.equal(1, #source.bad)
    local loader = data.loader{source = source, role = "train", shuffle = false, batch = 3, workers = 0,
      on_error = "skip", max_bad = 1}
    assert.same({{1, 0}, {1, 0}, {1, 0}}, loader:epoch(1)().onehot:tolist())
  end)

  it("are at most 32 of an image", function()
    local names = {}
    for i = 1, 33 do names[i] = "n" .. i end
    write(root .. "/many.tsv", "set/1.png\t" .. table.concat(names, "|") .. "\nset/2.png\tn1\n")
    local bad = data.list(root .. "/many.tsv", {classes = "auto", several = true}).bad
    assert.matches("its label has more than 1 names of classes", bad[1].message)
  end)
end)

describe("the multilabel meter", function()
  local names = {"a", "b", "c"}
  local logits = capl.tensor{{3, -1, -2}, {1, 2, -3}, {2, 1, -4}, {-1, -2, -1}}
  local truth = capl.tensor{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}}

  it("has the average precision, F1 and exact sets of scikit-learn", function()
    local meter = train.MultilabelMeter{classes = names}
    meter:add(logits, {onehot = truth})
    local r = meter:result()
    -- a: 3 yes, 2 yes, 1 no, -1 yes: (1 + 1 + 3/4) / 3; b: 2 yes, 1 yes: 1; c: no sample has it
    assert.near(((1 + 1 + 3 / 4) / 3 + 1) / 2, r.map, 1e-12)
    -- a: found 3, both 2, meant 3: 2/3; b: 1
    assert.near((2 / 3 + 1) / 2, r.f1, 1e-12)
    assert.near(2 * 4 / (5 + 5), r.f1_micro, 1e-12)
    assert.same({4, 0.5}, {r.n, r.exact_match})
    assert.matches("^mAP 95.83 %%, F1 83.33 %%, exact match 50.00 %% %[15.00, 85.00%], n 4$", meter:line())
    assert.same({"a 91.7, b 100.0 %"}, {meter:lines()[3][2]})
    local rows = meter:write().classes
    assert.same({"a", "b"}, {rows[1].name, rows[2].name})
    local wrong = meter:samples().wrong
    assert.same({2, "a, b", "b"}, {#wrong, wrong[1].read, wrong[1].truth})
    assert.equal("none", meter.caption{read = "", truth = "a"})
  end)

  it("counts ties as one threshold, and the same in parts", function()
    local whole, parts = train.MultilabelMeter{classes = 1}, train.MultilabelMeter{classes = 1, field = "has"}
    local x, y = capl.tensor{{1}, {1}, {0}, {-90}}, capl.tensor{{1}, {0}, {1}, {0}}
    whole:add(x, {onehot = y})
    assert.near(0.5 * 1 / 2 + 0.5 * 2 / 3, whole:result().map, 1e-12)
    for i = 1, 4 do parts:add(x:narrow(1, i, 1), {has = y:narrow(1, i, 1)}) end
    assert.same(whole:result(), parts:result())
  end)

  it("finds classes from its threshold on", function()
    local meter = train.MultilabelMeter{classes = names, threshold = 0.9}
    meter:add(logits, {onehot = truth})
    assert.equal("a", meter:samples().right[1].read)
    assert.equal(0.25, meter:result().exact_match)
    raises("threshold is a probability from 0 to 1, got 2", train.MultilabelMeter, {threshold = 2})
  end)

  it("refuses other shapes and logits that are no numbers", function()
    local meter = train.MultilabelMeter{classes = names}
    raises("the model's output is (4,2); it should be (4,3): a logit of each of 3 classes", meter.add, meter,
      capl.zeros(4, 2), {onehot = truth})
    raises("the batch has no onehot", meter.add, meter, logits, {})
    meter:add(capl.full({1, 3}, 0 / 0), {onehot = truth:narrow(1, 1, 1)})
    raises("the model's output for sample 0 is not finite", meter.result, meter)
  end)
end)
