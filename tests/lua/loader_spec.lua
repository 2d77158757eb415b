-- data.loader over the generator and over PNG files: the same batches for any number of threads, labels, options.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function source(opts)
  opts = opts or {}
  return data.captcha{charset = "0-9", length = 3, count = opts.count or 20, seed = opts.seed or 7, fixed = opts.fixed}
end

local function loader(opts)
  return data.loader{source = opts.source or source(), role = opts.role or "train", batch = opts.batch or 8,
    workers = opts.workers or 0, shuffle = opts.shuffle, drop_last = opts.drop_last, normalize = opts.normalize,
    augment = opts.augment, dtype = opts.dtype, on_error = opts.on_error}
end

--- Sums and labels of all batches of an epoch: equal texts mean equal batches.
local function fingerprint(l, epoch)
  local parts = {}
  for batch in l:epoch(epoch) do
    parts[#parts + 1] = ("%s %.9g %s"):format(table.concat(batch.image.shape, "x"),
      (batch.image * batch.image):sum():item(), table.concat(batch.target:reshape(-1):tolist(), ","))
  end
  return table.concat(parts, "\n")
end

describe("data.loader", function()
  it("gives the same batches for any number of threads, augmented ones too", function()
    local augment = {rotate = 5, contrast = 0.2}
    local expected = fingerprint(loader{augment = augment}, 1)
    for workers = 1, 3 do assert.equal(expected, fingerprint(loader{workers = workers, augment = augment}, 1)) end
  end)

  it("gives the same epoch again, and another one another time", function()
    local l = loader{}
    local first = fingerprint(l, 1)
    assert.not_equal(first, fingerprint(l, 2))
    assert.equal(first, fingerprint(l, 1))
  end)

  it("keeps a fixed source the same in every epoch, apart from what training sees", function()
    local l = loader{source = source{fixed = true}, role = "test"}
    assert.equal(fingerprint(l, 1), fingerprint(l, 2))
    assert.not_equal(fingerprint(l, 1), fingerprint(loader{}, 1))
  end)

  it("has a smaller last batch unless it is dropped", function()
    assert.equal(3, loader{}:batches())
    assert.equal(20, loader{}:samples())
    assert.equal(2, loader{drop_last = true}:batches())
  end)

  it("gives labels as ids and as one-hot rows", function()
    local batch = loader{batch = 4}:epoch(1)()
    assert.same({4, 3}, batch.target.shape)
    assert.same({4, 30}, batch.onehot.shape)
    local id, row = batch.target:tolist()[1][1], batch.onehot:tolist()[1]
    assert.equal(1, row[id + 1])
    assert.equal(12, batch.onehot:sum():item())
  end)

  it("names the samples of each batch, shuffled ones too, as long as the batch is there", function()
    local numbers = {}
    for i = 1, 20 do numbers[i] = {i - 1} end
    local given = data.tensors{value = capl.tensor(numbers)}
    for _, workers in ipairs{0, 2} do
      local kept, seen = {}, {}
      for batch in loader{source = given, shuffle = true, workers = workers}:epoch(1) do kept[#kept + 1] = batch end
      for _, batch in ipairs(kept) do
        assert.same(batch.value:reshape(-1):tolist(), batch.ids)
        for _, id in ipairs(batch.ids) do seen[#seen + 1] = id end
      end
      assert.not_equal(0, seen[1] + seen[2] * 2 - seen[3]) -- not in order
      table.sort(seen)
      for i = 1, 20 do assert.equal(i - 1, seen[i]) end
    end
  end)

  it("normalizes as asked", function()
    local unit = loader{normalize = "unit"}:epoch(1)().image
    assert.is_true(unit:amax():item() <= 1 and unit:amin():item() >= 0)
    local standard = loader{normalize = "standardize"}:epoch(1)().image
    assert.is_true(math.abs(standard:mean():item()) < 1e-4)
    local same = loader{normalize = {mean = {0}, std = {1}}}:epoch(1)().image
    assert.is_true(support.close(same:mean():item(), unit:mean():item()))
    assert.equal("u8", loader{dtype = "u8"}:epoch(1)().image.dtype)
  end)

  it("refuses lists that do not fit", function()
    assert.matches("mean is a list with one number per channel, and the images have 1",
      support.error_text(loader, {normalize = {mean = {0, 0, 0}, std = {1}}}), 1, true)
    assert.matches("std: entry 1 is no number", support.error_text(loader, {normalize = {mean = {0}, std = {"a"}}}), 1,
      true)
    assert.matches("rotate is {lo, hi} or one number", support.error_text(loader, {augment = {rotate = {1, 2, 3}}}), 1,
      true)
  end)

  it("counts what augmentation changed", function()
    local l = loader{augment = {rotate = {3, 5}}}
    fingerprint(l, 1)
    assert.equal(20, l:stats().augmented)
  end)

  it("continues where a state was taken", function()
    local l = loader{batch = 5}
    local next_batch = l:epoch(3)
    next_batch()
    local state, expected = l:state(), next_batch().target:tolist()
    local other = loader{batch = 5}
    other:epoch(1)
    other:set_state(state)
    assert.same(expected, other.box:next().target:tolist())
  end)

  it("says which words an option takes", function()
    assert.matches('on_error must be one of "stop", "skip", got "ignore"',
      support.error_text(loader, {on_error = "ignore"}), 1, true)
  end)

  it("gives the rest of an epoch after set_state, once, and other epochs whole", function()
    local function targets(l, number)
      local all = {}
      for batch in l:epoch(number) do all[#all + 1] = batch.target:tolist() end
      return all
    end
    local l = loader{batch = 5, workers = 1}
    local whole, other_epoch = targets(l, 2), targets(l, 3)
    local next_batch = l:epoch(2)
    next_batch()
    local state = l:state()
    for _, form in ipairs{state, l:state_bytes()} do
      local resumed = loader{batch = 5, workers = 1}
      resumed:set_state(form)
      local rest = targets(resumed, 2)
      assert.equal(#whole - 1, #rest)
      table.insert(rest, 1, whole[1])
      assert.same(whole, rest)
      assert.same(other_epoch, targets(resumed, 3))
      assert.same(whole, targets(resumed, 2))
      resumed:set_state(form)
      assert.same(other_epoch, targets(resumed, 3))
    end
  end)

  it("continues from a state of 24 bytes, too", function()
    local l = loader{batch = 5}
    local next_batch = l:epoch(3)
    next_batch()
    local state, expected = l:state_bytes(), next_batch().target:tolist()
    assert.equal(24, #state)
    local other = loader{batch = 5}
    other:set_state(state)
    assert.same(expected, other.box:next().target:tolist())
    assert.matches("a state is 24 bytes, not 3", support.error_text(other.set_state, other, "abc"))
  end)

  it("reports how long an epoch's steps waited for it, and what would help", function()
    local l = loader{workers = 0}
    local function line(wait) -- after epochs of a second, in which so much of it was waited
      return l:waited({seconds = 1, wait_seconds = 1, samples = 10}, 3, wait > 0 and 3 or 5,
        {seconds = 13.1, wait_seconds = 1 + wait, samples = 50040})
    end
    assert.equal("epochs 3 to 5: 50,030 images in 12.1 s, waited 0.0 % of it for data", line(0))
    assert.equal("epoch 3: 50,030 images in 12.1 s, waited 4.1 % of it for data", line(0.5))
    assert.matches("waited 41.3 % of it for data; the loader is the bottleneck: try workers = ", line(5), 1, true)
    assert.is_nil(line(5):find("cache", 1, true)) -- new images in every epoch
    l = loader{workers = 0, source = source{fixed = true}}
    if l:path():find("not cached", 1, true) or not l:path():find("cached", 1, true) then
      assert.matches(', cache = "ram" or "disk"', line(5), 1, true)
    end
  end)

  it("says what is wrong with its options", function()
    assert.matches("unknown option 'bacth'; did you mean 'batch'", support.error_text(data.loader, {bacth = 3}))
    assert.matches("needs source", support.error_text(data.loader, {role = "train"}))
    assert.matches('role is "train", "val" or "test", not tarin', support.error_text(data.loader, {source = source(),
      role = "tarin"}))
    local function refused(expected, opts)
      opts.source, opts.role = opts.source or source(), "test"
      assert.matches(expected, support.error_text(data.loader, opts), 1, true)
    end
    if not capl.device():match("^cuda") then refused("pin is true, but batches are made on the host", {pin = true}) end
    refused('pin is "auto", true or false, not yes', {pin = "yes"})
    refused("max_bad must be a number from 0 to 1, got 2", {max_bad = 2})
    refused("cache is ram, but the source gives other images in every epoch", {cache = "ram"})
    assert.matches("normalize is", support.error_text(loader, {normalize = "nrom"}))
    assert.matches("unknown option 'charst'; did you mean 'charset'", support.error_text(data.captcha, {charst = "AB"}))
  end)
end)

describe("data.folder", function()
  local dir = assert(os.getenv("CAPL_BUILD_DIR")) .. "/tests/lua/loader_images"
  data.save_captchas{dir = dir, count = 6, seed = 3, charset = "0-9", length = 3}

  local function folder(label) return data.folder(dir, {label = label, charset = "0-9", length = 3}) end

  it("reads the texts from the names by pattern or function", function()
    local by_pattern = fingerprint(loader{source = folder("^(.-)_"), role = "test"}, 1)
    local by_function = fingerprint(loader{source = folder(function(name) return name:sub(1, 3) end), role = "test"}, 1)
    assert.equal(6, folder("^(.-)_"):count())
    assert.equal(by_pattern, by_function)
  end)

  it("gives what the generator drew, but for rounding colours to gray", function()
    local drawn = loader{source = data.captcha{charset = "0-9", length = 3, seed = 3, count = 6}, dtype = "u8",
      batch = 6}
    local files = folder("^(.-)_")
    local read = loader{source = files, role = "test", dtype = "u8", batch = 6}:epoch(1)().image
    local generated = drawn:epoch(0)().image -- epoch 0 of a source is what save_captchas writes
    for i = 0, 5 do
      local index = tonumber(files:name(i):match("_(%d+)%.png$"))
      local difference = generated:select(1, index + 1):float() - read:select(1, i + 1):float()
      assert.is_true(difference:abs():amax():item() <= 1)
    end
  end)

  it("keeps what it has read in a file that a later loader uses", function()
    local cache_dir = dir .. "_cache"
    local function kept(cache)
      local l = data.loader{source = folder("^(.-)_"), role = "test", batch = 4, workers = 1, cache = cache,
        cache_dir = cache_dir}
      return fingerprint(l, 1), fingerprint(l, 2), l:path()
    end
    local expected = kept("none")
    for _ = 1, 2 do
      local first, second, path = kept("disk")
      assert.equal(expected, first)
      assert.equal(expected, second)
      assert.matches("cached in " .. cache_dir .. "/", path, 1, true)
    end
    local first, second, path = kept("ram")
    assert.equal(expected, first)
    assert.equal(expected, second)
    assert.matches("cached in memory, 0.1 MB", path, 1, true)
    os.execute("rm -r '" .. cache_dir .. "'")
  end)

  it("refuses a label rule that fits no name, and shows names", function()
    local text = support.error_text(folder, "^x(.-)_")
    assert.matches("the label rule '^x(.-)_' fits none of the 6 files in ", text, 1, true)
    assert.matches("such as %d%d%d_%d%.png, %d%d%d_%d%.png, %d%d%d_%d%.png", text)
    assert.matches("for the first, '^(.-)_' reads ", text, 1, true)
    assert.matches("label = '(' is no Lua pattern: unfinished capture", support.error_text(folder, "("), 1, true)
    assert.matches("label must be a string, got number", support.error_text(folder, 5), 1, true)
  end)

  it("refuses names without a text unless they are to be left out", function()
    local function first_only(name) return name:match("^(%d+)_0") end
    local text = support.error_text(loader, {source = folder(first_only), role = "test"})
    assert.matches("5 of 6 files have no usable label; the first: ", text, 1, true)
    assert.matches("and 2 more", text, 1, true)
    loader{source = folder(first_only), role = "test", on_error = "skip"}
  end)
end)
