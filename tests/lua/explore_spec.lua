-- data.explore and label = "auto": what is found in sets of labelled images, and what is odd about them.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

describe("data.explore", function()
  local root
  local made = 0

  --- A picture of its own: some dark or light pixels on a ground; colour: only their hue differs.
  local function draw(path, opts)
    local o = opts or {}
    local width, height = o.width or 40, o.height or 16
    made = made + 1
    local planes = {}
    for c = 1, o.colour and 3 or 1 do
      planes[c] = {}
      for y = 1, height do
        planes[c][y] = {}
        for x = 1, width do
          local ink = y > 4 and y < 12 and x > 4 and x < width - 4
          local mark = y == 8 and x == 6 + made % (width - 12) and made % 30 or 0
          local ground, level = o.light and 30 or 220, o.light and 200 or 40
          if o.colour then ground, level = ({130, 100, 90})[c], ({120, 100, 140})[c] end
          planes[c][y][x] = ink and level + mark or ground
        end
      end
    end
    data.png_write(path, capl.tensor(planes, {dtype = "u8"}))
  end

  -- Files without a byte: for what looks at names alone.
  local function empty_files(name, files)
    local dir, folders = root .. "/" .. name, {}
    for _, file in ipairs(files) do folders[(dir .. "/" .. file):match("^(.*)/")] = true end
    local list = {}
    for folder in pairs(folders) do list[#list + 1] = "'" .. folder .. "'" end
    assert(os.execute("mkdir -p " .. table.concat(list, " ")) == 0)
    for _, file in ipairs(files) do assert(io.open(dir .. "/" .. file, "w")):close() end
    return dir
  end

  --- A folder of these files; opts: as draw, or {[name] = …}
  local function folder_of(name, files, opts)
    local dir = root .. "/" .. name
    for _, file in ipairs(files) do
      local below = file:match("^(.*)/[^/]+$")
      assert(os.execute(("mkdir -p '%s/%s'"):format(dir, below or "")) == 0)
      draw(dir .. "/" .. file, opts and (opts[file] or opts))
    end
    return dir
  end

  local function texts(n, pattern)
    local out = {}
    for i = 1, n do out[i] = (pattern or "%s_%02d.png"):format(("%d%d7"):format(i % 10, i % 7), i) end
    return out
  end

  local function explore(dir, opts)
    local o = {quiet = true}
    for key, value in pairs(opts or {}) do o[key] = value end
    return data.explore(dir, o)
  end

  local function warning(found, what)
    for _, one in ipairs(found.warnings) do
      if one.what == what then return one.message .. " | " .. tostring(one.hint) end
    end
  end

  local function has(expected, text) assert(text and text:find(expected, 1, true), tostring(text)) end

  setup(function()
    root = os.tmpname()
    os.remove(root)
    assert(os.execute("mkdir '" .. root .. "'") == 0)
  end)
  teardown(function() os.execute("rm -rf '" .. root .. "'") end)

  it("finds charset, lengths, sizes, looks, and the steps that the worst text needs", function()
    local files = texts(12)
    files[13] = "aa007_13.png"
    local dir = folder_of("plain", files, {["aa007_13.png"] = {width = 80}})
    local found = explore(dir)
    assert.same({13, 13, 3, 5, 7}, {found.images, found.labelled, found.length_min, found.length_max, found.steps})
    assert.equal("0123456789a", found.charset)
    assert.same({[3] = 12, [5] = 1}, found.lengths)
    assert.equal("aa007_13.png", found.longest)
    assert.same({median = 40, min = 40, max = 80}, found.width)
    assert.equal("dark on light", found.polarity)
    assert.equal(1, found.suggested.channels)
    assert.equal(32, found.suggested.height)
    local source = data.open(dir,
      {label = found.label, charset = found.charset, length = {found.length_min, found.length_max},
      height = found.suggested.height, widths = found.suggested.widths})
    assert.equal(0, #source.bad)
    raises("aa007_13.png: its text needs 7 time steps, one for each character and one between equal neighbours, and " ..
      "the net has 6",
      explore, dir, {steps = 6})
    explore(dir, {steps = 7})
    local function check_steps(steps) source:check_steps(steps) end
    check_steps(7)
    check_steps(function(width) return width / 10 end)
    raises('aa007_13.png: its text "aa007" needs 7 time steps', check_steps, 6)
    raises("an image of 160 px gives 6", check_steps, function(width) return width == 160 and 6 or 9 end)
  end)

  it("distinguishes light text from dark, and colours that gray would lose", function()
    assert.equal("light on dark", explore(folder_of("light", texts(10), {light = true})).polarity)
    local options = {}
    for i, file in ipairs(texts(10)) do options[file] = {light = i % 2 == 0} end
    assert.equal("mixed", explore(folder_of("both", texts(10), options)).polarity)
    local found = explore(folder_of("hues", texts(10), {colour = true}))
    assert(found.gray_keeps < 0.5, found.gray_keeps)
    assert.equal(3, found.suggested.channels)
    for i, file in ipairs(texts(10)) do options[file] = {colour = i == 1} end -- all but one are black
    found = explore(folder_of("rare hues", texts(10), options))
    assert(found.gray_keeps > 0.6 and found.gray_loses > 0.05, found.gray_keeps .. " " .. found.gray_loses)
    assert.equal(3, found.suggested.channels)
  end)

  it("reads the names as most of them are, whatever a stray file is called", function()
    for k, stray in ipairs{"7_02.png", "_99.png", ("x"):rep(40) .. "_98.png", "0A_0B_97.png", "plain.png"} do
      local files = texts(10, k % 2 == 0 and "captcha_%s_%02d.png" or nil)
      files[11] = stray
      assert.equal(k % 2 == 0 and "^[^_.]*[_.]+([^_.]*)" or "^([^_.]*)",
        explore(folder_of("stray_" .. k, files), {case = "keep"}).label)
    end
  end)

  it("does not take the number for the text where texts are no ASCII", function()
    local files = {}
    for i = 1, 10 do files[i] = ("%s_%02d.png"):format(i % 2 == 0 and "码" or "验证", i) end
    local found = explore(folder_of("beyond", files), {quiet = false})
    assert.same({"^([^_.]*)", "码证验", "码证验", 10}, {found.label, found.charset, found.charset_short, found.labelled})
    assert.same({1, 2, {5, 5}, {["码"] = 5, ["验"] = 5, ["证"] = 5}, 2},
      {found.length_min, found.length_max, found.lengths, found.characters, found.steps})
  end)

  it("reads the texts out of the usual names", function()
    local numbered, before, in_folders, words = {}, {}, {}, {}
    for i = 1, 12 do
      local text = ("%d%dx"):format(i % 10, i % 7)
      numbered[i] = ("%s.png"):format(text .. i)
      before[i] = ("%d_%s.png"):format(i, text)
      in_folders[i] = ("%s/%d.png"):format(text, i)
      words[i] = ("captcha-%s-%d.png"):format(text, i)
    end
    for name, case in pairs{
      after = {texts(12), "^([^_.]*)", "107"}, alone = {numbered, "^([^.]*)", "11x1"},
      before = {before, "([^_.]*)%.[^.]*$", "11x"}, folders = {in_folders, "folder", "11x"},
      words = {words, "^[^%-.]*[%-.]+([^%-.]*)", "11x"},
    } do
      local found = explore(folder_of("guess_" .. name, case[1]), {case = "keep"})
      assert.equal(case[2], found.label)
      local source, seen = found.source, {}
      for id = 0, source:count() - 1 do seen[source:text(id)] = true end
      assert(seen[case[3]] or name == "after", name)
    end
    raises('label = "auto" finds no text in the names', data.folder,
      folder_of("numbers", {"1.png", "2.png", "3.png"}), {label = "auto"})
  end)

  -- names of 24 files that a habit gives: the text t and the index i in some form
  local function names_by(habit, alphabet)
    local names, want, state = {}, {}, 7
    local function random(n)
      state = (state * 16807) % 2147483647
      return state % n
    end
    for i = 1, 24 do
      local t = ""
      for _ = 1, 4 do
        local k = random(#alphabet) + 1
        t = t .. alphabet:sub(k, k)
      end
      local function hex(n)
        local digits = {}
        for k = 1, n do digits[k] = ("%x"):format(random(16)) end
        return table.concat(digits)
      end
      for _, name in ipairs{habit(t, i, hex, random)} do names[#names + 1], want[name] = name, t end
    end
    return names, want
  end

  local habits = {
    ["TEXT.png"] = function(t) return t .. ".png" end,
    ["TEXT.PNG, .jpg and .jpeg"] = function(t, i) return t .. ({".PNG", ".JPG", ".jpeg"})[i % 3 + 1] end,
    ["TEXT_17.png"] = function(t, i) return ("%s_%d.png"):format(t, i) end,
    ["TEXT_0017.png"] = function(t, i) return ("%s_%04d.png"):format(t, i) end,
    ["TEXT_48213.png, chosen from many"] = function(t, _, _, random)
    return ("%s_%d.png"):format(t, random(9) * random(9999)) end, ["TEXT-17.png"] = function(t, i)
      return ("%s-%d.png"):format(t, i) end,
    ["TEXT 17.png"] = function(t, i) return ("%s %d.png"):format(t, i) end,
    ["17_TEXT.jpg"] = function(t, i) return ("%d_%s.jpg"):format(i, t) end,
    ["0017_TEXT.jpg"] = function(t, i) return ("%04d_%s.jpg"):format(i, t) end,
    ["0017.TEXT.jpg"] = function(t, i) return ("%04d.%s.jpg"):format(i, t) end,
    ["copies numbered: TEXT.1.png"] = function(t, i) return t .. ".png", i % 2 == 0 and t .. ".1.png" or nil end,
    ["copies numbered by all: TEXT.1.png"] = function(t, i) return ("%s.%d.png"):format(t, i % 3) end,
    ["copies of Windows: TEXT (2).png"] = function(t, i) return t .. ".png", i % 3 == 0 and t .. " (2).png" or nil end,
    ["copies of a browser: TEXT(2).png"] = function(t, i) return t .. ".png", i % 3 == 0 and t .. "(2).png" or nil end,
    ["TEXT-copy.png"] = function(t, i) return t .. ".png", i % 3 == 0 and t .. "-copy.png" or nil end,
    ["TEXT - Copy (3).png"] = function(t, i) return t .. ".png", i % 3 == 0 and t .. " - Copy (3).png" or nil end,
    ["Copy of TEXT.png"] = function(t, i) return t .. ".png", i % 3 == 0 and "Copy of " .. t .. ".png" or nil end,
    ["TEXT~1.png"] = function(t, i) return t .. ".png", i % 3 == 0 and t .. "~1.png" or nil end,
    ["TEXT_1.png beside TEXT.png"] = function(t, i) return t .. ".png", i % 3 == 0 and t .. "_1.png" or nil end,
    ["captcha_TEXT.png"] = function(t) return ("captcha_%s.png"):format(t) end,
    ["captcha (TEXT).png"] = function(t) return ("captcha (%s).png"):format(t) end,
    ["img_0001_TEXT.png"] = function(t, i) return ("img_%04d_%s.png"):format(i, t) end,
    ["img-0001_TEXT.png"] = function(t, i) return ("img-%04d_%s.png"):format(i, t) end,
    ["TEXT_MD5.jpg"] = function(t, _, hex) return ("%s_%s.jpg"):format(t, hex(32)) end,
    ["MD5-TEXT.jpg"] = function(t, _, hex) return ("%s-%s.jpg"):format(hex(32), t) end,
    ["TEXT_UUID.png"] = function(t, _, hex)
    return ("%s_%s-%s-4%s-%s-%s.png"):format(t, hex(8), hex(4), hex(3), hex(4), hex(12)) end,
      ["TEXT_short hash.png"] = function(t, _, hex) return ("%s_%s.png"):format(t, hex(8)) end,
    ["TEXT_seconds.png"] = function(t, i) return ("%s_%d.png"):format(t, 1700000000 + i * 7919) end,
    ["TEXT_seconds.fraction.png"] = function(t, i) return ("%s_%d.%d.png"):format(t, 1700000000 + i * 7919, i * 37) end,
    ["20260114_TEXT.png"] = function(t, i) return ("202601%02d_%s.png"):format(i, t) end,
    ["TEXT_20260114_153000.png"] = function(t, i) return ("%s_202601%02d_1530%02d.png"):format(t, i, i) end,
    ["TEXT/17.png"] = function(t, i) return ("%s/%d.png"):format(t, i) end,
    ["TEXT/img_17.png"] = function(t, i) return ("%s/img_%d.png"):format(t, i) end,
    ["TEXT/img17.png"] = function(t, i) return ("%s/img%d.png"):format(t, i) end,
    ["TEXT,17.png"] = function(t, i) return ("%s,%d.png"):format(t, i) end,
    ["train/TEXT.png"] = function(t, i) return ("%s/%s.png"):format(i % 4 == 0 and "val" or "train", t) end,
    ["set1/TEXT_17.png"] = function(t, i) return ("set%d/%s_%d.png"):format(i % 3, t, i) end,
    ["TEXT__17.png"] = function(t, i) return ("%s__%d.png"):format(t, i) end,
    ["TEXT_17_noise.png"] = function(t, i) return ("%s_%d_%s.png"):format(t, i, ({"noise", "lines"})[i % 2 + 1]) end,
  }

  it("reads the text of 39 habits of naming files, of letters and of digits", function()
    local folders = 0
    for habit, name_of in pairs(habits) do
      for alphabet, characters in pairs{letters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", digits = "0123456789"} do
        local names, want = names_by(name_of, characters)
        folders = folders + 1
        local source = data.folder(empty_files("habit_" .. folders, names), {label = "auto", width = 40, height = 16})
        for id = 0, source:count() - 1 do assert.same({habit, want[source:name(id)]}, {habit, source:text(id)}) end
      end
    end
  end)

  it("does not guess between two readings: it shows both as the options that choose them", function()
    local function two_numbers(t, _, _, random) return ("%s_%04d.png"):format(t, 1000 + random(8999)) end
    local dir = empty_files("doubtful", (names_by(two_numbers, "123456789")))
    local text = support.error_text(data.folder, dir, {label = "auto", width = 40, height = 16})
    local first = data.folder(dir, {label = "^([^_.]*)", charset = "0-9", length = 4, width = 40, height = 16})
    for _, part in ipairs{"cannot decide which part of the names",
      "--label='^([^_.]*)' reads " .. first:text(0) .. " of " .. first:name(0),
      "--label='([^_.]*)%.[^.]*$' reads "} do
      assert(text:find(part, 1, true), text)
    end
    dir = empty_files("of_a_charset", {"4821_117.png", "9930_408.png", "1204_951.png", "8853_340.png", "7711_625.png"})
    raises("cannot decide which part", data.folder, dir, {label = "auto", width = 40, height = 16})
    for charset, length in pairs{["0-9"] = 3, ["0-9A-Z"] = 4} do
      local source = data.folder(dir, {label = "auto", charset = charset, length = length, width = 40, height = 16})
      assert.equal(length == 3 and "951" or "1204", source:text(0))
    end
    raises("--label='^([^.]*)' would read 1 of 1.png", data.folder, empty_files("counted", {"1.png", "2.png", "3.png"}),
      {label = "auto"})
  end)

  it("refuses lengths and heights that are none", function()
    local dir = folder_of("numbers_asked", texts(10))
    raises("data.explore: height must be a whole number from 1 on, got string", explore, dir, {height = "x"})
    raises("data.explore: step must be a whole number from 1 on, got 0", explore, dir, {step = 0})
    raises("data.folder: length is a whole number in 1..32, got 0", data.folder, dir,
      {charset = "auto", label = "auto", length = 0})
    raises('length is a number, {shortest, longest} within 1..32 or "auto", got x', data.folder, dir,
      {charset = "auto", length = "x"})
  end)

  it("takes the list that lies among the images", function()
    local dir = folder_of("listed", {"1.png", "2.png", "3.png"})
    local file = io.open(dir .. "/labels.txt", "w")
    file:write("1.png\tab\n2.png\tbc\n3.png\tabc\n")
    file:close()
    local found = explore(dir, {least = 3})
    assert.same({"abc", 2, 3}, {found.charset, found.length_min, found.length_max})
  end)

  it("refuses a handful of images, with the number and a way out", function()
    local dir = folder_of("three", texts(3))
    raises("three has 3 images with a label, at least 10 are needed to train and check a net", explore, dir)
    raises("recipes/finetune.lua trains on generated captchas first", explore, dir)
    has("has 3 images with labels; a net from scratch wants some hundred", warning(explore(dir, {least = 3}), "few"))
  end)

  it("names what is odd: cases, empty labels, twins, outliers, unreadable files", function()
    local files = texts(10, "%s_x/%02d.png")
    for i = 1, 10 do files[i] = ("%d%db_%d.png"):format(i % 10, i % 3, i) end
    files[11], files[12], files[13], files[14] = "11B_11.png", "_12.png", "again/11B_11.png", "long_14.png"
    local dir = folder_of("odd", files, {["long_14.png"] = {width = 300}})
    assert(os.execute(("cp '%s/11b_1.png' '%s/22b_99.png'; cp '%s/11b_1.png' '%s/11b_98.png'; : > '%s/33b_97.png'"):format(dir, dir, dir,
      dir, dir)) == 0)
    local found = explore(dir)
    has("letters occur in both cases, such as b and B", warning(found, "case"))
    has('case = "lower" of the source merges them', warning(found, "case"))
    has("_12.png: its label is empty", warning(found, "labels"))
    has("1 image has the name of another one in another folder: 11B_11.png and again/11B_11.png",
      warning(found, "names"))
    has("long_14.png is 300 x 16 px", warning(found, "sizes"))
    assert.same({80}, found.suggested.widths) -- of 40 x 16 px at height 32; the odd one sets none
    has('1 image is there under another text, too: 11b_1.png says "11b", 22b_99.png says "22b"',
      warning(found, "contradictions"))
    has("1 image is there a second time under the same text", warning(found, "copies"))
    has("33b_97.png", warning(found, "unreadable"))
    assert.is_nil(warning(explore(dir, {case = "lower"}), "case"))
  end)
end)
