-- data.tensors: what lies in memory as a source: every part arrives with its row, and what does not fit is named.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data
local N, W, H = 10, 3, 2

--- A tensor whose value at each place is fn(sample, place), both from 0.
local function filled(size, dtype, fn)
  local per, values = 1, {}
  for i = 2, #size do per = per * size[i] end
  for n = 0, size[1] - 1 do
    for k = 0, per - 1 do values[#values + 1] = fn(n, k) end
  end
  return capl.tensor(values):reshape(unpack(size)):to(dtype)
end

local function parts(changes)
  local o = {
    image = filled({N, 1, H, W}, "u8", function(n, k) return 10 * n + k end),
    target = filled({N, 2}, "i32", function(n, k) return (n + k) % 10 end), charset = "0-9",
    mask = filled({N, H, W}, "u8", function(n) return n end),
    points = filled({N, 4, 3}, "f32", function(n, k) return n + k / 100 end),
    speed = filled({N}, "f32", function(n) return -n end),
  }
  for key, value in pairs(changes or {}) do o[key] = value ~= "none" and value or nil end
  return o
end

local function loader(source, opts)
  return data.loader{source = source, role = opts.role or "test", batch = opts.batch or 4, workers = opts.workers or 0,
    dtype = "u8", augment = opts.augment}
end

local function fails(expected, changes)
  local text = support.error_text(data.tensors, parts(changes))
  assert(text:find("data.tensors: " .. expected, 1, true), text)
end

describe("data.tensors", function()
  it("gives every part of a sample in one row, for any number of threads", function()
    local source = data.tensors(parts())
    assert.equal(N, source:count())
    for workers = 0, 3 do
      local n = 0
      for batch in loader(source, {workers = workers}):epoch(1) do
        for i = 1, batch.count do
          assert.equal(10 * n + 4, batch.image[i][1][2][2]:item()) -- place 4 of the image
          assert.same({n % 10, (n + 1) % 10}, batch.target[i]:tolist())
          assert.equal(n, batch.mask[i][2][3]:item())
          assert.is_true(support.close(n + 0.05, batch.points[i][2][3]:item(), 1e-5))
          assert.same({-n}, batch.speed[i]:tolist())
          n = n + 1
        end
        assert.same({batch.count, 20}, batch.onehot.shape)
      end
      assert.equal(N, n)
    end
  end)

  it("takes views and three channels", function()
    local image = filled({N, H, W, 3}, "u8", function(n, k) return n + 3 * k end):permute(1, 4, 2, 3)
    local batch = loader(data.tensors{image = image}, {batch = N}):epoch(1)()
    assert.same(image:tolist(), batch.image:tolist())
    assert.is_nil(batch.target)
  end)

  it("needs no image", function()
    local source = data.tensors{input = filled({N, 7, 2}, "f32", function(n, k) return n * 100 + k end)}
    local l = loader(source, {batch = 3})
    local batch = l:epoch(1)()
    assert.is_nil(batch.image)
    assert.equal(3, batch.count)
    assert.same({3, 7, 2}, batch.input.shape)
    assert.equal(213, batch.input[3][7][2]:item())
    assert.equal("made on the host", l:path())
  end)

  it("shuffles for training and trains on classes without a charset", function()
    local source = data.tensors{image = parts().image, target = filled({N}, "i32", function(n) return n % 3 end),
      classes = 3}
    local seen, order = {}, {}
    for batch in loader(source, {role = "train"}):epoch(1) do
      assert.same({batch.count, 3}, batch.onehot.shape)
      for _, row in ipairs(batch.image:reshape(batch.count, -1):tolist()) do
        seen[row[1]] = true
        order[#order + 1] = row[1]
      end
    end
    for n = 0, N - 1 do assert.is_true(seen[10 * n]) end
    assert.not_same({0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, order)
  end)

  it("leaves the caller's tensors alone", function()
    local o = parts()
    local source = data.tensors(o)
    o.image:fill_(0)
    assert.equal(4, loader(source, {}):epoch(1)().image[1][1][2][2]:item())
  end)

  it("names what does not fit", function()
    fails("image has 10 samples, but target has 9", {target = filled({9, 2}, "i32", function() return 0 end)})
    fails("image is (N,C,H,W) u8 levels, got (10,1,2,3) f32", {image = parts().image:float()})
    fails("image is a tensor (N,C,H,W) u8 levels, not a number", {image = 5})
    fails("image has 2 channels; it has 1 (gray) or 3", {image = filled({N, 2, H, W}, "u8", function() return 0 end)})
    fails("target is (N) or (N,T) i32", {target = filled({N, 2}, "f32", function() return 0 end)})
    fails("label 10 of sample 0 is outside 0..9", {target = filled({N, 2}, "i32", function() return 10 end)})
    fails("mask is 3x3 px, but image is 3x2", {mask = filled({N, 3, W}, "u8", function() return 0 end)})
    fails("points is (N,P,3) f32", {points = filled({N, 4, 2}, "f32", function() return 0 end)})
    fails("boxes is (N,B,5) f32", {boxes = filled({N, 4, 2}, "f32", function() return 0 end)})
    fails("batches have a count of their own", {count = parts().speed})
    fails("classes = 3, but charset has 10", {classes = 3})
    fails("charset and classes are of the target, and there is none", {target = "none"})
    fails("6 parts beside image and target; there can be 4", {a = parts().speed, b = parts().speed, c = parts().speed})
    assert.matches("nothing to give", support.error_text(data.tensors, {}))
    assert.matches("the options must be a table, got nil", support.error_text(data.tensors))
    assert.matches("augment changes images, and the source has none", support.error_text(loader,
      data.tensors{input = parts().speed}, {role = "train", augment = {noise = 3}}))
  end)
end)
