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
    local source = data.open(dir, {label = found.label, charset = found.charset, length = {found.length_min, found.length_max},
      height = found.suggested.height, widths = found.suggested.widths})
    assert.equal(0, #source.bad)
    raises("aa007_13.png: its text needs 7 time steps, one for each character and one between equal neighbours, and the net has 6",
      explore, dir, {steps = 6})
    explore(dir, {steps = 7})
    local function check_steps(steps) source:check_steps(steps) end
    check_steps(7)
    check_steps(function(width) return width / 10 end)
    raises('aa007_13.png: its text "aa007" needs 7 time steps', check_steps, 6)
    raises("an image of 160 px gives 6", check_steps, function(width) return width == 160 and 6 or 9 end)
  end)

  it("tells light text from dark, and colours that gray would lose", function()
    assert.equal("light on dark", explore(folder_of("light", texts(10), {light = true})).polarity)
    local options = {}
    for i, file in ipairs(texts(10)) do options[file] = {light = i % 2 == 0} end
    assert.equal("mixed", explore(folder_of("both", texts(10), options)).polarity)
    local found = explore(folder_of("hues", texts(10), {colour = true}))
    assert(found.gray_keeps < 0.5, found.gray_keeps)
    assert.equal(3, found.suggested.channels)
  end)

  it("reads the names as most of them are, whatever a stray file is called", function()
    for k, stray in ipairs{"7_02.png", "_99.png", ("x"):rep(40) .. "_98.png", "0A_0B_97.png", "plain.png"} do
      local files = texts(10, k % 2 == 0 and "captcha_%s_%02d.png" or nil)
      files[11] = stray
      assert.equal(k % 2 == 0 and "^[^%_]*%_(.-)%_" or "^(.-)%_", explore(folder_of("stray_" .. k, files), {case = "keep"}).label)
    end
  end)

  it("does not take the number for the text where texts are no ASCII", function()
    local files = {}
    for i = 1, 10 do files[i] = ("%s_%02d.png"):format(i % 2 == 0 and "码" or "验证", i) end
    raises('charset = "auto", but the label "码" of 码_02.png', explore, folder_of("beyond", files))
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
      after = {texts(12), "^(.-)%_", "107"}, alone = {numbered, "^(.-)%.[^.]*$", "11x1"}, before = {before, "^[^%_]*%_(.-)%.[^.]*$", "11x"},
      folders = {in_folders, "folder", "11x"}, words = {words, "^[^%-]*%-(.-)%-", "11x"},
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

  it("refuses lengths and heights that are none", function()
    local dir = folder_of("numbers_asked", texts(10))
    raises("data.explore: height is a whole number from 1 on, got x", explore, dir, {height = "x"})
    raises("data.explore: step is a whole number from 1 on, got 0", explore, dir, {step = 0})
    raises("data.folder: length is a whole number in 1..32, got 0", data.folder, dir, {charset = "auto", label = "auto", length = 0})
    raises('length is a number, {shortest, longest} within 1..32 or "auto", got x', data.folder, dir, {charset = "auto", length = "x"})
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
    has('case = "lower" of the source makes them one', warning(found, "case"))
    has("_12.png: its label is empty", warning(found, "labels"))
    has("1 image has the name of another one in another folder: 11B_11.png and again/11B_11.png", warning(found, "names"))
    has("long_14.png is 300 x 16 px", warning(found, "sizes"))
    assert.same({80}, found.suggested.widths) -- of 40 x 16 px at height 32; the odd one sets none
    has('1 image is there under another text, too: 11b_1.png says "11b", 22b_99.png says "22b"', warning(found, "contradictions"))
    has("1 image is there a second time under the same text", warning(found, "copies"))
    has("33b_97.png", warning(found, "unreadable"))
    assert.is_nil(warning(explore(dir, {case = "lower"}), "case"))
  end)
end)
