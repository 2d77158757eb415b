-- names.lua: what a recipe may find by name, and must not. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- getfenv gives the environment of the program
if getfenv and getfenv(0).io then ESCAPED() end

--- setfenv exchanges a library function's environment
if setfenv then setfenv(nn.Linear.init, {}) ESCAPED() end

--- newproxy makes an object whose __gc runs later
if newproxy then ESCAPED() end

--- debug opens every function
if debug then ESCAPED() end

--- debug.getupvalue reads the library's core
local core = debug and select(2, debug.getupvalue(capl.device, 1)) if core then ESCAPED() end

--- package.loadlib loads a library of the system
if package or module then ESCAPED() end

--- io opens files
if io then ESCAPED() end

--- os.execute runs programs
if os and (os.execute or os.getenv or os.exit or os.remove or os.rename or os.tmpname) then ESCAPED() end

--- dofile and loadfile read any file
if dofile or loadfile then ESCAPED() end

--- jit turns the compiler's checks off
if jit or rawget(_G, "jit") then ESCAPED() end

--- ffi calls C
if ffi or rawget(_G, "ffi") then ESCAPED() end

--- gcinfo and collectgarbage stop the collector
if gcinfo then ESCAPED() end
for _, word in ipairs{"stop", "restart", "step", "setpause", "setstepmul", "generational"} do
  if pcall(collectgarbage, word, 1e9) then ESCAPED() end
end

--- a constant of 64 bits brings ffi in
local value = load("return 1LL")
if value and type(getmetatable(value())) == "table" then ESCAPED() end
if ffi or pcall(require, "ffi") then ESCAPED() end

--- an imaginary constant does
local value = load("return 2i")
if value then value() end
if pcall(require, "ffi") then ESCAPED() end

--- a metatable for all strings is put in place
local meta = getmetatable("")
if meta then meta.__index = function() ESCAPED() end end
if ("x").y then ESCAPED() end

--- string.dump gives bytecode, also as a method
if string.dump or ("").dump then ESCAPED() end

--- the metatable of coroutines, functions and numbers
for _, value in ipairs{coroutine.create(print), print, 1, true} do
  if getmetatable(value) ~= nil then ESCAPED() end
end

--- the environment's own metatable brings names back
setmetatable(_G, {__index = function(_, name) return nil end})
if io or debug then ESCAPED() end
setmetatable(_G, nil)

--- the environment is left through _G._G._G
if _G._G._G.io or rawget(_G, "io") or _G["debug"] then ESCAPED() end

--- a chunk that is loaded sees more names
local a, b, c = load("return io, debug, require and package")()
if a or b or c then ESCAPED() end

--- a chunk with an environment of its own finds the program's through its functions
local env = setmetatable({}, {__index = _G})
if load("return io or debug or getfenv", "x", "t", env)() then ESCAPED() end

--- names of the library's modules are reached from recipes
for _, name in ipairs{"core", "sys", "run", "hooks", "readonly", "cli", "check"} do
  if rawget(_G, name) then ESCAPED() end
  if pcall(require, "capl." .. name) or pcall(require, name) then ESCAPED() end
end

--- capl itself leads to its C functions
for _, name in ipairs{"core", "sys", "spawn", "getenv", "read", "write", "list", "remove"} do
  if pcall(function() return capl[name] ~= nil or error() end) then ESCAPED() end
end

--- tostring of a function shows the file it lies in
if tostring(print):find("/") or tostring(capl.zeros):find("/") then ESCAPED() end

--- an error's table leads to what raised it
local ok, err = pcall(capl.zeros, {-1})
for key, value in pairs(err) do
  if type(value) == "function" or type(value) == "userdata" then ESCAPED() end
end
if type(getmetatable(err)) == "table" then ESCAPED() end

--- a traceback's text names folders of the program
local ok, err = pcall(nn.Linear, "x")
if tostring(err):find("/usr", 1, true) or tostring(err):find("lua/capl", 1, true) then ESCAPED() end
