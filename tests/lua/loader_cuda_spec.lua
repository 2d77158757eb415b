-- data.loader where a GPU makes the batches: the host's values, and what the report says. Skipped without a GPU.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local has_cuda = pcall(capl.device, "cuda")
capl.device("cpu")
local it_on_cuda = has_cuda and it or pending

-- Values of every batch of two epochs of a loader made on the device.
local function values(device, opts)
  capl.device(device)
  local source = data.captcha{count = 11, fixed = opts.fixed ~= false, channels = opts.channels, width = 60,
    height = 30, length = 2}
  local loader = data.loader{source = source, role = "train", batch = 4, workers = 2, shuffle = true,
    augment = opts.augment, normalize = opts.normalize, dtype = opts.dtype, cache = opts.cache}
  local batches = {}
  for epoch = 1, 2 do
    for batch in loader:epoch(epoch) do batches[#batches + 1] = batch end
  end
  local out = {}
  for i, batch in ipairs(batches) do
    assert.equal(device == "cuda" and "cuda:0" or device, batch.image.device)
    out[i] = {batch.image:to("f32"):tolist(), batch.target:tolist(), batch.onehot:tolist()}
    if opts.mixes then out[i][4], out[i][5] = batch.target2:tolist(), batch.mix:tolist() end
  end
  capl.device("cpu")
  return out, loader
end

describe("data.loader on a GPU", function()
  after_each(function() capl.device("cpu") end)

  local cases = {
    ["plain"] = {},
    ["augmented"] = {augment = {rotate = 15, shear = 5, noise = 8, contrast = 0.2, invert = 0.5}},
    ["of colours in 16 bits"] = {channels = 3, dtype = "bf16", normalize = "unit", augment = {rotate = 15, fill = 200}},
    ["of colours, each normalized"] = {channels = 3, dtype = "f16",
    normalize = {mean = {0.4, 0.5, 0.6}, std = {0.2, 0.3, 0.4}}},
    ["bent and mixed"] = {mixes = true, augment = {elastic = {1, 3}, gamma = {0.5, 2}, mixup = {alpha = 0.4, p = 0.7}}},
    ["as levels"] = {dtype = "u8", augment = {scale = 0.3, translate_x = 0.2}},
  }
  for name, opts in pairs(cases) do
    for _, cache in ipairs{"none", "device"} do
      it_on_cuda(("gives batches %s as the host does, cache = %s"):format(name, cache), function()
        local wanted = values("cpu", opts)
        opts.cache = cache
        local got = values("cuda", opts)
        opts.cache = nil
        assert.same(wanted, got)
      end)
    end
  end

  it_on_cuda("gives batches of several widths as the host does", function()
    local function batches(device, augment)
      capl.device(device)
      local source = data.captcha{count = 19, fixed = true, charset = "0-9", length = {1, 4}, width = 72, height = 20,
        widths = "auto"}
      local loader = data.loader{source = source, role = "train", batch = 3, workers = 2, shuffle = true,
        augment = augment}
      local out = {}
      for epoch = 1, 2 do
        for batch in loader:epoch(epoch) do
          out[#out + 1] = {batch.image.shape[4], batch.image:to("f32"):tolist(), batch.target:tolist(),
            batch.target_length:tolist(), batch.width:tolist()}
        end
      end
      capl.device("cpu")
      return out, loader
    end
    for _, augment in ipairs{false, {rotate = 15, noise = 8}, {elastic = {1, 3}, gamma = {0.5, 2}}} do
      local got, loader = batches("cuda", augment or nil)
      assert.same((batches("cpu", augment or nil)), got)
      assert.equal("streamed to cuda:0, page-locked: its images have several widths",
        loader:path():gsub(", cached.*", ""))
    end
    capl.device("cuda")
    local source = data.captcha{count = 9, fixed = true, length = {1, 4}, widths = "auto"}
    local text = support.error_text(data.loader, {source = source, role = "val", cache = "device"})
    assert.is_truthy(text:find("cache is device, but the source's images have", 1, true), text)
  end)

  it_on_cuda("keeps what is the same in every epoch, and says so", function()
    local _, resident = values("cuda", {})
    assert.equal("resident on cuda:0, 0 MB", resident:path())
    local _, streamed = values("cuda", {fixed = false})
    assert.equal("streamed to cuda:0, page-locked: each epoch has new images", streamed:path())
    assert.matches("^train data: streamed to cuda:0.* 22 images, waited for them [%d.]+ %% of the time$",
      streamed:report())
  end)

  it_on_cuda("refuses to keep what changes", function()
    capl.device("cuda")
    local source = data.captcha{count = 11}
    assert.matches("the source gives other images in every epoch", support.error_text(data.loader,
      {source = source, role = "train", cache = "device"}))
  end)

  it("needs a GPU to keep a set on one", function()
    local source = data.captcha{count = 11, fixed = true}
    assert.matches("cache is device, but batches are made on the host", support.error_text(data.loader,
      {source = source, role = "train", cache = "device"}))
  end)

  it_on_cuda("reads and writes single images", function()
    capl.device("cuda")
    local path = os.tmpname()
    local image = capl.tensor({0, 50, 100, 150, 200, 250}, {dtype = "u8"}):reshape(1, 2, 3)
    data.png_write(path, image)
    local back = data.png_read(path)
    os.remove(path)
    assert.equal("cuda:0", back.device)
    assert.same({{{{0, 50, 100}, {150, 200, 250}}}}, back:tolist())
  end)
end)
