-- What a learning curve says: the law through its points, and how sure it is.
-- SPDX-License-Identifier: Apache-2.0
local support = require "lua.support"

-- These belong to the program, not to the library: they are read from their files, and draw and write nothing here.
local function module(name, modules)
  local chunk = assert(loadfile((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/" .. name .. ".lua"))
  return setfenv(chunk, setmetatable({require = function(wanted) return modules[wanted] or {} end}, {__index = _G}))()
end

local power_law = module("sweep/power_law", {})
local curve = module("sweep/learning_curve", {["sweep.power_law"] = power_law, grouped = module("grouped", {})})

local function points(list)
  local out = {}
  for i, p in ipairs(list) do out[i] = {images = p[1], exact = p[2], n = p[3] or 1000} end
  return out
end

describe("the law of a learning curve", function()
  it("finds the power that points follow", function()
    local law = power_law.fit(points{{100, 1 - 0.4}, {300, 1 - 0.4 * 3 ^ -0.7}, {1000, 1 - 0.4 * 10 ^ -0.7}})
    assert.is_true(support.close(law.b, 0.7, 1e-6))
    assert.is_true(support.close(law:images(1 - 0.4 * 20 ^ -0.7), 2000, 1))
  end)

  it("is less sure with fewer val images", function()
    local function width(n)
      local _, low, high = power_law.fit(points{{100, 0.6, n}, {300, 0.8, n}, {1000, 0.9, n}}):images(0.95)
      return math.log(high / low)
    end
    assert.is_true(width(100) > 2 * width(1000))
  end)

  it("tells the number of images that would do, with an interval around it", function()
    local lines = curve.say(points{{100, 0.6}, {300, 0.8}, {1000, 0.92}})
    assert.matches("^95 %% exact would need about [%d,]+ images to learn from %([%d,]+ to [%d,]+%)$", lines[1])
  end)

  it("does not claim that more images help when the figures do not", function()
    assert.matches("do not tell whether more images help", curve.say(points{{100, 0.5, 50}, {300, 0.48, 50}, {1000, 0.52, 50}})[1])
  end)

  it("says when there are enough", function()
    assert.matches("^300 images to learn from are enough", curve.say(points{{100, 0.9, 100}, {300, 1, 100}, {1000, 1, 100}})[1])
  end)

  it("says nothing about numbers far from those tried", function()
    assert.matches("so far from here", curve.say(points{{100, 0.5}, {300, 0.52}, {1000, 0.545}})[1])
  end)
end)
