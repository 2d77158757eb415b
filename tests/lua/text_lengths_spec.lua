-- Texts of several lengths: what a source and its loader make of them, and what is found when nobody says what they
-- are.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

describe("texts of several lengths", function()
  local root, png

  local function write(name, text)
    local file = assert(io.open(root .. "/" .. name, "w"))
    file:write(text)
    file:close()
  end

  --- A folder of one image under these names.
  local function folder_of(name, files)
    assert(os.execute(("mkdir '%s/%s'"):format(root, name)) == 0)
    for _, file in ipairs(files) do write(name .. "/" .. file, png) end
    return root .. "/" .. name
  end

  local function first_batch(source, opts)
    opts = opts or {}
    local loader = data.loader{source = source, role = opts.role or "val", batch = opts.batch or source:count(),
      workers = opts.workers or 0, shuffle = opts.shuffle}
    return loader:epoch(1)(), loader
  end

  setup(function()
    root = os.tmpname()
    os.remove(root)
    assert(os.execute("mkdir '" .. root .. "'") == 0)
    data.png_write(root .. "/one.png", capl.full({1, 8, 16}, 200, {dtype = "u8"}))
    local file = io.open(root .. "/one.png", "rb")
    png = file:read("*a")
    file:close()
    folder_of("set", {"ab_1.png", "b_2.png", "cab_3.png"})
    write("all.tsv", "set/ab_1.png\tab\nset/b_2.png\tb\nset/cab_3.png\tcab\n")
    data.list(root .. "/all.tsv").box:pack(root .. "/db")
  end)
  teardown(function() os.execute("rm -rf '" .. root .. "'") end)

  it("come with their lengths, -1 behind the end, from folders, lists and databases", function()
    for _, path in ipairs{"/set", "/all.tsv", "/db"} do
      for _, length in ipairs{{1, 4}, "auto"} do
        local source = data.open(root .. path, {charset = "a-c", length = length})
        local batch, loader = first_batch(source)
        local longest = length == "auto" and 3 or 4
        assert.same({1, longest}, {loader.length_min, loader.length})
        assert.same({2, 1, 3}, batch.target_length:tolist())
        assert.same({3, longest}, batch.target.shape)
        local target = batch.target:tolist()
        assert.same({0, 1, -1, longest == 4 and -1 or nil}, target[1])
        assert.same({2, 0, 1, longest == 4 and -1 or nil}, target[3])
      end
    end
  end)

  it("may have any charset: what occurs is found", function()
    for _, path in ipairs{"/set", "/all.tsv", "/db"} do
      local source = data.open(root .. path, {charset = "auto", length = "auto"})
      assert.same({"abc", 1, 3, 0}, {source.charset, source.length_min, source.length, #source.bad})
      assert.same({2, 1, 3}, first_batch(source).target_length:tolist())
    end
    local odd = folder_of("odd", {"a-z_1.png", "^]_2.png"})
    assert.equal("-]^az", data.folder(odd, {charset = "auto", length = "auto"}).charset)
    raises("the label \"a b\" of a b_1.png has ' ': labels are visible characters without blanks", data.folder,
      folder_of("blank", {"a b_1.png"}), {charset = "auto"})
    raises('charset = "auto", but no image of', data.list, root .. "/names.tsv", (function()
      write("names.tsv", "set/b_2.png\n")
      return {charset = "auto"}
    end)())
  end)

  it("keep, raise or lower their letters", function()
    local dir = folder_of("cases", {"aB_1.png", "Ab_2.png"})
    for case, charset in pairs{keep = "ABab", upper = "AB", lower = "ab"} do
      assert.equal(charset, data.folder(dir, {charset = "auto", length = 2, case = case}).charset)
    end
    local source = data.folder(dir, {charset = "A-B", length = 2, case = "upper"})
    assert.same({{0, 1}, {0, 1}}, first_batch(source).target:tolist())
    assert.equal("AB", source:text(0))
    raises('case must be one of "keep", "upper", "lower", got "up"', data.folder, dir, {charset = "A-B", case = "up"})
  end)

  it("are refused outside their lengths, and when they are empty, with the file", function()
    local source = data.folder(root .. "/set", {charset = "a-c", length = {2, 4}})
    assert.equal(1, #source.bad)
    assert.equal(root .. '/set/b_2.png: label "b" has 1 characters; expected 2 to 4', source.bad[1].message)
    local empty = data.folder(folder_of("empty", {"_1.png", "a_2.png"}), {charset = "a", length = "auto"})
    assert.equal(root .. "/empty/_1.png: its label is empty; expected 1 to 32 characters", empty.bad[1].message)
    assert.same({1, 1}, {empty.length_min, empty.length})
    raises('length is a number, {shortest, longest} within 1..32 or "auto", got {4, 2}', data.folder, root .. "/set",
      {charset = "a-c", length = {4, 2}})
    raises("got {0, 2}", data.folder, root .. "/set", {charset = "a-c", length = {0, 2}})
  end)

  it("stay with their images when these are shuffled, split and made by several threads", function()
    local source = data.captcha{charset = "0-9", length = {2, 5}, count = 40, seed = 3, fixed = true}
    data.save_captchas{dir = root .. "/drawn", count = 40, seed = 3, charset = "0-9", length = {2, 5}}
    local drawn = data.split(data.folder(root .. "/drawn", {charset = "0-9", length = "auto"}), {val = 0.3})
    for _, from in ipairs{source, drawn} do
      for _, workers in ipairs{0, 3} do
        local batch = first_batch(from, {role = "train", shuffle = true, workers = workers})
        local lengths, targets = batch.target_length:tolist(), batch.target:tolist()
        for i, length in ipairs(lengths) do
          for t = 1, 5 do assert.equal(t <= length, targets[i][t] >= 0) end
          if from == drawn then assert.equal(length, #drawn:text(batch.ids[i])) end
        end
      end
    end
  end)

  it("of one length have it too, when it is asked for", function()
    local batch = first_batch(data.captcha{charset = "0-9", length = 3, count = 4})
    assert.same({3, 3, 3, 3}, batch.target_length:tolist())
    assert.is_nil(first_batch(data.tensors{value = capl.full({4, 2}, 1)}).target_length)
  end)
end)
