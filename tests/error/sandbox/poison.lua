-- poison.lua: what the library calls, exchanged for something else. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- fields of library tables are set
for _, t in ipairs{capl, nn, optim, data, augment, plot, train, string, table, math, bit, coroutine} do
  for _, key in ipairs{"x", "zeros", "Linear", "format", "__index", 1} do
    if pcall(function() t[key] = ESCAPED end) then ESCAPED() end
  end
end

--- fields of tables within library tables are set
for _, library in ipairs{capl, nn, optim, data, augment, plot, train} do
  for name, value in pairs(library) do
    if type(value) == "table" and rawget(value, 1) == nil and pcall(function() value.forward = ESCAPED end) then print(name) ESCAPED() end
  end
end

--- rawset writes past the protection
for _, t in ipairs{capl, nn, optim, nn.Linear, optim.SGD, string, capl.op} do
  if pcall(rawset, t, "x", 1) then ESCAPED() end
end

--- rawset writes past the protection of metamethods
for _, key in ipairs{"__index", "__call", "__newindex", "__gc", "__metatable"} do
  if pcall(rawset, nn.Linear, key, ESCAPED) then ESCAPED() end
end

--- setmetatable exchanges the protection
for _, t in ipairs{capl, nn, nn.Linear, optim.SGD, string, math} do
  if pcall(setmetatable, t, {}) or pcall(setmetatable, t, nil) then ESCAPED() end
end

--- getmetatable gives the protection away
for _, t in ipairs{capl, nn, nn.Linear, nn.init, optim, optim.SGD, string, capl.op} do
  if getmetatable(t) then ESCAPED() end
end

--- table.insert, remove and sort write into library tables
for _, t in ipairs{nn, capl, string, nn.Linear} do
  if pcall(table.insert, t, 1) or pcall(table.insert, t, 1, 2) or pcall(table.remove, t) or pcall(table.sort, t) then ESCAPED() end
end

--- pairs hands out the table behind
local _, behind = pairs(nn)
if behind ~= nn then ESCAPED() end
for _, t in ipairs{nn, nn.Linear, string} do
  local iterate, state = pairs(t)
  if pcall(function() state.x = 1 end) then ESCAPED() end
end

--- next and pairs lead to tables that can be changed
local seen, bad = {}, nil
local function walk(t, path, depth)
  if seen[t] or depth > 5 then return end
  seen[t] = true
  for key, value in pairs(t) do
    if type(value) == "table" and rawget(value, 1) == nil and value ~= _G and type(key) == "string" and #path < 60 then
      local fine = pcall(function() value.poison = 1 end)
      if fine and path ~= "" then bad = path .. "." .. key end
      walk(value, path .. "." .. key, depth + 1)
    end
  end
end
for _, name in ipairs{"capl", "nn", "optim", "data", "augment", "plot", "train"} do walk(_G[name], name, 0) end
if bad then print(bad) ESCAPED() end

--- an object leads to its class by __index
local model = nn.Sequential{nn.Linear(2, 2), nn.Conv1d(1, 1, 1), nn.BatchNorm2d(2)}
local opt = optim.AdamW(model:parameters(), {lr = 1})
local source = data.tensors{x = capl.zeros(4, 1)}
local loader = data.loader{source = source, batch = 2}
for _, object in ipairs{model, model[1], model[2], model[3], opt, source, loader, train.EarlyStopping{patience = 1}} do
  local class = object.__index
  if type(class) == "table" and pcall(function() class.step = ESCAPED class.forward = ESCAPED end) then ESCAPED() end
end

--- an object leads to its class by getmetatable
local model = nn.Linear(2, 2)
local opt = optim.SGD(model:parameters(), {lr = 1})
local loader = data.loader{source = data.tensors{x = capl.zeros(4, 1)}, batch = 2}
for _, object in ipairs{model, opt, loader, loader.source, optim.schedule.warmup_cosine and opt} do
  local class = getmetatable(object)
  if type(class) == "table" and pcall(function() class.step = ESCAPED class.forward = ESCAPED class.epoch = ESCAPED end) then ESCAPED() end
end

