-- metamethods.lua: values that run code where a plain one is expected. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- __index that computes, in options
local options = setmetatable({}, {__index = function(_, key) return capl.zeros(1) end})
for _, f in ipairs{capl.zeros, nn.Linear, data.captcha, data.loader, train.fit, optim.SGD, plot.lines} do pcall(f, options) pcall(f, 1, options) end

--- __index that never ends in depth
local t = setmetatable({}, nil)
setmetatable(t, {__index = function(self, key) return self[key] end})
for _, f in ipairs{capl.tensor, capl.zeros, data.loader, train.fit, nn.Sequential, capl.params} do pcall(f, t) end

--- __len, __lt, __concat and __unm of arguments
local m = {__len = function() return 1e9 end, __lt = function() return true end, __concat = function() return "x" end, __unm = function() return 1 end,
  __add = function() return capl.zeros(1) end, __eq = function() return true end, __call = function() return capl.zeros(1) end}
local t = setmetatable({}, m)
for _, f in ipairs{capl.tensor, capl.zeros, capl.cat or capl.zeros, nn.Sequential, data.tensors} do pcall(f, t) pcall(f, {t, t}) pcall(f, t, t) end
pcall(function() return capl.zeros(1) + t end) pcall(function() return t + capl.zeros(1) end) pcall(function() return capl.zeros(1) < t end)

--- __tostring that returns no text
-- says: __tostring must return a string
print(setmetatable({}, {__tostring = function() return 5 end, __name = {}}))
print(setmetatable({}, {__tostring = function() return {} end}))

--- __tostring that raises, in print and in errors
pcall(print, setmetatable({}, {__tostring = function() error("x") end}))
error(setmetatable({}, {__tostring = function() error("again") end}))

--- __tostring that yields
local co = coroutine.wrap(function() print(setmetatable({}, {__tostring = function() coroutine.yield("x") end})) end)
pcall(co)

--- __gc of tables
setmetatable({}, {__gc = function() ESCAPED() end})
collectgarbage() collectgarbage()

--- __mode on tables the library keeps
local opts = setmetatable({source = data.tensors{x = capl.zeros(4, 1)}, batch = 2}, {__mode = "kv"})
local ok, loader = pcall(data.loader, opts)
collectgarbage()
if ok then for batch in loader:epoch() do local _ = batch.x:sum():item() end end

--- __newindex of a module's field that frees the tensor
local Net = nn.class("Net")
local net = Net()
pcall(function() net.weight = nn.Parameter(capl.zeros(2, 2)) net.weight:free() end)
pcall(function() return #net:parameters() end)
pcall(function() return net:state_dict() end)
pcall(function() optim.SGD(net:parameters(), {lr = 1}):step() end)

--- __call objects where functions are wanted
local f = setmetatable({}, {__call = function(_, x) return x end})
for _, g in ipairs{capl.no_grad, capl.scope, capl.profile, capl.autocast, capl.fuse, capl.capture, capl.checkpoint} do pcall(g, f, capl.zeros(1)) end

--- options that change while they are read
local n = 0
local options = {}
setmetatable(options, {__index = function(t, key) n = n + 1 rawset(t, "k" .. n, n) return nil end})
for _, g in ipairs{nn.Conv2d, nn.LSTM, optim.AdamW, data.loader, train.fit} do pcall(g, 1, 1, 1, options) pcall(g, options) end

--- lists that grow while they are read
local list = {1}
setmetatable(list, {__index = function(t, i) if type(i) == "number" and i < 1e4 then rawset(t, i, i) return i end end})
for _, g in ipairs{capl.tensor, capl.zeros, nn.Sequential, table.concat, unpack, ipairs} do pcall(g, list) end

--- keys that are tables, NaN and functions
for _, key in ipairs{{}, print, true, 1.5, -1, 2 ^ 53} do
  for _, g in ipairs{capl.params, nn.Linear, data.loader, train.fit, capl.io.save, train.save} do pcall(g, {[key] = 1}) pcall(g, capl.run_folder() .. "/x", {[key] = 1}) end
end

--- table.sort with an order that never holds
local t = {}
for i = 1, 1000 do t[i] = i % 7 end
pcall(table.sort, t, function() return true end)
pcall(table.sort, t, function(a, b) return a <= b end)
pcall(table.sort, t, function() t[#t + 1] = 1 return false end)
pcall(table.sort, t, coroutine.yield)

--- gsub, gmatch and load yield through C
coroutine.wrap(function() pcall(string.gsub, "abc", ".", coroutine.yield) end)()
coroutine.wrap(function() pcall(table.foreach, {1}, coroutine.yield) end)()
coroutine.wrap(function() pcall(xpcall, coroutine.yield, print) end)()

--- format with huge widths and wrong values
for _, form in ipairs{"%99999999d", "%99.99f", "%s%s%s", "%q", "%c", "%5000s", ("%d"):rep(300), "%", "%*d", "%n"} do
  pcall(string.format, form, 1) pcall(string.format, form, {}) pcall(string.format, form)
end

--- unpack, select and concat of a hundred million
if pcall(unpack, {}, 1, 1e8) then ESCAPED() end
pcall(unpack, {}, -1e308, 1e308) pcall(select, -1e9, 1) pcall(select, 1e9, 1) pcall(table.concat, {}, "x", 1, 1e8)
pcall(unpack, {}, 2 ^ 31 - 2, 2 ^ 31 + 2) pcall(string.byte, ("x"):rep(1e6), 1, 1e6) pcall(string.char, unpack({}, 1, 200))

--- xpcall's handler raises, yields and calls xpcall
xpcall(error, function() return xpcall(error, function() return 1 end) end)
pcall(xpcall, error, function() error("in the handler") end)
coroutine.wrap(function() pcall(xpcall, error, coroutine.yield) end)()

--- a coroutine is resumed from within itself, killed and wrapped
local co
co = coroutine.create(function() return coroutine.resume(co) end)
coroutine.resume(co) coroutine.resume(co)
local wrap
wrap = coroutine.wrap(function() return wrap() end)
pcall(wrap)
