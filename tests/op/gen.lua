--- gen.lua -- what the inputs of a case are made of: shapes with a rule for their values.
-- Values are a pure function of the seed, so a failing case can be repeated by its seed alone.
-- SPDX-License-Identifier: Apache-2.0
local bit = require("bit")

local gen = {}

--- A stream of numbers: next() is uniform in [0,1). Xorshift32, mixed from the seed.
function gen.stream(seed)
  local state = bit.tobit(seed * 2654435761 % 4294967296)
  if state == 0 then state = 88172645 end
  local function next()
    state = bit.bxor(state, bit.lshift(state, 13))
    state = bit.bxor(state, bit.rshift(state, 17))
    state = bit.bxor(state, bit.lshift(state, 5))
    return (state % 4294967296) / 4294967296
  end
  for _ = 1, 8 do next() end
  return next
end

function gen.count(size)
  local n = 1
  for _, s in ipairs(size) do n = n * s end
  return n
end

local function options_of(spec)
  local size = {}
  for i, s in ipairs(spec) do size[i] = s end
  return size
end

-- An input: size, kind ("float", "whole"), fixed dtype or nil, and value(next, i) for element i.
local function input(spec, kind, value)
  return {size = options_of(spec), kind = kind, dtype = spec.dtype, value = value, diff = spec.diff,
    keep = spec.keep}
end

--- Floats uniform in [lo, hi), default [-1, 1), none nearer to 0 than gap (default 0.02): kinks at 0 would
-- spoil finite differences. dtype = "f32" fixes the dtype (f64 in the gradient check); diff = false: no gradient.
function gen.float(spec)
  local lo, hi, gap = spec.lo or -1, spec.hi or 1, spec.gap or 0.02
  return input(spec, "float", function(next)
    local v
    repeat v = lo + (hi - lo) * next() until math.abs(v) >= gap or hi - lo < 2 * gap
    return v
  end)
end

--- Floats that all differ by at least 1/64 * scale, in random order: for maxima without ties.
function gen.distinct(spec)
  local scale, order = spec.scale or 1, nil
  local n = gen.count(spec)
  return input(spec, "float", function(next, i)
    if i == 1 then
      order = {}
      for k = 1, n do order[k] = k end
      for k = n, 2, -1 do
        local j = 1 + math.floor(next() * k)
        order[k], order[j] = order[j], order[k]
      end
    end
    return scale * (order[i] - n / 2 - 0.25) / 64
  end)
end

--- Whole numbers lo..hi as dtype (default i32).
function gen.int(spec)
  local lo, hi = spec.lo or -5, spec.hi or 5
  spec.dtype = spec.dtype or "i32"
  return input(spec, "whole", function(next) return lo + math.floor(next() * (hi - lo + 1)) end)
end

--- true or false.
function gen.bool(spec)
  spec.dtype = "bool"
  return input(spec, "whole", function(next) return next() < 0.5 and 0 or 1 end)
end

--- Given values in logical row-major order. {2,3, values = {...}}; dtype as in gen.float unless given.
function gen.values(spec)
  local whole = spec.dtype and not spec.dtype:match("^b?f%d")
  return input(spec, whole and "whole" or "float", function(_, i) return spec.values[i] end)
end

--- A case may write {2,3} for gen.float{2,3} and false for an optional input left out.
function gen.input(given)
  if not given or given.value then return given end
  return gen.float(given)
end

return gen
