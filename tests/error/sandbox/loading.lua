-- loading.lua: bytecode instead of text, and files by require. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- bytecode in a string
if load("\27LJ\2\8garbage") or loadstring("\27LJ\2\0") then ESCAPED() end

--- bytecode, piece by piece
local i, pieces = 0, {"\27", "LJ", "\2\8", "x"}
if load(function() i = i + 1 return pieces[i] end) then ESCAPED() end

--- bytecode behind an empty piece
local i, pieces = 0, {"", "\27LJ\2"}
local f = load(function() i = i + 1 return pieces[i] end)
if f and f() then ESCAPED() end

--- bytecode by a mode that asks for it
if load("\27LJ\2", "x", "b") or load("\27LJ\2", "x", "bt") then ESCAPED() end

--- a mode that refuses text makes no difference
local f = load("return 1", "x", "b")
if f and f() ~= 1 then ESCAPED() end

--- the reader changes what it has given
local t = {"return ", "1"}
local i = 0
local f = load(function() i = i + 1 local s = t[i] t[i] = "\27LJ" return s end)
if f() ~= 1 then ESCAPED() end

--- the reader yields
local co = coroutine.wrap(function() return load(function() coroutine.yield(1) end) end)
pcall(co)

--- the reader raises an error
-- says: from the reader
load(function() error("from the reader") end)

--- the reader loads, deeper and deeper
local function read() load(read) return nil end
local function deep(n) return load(function() if n > 0 then deep(n - 1) end return nil end) end
deep(150)

--- the reader returns numbers
-- says: the reader must return texts
load(function() return 27 end)

--- a chunk's name pretends to be the library's
local f = load("error('x')", "@capl:init.lua")
local ok, err = pcall(f)
if tostring(err):find("capl:init.lua", 1, true) then ESCAPED() end

--- the parser is sent a hundred thousand brackets
if load("return " .. ("("):rep(100000) .. "1" .. (")"):rep(100000)) then ESCAPED() end

--- the parser is sent deep tables and functions
load("return " .. ("{"):rep(50000))
load(("function f() "):rep(50000))
load("local " .. ("a,"):rep(300) .. "b")
load("return " .. ("-"):rep(100000) .. "1")
load("return " .. ("not "):rep(100000) .. "1")
load(("a."):rep(100000) .. "b = 1")

--- require of a library of the system
for _, name in ipairs{"ffi", "io", "os", "debug", "package", "jit", "jit.util", "socket", "lfs", "posix"} do
  if pcall(require, name) then ESCAPED() end
end

--- require goes up
for _, name in ipairs{"..outside", "../outside", "./../outside", "parts/../../outside", "a..b", ".", "..", "", "/tmp/x"} do
  if pcall(require, name) then ESCAPED() end
end

--- require of what is no string
for _, name in ipairs{1, true, {}, print, capl.zeros(1)} do
  if pcall(require, name) then ESCAPED() end
end

--- require of an object that says another name each time
local n = 0
local name = setmetatable({}, {__tostring = function() n = n + 1 return n == 1 and "module" or "../outside" end})
if pcall(require, name) then ESCAPED() end

--- require through a link to a file
if pcall(require, "link") then ESCAPED() end

--- require through a link to a folder
if pcall(require, "folder_link.outside") then ESCAPED() end

--- require through a link that is absolute but leads back
if pcall(require, "absolute") then ESCAPED() end

--- require of a pipe, a device, a folder
for _, name in ipairs{"pipe", "null", "folder"} do
  if pcall(require, name) then ESCAPED() end
end

--- require of bytecode in a file
-- says: attempt to load chunk with wrong mode
require "bytecode"

--- require with zero bytes
if pcall(require, "module\0.x") then ESCAPED() end

--- a module that requires itself
-- says: requires itself
require "circle"

--- a module yields
coroutine.wrap(function() require "yields" end)()
