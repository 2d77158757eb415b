--- capl: 1
-- Errors of Lua itself name the line; -v shows how the program got there.
local function third(x) return x.y.z end
local function second(x)
  local z = third(x)
  return z
end
second {}
