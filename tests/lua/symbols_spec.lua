-- Texts and charsets as lists of Unicode code points: cutting, classes, and what reads such texts.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local within = getfenv(capl.distributed).require
local symbols, align = within "fields.symbols", within "meter.align"

describe("symbols", function()
  it("are the code points of a text", function()
    assert.same({"A", "1", "é", "Я", "中", "😀"}, symbols.of("A1éЯ中😀"))
    assert.same({}, symbols.of(""))
    assert.same({0, 3, 3, 4}, {symbols.length(""), symbols.length("abc"), symbols.length("жук"),
      symbols.length("中国é7")})
  end)

  it("keep what stands beside them apart: an accent of its own is one", function()
    assert.same({"e", "\204\129"}, symbols.of("e\204\129"))
    assert.same({"a\0"}, {table.concat(symbols.of("a\0"))})
  end)

  it("let bytes that are no UTF-8 through, one by one", function()
    assert.same({"a", "\255", "b"}, symbols.of("a\255b"))
    assert.same({"\128", "中"}, symbols.of("\128中"))
    assert.same({"\228", "\184"}, symbols.of("\228\184")) -- cut off
    assert.same({"\192", "\175"}, symbols.of("\192\175")) -- an overlong '/'
    assert.same({"\237", "\160", "\128"}, symbols.of("\237\160\128")) -- half of a surrogate pair
    assert.same({"\224", "\128", "\128"}, symbols.of("\224\128\128"))
    assert.same({"\244", "\144", "\128", "\128"}, symbols.of("\244\144\128\128")) -- beyond U+10FFFF
    for _, text in ipairs{"", "aé\255中", "\240\144\128", "😀\191"} do
      assert.equal(text, table.concat(symbols.of(text)))
    end
  end)

  it("are refused where a text is no UTF-8, with the byte", function()
    assert.equal("中国", symbols.check("op", "the text", "中国"))
    assert.matches("op: the text is no UTF-8: byte 4 is 0xE4", support.error_text(symbols.check, "op", "the text",
      "中\228x"), 1, true)
  end)

  it("are folded as labels are, in all scripts", function()
    assert.same({"жé", "ЖÉ", "Жé"}, {symbols.fold("Жé", "lower"), symbols.fold("Жé", "upper"), symbols.fold("Жe\204\129", "keep")})
    assert.equal("\255a", symbols.fold("\255a", "upper")) -- no UTF-8
  end)

  it("have classes by their place in a charset", function()
    local charset = "0O中é"
    assert.same({"0", "O", "中", "é"}, symbols.list(charset))
    assert.same({["0"] = 0, O = 1, ["中"] = 2, ["é"] = 3}, symbols.class_of(charset))
    assert.equal(4, symbols.count(charset))
    assert.equal("中0é", symbols.spell(charset, {2, 0, -1, 3, 4}))
    for i = 1, 40 do assert.equal(i, symbols.count(("中"):rep(i))) end -- more than are remembered
    assert.equal(4, symbols.count(charset))
  end)

  it("are named in messages, not all of a long list", function()
    assert.same({"中é", "中, é", ""}, {symbols.shown{"中", "é"}, symbols.shown({"中", "é"}, ", "), symbols.shown{}})
    local list = {}
    for i = 1, 103 do list[i] = "中" end
    assert.equal(("中"):rep(100) .. "… and 3 more", symbols.shown(list))
  end)

  it("stand side by side", function()
    assert.equal(1, align.distance("中国人", "中华人"))
    assert.equal(2, align.distance("éa", "中国éa"))
    assert.same({{"中", "国", "人"}, {"中", "·", "人"}}, {align.side_by_side("中国人", "中人")})
    assert.same({{"é", "Я"}, {"e", "Я"}}, {align.side_by_side("éЯ", "eЯ")})
  end)

  it("are what text.characters lists", function()
    assert.same({"ñ", "中", "x"}, capl.text.characters("ñ中x"))
    assert.matches("text.characters: the text is no UTF-8: byte 1 is 0xFF",
      support.error_text(capl.text.characters, "\255"), 1, true)
  end)
end)