--- a class's metamethods are exchanged for those of all its objects
local former = nn.Linear(2, 2)
pcall(function() nn.Linear.__call = function() ESCAPED() end end)
pcall(function() nn.Linear.__index = function() ESCAPED() end end)
pcall(function() nn.Module.__call = function() ESCAPED() end end)
pcall(function() nn.Module.__newindex = function() ESCAPED() end end)
nn.Linear(2, 2)(capl.zeros(1, 2))
former(capl.zeros(1, 2))

--- an optimizer's metamethods are exchanged
pcall(function() optim.SGD.__index = function() ESCAPED() end end)
local model = nn.Linear(1, 1)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
model(capl.ones(1, 1)):mean():backward()
opt:step()

--- a batch leads to the class of all batches
for batch in data.loader{source = data.tensors{x = capl.zeros(4, 1)}, batch = 2}:epoch() do
  local class = getmetatable(batch)
  if type(class) == "table" then ESCAPED() end
  if type(batch.__index) == "table" then ESCAPED() end
  break
end

--- a tensor's methods are exchanged
local x = capl.zeros(2)
if getmetatable(x) ~= "tensor" and getmetatable(x) ~= nil then ESCAPED() end
if pcall(function() x.add = ESCAPED end) or pcall(rawset, x, "add", 1) or pcall(setmetatable, x, {}) then ESCAPED() end

--- a source's box leads to its metatable and __gc
local box = data.captcha{preset = "lepture", length = 4}.box
if box.__index or box.__gc or getmetatable(box) or pcall(setmetatable, box, {}) then ESCAPED() end

--- string methods are exchanged for the library's too
pcall(function() string.format = function() ESCAPED() end end)
pcall(rawset, string, "format", function() ESCAPED() end)
local _ = tostring(nn.Linear(1, 1)) .. ("%d"):format(1)

--- globals that the library might use are exchanged
pairs, ipairs, next, type, tostring, setmetatable, error, pcall, require = nil, nil, nil, nil, nil, nil, nil, nil, nil
local l = nn.Sequential{nn.Linear(2, 2), nn.ReLU()}
l(capl.zeros(1, 2))
l:parameters()

--- tables in use are exchanged through _G
_G.capl, _G.nn = {zeros = ESCAPED}, {Linear = ESCAPED}
train.lr_find = nil

--- a list of the library is changed for everybody
local names = data.slider_shapes
if type(names) == "table" then
  pcall(function() names[1] = "poison" end)
  local s = data.slider{}
  if s == nil then ESCAPED() end
end

--- the options that a class states are changed
pcall(function() optim.SGD.spec[1].default = 1e9 end)
local model = nn.Linear(1, 1)
local ok, opt = pcall(optim.SGD, model:parameters(), {lr = 0.5})
if ok and opt.groups[1].momentum == 1e9 then ESCAPED() end

--- an own class of modules leads to the library's
local Net = nn.class("Net", nn.Linear)
local up = Net.__index
if up ~= Net and type(up) == "table" and pcall(function() up.forward = ESCAPED end) then ESCAPED() end
Net.__index = nil
local up = Net.__index
if type(up) == "table" and pcall(function() up.forward = ESCAPED end) then ESCAPED() end
if getmetatable(Net) then ESCAPED() end

--- an own metatable is put under a library's class
local ok = pcall(setmetatable, nn.Linear(1, 1), {__index = ESCAPED})
local object = setmetatable({}, nn.Linear)
if type(object.__index) == "table" and pcall(function() object.__index.forward = ESCAPED end) then ESCAPED() end

--- a module that is torn apart does no harm
local m = nn.Sequential{nn.Linear(2, 2)}
m._layers, m._entries, m._named, m.training = 1, 2, 3, 4
for _, f in ipairs{m.parameters, m.state_dict, m.train, m.eval, tostring} do pcall(f, m) end
pcall(m, capl.zeros(1, 2))

--- a module holds itself
local m = nn.class("Circle")()
m.child = m
pcall(function() return #m:parameters() end)
pcall(tostring, m)

--- capl.params is written to
-- says: settings are read-only
local p = capl.params{lr = 1}
if pcall(rawset, p, "lr", 2) or pcall(setmetatable, p, {}) then ESCAPED() end
p.lr = 2

--- the library's own modules cannot be reached by calls that take a name
for _, f in ipairs{capl.op, capl.device, capl.text and capl.text.decode or print} do
  if type(f) == "function" then pcall(f, "cli.main") end
end
if pcall(function() return capl.op.core end) and capl.op.core then ESCAPED() end
