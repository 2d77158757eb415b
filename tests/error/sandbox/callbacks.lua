-- callbacks.lua: functions of the recipe that the library calls, and what they do in the middle of it. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- train.fit within train.fit
local set = data.tensors{x = capl.zeros(8, 1), y = capl.zeros(8, 1)}
local model, depth = nn.Linear(1, 1), 0
local function fit()
  depth = depth + 1
  return train.fit{model = model, train = data.loader{source = set, batch = 4, role = "train"}, epochs = 1, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
    loss = function(m, b) if depth < 3 then pcall(fit) end return nn.mse_loss(m(b.x), b.y) end}
end
pcall(fit)

--- a loss that raises in the middle of a step
local model = nn.Linear(1, 1)
local set = data.tensors{x = capl.zeros(8, 1), y = capl.zeros(8, 1)}
local n = 0
pcall(train.fit, {model = model, train = data.loader{source = set, batch = 2, role = "train"}, epochs = 1, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
  loss = function(m, b) n = n + 1 if n == 2 then error("in the loss") end return nn.mse_loss(m(b.x), b.y) end})
model(capl.zeros(1, 1))

--- a loss that releases its tensors
local model = nn.Linear(1, 1)
local set = data.tensors{x = capl.zeros(8, 1), y = capl.zeros(8, 1)}
pcall(train.fit, {model = model, train = data.loader{source = set, batch = 2, role = "train"}, epochs = 1, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
  loss = function(m, b) local y = m(b.x) local l = nn.mse_loss(y, b.y) y:free() b.x:free() b.y:free() l:free() return l end})

--- a loss that frees the parameters
local model = nn.Linear(1, 1)
local set = data.tensors{x = capl.zeros(8, 1), y = capl.zeros(8, 1)}
pcall(train.fit, {model = model, train = data.loader{source = set, batch = 2, role = "train"}, epochs = 1, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
  loss = function(m, b) local l = nn.mse_loss(m(b.x), b.y) for _, p in ipairs(m:parameters()) do p:free() end return l end})

--- a loss that yields
local model = nn.Linear(1, 1)
local set = data.tensors{x = capl.zeros(8, 1), y = capl.zeros(8, 1)}
local co = coroutine.wrap(function()
  return train.fit{model = model, train = data.loader{source = set, batch = 2, role = "train"}, epochs = 1, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
    loss = function(m, b) coroutine.yield() return nn.mse_loss(m(b.x), b.y) end}
end)
for _ = 1, 3 do pcall(co) end

--- a loss that returns something else
local model = nn.Linear(1, 1)
local set = data.tensors{x = capl.zeros(8, 1), y = capl.zeros(8, 1)}
for _, wrong in ipairs{1, "x", {}, print, capl.zeros(2, 2), capl.zeros(1, {dtype = "i64"})} do
  pcall(train.fit, {model = model, train = data.loader{source = set, batch = 2, role = "train"}, epochs = 1,
    optimizer = optim.SGD(model:parameters(), {lr = 0.1}), loss = function() return wrong end})
end

--- a forward that changes the network it is in
local Net = nn.class("Net")
function Net:init() self.a, self.b = nn.Linear(1, 1), nn.Linear(1, 1) end
function Net:forward(x) self.a = nn.Linear(1, 1) self.c = nn.Linear(1, 1) rawset(self, "b", nil) return self.a(x) end
local net = Net()
local opt = optim.SGD(net:parameters(), {lr = 0.1})
for _ = 1, 3 do pcall(function() opt:backward_step(net(capl.ones(1, 1)):mean()) end) end

--- a forward that calls backward and step
local model = nn.Linear(1, 1)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local Net = nn.class("Net")
function Net:forward(x) local y = model(x) pcall(function() y:mean():backward() opt:step() end) return y end
for _ = 1, 3 do pcall(function() Net()(capl.ones(1, 1)):mean():backward() opt:step() end) end

--- a module calls itself without end
local Net = nn.class("Net")
function Net:forward(x) local y = self(x) return y end
pcall(Net(), capl.zeros(1))

--- errors and yields inside no_grad, autocast, profile and fuse
for _, f in ipairs{capl.no_grad, function(g) return capl.autocast("bf16", g) end, capl.profile, capl.scope} do
  pcall(f, function() error("x") end)
  pcall(coroutine.wrap(function() f(coroutine.yield) end))
  pcall(f, function() f(function() error("y") end) end)
end
local y = capl.ones(2, {requires_grad = true}) * 2
if not y.requires_grad then ESCAPED() end

--- a fused function that looks around
pcall(function() return capl.fuse(function(x) capl.zeros(1) x:free() return x end)(capl.zeros(2)) end)
pcall(function() return capl.fuse(function(x) error("x") end)(capl.zeros(2)) end)
pcall(function() return capl.fuse(function(x) return capl.fuse(function(y) return y end)(x) end)(capl.zeros(2)) end)

--- a captured step that captures, and one that fails
if capl.capture then
  local step
  pcall(function() step = capl.capture(function() return capl.capture(function() return capl.zeros(1) end)() end) step() step() end)
  pcall(function() step = capl.capture(function() error("x") end) step() end) pcall(function() step() end)
end

--- capl.checkpoint of a function that raises the second time
local n = 0
pcall(function()
  local x = capl.ones(2, {requires_grad = true})
  local y = capl.checkpoint(function(a) n = n + 1 if n > 1 then error("again") end return a * 2 end, x)
  y:sum():backward()
end)

--- an optimizer steps within its own step, with other parameters
local model = nn.Linear(1, 1)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
opt.groups[1].params[1] = 5
pcall(function() model(capl.ones(1, 1)):mean():backward() opt:step() end)
opt.groups = nil
pcall(opt.step, opt)

--- a schedule that is a trap
local model = nn.Linear(1, 1)
for _, lr in ipairs{setmetatable({}, {__index = function() error("x") end}), {lr = 1}, print} do pcall(optim.SGD, model:parameters(), {lr = lr}) end

--- a meter and a loader's hooks are given other things
for _, f in pairs(train) do
  if type(f) == "function" then pcall(f) pcall(f, {}) pcall(f, print) pcall(f, setmetatable({}, {__index = function() return print end})) end
end

--- every function of the library, with nothing and with everything
for _, library in ipairs{nn, optim, augment, plot, data} do
  for _, f in pairs(library) do
    if type(f) == "function" then pcall(f) pcall(f, print) pcall(f, {{}}) pcall(f, capl.zeros(1), {x = 1}) end
  end
end
