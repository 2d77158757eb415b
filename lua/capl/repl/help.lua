-- help.lua: `?name` and help(value) at the prompt; what is known of a name is in docs/.
-- SPDX-License-Identifier: Apache-2.0
local help = {}

--- Page of a name; how the prompt works for none.
function help.page(name) return require("docs.page").of(name) end

--- Page of a value or, for a text, of the name it is.
function help.of(value)
  if value == nil then return help.page("") end
  return require("docs.page").of_value(value)
end

return help
