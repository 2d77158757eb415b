-- bombs.lua: memory, time and output without end. Each stops with the limit's words. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- tables, each refusal caught
-- limits: memory
local t = {} while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = {i} end end) end

--- texts, each refusal caught
-- limits: memory
local t = {} while true do pcall(function() t[#t + 1] = ("x"):rep(1e6) .. #t end) end

--- one text of many gigabytes
-- limits: memory
local t = {("x"):rep(1e6)} for i = 1, 40 do pcall(function() t[#t + 1] = table.concat(t) end) end while true do pcall(function() t[#t + 1] = t[#t] .. #t end) end

--- closures and coroutines
-- limits: memory
local t = {} while true do pcall(function() local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co) t[#t + 1] = co end) end

--- chunks that are loaded
-- limits: memory
local t = {} while true do pcall(function() t[#t + 1] = load("local a = {} " .. ("a[1] = 'x" .. #t .. "' "):rep(1000)) end) end

--- memory in a coroutine, caught there
-- limits: memory
while true do coroutine.wrap(function() local t = {} while true do pcall(function() for i = 1, 1e8 do t[#t + 1] = {i} end end) end end)() end

--- memory by gsub and format in C
-- limits: memory
local t = {} while true do pcall(function() t[#t + 1] = (("x"):rep(1e5):gsub("x", "yyyyyyyyyyyyyyyy")) .. #t end) end

--- memory in xpcall's handler
-- limits: memory
local t = {} while true do xpcall(error, function() for i = 1, 1e7 do t[#t + 1] = {i} end end) end

--- tensors of all sizes, held
-- limits: tensors
local t = {} while true do t[#t + 1] = capl.zeros(4e6) end

--- the limit of tensors is lifted
-- limits: tensors
capl.memory_limit(1e13)

--- a loop
-- limits: time
while true do end

--- a loop whose pcall catches the end
-- limits: time
while true do pcall(function() while true do end end) end

--- a handler that loops
-- limits: time
while true do xpcall(function() while true do end end, function() while true do end end) end

--- coroutines that catch the end
-- limits: time
while true do coroutine.wrap(function() while true do pcall(function() while true do end end) end end)() end

--- an error whose text never comes
-- limits: time
error(setmetatable({}, {__tostring = function() while true do end end}))

--- a pattern that takes a lifetime
-- limits: time
local s = ("a"):rep(30) string.find(s .. s .. s, ("a?"):rep(40) .. ("a*"):rep(30) .. "b")

--- a tail call without end
-- limits: time
local function f() return f() end f()

--- a layer's words that never come, in an error
-- limits: time
local Net = nn.class("Net")
function Net:forward(x) local y = x:matmul(capl.zeros(5, 5)) return y end
function Net:extra() while true do end end
local y = Net()(capl.zeros(1, 3))

--- functions that call themselves
-- says: stack overflow
local function f() return 1 + f() end
f()

--- pcall that calls itself
local function f() return pcall(f) end
f()

--- metamethods that call each other
local m = {}
m.__add = function(a, b) return a + b end
pcall(function() return setmetatable({}, m) + 1 end)
m.__index = function(t, k) return t[k] end
pcall(function() return setmetatable({}, m).x end)
m.__tostring = function(t) return tostring(t) .. "" end
pcall(tostring, setmetatable({}, m))

--- gsub within gsub within gsub
local function deep(s) return (s:gsub(".", deep)) end
pcall(deep, "x")

--- print without end
-- limits: output
while true do print(("y"):rep(10000)) end

--- print without end, caught
-- limits: output
while true do pcall(function() while true do print(("y"):rep(10000)) end end) end

--- files without end
-- limits: output
for i = 1, 1e9 do pcall(train.save, capl.run_folder() .. "/state.capl", {x = capl.zeros(1e5)}) end

--- many small files, each of which takes room
-- limits: output
for i = 1, 1e9 do pcall(train.save, capl.run_folder() .. "/" .. i .. ".capl", {}) end

--- pictures without end
-- limits: output
local image = capl.rand(3, 200, 200):mul(255):to("u8")
for i = 1, 1e9 do pcall(data.png_write, capl.run_folder() .. "/" .. i % 9 .. ".png", image) end

--- tostring that is its own metamethod
-- limits: time
tostring(setmetatable({}, {__tostring = tostring}))
