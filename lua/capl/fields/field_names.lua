-- field_names.lua: names that tensors, columns and keys of a sample may have in batches.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local field_names = {}

local NAME_LENGTH = 23

-- What batches call something else already.
local taken = {count = true, padded = true, global_batch_size = true, onehot = true, classes = true, target2 = true,
  mix = true, several = true}

--- Raises for a name that batches cannot have.
function field_names.check(op, name)
  if type(name) ~= "string" then check.fail(op, "every part has a name; got the key " .. tostring(name)) end
  if taken[name] then check.fail(op, ("batches have a %s of their own; give it another name"):format(name)) end
  if #name > NAME_LENGTH then check.fail(op, ("%s has more than %d characters"):format(name, NAME_LENGTH)) end
end

return field_names
