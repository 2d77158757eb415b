-- learning_rates.lua: options of optimizers that were changed between a run and its continuation, such as by --lr.
--
-- A saved optimizer knows its learning rates and so does the one that the recipe has built now. Where the recipe built
-- it as before, the saved value counts: a loop may have changed it. Where it did not, somebody wants the new one.
-- SPDX-License-Identifier: Apache-2.0
local learning_rates = {}

-- Optimizers of an object: itself, or those that it joins.
local function optimizers_of(object)
  local list = object.optimizers or {object}
  for _, opt in ipairs(list) do
    if type(opt) ~= "table" or type(opt.groups) ~= "table" or type(opt.set_lr) ~= "function" then return {} end
  end
  return list
end

local plain = {number = true, string = true, boolean = true}

--- Plain options of an optimizer's groups as it was built; nil for anything else. What a schedule says is no option.
function learning_rates.options_of(object)
  local out = {}
  for _, opt in ipairs(type(object) == "table" and optimizers_of(object) or {}) do
    for _, group in ipairs(opt.groups) do
      local options = {}
      for key, value in pairs(group) do
        if plain[type(value)] then options[key] = value end
      end
      out[#out + 1] = options
    end
  end
  return #out > 0 and out or nil
end

local function keep_group(group, was, is, lines, where)
  for key, value in pairs(is) do
    if was[key] ~= nil and was[key] ~= value then
      group[key] = value
      lines[#lines + 1] = ("%s%s: %s, was %s"):format(where, key, tostring(value), tostring(was[key]))
    end
  end
end

--- After the saved state was put back: lets what was built otherwise than then stay. -> lines that say so
function learning_rates.keep_changes(object, was, is)
  local lines, i = {}, 0
  if not was or not is or #was ~= #is then return lines end
  for _, opt in ipairs(optimizers_of(object)) do
    for _, group in ipairs(opt.groups) do
      i = i + 1
      keep_group(group, was[i], is[i], lines, #is > 1 and ("group %d: "):format(i) or "")
    end
    opt.lr = opt:lr_of(opt.groups[1])
  end
  table.sort(lines)
  return lines
end

return learning_rates