describe("a text meter of a charset beyond ASCII", function()
  it("counts characters, not bytes", function()
    local meter = capl.text_meter("中国éЯ")
    meter:add({0, 1, 2, 2, 3, 0}, {0, 1, 2, 1, 3, 3}, 2) -- 中国 éé Я中 read; 中国 é国 ЯЯ meant
    local r = meter:result()
    assert.equal(3, r.n)
    assert.is_true(support.close({r.exact, r.chars, r.edit_distance}, {1 / 3, 4 / 6, 2 / 3}))
    assert.equal("Я as 中 1, 国 as é 1", meter:confusion_line())
    assert.same({2}, {meter:write().by_length[1].length})
  end)

  it("finds what was left out", function()
    local meter = capl.text_meter("中国éЯ")
    meter:count("中Я", "中国Я")
    meter:count("жук", "жук")
    local r = meter:result()
    assert.equal("国 as nothing 1", meter:confusion_line())
    assert.is_true(support.close({r.exact, r.chars, r.cer}, {1 / 2, 5 / 6, 1 / 6}))
  end)

  it("counts look-alikes as one", function()
    local meter = capl.text_meter("0O〇口日", {merge = {"0O〇", "口日"}})
    meter:add({1, 3, 2, 4}, {2, 4, 0, 0}, 2) -- O口 read for 〇日, 〇日 for 00
    assert.same({0, 0.5}, {meter:result().exact, meter:result().merged.exact})
    assert.matches("with 0=O=〇, 口=日$", meter:merged_line())
    assert.matches("'口中' has fewer than two of the charset",
      support.error_text(capl.text_meter, "0口", {merge = {"口中"}}), 1, true)
  end)

  it("takes scores for as many classes as there are characters", function()
    local meter = capl.text_meter("中国é")
    local target = capl.tensor({{0, 2}}, {dtype = "i32"})
    meter:add(capl.tensor{{{9, 0, 0}, {0, 0, 9}}}, {target = target})
    assert.equal(1, meter:result().exact)
    assert.matches("it should hold 2 places x 3 characters", support.error_text(meter.add, meter, capl.zeros(1, 2, 9),
      {target = target}), 1, true)
    assert.matches("has class 3 at place 1; the charset has 3 characters, 0 to 2",
      support.error_text(meter.add, meter, {0}, {3}, 1), 1, true)
  end)

  it("draws up the confusions", function()
    local meter = capl.text_meter("中国")
    meter:add({0, 1, 1}, {0, 0, 1}, 1)
    assert.same({labels = {"中", "国", ""}, counts = {{1, 1, 0}, {0, 1, 0}, {0, 0, 0}}}, meter:write().confusion)
  end)

  it("draws up the worst confusions of a large charset, the rest as other", function()
    local list = {}
    for k = 0, 199 do list[k + 1] = "\228" .. string.char(0xB8 + math.floor(k / 64), 0x80 + k % 64) end
    local meter = capl.text_meter(table.concat(list))
    for class = 0, 199 do meter:add({class}, {class}, 1) end
    for k = 1, 20 do -- pairs 2k - 2, 2k - 1; each once more than the next one
      for _ = 1, 22 - k do meter:add({2 * k - 1}, {2 * k - 2}, 1) end
    end
    meter:add({0, 199, 198}, {199, 0, 197}, 1) -- beyond the 40; the last one among the others
    meter:count(list[1], list[1] .. list[200])
    local m = meter:write().confusion
    assert.equal(42, #m.labels)
    assert.same({list[1], list[40], "other", ""}, {m.labels[1], m.labels[40], m.labels[41], m.labels[42]})
    assert.same({21, 2}, {m.counts[1][2], m.counts[39][40]})
    local first, others = m.counts[1], m.counts[41]
    assert.same({2, 1, 1, 160, 1}, {first[1], first[41], others[1], others[41], others[42]})
  end)

  it("reads CTC's time steps", function()
    local meter = capl.text_meter("中é", {decoding = "ctc"})
    local steps = capl.tensor{{{9, 0, 0}, {9, 0, 0}, {0, 0, 9}, {9, 0, 0}, {0, 9, 0}}}
    meter:add(steps, {target = capl.tensor({{0, 0, 1}}, {dtype = "i32"})})
    assert.equal(1, meter:result().exact)
    assert.equal("中中é", meter:samples().right[1].read)
    assert.matches("CTC reads (1,T,3): 2 characters and a blank", support.error_text(meter.add, meter,
      capl.zeros(1, 5, 6), {target = capl.zeros(1, 3, {dtype = "i32"})}), 1, true)
  end)

  it("refuses a charset that is no UTF-8", function()
    assert.matches("the charset is no UTF-8: byte 2 is 0xE9", support.error_text(capl.text_meter, "a\233"), 1, true)
  end)

  it("reads out of 20,000 characters without a table of all pairs", function()
    local list = {}
    for k = 0, 19999 do
      local code = 0x4E00 + k
      list[k + 1] = string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    local meter = capl.text_meter(table.concat(list))
    collectgarbage()
    local before, read, truth = collectgarbage("count"), {}, {}
    for i = 1, 4000 do read[i], truth[i] = i * 3 % 20000, i % 2 == 0 and i * 3 % 20000 or i * 5 % 20000 end
    meter:add(read, truth, 4)
    local written = meter:write()
    assert.equal(1000, written.n)
    assert.is_true(support.close(written.chars, 0.5))
    collectgarbage()
    assert.is_true(collectgarbage("count") - before < 8000, collectgarbage("count") - before .. " KiB")
  end)
end)

describe("decoding with a charset beyond ASCII", function()
  local scores = capl.tensor{{{9, 0, 8, 0}, {0, 0, 0, 9}, {0, 9, 8, 0}}} -- 中 - é, near it Я - Я

  it("spells", function()
    assert.equal("中é", capl.text.ctc_greedy(scores, {charset = "中éЯ"})[1].text)
    assert.equal("éЯ", capl.text.ctc_greedy(scores, {charset = "éЯ中", blank = 3})[1].text)
    assert.matches("a charset of 2 characters and a blank, but 4 classes",
      support.error_text(capl.text.ctc_greedy, scores, {charset = "中é"}), 1, true)
    assert.matches("text.ctc_greedy: the charset is no UTF-8: byte 1 is 0xFE",
      support.error_text(capl.text.ctc_greedy, scores, {charset = "\254éЯ"}), 1, true)
  end)

  it("keeps to allowed characters and to a pattern", function()
    local function best(opts)
      opts.charset = "中éЯ"
      return capl.text.ctc_beam(scores, opts)[1][1].text
    end
    assert.equal("Я", best{allowed = "Я", max_length = 1})
    assert.equal("ЯЯ", best{allowed = "Я", length = 2})
    assert.equal("中Я", best{pattern = {"中", "Яé中"}, allowed = "中Я"})
    assert.equal("Яé", best{pattern = {"Я", "中é"}})
    assert.matches("'国' is not in the charset", support.error_text(best, {allowed = "中国"}), 1, true)
  end)
end)

describe("names of files beyond ASCII", function()
  local guess = within "data.guess"

  -- Rule for the names, and what it reads of the first.
  local function guessed(names, wanted)
    local source = {count = function() return #names end, name = function(_, i) return names[i + 1] end}
    local rule = guess.rule(source, wanted)
    return rule and guess.name(rule), rule and guess.text(rule, names[1])
  end

  it("have a text that is found", function()
    assert.same({"TEXT_….png", "中国"}, {guessed{"中国_1.png", "上海_2.png", "北京_3.png", "天津_4.png"}})
    assert.same({"TEXT_….png", "жук"}, {guessed{"жук_001.png", "дом_002.png", "лес_003.png", "мир_004.png"}})
    assert.same({"…_TEXT.png", "café"}, {guessed{"7_café.png", "8_thé.png", "9_pâte.png", "10_été.png"}})
    assert.same({"TEXT.png", "中国人"}, {guessed{"中国人.png", "上海人.png", "北京人.png", "天津人.png"}})
    assert.same({"TEXT/….png", "中"}, {guessed{"中/1.png", "国/2.png", "人/3.png", "口/4.png"}})
  end)
end)

describe("doctor's rules on labels beyond ASCII", function()
  -- What a rule says: its result, and of what it finds {kind, text}.
  local function said(rule, charset, labels, length)
    local source = {dir = "d", bad = {}, count = function() return #labels end,
      text = function(_, i) return labels[i + 1] end}
    local ctx = {loaders = {train = {charset = charset, length = length, source = source}}, run = {}, found = {}}
    function ctx.line() end
    function ctx.setting() end
    for _, kind in ipairs{"warn", "error", "note", "skip"} do
      ctx[kind] = function(self, text) self.found[#self.found + 1] = {kind, text} end
    end
    return {result = within("doctor." .. rule).check(ctx), found = ctx.found}
  end

  it("name characters that never come", function()
    local s = said("charset", "中国éЯ", {"中é", "é中"})
    assert.same({{"warn", "2 of the 4 characters of the charset occur in no training text: Я 国"}}, s.found)
    assert.equal("4 characters, 2 of them occur in 2 training texts", s.result)
  end)

  it("name rare ones and the most frequent one", function()
    local labels = {}
    for i = 1, 40 do labels[i] = i == 1 and "中国" or "中éЯ" end
    local s = said("balance", "中国éЯ", labels)
    assert.same({{"warn", "1 characters are rarer than a fifth of the mean of 30: 国 (1)"}}, s.found)
    assert.equal("the most frequent is '中' with 33.6 % of all, mean 25.0 %", s.result)
  end)

  it("count characters of a label, not bytes", function()
    assert.same({}, said("labels", "中国", {"中国", "国中"}, 2).found)
    assert.equal("note", said("labels", "中国", {"中", "国中"}, 2).found[1][1])
  end)

  it("know the cases of all scripts", function()
    assert.equal("no letter comes in both cases", said("case", "éaЯ中", {"éaЯ中"}).result)
    assert.matches("^letters in both cases: A/a %(1 and 1%), É/é %(1 and 2%), Я/я %(1 and 1%); if",
      said("case", "éÉaAЯя", {"éÉaAЯяé"}).found[1][2])
  end)
end)

describe("sources and loaders", function()
  it("tell the number of their classes", function()
    local source = capl.data.captcha{charset = "0-9A-F", length = 2, count = 4, fixed = true}
    local loader = capl.data.loader{source = source, role = "val", batch = 2, workers = 0}
    assert.same({16, 16}, {source.n_classes, loader.classes})
    assert.equal(16, loader:epoch(1)().classes)
    local own = capl.data.tensors{target = capl.zeros(20, {dtype = "i32"}), classes = 7,
      x = capl.zeros(20, 3)}
    assert.equal(7, capl.data.loader{source = own, role = "val", batch = 2, workers = 0}.classes)
    local bare = capl.data.tensors{x = capl.zeros(4, 3)}
    assert.equal(0, capl.data.loader{source = bare, role = "val", batch = 2, workers = 0}.classes)
  end)
end)
