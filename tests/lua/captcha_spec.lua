-- data.captcha: every preset in batches, texts of varying length, the options of the styles and what the docstring
-- says.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local data = capl.data

local function first_batch(opts)
  return data.loader{source = data.captcha(opts), role = "train", batch = 16, workers = 0, dtype = "u8"}:epoch(1)()
end

local function message(opts)
  local fine, why = pcall(data.captcha, opts)
  assert.is_false(fine)
  return tostring(why)
end

-- All presets, but for the one whose fonts may not be installed.
local function drawable()
  local list = data.presets()
  local last = table.remove(list)
  assert.equal("zh-word", last)
  if pcall(data.captcha, {preset = last}) then list[#list + 1] = last
  else print("skipped, preset zh-word: no font with Chinese characters is installed") end
  return list
end

describe("data.captcha", function()
  it("serves every preset in its own size, and in another", function()
    local sizes = {["gd-security"] = {110, 360, 6}, ["gradient-curve"] = {50, 200, 5}, ["zh-word"] = {64, 240, 4},
      icons = {48, 48, 1}, varied = {64, 780, 20}}
    for _, preset in ipairs(drawable()) do
      local height, width, length = unpack(sizes[preset] or {60, 160, 4})
      local batch = first_batch{preset = preset, count = 16}
      assert.same({16, 1, height, width}, batch.image.shape)
      assert.same({16, length}, batch.target.shape)
      batch = first_batch{preset = preset, count = 16, width = 96, height = 40, length = 3, channels = 3,
        charset = "a-f"}
      assert.same({16, 3, 40, 96}, batch.image.shape)
      for _, text in ipairs(batch.target:tolist()) do
        for _, id in ipairs(text) do assert.is_true(id >= 0 and id < 6) end
      end
    end
  end)

  it("pads texts of varying length with -1", function()
    local seen = {}
    for _, text in ipairs(first_batch{preset = "free", length = {2, 4}, charset = "0-9", count = 16}.target:tolist()) do
      assert.equal(4, #text)
      local n = 0
      while n < 4 and text[n + 1] >= 0 do n = n + 1 end
      for i = n + 1, 4 do assert.equal(-1, text[i]) end
      seen[n] = true
    end
    assert.same({[2] = true, [3] = true, [4] = true}, seen)
  end)

  it("takes ranges as a number or two, colours as a gray level, two, or two colours", function()
    local image = first_batch{preset = "free", count = 16, channels = 3, length = 1, charset = "I", size = 20,
      lines = 0, arcs = 0, curves = {0, 0}, dots = 0, background = {{10, 20, 30}, {10, 20, 30}},
      ink = 200}.image:float()
    assert.equal(10, image:select(2, 1):amin():item())
    assert.equal(20, image:select(2, 2):amin():item())
    assert.equal(30, image:select(2, 3):amin():item())
    assert.equal(200, image:amax():item())
  end)

  it("mixes several fonts", function()
    local one = first_batch{preset = "seed-custom", count = 16, font = "DejaVuSans.ttf"}.image:float()
    local same = first_batch{preset = "seed-custom", count = 16, font = {"DejaVuSans.ttf"}}.image:float()
    local two = first_batch{preset = "seed-custom", count = 16,
      font = {"DejaVuSans.ttf", "DejaVuSans-Bold.ttf"}}.image:float()
    assert.equal(0, (one - same):abs():amax():item())
    assert.is_true((one - two):abs():amax():item() > 0)
  end)

  it("refuses what a preset does not have, and names the presets that have it", function()
    assert.matches('preset "mixed" has no option grain; it is an option of: free', message{preset = "mixed", grain = 3})
    for _, option in ipairs(data.style_options()) do
      if option.kind ~= "word" then
        assert.matches("has no option " .. option.name, message{[option.name] = 7})
      end
      assert.is_true(#option.presets > 0)
    end
  end)

  it("documents in its docstring every preset and every option", function()
    local file = assert(io.open((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/data/captcha.lua"))
    local doc = file:read("*a"):match("%-%-%- Captchas generated during training.-function")
    file:close()
    for _, preset in ipairs(data.presets()) do assert.is_truthy(doc:find('"' .. preset .. '"', 1, true), preset) end
    for _, option in ipairs(data.style_options()) do
      assert.is_truthy(doc:find("%f[%w_]" .. option.name .. "%f[^%w_]"), option.name)
    end
  end)
end)
