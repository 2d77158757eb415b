-- tensors.lua: sizes, indices and handles that would read or write beside a tensor. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- sizes whose product overflows
for _, size in ipairs{{2 ^ 31, 2 ^ 31, 4}, {2 ^ 32, 2 ^ 32}, {2 ^ 52, 2}, {2 ^ 53}, {65536, 65536, 65536, 65536}, {1e18}, {-1}, {0.5}, {1 / 0}, {0 / 0}} do
  for _, f in ipairs{capl.zeros, capl.ones, capl.empty, capl.rand, capl.randn} do
    if pcall(f, size) then ESCAPED() end
  end
end

--- sizes of views that overflow
local x = capl.zeros(4)
for _, size in ipairs{{2 ^ 62, 4}, {-1, -1}, {2 ^ 63}, {-2, -2}, {2 ^ 32 + 2, 2}} do
  if pcall(x.reshape, x, size) or pcall(x.view, x, size) then ESCAPED() end
  if pcall(x.expand or x.view, x, size) then ESCAPED() end
end

--- narrow, select and get outside
local x = capl.zeros(4, 4)
for _, i in ipairs{0, 5, -5, 2 ^ 31, -2 ^ 31, 2 ^ 53, 1.5, 0 / 0, 1 / 0} do
  if pcall(x.get, x, i, 1) or pcall(x.set, x, i, 1, 1) or pcall(x.narrow, x, 1, i, 4) or pcall(x.select, x, 1, i) then
    if i ~= -5 then print(i) ESCAPED() end
  end
  pcall(x.narrow, x, 1, 1, i) pcall(function() return x[i] end)
end

--- indices of gather, take and embeddings outside
local x, table_of = capl.zeros(4, 4), nn.Embedding and nn.Embedding(4, 2)
for _, i in ipairs{-1, 4, 5, 2 ^ 31 - 1, -2 ^ 31} do
  local index = capl.full({4, 4}, i, {dtype = "i64"})
  if x.gather then pcall(x.gather, x, 1, index) end
  if capl.take then pcall(capl.take, x, index) end
  if table_of and pcall(table_of, index) then ESCAPED() end
  pcall(nn.cross_entropy, x, capl.full({4}, i, {dtype = "i64"}))
  pcall(nn.nll_loss, x, capl.full({4}, i, {dtype = "i64"}))
end

--- a released tensor, to every method
local x = capl.zeros(2, 2)
x:free()
for _, name in ipairs{"add", "relu", "sum", "item", "get", "set", "reshape", "to", "clone", "backward", "free", "numel", "fill_", "copy_", "detach", "keep"} do
  local y = capl.zeros(2, 2)
  if pcall(function() return x[name] end) and type(x[name]) == "function" then pcall(x[name], x, y) pcall(y[name], y, x) end
end

--- a tensor is released while its view lives
local x = capl.ones(1000)
local view = x:narrow(1, 10, 5)
x:free() collectgarbage()
if view:sum():item() ~= 5 then ESCAPED() end

--- a tensor is released while the tape needs it
local w = capl.ones(10, {requires_grad = true})
local y = (w * w):sum()
w:free() collectgarbage()
pcall(y.backward, y)

--- backward twice, of another tape, of a number
local w = capl.ones(3, {requires_grad = true})
local y = (w * w):sum()
y:backward() pcall(y.backward, y) pcall(capl.zeros(1).backward, capl.zeros(1)) pcall(w.backward, w)

--- a tensor escapes from its scope
-- says: tensor was released
local out
capl.scope(function() out = capl.ones(4) end)
out:sum()

--- scopes that end in errors and in each other
pcall(capl.scope, function() local x = capl.ones(4) capl.scope(function() x:free() error("x") end) end)
for _ = 1, 300 do pcall(function() capl.scope(function() capl.scope(error) end) end) end

--- scopes within scopes without end
local function deep(n) return capl.scope(deep, n + 1) end
pcall(deep, 1)

--- a scope is left by yield
local co = coroutine.wrap(function() capl.scope(function() local x = capl.ones(4) coroutine.yield(x) x:sum() end) end)
pcall(co) pcall(co)

--- other objects in place of tensors
local loader = data.loader{source = data.tensors{x = capl.zeros(4, 1)}, batch = 2}
for _, wrong in ipairs{loader, loader.source, loader.source.box, nn.Linear(1, 1), print, "x", 1, true, {}, coroutine.create(print), capl.progress} do
  for _, f in ipairs{capl.no_grad, capl.zeros(1).add, capl.zeros(1).copy_, nn.mse_loss, capl.op.relu, capl.is_tensor, capl.op.matmul} do
    pcall(f, wrong) pcall(f, capl.zeros(1), wrong) pcall(f, wrong, wrong)
  end
