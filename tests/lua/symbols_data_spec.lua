-- Labels beyond ASCII end to end: names of files, lists, charsets, loaders, model files.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

describe("labels beyond ASCII", function()
  local root = support.folder(teardown)

  -- A folder of small pictures with these names.
  local function folder_of(name, files)
    local dir = root .. "/" .. name
    assert(os.execute(("mkdir -p '%s'"):format(dir)) == 0)
    for i, file in ipairs(files) do
      data.png_write(dir .. "/" .. file, capl.full({1, 16, 32}, 8 * i % 256, {dtype = "u8"}))
    end
    return dir
  end

  local function targets(source)
    return data.loader{source = source, role = "val", batch = 16, workers = 0}:epoch(1)().target:tolist()
  end

  local chinese = {"中国_1.png", "上海_2.png", "国中_3.png", "海上_4.png"}

  it("are found, with their characters and lengths", function()
    local source = data.folder(folder_of("found", chinese), {label = "auto", length = "auto"})
    assert.same({"上中国海", 4, 2, 2, 0}, {source.charset, source.n_classes, source.length_min, source.length, #source.bad})
    assert.equal("^([^_.]*)", source.label)
    assert.same({{0, 3}, {1, 2}, {2, 1}, {3, 0}}, targets(source)) -- files in the order of their names
  end)

  it("are held against a charset that is given, ranges among it", function()
    local dir = folder_of("given", chinese)
    assert.same({{3, 2}, {0, 1}, {1, 0}, {2, 3}}, targets(data.folder(dir, {charset = "中国海上", length = 2})))
    local source = data.folder(dir, {charset = "中国", length = 2})
    assert.equal(2, #source.bad)
    assert.matches("label \"上海\" has '上' at position 1, which is not in the charset 中国", source.bad[1].message, 1, true)
    assert.equal(0x56FD - 0x4E2D + 1, data.folder(dir, {charset = "中-国", length = 2}).n_classes)
  end)

  it("decide which part of a name is the text", function()
    local dir = folder_of("parts", {"中a_ж国_1.png", "国b_жд_2.png", "上c_дд_3.png", "海d_дж_4.png"})
    local function label(charset)
      return data.folder(dir, {label = "auto", charset = charset, length = 2}).label
    end
    assert.equal("^[^_.]*[_.]+([^_.]*)", label("жд国"))
    assert.equal("^([^_.]*)", label("中国上海a-d"))
  end)

  it("become the usual width where fold_width is asked for", function()
    local dir = folder_of("width", {"ＡＢ_1.png", "Ab_2.png"})
    assert.equal(1, #data.folder(dir, {charset = "ABb", length = 2}).bad)
    assert.same({{0, 2}, {0, 1}}, targets(data.folder(dir, {charset = "ABb", length = 2, fold_width = true})))
    local source = data.folder(dir, {charset = "AB", length = 2})
    assert.matches("label \"ＡＢ\" has 'Ａ' at position 1, which is not in the charset AB (it has 'A')", source.bad[2].message,
      1, true)
  end)

  it("are folded in all scripts", function()
    local dir = folder_of("folded", {"ЖУ_é_1.png", "жД_ñ_2.png", "уд_é_3.png", "дЖ_я_4.png"})
    local source = data.folder(dir, {label = "auto", case = "lower", charset = "жуд", length = 2})
    assert.same({"^([^_.]*)", 0}, {source.label, #source.bad})
    assert.same("дж", source:text(1))
    local files = {}
    for i = 1, 12 do files[i] = ("%s_%d.png"):format(i % 2 == 0 and "жя" or "жЯ", i) end
    local found = data.explore(folder_of("cases", files), {quiet = true})
    assert.equal("case", found.warnings[1].what)
    assert.matches("both cases, such as я and Я: one character", found.warnings[1].message, 1, true)
  end)

  it("are one character in both spellings", function()
    local dir = folder_of("spellings", {"caf\195\169_1.png", "cafe\204\129_2.png"})
    local source = data.folder(dir, {charset = "auto", length = "auto"})
    assert.same({"acfé", 4, 4}, {source.charset, source.length_min, source.length})
    assert.same({{1, 0, 2, 3}, {1, 0, 2, 3}}, targets(source))
  end)

  it("come from lists", function()
    local dir = folder_of("listed", {"a.png", "b.png", "c.png"})
    local file = assert(io.open(dir .. "/list.tsv", "w"))
    file:write("a.png\tжук\nb.png\té中\nc.png\t😀\n")
    file:close()
    local source = data.list(dir .. "/list.tsv", {charset = "auto", length = "auto"})
    assert.same({"éжку中😀", 1, 3}, {source.charset, source.length_min, source.length})
    assert.same({{1, 3, 2}, {0, 4, -1}, {5, -1, -1}}, targets(source))
  end)

  it("are refused with the file where a charset cannot hold them", function()
    local wide = folder_of("wide", {"中国_1.png", "中\227\128\128_2.png"}) -- U+3000, a blank
    assert.matches("of 中\227\128\128_2.png has '\227\128\128': labels are visible characters without blanks",
      support.error_text(data.folder, wide, {charset = "auto", length = {1, 4}}), 1, true)
  end)

  it("are read by a model of that charset", function()
    local source = data.folder(folder_of("model", chinese), {charset = "auto", length = 2})
    local model = capl.nn.Sequential{capl.nn.Flatten(), capl.nn.Linear(16 * 32, 2 * source.n_classes)}
    local meter = capl.text_meter(source.charset)
    for batch in data.loader{source = source, role = "val", batch = 2, workers = 0}:epoch(1) do
      meter:add(model(batch.image), batch)
    end
    local r = meter:result()
    assert.same({4, 2}, {r.n, #r.positions})
    for _, pair in ipairs(r.confusions) do assert.equal(3, #pair.truth) end
  end)

  it("in thousands take no slow step", function()
    local list, files = {}, {}
    for k = 0, 5999 do
      local code = 0x4E00 + k
      list[k + 1] = string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    for i = 1, 300 do files[i] = "x\t" .. table.concat(list, "", 20 * i - 19, 20 * i) end
    local dir = folder_of("many", {"x"})
    local file = assert(io.open(dir .. "/list.tsv", "w"))
    file:write(table.concat(files, "\n"), "\n")
    file:close()
    local source = data.list(dir .. "/list.tsv", {charset = "auto", length = "auto"})
    assert.same({6000, 20}, {source.n_classes, source.length})
    assert.equal(table.concat(list), source.charset)
    local rows = targets(source)
    assert.same({0, 19, 20}, {rows[1][1], rows[1][20], rows[2][1]})
  end)
end)
