-- check.lua: option tables of the data functions: unknown keys are errors that name the nearest one.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = {}

function check.fail(message, hint) core.error{code = "value", message = message, hint = hint} end

--- Raises unless value is of the Lua type kind.
function check.kind(where, name, value, kind)
  if type(value) ~= kind then check.fail(("%s: %s is a %s, not a %s"):format(where, name, kind, type(value))) end
end

--- Returns opts (or an empty table) after looking at its keys.
-- always: {key = why it is no option}; theirs: {key of other engines = the option that it is here}
function check.options(where, opts, known, always, theirs)
  if opts == nil then return {} end
  check.kind(where, "the options", opts, "table")
  local allowed = {}
  for _, key in ipairs(known) do allowed[key] = true end
  for key in pairs(opts) do
    if always and always[key] then check.fail(("%s: %s is no option"):format(where, key), always[key]) end
    if not allowed[key] then
      local near = type(key) == "string" and (theirs and theirs[key] or core.nearest(key, known))
      check.fail(("%s: unknown option %s%s"):format(where, tostring(key), near and "; did you mean " .. near .. "?" or ""))
    end
  end
  return opts
end

return check
