-- plot: the files it writes, what it takes for values and images, and the errors it gives.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local plot, data = capl.plot, capl.data
local nan = 0 / 0

describe("plot", function()
  local path

  before_each(function() path = os.tmpname() .. ".png" end)
  after_each(function()
    os.remove(path)
    os.remove((path:gsub("%.png$", "")))
  end)

  local function written()
    local image = data.png_read(path)
    return image:size(4), image:size(3)
  end

  local function refused(wanted, fn, opts)
    opts.path = opts.path or path
    assert.equal("LINE: " .. wanted, support.error_text(fn, opts))
    assert.is_nil(io.open(path))
  end

  local function lines_refused(wanted, series, panel)
    panel = panel or {}
    panel.series = {series}
    refused("plot.lines: panels[1]" .. wanted, plot.lines, {panels = {panel}})
  end

  local function cell(t)
    t.image = t.image or capl.zeros({6, 16}, {dtype = "u8"})
    return t
  end

  describe("lines", function()
    it("writes a PNG file of the size asked for", function()
      plot.lines{
        path = path, title = "loss", x_label = "step", width = 500, height = 300,
        panels = {{y_label = "loss", log = true, series = {{name = "a", x = {1, 2, 3}, y = {3, nan, 1 / 0}}}}},
      }
      assert.same({500, 300}, {written()})
    end)

    it("grows with its panels", function()
      local panel = {percent = true, series = {{y = {0.1, 0.9}}}}
      plot.lines{path = path, panels = {panel}}
      local width, one = written()
      plot.lines{path = path, panels = {panel, panel}}
      local _, two = written()
      assert.equal(900, width)
      assert.is_true(two > one + 200)
    end)

    it("takes tensors, and tables that compute their values, for lists", function()
      plot.lines{path = path, panels = {{series = {{y = {0, 1, 2, 3}}}}}}
      local first = data.png_read(path):tolist()
      plot.lines{path = path, panels =
        {{series = {{x = setmetatable({1, 2, 3, 4}, {__index = error}), y = {0, 1, 2, 3}}}}}}
      assert.same(first, data.png_read(path):tolist())
      plot.lines{path = path, panels = {{series = {{x = capl.arange(1, 5), y = capl.arange(4)}}}}}
      assert.same(first, data.png_read(path):tolist())
    end)

    it("draws panels without series and series without values", function()
      plot.lines{path = path, panels = {{series = {}}, {series = {{name = "empty", y = {}}}}}}
      assert.equal(900, (written()))
    end)

    it("replaces a file, and leaves the old one when it fails", function()
      plot.lines{path = path, width = 300, panels = {{series = {}}}}
      plot.lines{path = path, width = 400, panels = {{series = {}}}}
      assert.is_false(pcall(plot.lines, {path = path, width = 500, panels = {{series = {{x = {nan}, y = {1}}}}}}))
      assert.equal(400, (written()))
    end)

    it("names the nearest of its keys", function()
      refused("plot.lines: unknown option 'titel'; did you mean 'title'?", plot.lines, {titel = "", panels = {}})
      refused("plot.lines: panels[1]: unknown option 'ylabel'; did you mean 'y_label'?", plot.lines,
        {panels = {{ylabel = "", series = {}}}})
      lines_refused(".series[1]: unknown option 'label'; known: name, x, y, smooth, dots", {label = "", y = {}})
    end)

    it("refuses what cannot be drawn", function()
      refused("plot.lines: panels is missing", plot.lines, {})
      refused("plot.lines: a chart has 1 to 32 panels, not 0", plot.lines, {panels = {}})
      refused("plot.lines: panels is a list, but has an entry [a]", plot.lines, {panels = {a = 1}})
      refused("plot.lines: panels[1]: options are a table, got number", plot.lines, {panels = {1}})
      refused("plot.lines: width must be a whole number, got 1.5", plot.lines, {panels = {}, width = 1.5})
      refused("plot.lines: the width of a chart is 240 to 16384 px, not 1000000000", plot.lines,
        {panels = {{series = {}}}, width = 1e15})
      lines_refused(".series[1]: x has 1 values, y has 2", {x = {1}, y = {1, 2}})
      lines_refused(".series[1].y: value 2 is a string, not a number\n  hint: write 0/0 where a value is missing",
        {y = {1, "2"}})
      lines_refused(".series[1].x: values are a list or a tensor (N), got 2 dims", {x = capl.zeros(1, 1), y = {1}})
      refused("plot.lines: panel 1, series 1: x[2] is no finite number; only y may have gaps", plot.lines,
        {panels = {{series = {{x = {1, 1 / 0}, y = {1, 2}}}}}})
      refused("plot.lines: panel 1: min = 1 is not below max = 0", plot.lines,
        {panels = {{series = {}, min = 1, max = 0}}})
    end)

    it("names a path that cannot be written, and a font that is not there", function()
      refused("plot.lines: /no/where.png: cannot be written: No such file or directory", plot.lines,
        {path = "/no/where.png", panels = {{series = {}}}})
      refused("plot.lines: path is empty or holds a zero byte; it names a PNG file", plot.lines,
        {path = "a\0b", panels = {{series = {}}}})
      local text = support.error_text(plot.lines, {path = path, font = "/no/such.ttf", panels = {{series = {}}}})
      local wanted = "font /no/such.ttf: No such file or directory\n  hint: install the Debian package fonts-noto-mono"
      assert.truthy(text:find(wanted, 1, true), text)
    end)
  end)

  it("draws in real runs, not under check", function()
    local recipe = path .. ".lua"
    local file = io.open(recipe, "w")
    file:write(("--- capl: 1\nlocal model = nn.Linear(4, 2)\nlocal x = capl.randn(3, 4)\n" ..
      "plot.sheet{path = %q, cells = {{image = x}}}\nplot.lines{path = %q, panels = {{series = {}}}}\n" ..
      "optim.SGD(model:parameters(), {lr = 0.1}):backward_step(model(x):sum())\n"):format(path, path .. "2"))
    file:close()
    local function files_after(command)
      local pipe = io.popen(("cd /tmp && $CAPL_BIN --trust %s %s 2>&1"):format(command, recipe))
      local text = pipe:read("*a")
      pipe:close()
      assert.is_nil(text:find("plot", 1, true), text)
      local sheet, lines = io.open(path), io.open(path .. "2")
      os.remove(path .. "2")
      return sheet ~= nil, lines ~= nil
    end
    assert.same({false, false}, {files_after("check")})
    assert.same({true, true}, {files_after("")})
    os.remove(recipe)
  end)

  it("says what is missing where Cairo is not installed", function()
    local folder = path .. ".d"
    local copied = os.execute(("mkdir %s && cd $CAPL_BUILD_DIR && cp -a capl libcapl.so* %s"):format(folder, folder))
    assert.is_true(copied == true or copied == 0)
    local pipe = io.popen(("%s/capl -e 'plot.lines{path = \"%s\", panels = {{series = {}}}}' 2>&1; rm -r %s"):format(folder, path, folder))
    local text = pipe:read("*a")
    pipe:close()
    assert.truthy(text:find("plot.lines: pictures cannot be drawn here: ", 1, true), text)
    assert.truthy(text:find("libcapl_report.so: cannot open shared object file", 1, true), text)
    assert.truthy(text:find("hint: install the Debian package libcairo2", 1, true), text)
  end)

  describe("sheet", function()
    it("takes images in any layout", function()
      local images = {
        capl.zeros({6, 16}, {dtype = "u8"}), capl.zeros({1, 6, 16}, {dtype = "u8"}),
        capl.zeros({3, 6, 16}, {dtype = "u8"}), capl.zeros({1, 3, 6, 16}, {dtype = "u8"}),
        capl.zeros({6, 16, 1}, {dtype = "u8"}), capl.zeros({6, 16, 3}, {dtype = "u8"}), capl.zeros({6, 16}),
      }
      local first
      for _, image in ipairs(images) do
        plot.sheet{path = path, cells = {{image = image}}}
        local got = data.png_read(path):tolist()
        first = first or got
        assert.same(first, got)
      end
    end)

    -- The colour in the middle of each of the w pixels of an image's first row, which are 12 px wide here.
    local function middles(w)
      local image, out = data.png_read(path), {}
      for i = 1, w do
        out[i] = {}
        for c = 1, 3 do out[i][c] = image[1][c][18 + 1 + 6][18 + 1 + 12 * i - 6]:item() end
      end
      return out
    end

    it("keeps levels, and stretches floating images from black to white", function()
      local rgb = capl.tensor({{{1, 2, 3}, {40, 50, 60}}, {{7, 8, 9}, {4, 5, 6}}}, {dtype = "u8"}) -- (H,W,C) = (2,2,3)
      plot.sheet{path = path, cells = {{image = rgb}}}
      assert.same({{1, 2, 3}, {40, 50, 60}}, middles(2))
      plot.sheet{path = path, cells = {{image = rgb:permute(3, 1, 2)}}}
      assert.same({{1, 2, 3}, {40, 50, 60}}, middles(2))
      plot.sheet{path = path, cells = {{image = capl.tensor{{-1.5, 0.5, 2.5}}}}}
      assert.same({{0, 0, 0}, {128, 128, 128}, {255, 255, 255}}, middles(3))
    end)

    it("puts its cells into columns", function()
      local cells = {cell{}, cell{}, cell{}}
      plot.sheet{path = path, cells = cells}
      local wide, low = written()
      plot.sheet{path = path, cells = cells, columns = 1}
      local narrow, high = written()
      assert.is_true(wide > 2 * narrow and high > 2 * low)
    end)

    it("refuses what is no image", function()
      local function image_refused(got, image)
        refused("plot.sheet: cells[1].image: one image (H,W), (C,H,W) or (H,W,C) with C = 1 or 3, u8 or floating, " ..
          "of at most "
          .. "16384 px per side expected, got " .. got, plot.sheet, {cells = {{image = image}}})
      end
      image_refused("(2,1,6,16) u8 cpu", capl.zeros({2, 1, 6, 16}, {dtype = "u8"}))
      image_refused("(2,6,16) u8 cpu", capl.zeros({2, 6, 16}, {dtype = "u8"}))
      image_refused("(0,16) u8 cpu", capl.zeros({0, 16}, {dtype = "u8"}))
      image_refused("(16) u8 cpu", capl.zeros({16}, {dtype = "u8"}))
      image_refused("(6,16) i32 cpu", capl.zeros({6, 16}, {dtype = "i32"}))
      refused("plot.sheet: cells[1].image is on device meta and has no pixels", plot.sheet,
        {cells = {{image = capl.zeros({6, 16}, {dtype = "u8", device = "meta"})}}})
      refused("plot.sheet: cells[1].image holds values that are not finite", plot.sheet,
        {cells = {{image = capl.full({2, 2}, nan)}}})
      refused("plot.sheet: cells[1]: image must be a tensor, got string", plot.sheet, {cells = {{image = "a.png"}}})
      refused("plot.sheet: cells[1]: image is missing", plot.sheet, {cells = {{caption = "A"}}})
    end)

    it("names the nearest of its keys", function()
      refused("plot.sheet: cells[1]: unknown option 'captoin'; did you mean 'caption'?", plot.sheet,
        {cells = {cell{captoin = ""}}})
      refused("plot.sheet: unknown option 'colums'; did you mean 'columns'?", plot.sheet, {colums = 1, cells = {}})
      refused("plot.sheet: columns must be a whole number from 1 on, got 0", plot.sheet,
        {columns = 0, cells = {cell{}}})
      refused("plot.sheet: a sheet has 1 to 10000 cells, not 0", plot.sheet, {cells = {}})
    end)

    it("draws any text", function()
      local texts = {"", "\0", "\27[2J", "\255\254", "\239\191\191", "验证码", ("long "):rep(2000), "e\204\129"}
      local cells = {}
      for i, text in ipairs(texts) do
        cells[i] = cell{caption = text, truth = texts[#texts + 1 - i], note = text, good = i % 2 == 0}
      end
      plot.sheet{path = path, title = texts[7], cells = cells}
      assert.is_true(written() > 100)
    end)

    it("leaves no tensors behind, also when it fails", function()
      support.no_leak(function()
        local image = capl.zeros({6, 16})
        plot.sheet{path = path, cells = {{image = image}}}
        pcall(plot.sheet, {path = "/no/where.png", cells = {{image = image}, {image = capl.zeros(3)}}})
      end)
    end)
  end)

  it("draws dots without a line", function()
    local function drawn(dots)
      plot.lines{path = path, width = 300, panels = {{series = {{x = {1, 2, 3}, y = {3, 1, 2}, dots = dots}}}}}
      local dark = 0
      for _, level in ipairs(data.png_read(path):reshape(-1):tolist()) do dark = dark + (level < 100 and 1 or 0) end
      return dark
    end
    assert.is_true(drawn(true) * 3 < drawn(false))
  end)

  describe("bars", function()
    it("draws a row for each number, to both sides of 0", function()
      plot.bars{path = path, width = 400, labels = {"a"}, values = {2}}
      local width, one = written()
      plot.bars{path = path, width = 400, title = "t", x_label = "x", labels = {"a", 2, "c"},
        values = capl.tensor{2, -1, 0}}
      local _, three = written()
      assert.equal(400, width)
      assert.equal(one + 2 * 22 + 34, three)
      local red, blue = 0, 0
      local image = data.png_read(path)
      local r, b = image:select(2, 1):reshape(-1):tolist(), image:select(2, 3):reshape(-1):tolist()
      for i = 1, #r do
        red, blue = red + ((r[i] == 0xd5 and b[i] == 0) and 1 or 0), blue + ((r[i] == 0 and b[i] == 0xb2) and 1 or 0)
      end
      assert.is_true(red > 500 and math.abs(blue / red - 2) < 0.1, ("%d red, %d blue"):format(red, blue))
    end)

    it("refuses what cannot be drawn", function()
      refused("plot.bars: 2 labels have 1 values", plot.bars, {labels = {"a", "b"}, values = {1}})
      refused("plot.bars: 1 to 200 bars, not 0", plot.bars, {labels = {}, values = {}})
      refused("plot.bars: value 1 is no finite number", plot.bars, {labels = {"a"}, values = {nan}})
      refused("plot.bars: unknown option 'title2'; did you mean 'title'?", plot.bars,
        {title2 = "", labels = {"a"}, values = {1}})
    end)
  end)

  describe("matrix", function()
    it("writes counts with samples beside them", function()
      plot.matrix{path = path, title = "t", labels = {"0", "O"}, counts = {{9, 1}, {0, 10}}, row_label = "meant",
        column_label = "read"}
      local width = written()
      local group = {title = "0 read as O: 1", cells = {cell{}, cell{}}}
      plot.matrix{path = path, labels = {"0", "O"}, counts = {{9, 1}, {0, 10}},
        groups = {group, {title = "O read as 0: 0"}}}
      assert.is_true(written() > width)
    end)

    it("refuses counts that do not fit its labels", function()
      refused("plot.matrix: 2 labels have 2 rows of counts, not 1", plot.matrix,
        {labels = {"0", "O"}, counts = {{9, 1}}})
      refused("plot.matrix: row 2 is a list of 2 counts", plot.matrix, {labels = {"0", "O"}, counts = {{9, 1}, {1}}})
      refused("plot.matrix: count 4 of the matrix is -1; counts are from 0 on", plot.matrix,
        {labels = {"0", "O"}, counts = {{9, 1}, {0, -1}}})
      refused("plot.matrix: groups[1].cells[1]: image is missing", plot.matrix,
        {labels = {"0"}, counts = {{9}}, groups = {{cells = {{}}}}})
    end)
  end)
end)

-- These belong to the program: they are read from their files, and draw into a table.
local function picture_of(name, modules)
  local drawn = {}
  local function keep(what) return function(o) drawn[what] = o end end
  modules.plot = {lines = keep "lines"}
  local chunk = assert(loadfile((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/" .. name .. ".lua"))
  local own = {require = function(wanted) return modules[wanted] or {} end}
  return setfenv(chunk, setmetatable(own, {__index = _G}))({}), drawn
end

describe("the picture of the lr finder", function()
  it("holds every loss that is not far above the first one", function()
    local sweeps, drawn = picture_of("train/lr_sweeps", {})
    local loss, smooth, lr = {2.9, 2.1, 2.6, 1.7, 2.2, 90}, {2.5, 2.4, 2.3, 2.1, 2.0, 2.2}, {1, 2, 3, 4, 5, 6}
    sweeps.draw("lr.png", {sweeps = {{lr = lr, loss = loss, smooth = smooth}}, smooth = smooth}, "lr")
    local panel = drawn.lines.panels[1]
    assert.is_true(panel.max >= 2.9 and panel.max < 10, tostring(panel.max))
    assert.matches("^loss up to %d%.%d+, from 1%.7 to 90 in all$", panel.y_label)
  end)
end)

describe("the picture of a schedule", function()
  it("has few panels, however many ranges change", function()
    local image = os.tmpname() .. ".png"
    local strong = capl.augment.preset("strong", {flip = false})
    local schedule = capl.augment.schedule{{augment = {}}, {from = {step = 10}, augment = strong, ramp = {steps = 20}}}
    data.loader{source = data.captcha{count = 10}, role = "train", batch = 2, augment = schedule}
    schedule:draw(image, 100)
    local size = data.png_read(image)
    os.remove(image)
    assert.equal(900, size:size(4))
    assert.is_true(size:size(3) > 300 and size:size(3) < 1000, tostring(size:size(3)))
  end)
end)
