-- units.lua: the largest value that each channel behind a ReLU ever has.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local Units = {}
Units.__index = Units

local function new() return setmetatable({peaks = {}, order = {}}, Units) end

-- Largest value of each channel (dim 2) over everything else.
local function peaks_of(y)
  return core.no_grad(function()
    local dims = {}
    for d = 1, y.ndim do
      if d ~= 2 then dims[#dims + 1] = d end
    end
    return y:to("f32"):amax(dims):tolist()
  end)
end

--- Notes what a module gave.
function Units:note(module, y)
  if module.__name ~= "ReLU" or not core.is_tensor(y) or y.ndim < 2 then return end
  if not self.peaks[module] then
    self.peaks[module] = {}
    self.order[#self.order + 1] = module
  end
  local list = self.peaks[module]
  for c, value in ipairs(peaks_of(y)) do list[c] = math.max(list[c] or 0, value) end
end

--- List of {name, channels, dead} by the model's names.
function Units:layers(model)
  local names, out = {}, {}
  if model then
    for name, module in model:named_modules() do names[module] = name end
  end
  for i, module in ipairs(self.order) do
    local dead = 0
    for _, most in ipairs(self.peaks[module]) do
      if most <= 0 then dead = dead + 1 end
    end
    out[i] = {name = names[module] or "ReLU", channels = #self.peaks[module], dead = dead}
  end
  return out
end

return {new = new}
