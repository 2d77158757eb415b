-- Charsets by name and from files; captchas over them, written as folder and database and read back.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

-- Level 1 of GB 2312, rows 16 to 55, as the codec of Python has it.
local codec = [[python3 -c 'import sys; sys.stdout.buffer.write("".join(bytes([160 + row, 160 + cell]).decode("gb2312")
for row in range(16, 56) for cell in range(1, 95) if (row, cell) < (55, 90)).encode())']]

local function output_of(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("*a")
  assert(pipe:close())
  return text
end

local function charset_of(spec) return data.captcha{charset = spec, font = "DejaVuSans.ttf", count = 4}.charset end

describe("a charset", function()
  local root = support.folder(teardown)

  local function file(name, text)
    local path = root .. "/" .. name
    local f = assert(io.open(path, "wb"))
    f:write(text)
    f:close()
    return "@" .. path
  end

  it("is read from a UTF-8 file, without blanks and line breaks", function()
    assert.equal("бaé", charset_of(file("some.txt", "\239\187\191б a\r\n\n\te\204\129\227\128\128\n")))
    assert.equal("-az", charset_of(file("dash.txt", "a-z\n"))) -- every symbol stands for itself
    assert.equal("@A", charset_of(file("at.txt", "@A")))
  end)

  it("in a file that is wrong says which line", function()
    local function message(name, text)
      return (support.error_text(charset_of, file(name, text)):gsub(root, "DIR"))
    end
    assert.equal("LINE: data.captcha: charset: DIR/twice.txt:3: 'б' is there twice, first in line 1",
      message("twice.txt", "абв\n\nгб\n"))
    assert.equal("LINE: data.captcha: charset: DIR/line.txt:2: 'a' is there twice, both times in this line",
      message("line.txt", "b\naca"))
    assert.equal("LINE: data.captcha: charset: DIR/empty.txt has no symbol", message("empty.txt", " \n"))
    assert.matches("empty.txt is no UTF%-8: byte 2 is 0xFF", message("empty.txt", "a\255"))
    assert.matches("U%+200B", message("zero.txt", "a\226\128\139"))
    assert.matches("charset: .*none.txt.*No such file.*to mean the character @, write it at another place",
      support.error_text(charset_of, "@" .. root .. "/none.txt"))
    assert.matches("data.folder: charset: .*no symbol",
      support.error_text(data.folder, root, {charset = file("empty.txt", ""), length = 1}))
  end)

  it("gb2312-1 is level 1 of that standard, as a codec knows it", function()
    local all = output_of(codec)
    assert.equal(3755 * 3, #all)
    local named = "@" .. root .. "/codec.txt"
    file("codec.txt", all)
    local function first_wrong(spec) -- a font has none of them: the message counts
      return support.error_text(charset_of, spec):match("it lacks %d+ of the %d+ characters")
    end
    assert.equal("it lacks 3755 of the 3755 characters", first_wrong("gb2312-1"))
    assert.equal("it lacks 3755 of the 3755 characters", first_wrong(named))
    local dir = root .. "/none"
    assert(os.execute("mkdir -p " .. dir) == 0)
    data.png_write(dir .. "/啊_1.png", capl.full({1, 16, 32}, 8, {dtype = "u8"}))
    local function folder_charset(spec) return data.folder(dir, {charset = spec, length = 1}).charset end
    assert.equal(all, folder_charset("gb2312-1"))
    assert.equal(all, folder_charset(named))
    local some = {}
    for i = 0, 499 do
      local at = 3 * math.floor(i * 3755 / 500)
      some[i + 1] = all:sub(at + 1, at + 3)
    end
    assert.equal(table.concat(some), folder_charset("gb2312-1:500"))
    assert.equal("啊", folder_charset("gb2312-1:1"))
    for _, n in ipairs{"0", "3756", "", "x", "-1", "99999999999"} do
      assert.matches("N of gb2312%-1:N is a number of characters, 1..3755",
        support.error_text(folder_charset, "gb2312-1:" .. n))
    end
  end)

  it("is made by the command of docs/captchas.md", function()
    local page = assert(io.open((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/docs/captchas.md"))
    local command = page:read("*a"):match("\n    (luajit[^\n]*iconv[^\n]*)\n")
    page:close()
    assert(os.execute(("cd %s && %s"):format(root, command)) == 0)
    local dir = root .. "/level2"
    assert(os.execute("mkdir -p " .. dir) == 0)
    data.png_write(dir .. "/亍_1.png", capl.full({1, 16, 32}, 8, {dtype = "u8"}))
    assert.equal(3008, data.folder(dir, {charset = "@" .. root .. "/level2.txt", length = 1}).n_classes)
  end)

  it("of any script is in the names of files and labels, which read back the same", function()
    local chinese = pcall(data.captcha, {preset = "zh-word", count = 1})
    if not chinese then print("skipped: no font with Chinese characters is installed; Greek letters take their place") end
    local spec = chinese and {preset = "zh-word"} or
      {charset = "Α-ΡΣ-Ωα-ω", preset = "lepture", font = "DejaVuSans.ttf"}
    local function set(more)
      local o = {count = 12, seed = 3}
      for key, value in pairs(spec) do o[key] = value end
      for key, value in pairs(more) do o[key] = value end
      return o
    end
    data.save_captchas(set{dir = root .. "/png"})
    data.save_captchas(set{dir = root .. "/lmdb", format = "lmdb"})
    local symbols = data.captcha(set{fixed = true}).charset
    local folder = data.folder(root .. "/png", {charset = symbols, length = 4})
    local lmdb = data.lmdb(root .. "/lmdb", {charset = symbols, length = 4})
    assert.same({12, 12, 0, 0}, {folder:count(), lmdb:count(), #folder.bad, #lmdb.bad})
    local function by_text(source)
      local out = {}
      local batch = data.loader{source = source, role = "val", batch = 12, workers = 0, dtype = "u8"}:epoch(1)()
      local image = batch.image:float()
      for i, row in ipairs(batch.target:tolist()) do
        out[table.concat(row, " ")] = image:select(1, i):sum():item()
      end
      return out
    end
    assert.same(by_text(folder), by_text(lmdb))
    local lines = {}
    for i = 0, 11 do
      local path = folder.box:name(i)
      lines[i + 1] = path .. "\t" .. path:match("([^/]*)_%d*%.png$")
    end
    file("list.tsv", table.concat(lines, "\n") .. "\n")
    local list = data.list(root .. "/list.tsv", {root = root .. "/png", charset = symbols, length = 4})
    assert.same(by_text(folder), by_text(list))
    local found = data.folder(root .. "/png", {label = "auto", length = "auto"})
    assert.same({4, 4, 0}, {found.length_min, found.length, #found.bad})
  end)
end)
