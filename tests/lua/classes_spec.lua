-- Classes: folders and lists of them, their meter, what a model file of them says.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data, train = capl.data, capl.train

local function new_folder()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir '" .. path .. "'") == 0)
  return path
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

local function first_batch(source)
  return data.loader{source = source, role = "val", batch = source:count(), workers = 0}:epoch(1)()
end

describe("classes", function()
  local root, image

  setup(function()
    root = new_folder()
    image = capl.zeros({1, 4, 6}, {dtype = "u8"})
    for i, class in ipairs{"Schäfer hund", "猫", "emu"} do
      assert(os.execute(("mkdir -p '%s/set/%s'"):format(root, class)) == 0)
      for k = 1, i do data.png_write(("%s/set/%s/%d.png"):format(root, class, k), image) end
    end
  end)

  teardown(function() os.execute("rm -rf '" .. root .. "'") end)

  it("are the names of folders, of any script, sorted", function()
    local source = data.folder(root .. "/set", {label = "folder"})
    assert.same({"Schäfer hund", "emu", "猫"}, source.classes)
    assert.equal("", source.charset)
    local batch = first_batch(source)
    assert.same({6}, batch.target:size())
    assert.same({0, 1, 1, 1, 2, 2}, batch.target:tolist())
    assert.equal(3, batch.classes)
    assert.same({6, 3}, batch.onehot:size())
    assert.same({0, 0, 1}, batch.onehot[6]:tolist())
    assert.is_nil(batch.target_length)
  end)

  it("are the labels of a list, found or given", function()
    local lines = {"path,label"}
    for i, name in ipairs{"emu/1.png", "猫/1.png", "猫/2.png"} do
      lines[i + 1] = ("set/%s,%s"):format(name, i == 1 and "a bird" or "a cat")
    end
    write(root .. "/list.csv", table.concat(lines, "\n"))
    local found = data.list(root .. "/list.csv", {classes = "auto"})
    assert.same({"a bird", "a cat"}, found.class_names)
    assert.same({0, 1, 1}, first_batch(found).target:tolist())
    local given = data.list(root .. "/list.csv", {classes = {"a cat", "a bird"}})
    assert.same({1, 0, 0}, first_batch(given).target:tolist())
    local lacking = data.list(root .. "/list.csv", {classes = {"a cat"}})
    assert.equal(1, #lacking.bad)
    assert.is_truthy(lacking.bad[1].message:find("list.csv:2: " .. root .. "/set/emu/1.png: 'a bird' is none of the 1 classes",
      1, true), lacking.bad[1].message)
  end)

  it("of val and train are the same ones in the same order", function()
    local function loader(role, names)
      return data.loader{source = data.folder(root .. "/set", {classes = names}), role = role, batch = 2, workers = 0,
        on_error = "skip"}
    end
    local function fit(names)
      local model = capl.nn.Sequential{capl.nn.Flatten(), capl.nn.Linear(24, 3)}
      train.fit{model = model, optimizer = capl.optim.SGD(model:parameters(), {lr = 0.1}), steps = 1,
        train = loader("train", {"emu", "猫", "Schäfer hund"}), val = loader("val", names),
        loss = function(output, batch) return capl.nn.cross_entropy(output, batch.target) end}
    end
    raises("the val loader has other classes than the train loader, or in another order: 3 and 3", fit,
      {"猫", "emu", "Schäfer hund"})
    raises("the val loader has other classes than the train loader, or in another order: 2 and 3", fit, {"emu", "猫"})
  end)

  it("are two at least in training, and each a folder", function()
    local function fit()
      assert(os.execute(("mkdir -p '%s/one' && cp -r '%s/set/emu' '%s/one'"):format(root, root, root)) == 0)
      local source = data.folder(root .. "/one", {label = "folder"})
      local model = capl.nn.Sequential{capl.nn.Flatten(), capl.nn.Linear(24, 1)}
      local loader = data.loader{source = source, role = "train", batch = 2, workers = 0}
      train.fit{model = model, optimizer = capl.optim.SGD(model:parameters(), {lr = 0.1}), steps = 1, train = loader,
        val = false, loss = function(output, batch) return capl.nn.cross_entropy(output, batch.target) end}
    end
    raises(root .. "/one has one class, emu: there is none to tell it from", fit)
    raises(root .. "/set/emu has no folder with images, whose name would be their class", data.folder,
      root .. "/set/emu", {label = "folder"})
  end)

  it("of two Unicode spellings of one name are refused", function()
    raises("class cafe\204\129 is named twice, in two spellings of Unicode", data.folder, root .. "/set",
      {classes = {"caf\195\169", "cafe\204\129"}})
    raises("is not UTF-8", data.folder, root .. "/set", {classes = {"emu", "\255"}})
    raises("charset is of texts, classes are names of images", data.list, root .. "/list.csv",
      {classes = "auto", charset = "a-z"})
  end)

  it("may be a thousand", function()
    local many = root .. "/many"
    local make = {}
    for k = 1, 1000 do make[k] = ("'%s/n%04d'"):format(many, k) end
    assert(os.execute("mkdir -p " .. table.concat(make, " ")) == 0)
    local png = io.open(root .. "/set/emu/1.png", "rb"):read("*a")
    for k = 1, 1000 do write(("%s/n%04d/x.png"):format(many, k), png) end
    local source = data.folder(many, {label = "folder"})
    assert.equal(1000, #source.classes)
    local batch = first_batch(source)
    for k, class in ipairs(batch.target:tolist()) do assert.equal(k - 1, class) end
    local meter = train.ClassificationMeter{classes = source.classes}
    meter:add(capl.eye(1000), batch)
    local r = meter:result()
    assert.same({1000, 1, 1}, {r.n, r.accuracy, r.top5})
    assert.is_nil(meter:write().confusion) -- nothing to show
  end)

  it("beyond 128 are drawn up by the worst confusions, the rest as other", function()
    local meter = train.ClassificationMeter{classes = 200}
    for k = 0, 99 do -- 2k as 2k + 1, the first ones more often
      for _ = 1, k < 20 and 2 or 1 do meter:count(2 * k + 1, 2 * k, 1, k, 1) end
    end
    meter:count(0, 199, 1, 100, 1)
    meter:count(7, 7, 1, 101, 0)
    meter:count(60, 60, 1, 102, 0)
    local m = meter:write().confusion
    assert.same({41, "0", "9", "other"}, {#m.labels, m.labels[1], m.labels[40], m.labels[41]})
    assert.same({2, 1, 1, 1}, {m.counts[1][2], m.counts[38][38], m.counts[41][41], m.counts[41][1]})
    assert.equal(0, m.counts[41][40])
  end)
end)

describe("the classification meter", function()
  -- scores of 7 classes for 4 samples: right; second; sixth; right
  local scores = capl.tensor{
    {9, 1, 1, 1, 1, 1, 1}, {1, 3, 2, 0, 0, 0, 0}, {7, 6, 5, 4, 3, 2, 1}, {0, 0, 0, 0, 0, 0, 4},
  }
  local target = capl.tensor({0, 2, 5, 6}, {dtype = "i32"})
  local names = {"a", "b", "c", "d", "e", "f", "g"}

  it("counts right ones, those among five, and each class", function()
    local meter = train.ClassificationMeter{classes = names}
    meter:add(scores, {target = target})
    local r = meter:result()
    assert.same({4, 0.5, 0.75}, {r.n, r.accuracy, r.top5})
    assert.equal(0.5, r.balanced_accuracy) -- recall of a, c, f, g: 1, 0, 0, 1
    assert.same({{truth = "c", read = "b", count = 1}, {truth = "f", read = "a", count = 1}}, r.confusions)
    assert.matches("^accuracy 50.00 %% %[15.00, 85.00%], top%-5 75.00 %% %[30.06, 95.44%], n 4$", meter:line())
    local confusion = meter:write().confusion
    assert.same({1, 0, 0, 0, 0, 0, 0}, confusion.counts[1])
    assert.same({0, 1, 0, 0, 0, 0, 0}, confusion.counts[3])
    local samples = meter:samples()
    assert.same({2, 2}, {#samples.wrong, #samples.right})
    assert.is_true(samples.wrong[1].confidence >= samples.wrong[2].confidence)
  end)

  it("counts the same in several batches, with numbers of samples, and as (N,1)", function()
    local whole, parts = train.ClassificationMeter{classes = names}, train.ClassificationMeter{classes = names}
    whole:add(scores, {target = target, ids = {0, 1, 2, 3}})
    parts:add(scores:narrow(1, 1, 1), {target = target:narrow(1, 1, 1), ids = {0}})
    parts:add(scores:narrow(1, 2, 3), {target = target:narrow(1, 2, 3):reshape(3, 1), ids = {1, 2, 3}})
    assert.same(whole:write(), parts:write())
  end)

  it("has no top-5 of five classes, and takes as many as the output has", function()
    local meter = train.ClassificationMeter()
    meter:add(capl.tensor{{1, 2, 3}}, {target = capl.tensor({2}, {dtype = "i32"})})
    assert.is_nil(meter:result().top5)
    assert.equal("accuracy 100.00 % [20.65, 100.00], n 1", meter:line())
    assert.equal("2 as 2", meter:name(2) .. " as " .. meter.caption(meter:samples().right[1]))
  end)

  it("refuses other shapes, labels beyond the classes and scores that are no numbers", function()
    local meter = train.ClassificationMeter{classes = names}
    raises("the model's output is (4,6); it should be (4,7): a score of each of 7 classes", meter.add, meter,
      capl.zeros(4, 6), {target = target})
    meter:add(capl.zeros(1, 7), {target = capl.tensor({7}, {dtype = "i32"})})
    raises("the label of sample 0 is class 7; the model has 7 classes, 0 to 6", meter.result, meter)
    local nan = train.ClassificationMeter{classes = names}
    nan:add(capl.full({1, 7}, 0 / 0), {target = capl.tensor({1}, {dtype = "i32"})})
    raises("the model's output for sample 0 is not finite", nan.result, nan)
  end)
end)
