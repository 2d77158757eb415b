-- prelude.lua: values of ill will, for recipes: the global H. A call that fails can be repeated by hand with this before it.
-- SPDX-License-Identifier: Apache-2.0
H = {}

function H.released()
  local x = capl.zeros(2, 3)
  x:free()
  return x
end

function H.escaped()
  local kept
  capl.scope(function() kept = capl.ones(2, 2) end)
  return kept
end

function H.cycle()
  local t = {1, 2, name = "x"}
  t[3], t.t = t, t
  return t
end

function H.deep()
  local t = {1}
  for _ = 1, 300 do t = {t} end
  return t
end

function H.net_cycle()
  local a, b = nn.Sequential{nn.Linear(2, 2)}, nn.Sequential{}
  a.again, b.other = b, a
  rawset(b, "self", b)
  return a
end

function H.raising() error("mine") end
function H.raising_table() error({}) end
function H.raising_nil() error(nil) end
function H.yielding(...) return coroutine.yield(...) end
function H.releasing(...)
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if capl.is_tensor(x) then x:free() end
  end
  return ...
end
function H.collecting(...)
  collectgarbage()
  return ...
end
function H.same(...) return ... end
function H.nothing() end
function H.number() return 3 end
function H.text() return "text\0text" end
function H.tensor() return capl.ones(2, 2) end
function H.again(...) return capl.no_grad(capl.scope, H.tensor) end

-- Raises, releases or yields at its n-th call, and gives its arguments else.
function H.at(n, fn)
  local calls = 0
  return function(...)
    calls = calls + 1
    if calls == n then return fn(...) end
    return ...
  end
end

H.hostile = setmetatable({}, {
  __index = function() error("mine") end, __newindex = function() error("mine") end, __call = function() error("mine") end,
  __tostring = function() return 5 end, __len = function() return 1e9 end, __add = function() return 1 end,
  __eq = function() error("mine") end, __lt = function() error("mine") end, __concat = function() return "x" end,
})
H.endless = setmetatable({}, {__index = function(t) return t end, __call = function(t) return t end})
H.liar = setmetatable({}, {__index = {shape = {1e9}, dtype = "f32", is_leaf = true, requires_grad = true}, __metatable = "tensor"})
H.fake_module = setmetatable({}, {__module = true, __index = function() return H.nothing end})
H.thread = coroutine.create(H.yielding)
