--- capl: 1
-- A function that calls itself without end. Where the overflow meets compiled code, Lua does not know its line.
local function f() return f() + 1 end
f()
