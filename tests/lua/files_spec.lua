-- Sources made of files: lists, databases, folders of classes, what a path is, splits by group and by list.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function new_folder()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir '" .. path .. "'") == 0)
  return path
end

local function remove_folder(path) os.execute("rm -rf '" .. path .. "'") end

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function all_names(source)
  local out = {}
  for i = 0, source:count() - 1 do out[i + 1] = source:name(i) end
  return out
end

--- What a loader makes of a source: {targets}, {sums of pixels}
local function batch_of(source)
  local batch = data.loader{source = source, role = "val", batch = source:count(), dtype = "u8", workers = 0}:epoch(1)()
  local sums = {}
  for i = 1, source:count() do sums[i] = batch.image[i]:to("f32"):sum():item() end
  return batch.target:tolist(), sums
end

describe("sources of files", function()
  local root, dir, names

  setup(function()
    root = new_folder()
    dir = root .. "/images"
    data.save_captchas{dir = dir, count = 30, seed = 5, charset = "0-9", length = 3}
    names = all_names(data.folder(dir))
    local tsv, json, csv = {}, {}, {"id,text,image"}
    for i, name in ipairs(names) do
      local text = name:match("^%d+")
      tsv[i] = ("images/%s\t%s"):format(name, text)
      json[i] = ('{"path": "images/%s", "label": "%s"}'):format(name, text)
      csv[i + 1] = ('%d,%s,"images/%s"'):format(i, text, name)
    end
    write(root .. "/all.tsv", table.concat(tsv, "\n"))
    write(root .. "/all.jsonl", table.concat(json, "\n"))
    write(root .. "/all.csv", table.concat(csv, "\r\n"))
    data.list(root .. "/all.tsv").box:pack(root .. "/db")
  end)
  teardown(function() remove_folder(root) end)

  it("give the same batches, whether folder, list or database", function()
    local options = {charset = "0-9", length = 3}
    local targets, sums = batch_of(data.folder(dir, options))
    for _, path in ipairs{"/all.tsv", "/all.jsonl", "/all.csv", "/db", "/db/data.mdb", "/images"} do
      local other, others = batch_of(data.open(root .. path, options))
      assert.same(targets, other)
      assert.same(sums, others)
    end
  end)

  it("show by a hash whether they would give the same", function()
    local function hash(source) return source.box:hash() end
    local options = {charset = "0-9", length = 3}
    local all = data.folder(dir, options)
    local train, val = data.split(all, {val = 0.3})
    assert.matches("^%x+$", hash(all))
    assert.equal(hash(all), hash(data.folder(dir, options)))
    assert.equal(hash(val), hash(select(2, data.split(data.folder(dir, options), {val = 0.3}))))
    assert.is_true(hash(all) ~= hash(train) and hash(train) ~= hash(val))
    assert.is_true(hash(all) ~= hash(data.folder(dir,
      {charset = "0-9", length = 3, width = 80, height = 30, resize = true})))
    local function captchas(seed)
      return data.captcha{charset = "0-9", length = 2, count = 9, seed = seed, fixed = true}
    end
    assert.equal(hash(captchas(1)), hash(captchas(1)))
    assert.is_true(hash(captchas(1)) ~= hash(captchas(2)))
    local function numbers(x) return data.tensors{value = capl.full({4, 2}, x)} end
    assert.equal(hash(numbers(1)), hash(numbers(1)))
    assert.is_true(hash(numbers(1)) ~= hash(numbers(2)))
  end)

  it("are refused by a loader when their labels do not fit, with list and line", function()
    local source = data.list(root .. "/all.tsv", {charset = "1-9", length = 3})
    assert.is_true(#source.bad > 0 and #source.bad < 30)
    local text = support.error_text(data.loader, {source = source, role = "train"})
    assert.is_truthy(text:find("of 30 files have no usable label; the first: " .. root .. "/all.tsv:", 1, true), text)
    assert.is_truthy(text:find("which is not in the charset 123456789", 1, true), text)
    data.loader{source = source, role = "train", on_error = "skip", workers = 0}
  end)

  it("have options of their own and no others", function()
    raises("data.list: unknown option 'lenght'; did you mean 'length'?", data.list, root .. "/all.tsv", {lenght = 3})
    raises([[format must be one of "auto", "tsv", "jsonl", "csv", got "tabs"]], data.list, root .. "/all.tsv",
      {format = "tabs"})
    raises("separator is one character, such as ';', got ', '", data.list, root .. "/all.csv", {separator = ", "})
    raises("all.csv:1: no column is called label_1; there are: id, text, image", data.list, root .. "/all.csv",
      {label = "label_1"})
    raises("data.lmdb: unknown option 'label'", data.lmdb, root .. "/db", {label = "x"})
    raises("/images: is no LMDB database: the folder has no file data.mdb", data.lmdb, dir)
    local source = data.list(root .. "/all.csv",
      {path = "image", label = "id", charset = "0-9", length = 2, variable = true})
    assert.equal("30", source:text(29))
    assert.equal(0, #source.bad)
  end)

  describe("by folder", function()
    local classes_dir

    setup(function()
      classes_dir = root .. "/classes"
      for i, name in ipairs(names) do
        local class = ({"cat", "dog", "emu"})[i % 3 + 1]
        os.execute(("mkdir -p '%s/%s' && cp '%s/%s' '%s/%s/%d.png'"):format(classes_dir, class, dir, name, classes_dir,
          class, i))
      end
    end)

    it("make each folder a class, numbered by name", function()
      local source = data.folder(classes_dir, {label = "folder"})
      assert.same({"cat", "dog", "emu"}, source.classes)
      assert.equal(1, source.length)
      local targets = batch_of(source)
      for i, name in ipairs(all_names(source)) do
        assert.equal(({cat = 0, dog = 1, emu = 2})[name:match("^%a+")], targets[i])
      end
      local train, val = data.split(source, {val = 0.3})
      assert.same(source.classes, train.classes)
      assert.equal(30, train:count() + val:count())
    end)

    it("keep the order that another set has, and name what is in no class", function()
      local source = data.folder(classes_dir, {classes = {"emu", "cat"}})
      assert.equal(10, #source.bad)
      assert.is_truthy(source.bad[1].message:find("/dog/1.png: 'dog' is none of the 2 classes", 1, true),
        source.bad[1].message)
      raises("class cat is named twice", data.folder, classes_dir, {classes = {"cat", "cat"}})
    end)

    it("read the folder's name as a text where there is a charset", function()
      local source = data.folder(classes_dir, {label = "folder", charset = "a-z", length = 3})
      assert.is_nil(source.classes)
      assert.equal("cat", source:text(0))
      assert.equal(0, #source.bad)
      assert.same({2, 0, 19}, (batch_of(source))[1])
    end)

    it("say when no file lies in a folder", function()
      raises('the label rule "folder" fits none of the 30 files', data.folder, dir,
        {label = "folder", charset = "a-z", length = 3})
    end)
  end)

  describe("in parts", function()
    local source

    setup(function() source = data.list(root .. "/all.tsv", {charset = "0-9", length = 3}) end)

    it("keep all samples of a group together", function()
      local train, val, test = data.split(source, {val = 0.3, test = 0.2, group = "/(%d)"})
      local part_of, count = {}, 0
      for part, one in ipairs{train, val, test} do
        for _, name in ipairs(all_names(one)) do
          local group = name:match("/(%d)")
          assert.is_true(part_of[group] == nil or part_of[group] == part)
          part_of[group], count = part, count + 1
        end
      end
      assert.equal(30, count)
      local _, again = data.split(source,
        {val = 0.3, test = 0.2, group = function(name) return name:match("/(%d)") end})
      assert.same(all_names(val), all_names(again))
      local _, by_label = data.split(source,
        {val = 0.3, test = 0.2, group = function(_, text) return text:sub(1, 1) end})
      assert.same(all_names(val), all_names(by_label))
    end)

    it("are those that a list names, with the rest for training", function()
      local wanted = {"images/" .. names[3], "images/" .. names[20]}
      write(root .. "/val.txt", wanted[1] .. "\r\n" .. wanted[2] .. "\tlabel\n")
      local train, val = data.split(source, {val = root .. "/val.txt"})
      assert.same(wanted, all_names(val))
      assert.equal(28, train:count())
      local rest, first, second = data.split(source, {val = {wanted[2]}, test = {wanted[1]}})
      assert.same({28, wanted[2], wanted[1]}, {rest:count(), first:name(0), second:name(0)})
    end)

    it("are refused where they would overlap, or a rule or a name does not fit", function()
      local name = "images/" .. names[1]
      raises("is named for val and for test", data.split, source, {val = {name}, test = {name}})
      raises("val names none.png, which the source does not have", data.split, source, {val = {"none.png"}})
      raises("the group rule '^(x)' does not fit images/", data.split, source, {group = "^(x)"})
      raises("group = '(' is no Lua pattern", data.split, source, {group = "("})
      raises("group is a Lua pattern or a function(path), not a number", data.split, source, {group = 3})
      raises("val and test are both lists of names, without a group, or both shares", data.split, source,
        {val = {name}, test = 0.1})
    end)

    it("carry the bad labels of their own samples", function()
      local strict = data.list(root .. "/all.tsv", {charset = "0-7", length = 3})
      local train, val = data.split(strict, {val = 0.4})
      assert.equal(#strict.bad, #train.bad + #val.bad)
      for _, bad in ipairs(val.bad) do assert.equal(val:name(bad.id), bad.name) end
    end)
  end)

  it("are found again by what they show", function()
    local png = data.image_read(dir .. "/" .. names[1])
    assert.same({1, 3, 60, 160}, {png:size(1), png:size(2), png:size(3), png:size(4)})
    local box = data.folder(dir).box
    local scan = box:scan{pixels = true, threads = 2}
    assert.same({}, scan:same(false))
    local other = data.open(root .. "/db").box:scan{pixels = true, threads = 1}
    assert.equal(60, #scan:same(other, false))
    assert.same({}, scan:same(other, true))
    local bytes, format, width, height, channels = scan:facts(0)
    assert.is_true(bytes > 100)
    assert.same({"PNG", 160, 60, 3}, {format, width, height, channels})
    raises("this source has no files", data.captcha{count = 3}.box.scan, data.captcha{count = 3}.box)
  end)
end)
