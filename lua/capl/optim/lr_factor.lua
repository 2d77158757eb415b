-- lr_factor.lua: optim.lr_factor: how much larger a rate may be for a larger batch.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local rules = {
  none = function() return 1 end,
  linear = function(ratio) return ratio end,
  sqrt = function(ratio) return math.sqrt(ratio) end,
}

--- The factor of a learning rate for another batch size, for opt:set_lr_factor.
-- in   rule: "none" (1), "linear" (SGD: twice the batch, twice the rate) or "sqrt" (Adam and its like); batch = images
--      of a step, all processes and accumulated batches together; base_batch = the size that the rate was found for
-- eg   optim.lr_factor("sqrt", 256, 64)  --> 2
local function lr_factor(rule, batch, base_batch)
  if not rules[rule] then check.unknown("optim.lr_factor", "rule", rule, {"none", "linear", "sqrt"}) end
  for i, size in ipairs{check.arg(2, "lr_factor", "number", batch), check.arg(3, "lr_factor", "number", base_batch)} do
    if not (size > 0) then check.bad(i + 1, "lr_factor", ("a number above 0 expected, got %g"):format(size)) end
  end
  return rules[rule](batch / base_batch)
end

return lr_factor
