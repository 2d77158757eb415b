-- Masks, target images, points, boxes and numbers in files: beside images, in lists, damaged, and as generated scenes
-- are written.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function read(source, opts)
  opts = opts or {}
  return data.loader{source = source, role = "val", batch = source:count(), dtype = "u8", workers = opts.workers or 0,
    augment = opts.augment}:epoch(1)()
end

--- An image or mask of rows of levels.
local function png(path, rows) data.png_write(path, capl.tensor({rows}):to("u8")) end

local function constant(width, height, level)
  local rows = {}
  for y = 1, height do
    rows[y] = {}
    for x = 1, width do rows[y][x] = level end
  end
  return rows
end

describe("fields in files", function()
  local root

  before_each(function()
    root = os.tmpname()
    os.remove(root)
    assert(os.execute("mkdir '" .. root .. "' '" .. root .. "/masks'") == 0)
  end)
  after_each(function() os.execute("rm -rf '" .. root .. "'") end)

  local function image(name, width, height) png(root .. "/" .. name, constant(width or 4, height or 2, 9)) end
  local function mask(name, rows) png(root .. "/" .. name, rows) end

  describe("target images", function()
    it("lie beside images or below another folder, and are no images of the set", function()
      image "a.png"
      mask("a_clean.png", {{0, 51, 102, 153}, {204, 255, 0, 0}})
      local source = data.folder(root, {target_image = "_clean.png"})
      assert.equal(1, source:count())
      assert.same({1, 1, 2, 4}, read(source).target_image.shape)
      local want, hash = {{0, 0.2, 0.4, 0.6}, {0.8, 1, 0, 0}}, source.box:hash()
      for y, row in ipairs(read(source).target_image:tolist()[1][1]) do
        for x, level in ipairs(row) do assert.near(want[y][x], level, 1e-6) end
      end
      mask("a_clean.png", {{255, 51, 102, 153}, {204, 255, 0, 0}})
      assert.not_equal(hash, data.folder(root, {target_image = "_clean.png"}).box:hash())
      os.execute(("mv '%s/a_clean.png' '%s/masks/a.png' && mkdir '%s/set' && mv '%s/a.png' '%s/set'"):format(root, root,
        root, root, root))
      local rgb = data.folder(root .. "/set", {target_image = {root = root .. "/masks", file = ".png", channels = 3}})
      local target = read(rgb).target_image
      assert.same({1, 3, 2, 4}, target.shape)
      assert.same(target:narrow(2, 1, 1):tolist(), target:narrow(2, 3, 1):tolist())
      local large = data.folder(root .. "/set", {target_image = {root = root .. "/masks", file = ".png"}, width = 8,
        height = 4, resize = true})
      assert.same({1, 1, 4, 8}, read(large).target_image.shape)
    end)

    it("are refused where they are missing, of another size, would not move, or would be lost", function()
      image "a.png"
      local source = data.folder(root, {target_image = "_clean.png"})
      raises("it is the target image of " .. root .. "/a.png", read, source)
      image("a_clean.png", 4, 3)
      raises("a_clean.png: the target image is 4 x 3 px, but its image " .. root .. "/a.png is 4 x 2", read, source)
      raises("augment: rotate moves the image, and target_image stays where it is", data.loader, {source = source,
        role = "train", batch = 1, augment = {rotate = {-5, 5}}})
      raises("target images are of images of one size", data.folder, root, {target_image = "_clean.png", height = 2,
        widths = {4, 8}})
      raises("a target image has 1 or 3 channels, not 2", data.folder, root,
        {target_image = {file = "_clean.png", channels = 2}})
      raises("target_image names a file", data.folder, root, {target_image = {}})
      raises("numbers cannot be called target_image", data.folder, root, {numbers = {target_image = "x"}})
    end)

    it("stand in a column of a list, and lie in databases", function()
      image "a.png"
      mask("masks/t.png", {{0, 51, 102, 153}, {204, 255, 0, 0}})
      write(root .. "/l.csv", "path,clean\na.png,masks/t.png\n")
      write(root .. "/l.tsv", "path\tclean\na.png\tmasks/t.png\n")
      write(root .. "/l.jsonl", '{"path": "a.png", "clean": "t.png"}\n')
      local want = read(data.list(root .. "/l.csv", {target_image = "clean"})).target_image:tolist()
      assert.near(0.2, want[1][1][1][2], 1e-6)
      assert.same(want, read(data.list(root .. "/l.tsv", {target_image = {column = "clean"}})).target_image:tolist())
      local source = data.list(root .. "/l.jsonl", {target_image = {column = "clean", root = root .. "/masks"}})
      assert.same(want, read(source).target_image:tolist())
      os.execute(("cp '%s/masks/t.png' '%s/a_t.png'"):format(root, root))
      assert.same(want, read(data.list(root .. "/l.csv", {target_image = {file = "_t.png"}})).target_image:tolist())
      source.box:pack(root .. "/db")
      local database = data.lmdb(root .. "/db", {target_image = true})
      assert.same(want, read(database).target_image:tolist())
      local rgb = data.open(root .. "/db", {target_image = {file = "_t.png", channels = 3}})
      assert.same({1, 3, 2, 4}, read(rgb).target_image.shape)
      local least, greatest, mean = database.box:target_levels(0)
      assert.same({0, 1, 383}, {least, greatest, math.floor(mean * 8 * 255 / 2 + 0.5)})
      data.list(root .. "/l.csv", {target_image = "clean", mask = {file = "_t.png"}}).box:pack(root .. "/both")
      local both = read(data.lmdb(root .. "/both", {target_image = true, mask = true}))
      assert.same({want, {{0, 51, 102, 153}, {204, 255, 0, 0}}}, {both.target_image:tolist(), both.mask:tolist()[1]})
    end)

    it("of lists and databases are refused by file, line and record", function()
      image "a.png"
      image("b.png", 4, 3)
      write(root .. "/c.png", "no image")
      local function of(path)
        write(root .. "/l.csv", "path,t\na.png," .. path .. "\n")
        return function() read(data.list(root .. "/l.csv", {target_image = "t"})) end
      end
      raises("l.csv:2: " .. root .. "/gone.png: ", of "gone.png")
      raises("hint: it is the target image of " .. root .. "/a.png", of "gone.png")
      raises("l.csv:2: " .. root .. "/b.png: the target image is 4 x 3 px, but its image " .. root .. "/a.png is 4 x 2",
        of "b.png")
      raises("l.csv:2: " .. root .. "/c.png: ", of "c.png")
      raises("l.csv:2: the path of the target image is empty", of "")
      raises('l.csv:1: no column is called u', data.list, root .. "/l.csv", {target_image = "u"})
      raises("target_image names a column, or a file", data.list, root .. "/l.csv", {target_image = {}})
      write(root .. "/l.jsonl", '{"path": "a.png", "t": 3}\n')
      raises('l.jsonl:1: "t" is no text; write "t": "a_target.png"', data.list, root .. "/l.jsonl", {target_image = "t"})
      write(root .. "/l.csv", "path\na.png\n")
      data.list(root .. "/l.csv").box:pack(root .. "/bare")
      raises("bare: record 1: there is no target-000000001", data.lmdb, root .. "/bare", {target_image = true})
    end)
  end)

  describe("masks", function()
    it("lie beside images, and are no images", function()
      image "a.png"
      image "b.png"
      mask("a_mask.png", {{0, 1, 2, 3}, {4, 5, 6, 255}})
      mask("b_mask.png", {{1, 1, 1, 1}, {2, 2, 2, 2}})
      local source = data.folder(root, {mask = "_mask.png"})
      assert.equal(2, source:count())
      assert.same({{{0, 1, 2, 3}, {4, 5, 6, 255}}, {{1, 1, 1, 1}, {2, 2, 2, 2}}}, read(source).mask:tolist())
      assert.same({{name = "mask", kind = "mask"}}, source.box:fields())
    end)

    it("lie below another folder, in columns, with levels for classes", function()
      image "a.png"
      mask("masks/a.png", {{0, 128, 128, 0}, {255, 0, 0, 7}})
      os.execute(("mkdir '%s/set' && mv '%s/a.png' '%s/set'"):format(root, root, root))
      local o = {root = root .. "/masks", file = ".png", classes = {"sky", "road", "car", "x"},
        values = {0, 128, 255, 7}}
      local source = data.folder(root .. "/set", {mask = o})
      local expected = {{{0, 1, 1, 0}, {2, 0, 0, 3}}}
      assert.same(expected, read(source).mask:tolist())
      assert.same({"sky", "road", "car", "x"}, source.mask_classes)
      assert.is_nil(source.classes)
      write(root .. "/l.csv", "image,seg\nset/a.png,masks/a.png\n")
      source = data.list(root .. "/l.csv", {mask = {column = "seg", values = {0, 128, 255, 7}}})
      assert.same(expected, read(source).mask:tolist())
      assert.equal(4, source.mask_classes)
      write(root .. "/l.tsv", "path\tseg\nset/a.png\tmasks/a.png\n")
      local levels = {{{0, 128, 128, 0}, {255, 0, 0, 7}}}
      assert.same(levels, read(data.list(root .. "/l.tsv", {mask = "seg"})).mask:tolist())
      write(root .. "/l.jsonl", '{"path": "set/a.png", "seg": "masks/a.png"}\n')
      assert.same(levels, read(data.list(root .. "/l.jsonl", {mask = "seg"})).mask:tolist())
    end)

    it("become the size of their image by the nearest pixel", function()
      image "a.png"
      mask("a_mask.png", {{0, 1, 2, 3}, {4, 5, 6, 7}})
      local big = data.folder(root, {mask = "_mask.png", width = 8, height = 4, resize = true})
      assert.same({{{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 1, 1, 2, 2, 3, 3}, {4, 4, 5, 5, 6, 6, 7, 7},
        {4, 4, 5, 5, 6, 6, 7, 7}}}, read(big).mask:tolist())
      local small = data.folder(root, {mask = "_mask.png", width = 2, height = 1, resize = true})
      assert.same({{{5, 7}}}, read(small).mask:tolist())
    end)

    it("are the same for any number of threads, in parts, and turn with their image", function()
      for i = 1, 24 do
        image(("%02d.png"):format(i))
        mask(("%02d_mask.png"):format(i), {{i, 1, 2, 3}, {4, 5, 6, 7}})
      end
      local source = data.folder(root, {mask = "_mask.png"})
      local first = read(source).mask:tolist()
      assert.same(first, read(source, {workers = 3}).mask:tolist())
      local _, val = data.split(source, {val = {"03.png", "05.png"}})
      assert.same({first[3], first[5]}, read(val).mask:tolist())
      local flipped = data.loader{source = source, role = "train", batch = 24, dtype = "u8", workers = 1,
        shuffle = false, augment = {flip = 1, flip_swaps = {}}}:epoch(1)()
      assert.same({3, 2, 1, 1}, flipped.mask:tolist()[1][1])
    end)

    it("are as wide as their image where widths differ, and so are points", function()
      local expected = {
        {{{0, 1, 2, 255}, {3, 4, 5, 255}}, {{3, 2, 1}}}, {{{9, 9, 8, 8}, {9, 9, 8, 8}}, {{4, 2, 1}}},
        {{{1, 1, 1, 1, 1, 1, 1, 7}, {2, 2, 2, 2, 2, 2, 2, 2}}, {{0, 1, 1}}}}
      local files = {{3, 2, {{0, 1, 2}, {3, 4, 5}}, "[3, 2]"}, {2, 1, {{9, 8}}, "[2, 1]"},
        {8, 2, expected[3][1], "[0, 1]"}}
      for i = 1, 24 do
        local of = files[(i - 1) % 3 + 1]
        image(("%02d.png"):format(i), of[1], of[2])
        mask(("%02d_mask.png"):format(i), of[3])
        write(("%s/%02d.json"):format(root, i), ('{"p": %s, "id": %d}'):format(of[4], i))
      end
      local source = data.folder(root, {mask = "_mask.png", points = "p", numbers = {id = "id"}, height = 2,
        widths = {4, 8}})
      source.box:pack(root .. "/db")
      local database = data.lmdb(root .. "/db", {mask = true, points = "p", numbers = {id = "id"}, height = 2,
        widths = {4, 8}})
      for _, cache in ipairs{"none", "ram", "disk"} do
        for _, set in ipairs{source, database} do
          local loader = data.loader{source = set, role = "train", batch = 4, workers = 2, cache = cache, dtype = "u8",
            cache_dir = cache == "disk" and root .. "/cache" or nil, drop_last = false}
          for epoch = 1, 2 do
            local seen = 0
            for batch in loader:epoch(epoch) do
              local mask_of, points, id = batch.mask:tolist(), batch.points:tolist(), batch.id:reshape(-1):tolist()
              for k = 1, #id do
                assert.same(expected[(id[k] - 1) % 3 + 1], {mask_of[k], points[k]})
                seen = seen + 1
              end
            end
            assert.equal(24, seen)
          end
        end
      end
      local flipped = data.loader{source = source, role = "train", batch = 8, workers = 1, dtype = "u8",
        augment = {flip = 1, flip_swaps = {}, flip_points = {}}}
      for batch in flipped:epoch(1) do
        for k, rows in ipairs(batch.mask:tolist()) do
          local id, row = batch.id:reshape(-1):tolist()[k], {}
          for _, class in ipairs(expected[(id - 1) % 3 + 1][1][1]) do table.insert(row, 1, class) end
          assert.same(row, rows[1])
        end
      end
      local _, _, fields = source.box:read(0, 2)
      assert.same({expected[3][1]}, fields.mask:tolist())
    end)

    it("are several files, one for each part, in folders below each other", function()
      assert(os.execute("mkdir -p '" .. root .. "/set/b' '" .. root .. "/parts/0' '" .. root .. "/parts/1'") == 0)
      image("set/7.png", 8, 4)
      image("set/b/0010.png", 4, 2)
      mask("parts/0/00007_skin.png", {{255, 255, 255, 0}, {0, 200, 127, 0}})
      mask("parts/1/00007_l_eye.png", {{0, 255, 0, 0}, {0, 0, 0, 255}})
      mask("parts/1/00010_hair.png", {{0, 0, 0, 255}, {0, 0, 0, 255}})
      local o = {parts = {"skin", "hair", "l_eye"}, root = root .. "/parts", classes = {"none", "skin", "hair", "eye"}}
      local source = data.folder(root .. "/set", {mask = o, width = 4, height = 2, resize = true})
      assert.same({{{1, 3, 1, 0}, {0, 1, 0, 3}}, {{0, 0, 0, 2}, {0, 0, 0, 2}}}, read(source).mask:tolist())
      assert.same({"none", "skin", "hair", "eye"}, source.mask_classes)
      local counts = source.box:mask_counts(0)
      assert.same({4 - 1, 3, 2}, {counts[0], counts[1], counts[3]})
    end)

    it("of parts say which file is wrong, and what to do", function()
      assert(os.execute("mkdir -p '" .. root .. "/set' '" .. root .. "/parts'") == 0)
      image("set/7.png", 4, 2)
      local function of(parts, more)
        return function()
          local o = {parts = parts or {"skin", "hair"}, root = root .. "/parts"}
          for key, value in pairs(more or {}) do o[key] = value end
          read(data.folder(root .. "/set", {mask = o}))
        end
      end
      raises(("%s/set/7.png: %s/parts has no part of it, such as 7_skin.png"):format(root, root), of())
      raises("every image has one part at least", of())
      mask("parts/7_skin.png", {{255, 0, 0, 0}, {0, 0, 0, 0}})
      mask("parts/07_hair.png", {{255, 0}, {0, 0}})
      raises(("%s/parts/07_hair.png: the part is 2 x 2 px, but %s/parts/7_skin.png is 4 x 2"):format(root, root), of())
      mask("parts/7_skin.png", {{255, 0}, {0, 0}})
      raises(("7_skin.png: the part is 2 x 2 px, and its image %s/set/7.png is 4 x 2: other proportions"):format(root),
        of())
      mask("parts/7_nose.png", {{255, 0, 0, 0}, {0, 0, 0, 0}})
      raises(root .. "/parts/7_nose.png: its name ends in none of the 2 parts", of())
      raises("parts of mask has, in the order of their classes: skin, hair", of())
      raises("mask has 2 parts and 2 classes", of(nil, {classes = {"skin", "hair"}}))
      raises("parts and file of mask exclude each other", of(nil, {file = ".png"}))
      raises("/none: cannot be listed", of(nil, {root = root .. "/none"}))
    end)

    it("say which file is wrong, and what to do", function()
      image "a.png"
      local function of(o) return function() return read(data.folder(root, {mask = o or "_mask.png"})) end end
      raises("a_mask.png: ", of())
      raises("it is the mask of " .. root .. "/a.png: every image has one", of())
      mask("a_mask.png", {{0, 1}, {1, 2}})
      raises(("%s/a_mask.png: the mask is 2 x 2 px, but its image %s/a.png is 4 x 2"):format(root, root), of())
      mask("a_mask.png", {{0, 1, 3, 0}, {0, 0, 0, 0}})
      raises("a_mask.png: level 3 at x = 2, y = 0 is none of the 3 classes", of{file = "_mask.png", classes = 3})
      raises("level 1 at x = 1, y = 0 is none of the 2 classes", of{file = "_mask.png", values = {0, 3}})
      write(root .. "/a_mask.png", "no image")
      raises("a_mask.png: ", of())
      data.png_write(root .. "/a_mask.png", capl.zeros({3, 2, 4}, {dtype = "u8"}))
      raises("a_mask.png: the PNG has colours without a palette, which is no mask", of())
    end)

    it("refuse options that say nothing", function()
      image "a.png"
      local function of(o) return function() return data.folder(root, {mask = o}) end end
      raises("unknown option 'clases'; did you mean 'classes'?", of{file = "_m.png", clases = 3})
      raises("mask names a file", of{column = "m"})
      raises("mask has 2 classes, but values has 3 levels", of{file = "_m.png", classes = {"a", "b"}, values = {0, 1, 2}})
      raises("values of mask has 7 twice", of{file = "_m.png", values = {7, 7}})
      raises("value 2 of mask is no level", of{file = "_m.png", values = {7, 256}})
      raises("classes of mask must be a whole number from 1 to 256", of{file = "_m.png", classes = 257})
      write(root .. "/l.csv", "path\na.png\n")
      raises("l.csv:1: no column is called seg; there are: path", function() data.list(root .. "/l.csv", {mask = "seg"}) end)
    end)
  end)

  describe("labels in files beside images", function()
    before_each(function()
      image "a.png"
      image "b.png"
    end)

    it("are texts, or names of classes", function()
      write(root .. "/a.txt", "\229\136\152A\r\n")
      write(root .. "/b.txt", " B\n\n")
      local source = data.folder(root, {label = ".txt", charset = "auto", length = "auto"})
      assert.same({{2, 0}, {1, -1}}, {read(source).target:tolist()[1], read(source).target:tolist()[2]})
      assert.equal("AB\229\136\152", source.charset)
      write(root .. "/a.json", '{"class": "dog", "n": 7, "p": [1, 1]}')
      write(root .. "/b.json", '{"class": "cat", "n": 8, "p": []}')
      source = data.folder(root, {label = ".json", classes = "auto", points = "p", numbers = "n"})
      assert.same({"cat", "dog"}, source.classes)
      local batch = read(source)
      assert.same({1, 0}, batch.target:tolist())
      assert.same({{7}, {8}}, batch.numbers:tolist())
      assert.same({"7", "8"}, data.folder(root, {label = ".json:n", classes = "auto"}).classes)
      source = data.open(root, {label = ".json", classes = {"dog", "bird"}})
      assert.same("dog", source:text(0))
      assert.equal(root .. "/b.png: 'cat' is none of the 2 classes", source.bad[1].message)
    end)

    it("name the file and what to do", function()
      local function of(o) return function() data.folder(root, o) end end
      local txt, json = {label = ".txt", charset = "auto"}, {label = ".json", classes = "auto"}
      raises('label = ".txt" needs a charset, or classes', of{label = ".txt"})
      write(root .. "/a.txt", "A")
      raises(root .. "/b.txt: cannot be read: No such file or directory", of(txt))
      raises("hint: it is the label of " .. root .. "/b.png: every image has one; write it, or move the image away", of(txt))
      write(root .. "/b.txt", "B\nC\n")
      raises(root .. "/b.txt:2: the file has a second line; the label of an image is one line", of(txt))
      write(root .. "/b.txt", "\196\227")
      raises(root .. "/b.txt:1: the label is no UTF-8", of(txt))
      raises("hint: write it in UTF-8: 'iconv -f GB18030 -t UTF-8' converts Chinese texts", of(txt))
      write(root .. "/a.json", '{"kind": "dog"}')
      raises(root .. '/a.json: has no key "label"', of(json))
      raises('hint: label = ".json:KEY" names another key', of(json))
      write(root .. "/a.json", '{"label": 1.5}')
      raises(root .. '/a.json: "label" is neither a text nor a whole number', of(json))
      write(root .. "/a.json", '{"label": "a",}')
      raises(root .. "/a.json:1:", of(json))
    end)
  end)

  it("JSON files are read as tables", function()
    write(root .. "/a.json", '{"a": [1, {"b": "é"}], "c": null, "d": true}')
    assert.same({a = {1, {b = "é"}}, d = true}, data.read_json(root .. "/a.json"))
    write(root .. "/a.json", '{"a": [1,\n }')
    raises(root .. "/a.json: ", data.read_json, root .. "/a.json")
    raises(root .. "/b.json", data.read_json, root .. "/b.json")
  end)

  --- Fails unless two sources have equal samples, to the bit.
  local function assert_same_samples(a, b)
    for id = 0, b:count() - 1 do
      local pixels, _, fields = a.box:read(0, id)
      local pixels_b, _, fields_b = b.box:read(0, id)
      assert.same(pixels:tolist(), pixels_b:tolist())
      for name, t in pairs(fields) do assert.same({name, t:tolist()}, {name, fields_b[name]:tolist()}) end
      for name in pairs(fields_b) do assert(fields[name], name) end
    end
  end

  describe("generated scenes", function()
    it("read back as they were: masks", function()
      local drawn = data.faces{size = 64, seed = 3}
      data.save_scenes{source = drawn, dir = root .. "/faces", count = 3}
      local files = data.folder(root .. "/faces",
        {mask = {file = "_mask.png", classes = data.face_classes}, channels = 3})
      assert.equal(3, files:count())
      assert_same_samples(drawn, files)
    end)

    it("read back as they were: points, boxes and numbers", function()
      local drawn = data.slider{seed = 3}
      data.save_scenes{source = drawn, dir = root .. "/slider", count = 20}
      local files = data.list(root .. "/slider/labels.jsonl",
        {points = "points", boxes = "boxes", numbers = {angle = "angle", facts = "facts"}, channels = 3})
      assert.equal(20, files:count())
      assert_same_samples(drawn, files)
      assert.same(20, data.open(root .. "/slider", {points = "points"}):count()) -- labels.jsonl is found
    end)
  end)

  describe("databases", function()
    --- Packs a set and fails unless the database gives the same samples with the same options.
    local function packed(path, opts)
      local files = data.open(path, opts)
      os.execute("rm -rf '" .. root .. "/db'")
      files.box:pack(root .. "/db")
      local database = data.open(root .. "/db", opts)
      assert.equal(files:count(), database:count())
      assert_same_samples(files, database)
      return database
    end

    it("hold masks with the levels of their files", function()
      data.save_scenes{source = data.faces{size = 64, seed = 3}, dir = root .. "/faces", count = 3}
      packed(root .. "/faces", {mask = {file = "_mask.png", classes = data.face_classes}, channels = 3})
      image "a.png"
      mask("a_mask.png", {{0, 128, 128, 0}, {255, 0, 0, 7}})
      os.execute(("rm -r '%s/faces' '%s/masks'"):format(root, root))
      local database = packed(root, {mask = {file = "_mask.png", classes = {"a", "b", "c", "d"},
        values = {0, 128, 255, 7}}})
      assert.same({{{0, 1, 1, 0}, {2, 0, 0, 3}}}, read(database).mask:tolist())
      assert.same({"a", "b", "c", "d"}, database.mask_classes)
      assert.same({{{0, 128, 128, 0}, {255, 0, 0, 7}}}, read(data.lmdb(root .. "/db", {mask = true})).mask:tolist())
      raises("db: mask-000000001: level 128 at x = 1, y = 0 is none of the 3 classes",
        function() read(data.lmdb(root .. "/db", {mask = {classes = 3}})) end)
    end)

    it("hold points, boxes and numbers of JSON, those of each key", function()
      data.save_scenes{source = data.slider{seed = 3}, dir = root .. "/slider", count = 5}
      local places = {points = "points", boxes = "boxes", channels = 3}
      places.numbers = {"angle", "facts"}
      packed(root .. "/slider", places)
      places.numbers = {angle = "angle", facts = "facts"}
      assert_same_samples(data.open(root .. "/slider", places), data.open(root .. "/db", places))
    end)

    it("hold points, boxes and numbers of columns", function()
      image "a.png"
      image "b.png"
      write(root .. "/l.csv", "path,label,x1,y1,x 2,y2,l,t,r,b,pm,temp\n" ..
        "a.png,q,0,0,4,2,0,0.5,2,1,7,-1.5\nb.png,w,1.5,1,,,,,,,8,0.1\n")
      local database = packed(root .. "/l.csv", {points = {"x1 y1", {"x 2", "y2"}}, boxes = {"l t r b"},
        numbers = {"pm", "temp"}, classes = "auto"})
      assert.same({0, 1}, read(database).target:tolist())
      write(root .. "/m.csv", "path,x,y,v\na.png,9,9,0\nb.png,1,1,1\n")
      packed(root .. "/m.csv", {points = {"x y v"}})
      write(root .. "/n.jsonl", '{"path": "a.png", "p": [[1, 1], [2, 2]], "q": [], "n": [1, 2], "m": 3}\n' ..
        '{"path": "b.png", "p": [], "q": [[3, 1, 0]], "n": 1, "m": [2, 3]}\n')
      packed(root .. "/n.jsonl", {points = {"p", "q"}, numbers = {"n", "m"}})
    end)

    it("say which record lacks what, and what to do", function()
      image "a.png"
      write(root .. "/a.json", '{"n": 1, "p": [9, 9]}')
      data.folder(root, {numbers = "n", points = "p"}).box:pack(root .. "/db")
      local function of(o) return function() return read(data.lmdb(root .. "/db", o)) end end
      raises("db: record 1: there is no mask-000000001", of{mask = true})
      raises("hint: mask needs one for each record; 'capl data pack' with the options of the files writes them",
        of{mask = true})
      raises('db: fields-000000001: has no key "m"', of{numbers = "m"})
      raises("db: image-000000001: row 1 of points is 9, 9: outside the image of 4 x 2 px", of{points = "p"})
      data.folder(root).box:pack(root .. "/bare")
      raises("bare: record 1: there is no fields-000000001", function() data.lmdb(root .. "/bare", {points = "p"}) end)
      raises("data.lmdb: mask: unknown option 'file'", of{mask = {file = "_m.png"}})
      raises("n is a column or key of two numbers; a database needs one for each", function()
        data.folder(root, {numbers = {a = "n", b = "n"}}).box:pack(root .. "/twice") end)
    end)
  end)

  describe("points, boxes and numbers", function()
    local function list(text, o, name)
      write(root .. "/" .. (name or "l.csv"), text)
      return data.list(root .. "/" .. (name or "l.csv"), o)
    end

    it("are columns of a list", function()
      image "a.png"
      image "b.png"
      local o = {points = {"x1 y1", {"x 2", "y2"}}, boxes = {"l t r b"}, numbers = {"pm", "temp"}}
      for name, separator in pairs{["l.csv"] = ",", ["l.tsv"] = "\t"} do
        local text = ("path,x1,y1,x 2,y2,l,t,r,b,pm,temp\n" ..
          "a.png,0,0,4,2,0,0.5,2,1,7,-1.5\nb.png,1.5,1,,,,,,,8,1e-3\n"):gsub(",", separator)
        local batch = read(list(text, o, name))
        assert.same({{{0, 0, 1}, {4, 2, 1}}, {{1.5, 1, 1}, {0, 0, 0}}}, batch.points:tolist())
        assert.same({{{0, 0.5, 2, 1, 0}}, {{0, 0, 0, 0, -1}}}, batch.boxes:tolist())
        assert(support.close({{7, -1.5}, {8, 1e-3}}, batch.numbers:tolist()))
      end
      local seen = read(list("path,x,y,v\na.png,9,9,0\nb.png,1,1,1\n", {points = {"x y v"}})).points:tolist()
      assert.same({{{9, 9, 0}}, {{1, 1, 1}}}, seen)
    end)

    it("are keys of JSON lines, and of files beside images", function()
      image "a.png"
      image "b.png"
      local a = '"eyes": [[1, 1], null_point], "box": [[0, 0, 1, 1, 3], [1, 0, 2, 2, 0]], "angle": -0.5, "air": [1, [2, 3]]'
      a = a:gsub("null_point", "[null, 2]")
      local b = '"eyes": [2, 2], "box": [], "angle": 7, "air": [4, 5, 6]'
      write(root .. "/a.json", "{" .. a .. "}")
      write(root .. "/b.json", "{" .. b .. "}")
      local o = {points = "eyes", boxes = "box", numbers = {angle = "angle", weather = {"air"}}}
      local lines = ('{"path": "a.png", %s}\n{"path": "b.png", %s}\n'):format(a, b)
      for _, source in ipairs{data.folder(root, o), list(lines, o, "l.jsonl")} do
        local batch = read(source)
        assert.same({{{1, 1, 1}, {0, 0, 0}}, {{2, 2, 1}, {0, 0, 0}}}, batch.points:tolist())
        assert.same({{{0, 0, 1, 1, 3}, {1, 0, 2, 2, 0}}, {{0, 0, 0, 0, -1}, {0, 0, 0, 0, -1}}}, batch.boxes:tolist())
        assert.same({{-0.5}, {7}}, batch.angle:tolist())
        assert.same({{1, 2, 3}, {4, 5, 6}}, batch.weather:tolist())
      end
    end)

    it("move with an image that is resized", function()
      image "a.png"
      local source = list("path,x,y,l,t,r,b\na.png,1,1,0,0,2,2\n",
        {points = {"x y"}, boxes = {"l t r b"}, width = 8, height = 6, resize = true})
      local batch = read(source)
      assert.same({{{2, 3, 1}}}, batch.points:tolist())
      assert.same({{{0, 0, 4, 6, 0}}}, batch.boxes:tolist())
    end)

    it("say line and column of what is wrong", function()
      image "a.png"
      image "b.png"
      local function of(text, o, name) return function() return read(list(text, o, name)) end end
      local numbers, points = {numbers = {"n"}}, {points = {"x y"}}
      raises("l.csv:1: no column is called n; there are: path, m", of("path,m\na.png,1\n", numbers))
      raises("l.csv:3: n is missing or not a number", of("path,n\na.png,1\nb.png,\n", numbers))
      raises("l.csv:2: n is missing or not a number", of("path,n\na.png,nan\n", numbers))
      raises("l.csv:2: ", of("path,n\na.png,seven\n", numbers))
      raises("l.csv:2: n is 1e+300; numbers are finite", of("path,n\na.png,1e300\n", numbers))
      raises("l.csv:3: " .. root .. "/b.png: row 1 of points is 4.5, 1: outside the image of 4 x 2 px",
        of("path,x,y\na.png,4,2\nb.png,4.5,1\n", points))
      raises("no box within the image of 4 x 2 px", of("path,l,t,r,b\na.png,2,0,1,1\n", {boxes = {"l t r b"}}))
      raises("points of a table are several columns each, not x alone", of("path,x\na.png,1\n", {points = "x"}))
      raises("no sample has points", of('{"path": "a.png", "p": []}\n', {points = "p"}, "l.jsonl"))
      local function line(text, o) return of('{"path": "a.png", ' .. text .. "}\n", o, "l.jsonl") end
      raises('l.jsonl:1: has no key "n"', line('"m": 1', numbers))
      raises("l.jsonl:1: n is missing or not a number", line('"n": "1"', numbers))
      raises("l.jsonl:1: n has lists within lists within lists", line('"n": [[[[1]]]]', numbers))
      raises("l.jsonl:1: p holds no points", line('"p": [1]', {points = "p"}))
      raises("l.jsonl:1: p holds no points", line('"p": 1', {points = "p"}))
      raises("l.jsonl:1: p holds no points", line('"p": [[[1, 2]]]', {points = "p"}))
      raises("l.jsonl:1: p holds no points", line('"p": [1, 2, 1, 1]', {points = "p"}))
      raises("l.jsonl:2: numbers has 1 numbers; the samples before have another count",
        of('{"path": "a.png", "n": [1, 2]}\n{"path": "b.png", "n": 1}\n', numbers, "l.jsonl"))
      raises("it is the JSON file of " .. root .. "/a.png: every image has one", function()
        data.folder(root, numbers) end)
      write(root .. "/a.json", "{")
      raises(root .. "/a.json", function() data.folder(root, numbers) end)
    end)

    it("refuse options that say nothing", function()
      local function of(o) return function() return data.list(root .. "/l.csv", o) end end
      raises("points has an entry of 4 columns", of{points = {"a b c d"}})
      raises("points has an entry of 3 columns, the first has 2", of{points = {"a b", "a b c"}})
      raises("boxes has an entry of 3 columns", of{boxes = {"a b c"}})
      raises("points is empty; leave it out", of{points = {}})
      raises("batches have a mix of their own", of{numbers = {mix = "a"}})
      raises("numbers cannot be called points", of{numbers = {points = "a"}})
      write(root .. "/l.csv", "path\n")
      raises("5 fields; a sample has at most 4", of{numbers = {a = "a", b = "a", c = "a", d = "a"}, mask = "m"})
    end)
  end)
end)
