-- Images of several widths: brought to one height, filled up to the width of their batch, each batch of one width.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function raises(expected, fn, ...)
  local text = support.error_text(fn, ...)
  assert(text:find(expected, 1, true), text)
end

describe("images of several widths", function()
  local root
  local sizes = {} -- [name] = {width, height}

  --- A dark bar of half the height on a light ground; its level tells which image it is.
  local function draw(path, width, height, level)
    local rows = {}
    for y = 1, height do
      rows[y] = {}
      for x = 1, width do
        local inside = y > height / 4 and y <= height * 3 / 4 and x > height * 3 / 16 and x <= width - height * 3 / 16
        rows[y][x] = inside and level or 220
      end
    end
    data.png_write(path, capl.tensor({rows}, {dtype = "u8"}))
  end

  local function open(opts)
    local o = {charset = "a-z", length = "auto", height = 16, widths = {16, 32, 48}}
    for key, value in pairs(opts or {}) do o[key] = value ~= "none" and value or nil end
    return data.folder(root .. "/set", o)
  end

  local function loader(opts)
    opts = opts or {}
    return data.loader{source = opts.source or open(), role = opts.role or "train", batch = opts.batch or 4,
      workers = opts.workers or 0, drop_last = opts.drop_last, shard = opts.shard, cache = opts.cache,
      augment = opts.augment, dtype = opts.dtype or "u8", seed = 3, on_error = opts.on_error, max_bad = opts.max_bad,
      cache_dir = opts.cache_dir}
  end

  --- What a batch is, to the last bit.
  local function print_of(batch)
    return ("%s %s %s %s %s %d"):format(table.concat(batch.image.shape, "x"), table.concat(batch.ids, ","),
      table.concat(batch.width:tolist(), ","), table.concat(batch.target:reshape(-1):tolist(), ","),
      (batch.image:to("f32") * capl.arange(batch.image:numel(),
      {dtype = "f32"}):reshape(batch.image.shape)):sum():item(), batch.padded)
  end

  local function prints(l, epoch)
    local out = {}
    for batch in l:epoch(epoch) do out[#out + 1] = print_of(batch) end
    return out
  end

  setup(function()
    root = os.tmpname()
    os.remove(root)
    assert(os.execute(("mkdir -p '%s/set'"):format(root)) == 0)
    local n = 0
    for _, width in ipairs{8, 12, 16, 20, 24, 28, 30, 40, 60, 90} do -- at height 16: as they are, halved at height 32
      for k = 1, width < 60 and 3 or 1 do
        local times = k == 3 and 2 or 1
        local name = ("%s_%d_%d.png"):format(("abc"):sub(1, k), width, k)
        draw(root .. "/set/" .. name, width * times, 16 * times, 10 + n)
        sizes[name] = {width, 10 + n}
        n = n + 1
      end
    end
  end)
  teardown(function() os.execute("rm -rf '" .. root .. "'") end)

  it("come in batches of one width that they fit, filled up with their background", function()
    local source = open()
    local l = loader{source = source, role = "val"}
    assert.same({16, 32, 48}, l.widths)
    local seen = {}
    for batch in l:epoch(1) do
      local width = batch.image.shape[4]
      local used = batch.width:tolist()
      for i, id in ipairs(batch.ids) do
        seen[id] = (seen[id] or 0) + 1
        local natural, level = unpack(sizes[source:name(id)])
        assert.equal(natural <= 16 and 16 or natural <= 32 and 32 or 48, width)
        assert.equal(math.min(natural, 48), used[i])
        local row = batch.image[i][1][8]:tolist()
        local middle = math.floor(used[i] / 2)
        assert(math.abs(row[middle] - level) <= 12, row[middle]) -- the filter overshoots
        for x = used[i] + 1, width do assert.equal(220, row[x]) end
        assert.equal(batch.target_length:tolist()[i], #source:text(id))
      end
    end
    for id = 0, source:count() - 1 do assert.equal(1, seen[id]) end
  end)

  it("give the same batches for any number of threads, augmented and cached ones too", function()
    for _, augment in ipairs{false, {rotate = 8, noise = 5, blur = 1, elastic = 2}} do
      local expected = prints(loader{augment = augment or nil, cache = "none"}, 2)
      for _, cache in ipairs{"none", "ram", "disk"} do
        for _, workers in ipairs{0, 3} do
          local l = loader{augment = augment or nil, cache = cache, workers = workers, cache_dir = root .. "/cache"}
          prints(l, 1) -- the cache fills
          assert.same(expected, prints(l, 2))
        end
      end
    end
  end)

  it("come in another order in each epoch, widths mixed, every image once", function()
    local l = loader()
    local first, second = prints(l, 1), prints(l, 2)
    assert.not_same(first, second)
    assert.same(first, prints(l, 1))
    for _, epoch in ipairs{first, second} do
      local widths, turns, ids = {}, 0, 0
      for i, text in ipairs(epoch) do
        widths[i] = text:match("^%d+x1x16x(%d+)")
        if i > 1 and widths[i] ~= widths[i - 1] then turns = turns + 1 end
        ids = ids + select(2, text:match("^%S+ (%S+)"):gsub("%d+", ""))
      end
      assert.equal(26, ids)
      assert(turns > 2, table.concat(widths, " "))
    end
    local fixed = prints(loader{role = "val"}, 1)
    assert.same(fixed, prints(loader{role = "val"}, 2))
  end)

  it("go on anywhere in an epoch with the same bits", function()
    local all = prints(loader(), 3)
    for stop = 0, #all do
      local l, n = loader{workers = stop % 3}, 0
      local next_batch = l:epoch(3)
      while n < stop do next_batch() n = n + 1 end
      local resumed = loader()
      resumed:set_state(l:state_bytes())
      local rest = prints(resumed, 3)
      assert.equal(#all - stop, #rest)
      for i, text in ipairs(rest) do assert.equal(all[stop + i], text) end
    end
    local other = loader{batch = 5}
    local l = loader()
    l:epoch(3)()
    raises("of epoch 3, which is not the start of a batch", other.set_state, other, l:state())
    raises("batch, shard and drop_last must equal those of the state", other.set_state, other, l:state())
  end)

  it("end an epoch after limit_batches, also one that was begun by another run", function()
    local nn = capl.nn
    local function steps_of_first_epoch(from, limit)
      local l, before = loader{dtype = "f32", batch = 2}, loader{dtype = "f32", batch = 2}
      local model, n = nn.Sequential{nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 1)}, 0
      if from > 0 then
        local next_batch = before:epoch(1)
        for _ = 1, from do next_batch() end
        l:set_state(before:state())
      end
      capl.train.fit{model = model, train = l, val = false, limit_batches = limit, steps = limit, precision = "fp32",
        capture = false, optimizer = capl.optim.SGD(model:parameters(), {lr = 0.1}),
        loss = function(output)
          n = n + (l:state().epoch == 1 and 1 or 0)
          return output:mean()
        end}
      return n
    end
    local all = loader{batch = 2}:batches()
    for from = 7, all - 2, 2 do assert.equal(all - 1 - from, steps_of_first_epoch(from, all - 1)) end
  end)

  it("are shared out among ranks, all of which have the same widths at the same time", function()
    local ranks, seen = {}, {}
    for rank = 0, 2 do
      local world = setmetatable({rank = rank, size = 3}, getmetatable(capl.distributed()))
      ranks[rank] = {}
      for batch in loader{batch = 2, shard = world}:epoch(1) do
        table.insert(ranks[rank], batch.image.shape[4])
        for i, id in ipairs(batch.ids) do
          if i <= batch.count - batch.padded then seen[id] = (seen[id] or 0) + 1 end
        end
      end
    end
    assert.same(ranks[0], ranks[1])
    assert.same(ranks[0], ranks[2])
    for id = 0, 25 do assert.equal(1, seen[id]) end
  end)

  it("drop the small last batch of each width when they are asked to", function()
    local l = loader{drop_last = true}
    local n = 0
    for batch in l:epoch(1) do
      assert.equal(4, batch.count)
      n = n + 4
    end
    assert.equal(l:samples(), n)
    assert.equal(n / 4, l:batches())
    raises("no width has so many samples, so drop_last leaves no batch at all", loader, {drop_last = true, batch = 20})
  end)

  it("stand in for a bad one only among those of its width", function()
    assert(os.execute(("cp -r '%s/set' '%s/bad'"):format(root, root)) == 0)
    local file = io.open(root .. "/bad/ab_8_2.png", "r+b")
    file:seek("set", 60)
    file:write("XXXXXXXX")
    file:close()
    io.open(root .. "/bad/a_20_1.png", "w"):close()
    local source = data.folder(root .. "/bad", {charset = "a-z", length = "auto", height = 16, widths = {16, 32, 48}})
    raises("bad/", function() prints(loader{source = source}, 1) end)
    local l = loader{source = source, on_error = "skip", max_bad = 0.2}
    local again = loader{source = source, on_error = "skip", max_bad = 0.2, workers = 3}
    local texts = prints(l, 1)
    assert.same(texts, prints(again, 1))
    assert.equal(2, l:stats().substituted)
  end)

  it("have widths chosen for them, few and with little to fill up", function()
    local source = open{widths = "auto"}
    assert(#source.widths >= 1 and #source.widths <= 6)
    local last = 0
    for _, width in ipairs(source.widths) do
      assert(width % 8 == 0 and width > last)
      last = width
    end
    for _, width in ipairs(open{widths = {step = 20}}.widths) do assert.equal(0, width % 20) end
    local train, val = data.split(source, {val = 0.3})
    assert.same(source.widths, train.widths)
    assert.equal(26, train:count() + val:count())
  end)

  it("are drawn as wide as their texts are long", function()
    local function captchas(o)
      return data.captcha{charset = "0-9", length = {2, 5}, height = 20, width = 48, widths = o.widths or "auto",
        count = o.count or 40, fixed = o.fixed, seed = 4}
    end
    local source = captchas{fixed = true}
    assert.same({24, 40, 48, 64}, source.widths) -- of 24, 36, 48 and 60 px
    local expected = prints(loader{source = source}, 1)
    assert.same(expected, prints(loader{source = captchas{fixed = true}, workers = 3}, 1))
    local seen = {}
    for batch in loader{source = captchas{}}:epoch(1) do
      local lengths, used = batch.target_length:tolist(), batch.width:tolist()
      for i, length in ipairs(lengths) do
        assert.equal(12 * length, used[i])
        assert.equal(math.ceil(used[i] / 8) * 8, batch.image.shape[4])
        seen[length] = true
      end
    end
    assert.same({nil, true, true, true, true}, seen)
    assert.same({60}, captchas{widths = {60}}.widths)
    raises("images of 5 characters are 60 px wide, but the largest of widths is 48", captchas, {widths = {24, 48}})
    raises("images of several widths need a count", data.captcha, {length = {2, 5}, widths = "auto"})
    local l = data.loader{source = captchas{}, role = "train", batch = 4, workers = 0,
      augment = capl.augment.schedule{{difficulty = {length = {2, 3}}}}}
    for batch in l:epoch(1) do
      local lengths, used = batch.target_length:tolist(), batch.width:tolist()
      for i, length in ipairs(lengths) do
        assert(length <= 3)
        assert.equal(12 * length, used[i])
      end
    end
  end)

  it("are written as files of their own widths", function()
    for _, format in ipairs{"png", "lmdb"} do
      local dir = root .. "/drawn_" .. format
      data.save_captchas{dir = dir, count = 12, seed = 2, charset = "0-9", length = {2, 4}, height = 20, width = 48,
        widths = "auto", format = format}
      local source = data.open(dir, {charset = "0-9", length = "auto", height = 20, widths = {24, 36, 48}})
      for id = 0, 11 do assert.equal(12 * #source:text(id), (source.box:read(1, id)).shape[4]) end
    end
    raises('widths is "auto": each image is as wide as its text', data.save_captchas,
      {dir = root .. "/no", count = 1, widths = {1}})
  end)

  it("say what cannot be", function()
    raises("widths go with a height, and without width and resize", open, {height = "none"})
    raises("widths go with a height", open, {width = 20})
    raises("px in ascending order, not 16", open, {widths = {32, 16}})
    raises("px in ascending order, not 0", open, {widths = {0.5}})
    raises("widths is a list of 1 to 16 widths", open, {widths = {}})
    raises('widths is a list of widths in px, "auto" or {step = px}, not many', open, {widths = "many"})
    raises("mixup and cutmix take two images of one size, and the source's have 3 widths", loader,
      {augment = {mixup = {alpha = 0.4, p = 0.5}}})
  end)
end)
