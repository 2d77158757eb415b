-- augment: options, presets, mixed samples, and what is refused.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local augment, data = capl.augment, capl.data

local function source(opts)
  opts = opts or {}
  return data.captcha{charset = "0-9", length = 3, count = opts.count or 16, seed = 7, fixed = true,
    channels = opts.channels}
end

local function loader(ops, opts)
  opts = opts or {}
  return data.loader{source = opts.source or source(opts), role = opts.role or "train", batch = 8,
    workers = opts.workers or 0, normalize = "unit", augment = ops, tta = opts.tta}
end

local function first(ops, opts)
  return loader(ops, opts):epoch(1)()
end

local function message_of(fn, ...)
  local fine, err = pcall(fn, ...)
  assert.is_false(fine)
  return tostring(err)
end

describe("augment", function()
  it("has presets that each change images, in gray and in colour", function()
    for _, name in ipairs(augment.presets) do
      for channels = 1, 3, 2 do
        local l = loader(augment.preset(name, {flip_text = true}), {channels = channels})
        for batch in l:epoch(1) do assert.equal(8, batch.count) end
        assert.is_true(l:stats().augmented > 0, name)
      end
    end
    local l = loader("captcha") -- by its name, and it suits texts
    for batch in l:epoch(1) do assert.equal(8, batch.count) end
    assert.equal(16, l:stats().augmented)
  end)

  it("changes presets by options, false takes one out", function()
    local ops = augment.preset("strong", {flip = false, noise = 3})
    assert.is_nil(ops.flip)
    assert.equal(3, ops.noise)
    assert.equal(0.5, augment.preset("strong").flip)
    assert.matches("unknown preset 'strog'; did you mean 'strong'", message_of(augment.preset, "strog"), 1, true)
  end)

  it("reads ranges, single numbers, probabilities and coins", function()
    for _, ops in ipairs{
      {rotate = 5}, {rotate = {-5, 5}}, {rotate = {-5, 5, p = 0.5}}, {rotate = {5, p = 0.5, coin = 3}}, {crop = 0.5},
      {crop = {0.5, 1, aspect = {0.9, 1.1}}}, {blur = {0.5, 1, size = 5}}, {erase = {0.1, 0.2, value = 9, p = 0.5}},
      {flip = 1, flip_text = true}, {mixup = {alpha = 0.2, p = 1}}, {cutmix = {}},
      {gamma = 0.2, hue = 0.1, saturation = 0.5}, {perspective = 0.2, elastic = 2, fill = 7, mask_fill = 1},
      {flip_vertical = 1, flip_text = true, flip_swaps = {{1, 2}, {3, 4}}},
    } do assert.equal(8, first(ops, {channels = 3}).count) end
  end)

  it("names what is wrong with an op", function()
    for wanted, ops in pairs{
      ["augment: rotate is {lo, hi} or one number, got string"] = {rotate = "5"},
      ["augment: rotate has no option 'size'; it knows p coin"] = {rotate = {1, 2, size = 3}},
      ["augment: rotate: p is a number from 0 to 1"] = {rotate = {1, 2, p = 2}},
      ["augment: blur has size = 4; 3, 5 and 7 px are known"] = {blur = {1, 2, size = 4}},
      ["augment: mixup has no option 'a'; it knows alpha p"] = {mixup = {a = 1}},
      ["augment: cutmix: alpha is a number from 0.01 to 4"] = {cutmix = {alpha = 5}},
      ["they add up to 1 at most"] = {mixup = {p = 0.7}, cutmix = {p = 0.7}},
      ["augment: flip_swaps[2] is no pair such as {4, 5}"] = {flip_swaps = {{1, 2}, 3}},
      ["augment: flip_swaps names 2 twice"] = {flip_swaps = {{1, 2}, {2, 3}}},
      ["augment: crop is 0.5 to 1.5; it must lie within 0.01 to 1"] = {crop = {0.5, 1.5}},
      ["augment: perspective is 1 to 1; it must lie within 0 to 0.95"] = {perspective = 1},
      ["a mirrored text is no longer its label"] = {flip = 0.5},
    } do assert.matches(wanted, message_of(loader, ops), 1, true) end
  end)

  it("moves masks, and takes what a source declares for its flips", function()
    local faces = data.faces{count = 4, size = 64, fixed = true}
    local plain = data.loader{source = faces, role = "train", batch = 4, normalize = "unit"}:epoch(1)()
    for _, name in ipairs(augment.presets) do
      if name ~= "captcha" then
        local batch = data.loader{source = faces, role = "train", batch = 4, normalize = "unit",
          augment = name}:epoch(1)()
        assert.same({4, 64, 64}, batch.mask.shape)
        assert.same({4, 3, 64, 64}, batch.image.shape)
      end
    end
    local flipped = data.loader{source = faces, role = "train", batch = 4, normalize = "unit",
      augment = {flip = 1}}:epoch(1)()
    local before, after, swap = plain.mask:tolist(), flipped.mask:tolist(), {}
    for class = 0, 255 do swap[class] = class end
    for _, pair in ipairs(faces.swaps) do swap[pair[1]], swap[pair[2]] = pair[2], pair[1] end
    for n = 1, 4 do
      for y = 1, 64, 7 do
        for x = 1, 64 do assert.equal(swap[before[n][y][x]], after[n][y][65 - x]) end
      end
    end
    local bare = data.faces{count = 4, size = 64}
    bare.swaps = nil
    assert.matches("it is not declared which classes of mask are exchanged",
      message_of(data.loader, {source = bare, role = "train", batch = 4, augment = "strong"}), 1, true)
    data.loader{source = bare, role = "train", batch = 4, augment = augment.preset("strong", {flip_swaps = {}})}
  end)

  it("is for training, unless test-time augmentation is asked for", function()
    for _, role in ipairs{"val", "test"} do
      local message = message_of(loader, {rotate = 5}, {role = role})
      assert.matches('role is "' .. role .. '", and its images would be augmented', message, 1, true)
      assert.equal(8, first({rotate = 5}, {role = role, tta = true}).count)
    end
  end)

  it("gives mixed samples both labels and their shares", function()
    local plain, mixed = first(nil), first{mixup = {alpha = 1, p = 1}}
    assert.is_nil(plain.mix)
    assert.same({8}, mixed.mix.shape)
    assert.same({8, 3}, mixed.target2.shape)
    assert.same(plain.target:tolist(), mixed.target:tolist())
    local shares, targets, others = mixed.mix:tolist(), mixed.target:tolist(), mixed.target2:tolist()
    local onehot = mixed.onehot:tolist()
    for n = 1, 8 do
      assert.is_true(shares[n] >= 0 and shares[n] <= 1)
      local expected = (targets[n][1] == others[n][1]) and 1 or shares[n]
      assert.near(expected, onehot[n][targets[n][1] + 1], 1e-6)
    end
    local sum = 0
    for _, share in ipairs(shares) do sum = sum + share end
    assert.is_true(sum > 0.5 and sum < 7.5)
  end)

  it("mixes the same with any number of threads", function()
    local function sums(workers)
      local out = {}
      for batch in loader({mixup = {p = 0.5}, cutmix = {p = 0.5}, rotate = 9},
        {workers = workers, count = 64}):epoch(1) do
        out[#out + 1] = ("%.9g %s"):format((batch.image * batch.image):sum():item(),
          table.concat(batch.mix:tolist(), ","))
      end
      return table.concat(out, "\n")
    end
    assert.equal(sums(0), sums(1))
    assert.equal(sums(0), sums(3))
  end)

  it("weighs the losses of both labels", function()
    local batch = {target = capl.tensor{1, 2}, target2 = capl.tensor{10, 20}, mix = capl.tensor{0.25, 1}}
    local function loss(target) return target * 2 end
    assert.near((0.25 * 2 + 0.75 * 20 + 4) / 2, augment.mixed(loss, batch):item(), 1e-6)
    assert.near(3, augment.mixed(loss, {target = capl.tensor{1, 2}}):item(), 1e-6)
    assert.matches('"none"', message_of(augment.mixed, function() return capl.tensor{1, 2, 3} end, batch), 1, true)
  end)
end)