end

--- methods of one type with an object of another
local box = data.captcha{preset = "lepture", length = 4}.box
for name in pairs{count = 1, text = 1, name = 1, width = 1, save = 1, pack = 1} do
  local method = box[name]
  if method then for _, wrong in ipairs{capl.zeros(1), {}, 1, print} do if pcall(method, wrong) then ESCAPED() end end end
end

--- a source is freed while a loader reads it
local source = data.tensors{x = capl.zeros(64, 1)}
local loader = data.loader{source = source, batch = 2, workers = 2}
local n = 0
for batch in loader:epoch() do
  n = n + 1
  if n == 2 then pcall(function() source.box:free() end) collectgarbage() end
  if n > 4 then break end
end

--- a loader is dropped in the middle of an epoch, many times
for _ = 1, 20 do
  for batch in data.loader{source = data.tensors{x = capl.zeros(64, 1)}, batch = 2, workers = 2}:epoch() do break end
end
collectgarbage()

--- batches and worker numbers without measure
local s = data.tensors{x = capl.zeros(4, 1)}
for _, o in ipairs{{batch = 1e9}, {batch = 0}, {batch = -1}, {workers = 1e6}, {workers = -1}, {prefetch = 1e9}, {batch = 0 / 0}, {batch = 2 ^ 53}} do
  o.source = s
  pcall(data.loader, o)
end

--- a generator of pictures without measure
for _, o in ipairs{{width = 1e9, height = 1e9}, {width = -1}, {length = 1e9}, {width = 2 ^ 31}, {charset = ("x"):rep(1e6)}, {length = 0}} do
  o.preset = "lepture"
  pcall(data.captcha, o)
end

--- convolutions whose sizes overflow
for _, a in ipairs{{2 ^ 31, 1, 3}, {1, 2 ^ 31, 3}, {1, 1, 2 ^ 31}, {1, 1, 0}, {1, 1, -1}, {65536, 65536, 65536}} do pcall(nn.Conv2d, unpack(a)) end
for _, o in ipairs{{stride = 0}, {stride = -1}, {padding = 2 ^ 31}, {padding = -5}, {dilation = 2 ^ 31}, {groups = 0}, {groups = 3}} do
  local ok, conv = pcall(nn.Conv2d, 2, 2, 3, o)
  if ok then pcall(conv, capl.zeros(1, 2, 5, 5)) end
end

--- 0 images, 0 channels, 0 features
for _, size in ipairs{{0, 3, 8, 8}, {1, 0, 8, 8}, {1, 3, 0, 8}} do
  pcall(function() return nn.Conv2d(3, 4, 3)(capl.zeros(size)) end)
  pcall(function() return nn.BatchNorm2d(3)(capl.zeros(size)) end)
  pcall(function() return nn.MaxPool2d(2)(capl.zeros(size)) end)
end

--- swaps, copies and casts between devices that do not fit
for _, device in ipairs{"meta", "ref", "cuda:99", "cpu:5", "x", "", ("x"):rep(1e5)} do
  pcall(capl.zeros, 2, {device = device})
  pcall(function() return capl.zeros(2):to(device) + capl.zeros(2) end)
  pcall(function() return capl.zeros(2):copy_(capl.zeros(2, {device = device})) end)
end

--- numbers of nested tables without end
local t = {}
t[1] = t
if pcall(capl.tensor, t) then ESCAPED() end
local deep = {}
for _ = 1, 1e5 do deep = {deep} end
if pcall(capl.tensor, deep) then ESCAPED() end

--- state of another shape, with wrong types
local m = nn.Linear(2, 2)
for _, state in ipairs{{weight = 1}, {weight = capl.zeros(9)}, {weight = m}, {[1] = capl.zeros(2, 2)}, {weight = capl.zeros(2, 2, {dtype = "i64"})}} do
  pcall(m.load_state_dict, m, state)
end

--- trees that hold themselves, functions and userdata are saved
local t = {}
t.t = t
for _, value in ipairs{t, {print}, {f = print}, {coroutine.create(print)}, {[{}] = 1}, {x = 0 / 0}} do pcall(train.save, capl.run_folder() .. "/tree", value) end
