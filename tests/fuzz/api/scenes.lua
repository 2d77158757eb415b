-- scenes.lua: what goes wrong in the middle: callbacks that raise, yield or release; tapes, scopes and views used against the rules.
-- SPDX-License-Identifier: Apache-2.0
local fuzz = ...

local random, values = fuzz.random, fuzz.values
local pick, chance, upto = random.pick, random.chance, random.upto

local scenes = {}

-- What is there at the start, so that methods have something to be called on.
local objects = {
  "capl.randn(4, 3)", "capl.randn(2, 1, 8, 8):requires_grad_()", "capl.tensor({{0, 1}, {2, 3}}, {dtype = 'i32'})",
  "capl.ones(3, 4, 5):transpose(1, 3)", "capl.zeros({2, 0, 3})", "capl.tensor(3)", "capl.rand(6, {dtype = 'f64'})",
  "nn.Sequential{nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)}", "nn.Sequential{nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten()}",
  "nn.LSTM(8, 16, {bidirectional = true})", "nn.TransformerEncoderLayer(8, 2, 16)", "nn.Embedding(10, 4)", "nn.ModuleDict{a = nn.Linear(2, 2)}",
  "nn.Ensemble{n = 2, build = function() return nn.Linear(4, 2) end}", "nn.MultiheadAttention(8, 2)", "nn.Dropout(0.5)",
  "optim.SGD(nn.Linear(2, 1):parameters(), {lr = 0.1, momentum = 0.9})", "optim.AdamW(nn.Linear(4, 2):parameters(), {lr = 1e-3})",
  "optim.Muon(nn.Linear(4, 4):parameters(), {lr = 1e-3})", "optim.schedule.cosine{lr = 1, T_max = 10}", "optim.schedule.step{lr = 1, step_size = 10}",
  "data.captcha{charset = '0-9', length = 3, count = 8, width = 40, height = 24}", "data.slider{count = 4}", "data.faces{count = 4}",
  "data.tensors{image = capl.zeros({6, 1, 4, 4}, {dtype = 'u8'}), target = capl.zeros({6}, {dtype = 'i32'})}",
  "data.loader{source = data.captcha{charset = '0-9', length = 3, count = 8, fixed = true}, role = 'train', batch = 4, workers = 0}",
  "data.loader{source = data.tensors{image = capl.zeros({6, 1, 4, 4}, {dtype = 'u8'}), target = capl.zeros({6}, {dtype = 'i32'})}, "
    .. "role = 'val', batch = 4, workers = 1}",
  "train.EMA(nn.Linear(2, 2), {decay = 0.9})", "train.EarlyStopping{patience = 2}", "train.BestTracker{}", "train.Anomaly{}", "train.Monitor{}",
  "capl.text_meter('0-9')", "train.TextMeter('0-9')", "train.RegressionMeter{}", "train.SegmentationMeter{classes = {'a', 'b'}}",
  "capl.distributed()", "capl.counters()", "capl.ops()", "augment.preset('default')", "augment.schedule{{}, {from = {epoch = 2}}}",
  "capl.capture(function(x) return x * 2 end)", "capl.fuse(function(x, y) return x * y end)", "capl.replicate(nn.Linear(2, 2))",
  "capl.choice{1, 2}", "capl.progress{steps = 3}", "data.pm25{}", "capl.params{a = 1, b = 'x'}", "coroutine.create(H.yielding)",
  "nn.class('Own')", "capl.memory()", "H.net_cycle()", "H.released()", "H.escaped()",
}

--- Statements that fill the slots with what is there at the start.
function scenes.objects(n)
  local out = {}
  for slot = 1, n do out[slot] = ("v%d = %s"):format(slot, pick(objects)) end
  return out
end

-- ---- callbacks ------------------------------------------------------------------------------------

local hooks = {"H.raising", "H.raising_table", "H.raising_nil", "H.yielding", "H.releasing", "H.collecting", "H.nothing", "H.number", "H.text",
  "H.again", "H.at(2, H.raising)", "H.at(2, H.yielding)", "H.at(2, H.releasing)", "H.at(3, H.nothing)", "H.hostile", "H.endless"}
local function hook() return pick(hooks) end
local function rarely(text, otherwise) return chance(0.25) and text() or otherwise end

local function layer()
  return pick{"nn.Linear(4, 4)", "nn.ReLU()", "nn.Dropout(0.5)", "nn.LayerNorm(4)", "nn.BatchNorm1d(4)", "nn.Identity()", rarely(values.slot, "nn.Tanh()"),
    ("(function() local C = nn.class('C') C.forward = %s return C() end)()"):format(rarely(hook, "H.same"))}
end

local function net() return ("nn.Sequential{nn.Linear(4, 4), %s, %s, nn.Linear(4, 2)}"):format(layer(), layer()) end

local function optimizer(model)
  return ("optim.%s(%s:parameters(), {lr = %s})"):format(pick{"SGD", "Adam", "AdamW", "RMSprop", "Muon"}, model,
    chance(0.8) and "0.1" or values.any(1))
end

local function loader(role)
  return ("data.loader{source = data.tensors{input = capl.randn({6, 4}), value = capl.zeros({6, 2})}, role = '%s', batch = 2, workers = %d}"):format(role,
    upto(3) - 1)
end

local function loss() return rarely(hook, pick{"function(y, b) return nn.mse(y, b.value) end", "function(y) return y:mean() end"}) end

-- Options of train.fit, with a good value or none for each.
local fit_options = {
  {"precision", "'fp32'"}, {"clip_norm", "1"}, {"ema", "0.9"}, {"early_stop", "{metric = 'loss', patience = 1}"}, {"eval_every", "1"}, {"save_every", "1"},
  {"on_step"}, {"on_evaluation"}, {"merge"}, {"meter", "'regression'"}, {"input", "function(b) return b.input end"}, {"capture", "false"}, {"shards", "1"},
  {"freeze", "{names = '0'}"}, {"anomaly", "true"}, {"lr", "'find'"}, {"best", "{metric = 'loss'}"}, {"accumulate", "2"}, {"stop_at"}, {"resume"}, {"init_from"},
}

local function fit()
  local more = {}
  for i = 1, upto(4) - 1 do
    local option = pick(fit_options)
    more[i] = ("%s = %s"):format(option[1], option[2] and chance(0.5) and option[2] or chance(0.5) and hook() or values.any(1))
  end
  return ("local m = %s v1 = train.fit{model = m, train = %s, val = %s, optimizer = %s, loss = %s, steps = 3, meter = 'regression', %s}"):format(net(), loader("train"),
    loader("val"), optimizer("m"), loss(), table.concat(more, ", "))
end

local function step()
  return ("local m = %s local o = %s local x = capl.randn(3, 4) for _ = 1, 2 do o:backward_step((%s)(m(x), %s)) end v2, v3 = m, o"):format(net(),
    optimizer("m"), loss(), pick{"capl.zeros({3}, {dtype = 'i32'})", "capl.zeros(3, 2)", values.tensor()})
end

local function taking_functions()
  local name = pick{"capl.scope", "capl.no_grad", "capl.profile", "capl.checkpoint", "capl.fuse", "capl.capture", "capl.autocast", "train.lr_find",
    "train.evaluate", "train.sharded_step", "capl.replicate"}
  local first = name == "capl.autocast" and "'bf16', " or ""
  local call = ("%s(%s%s, %s, %s)"):format(name, first, hook(), values.any(1), values.any(1))
  if chance(0.4) then call = call .. values.arguments({}) end
  return values.slot() .. " = " .. call
end

-- ---- coroutines -----------------------------------------------------------------------------------

local function coroutine_scene()
  local inside = pick{
    "capl.scope(coroutine.yield, capl.ones(2))", "capl.no_grad(coroutine.yield, 1)", "capl.profile(coroutine.yield)",
    "capl.autocast('bf16', coroutine.yield, 1)", "nn.Sequential{nn.Linear(2, 2)}:apply(coroutine.yield)",
    "capl.scope(function() local x = capl.ones(2) coroutine.yield(x) return x end)",
    "capl.checkpoint(coroutine.yield, capl.ones(2):requires_grad_())", "capl.fuse(coroutine.yield)(capl.ones(2))",
    "capl.capture(coroutine.yield)(capl.ones(2))", ("train.evaluate(%s, %s)"):format("coroutine.yield", loader("val")),
    ("for b in %s:epoch(1) do coroutine.yield(b) end"):format(loader("train")), "table.foreach({1, 2}, coroutine.yield)",
    "xpcall(coroutine.yield, coroutine.yield)", "pcall(capl.scope, coroutine.yield)", "load(coroutine.yield)",
    "print(setmetatable({}, {__tostring = coroutine.yield}))", "nn.summary and nn.summary(nn.Linear(2, 2), coroutine.yield)",
  }
  return ("local c = coroutine.wrap(function() %s end) v4 = c() v5 = c(v4) v6 = c()"):format(inside)
end

-- ---- tapes, scopes, views -------------------------------------------------------------------------

local function tape()
  return pick{
    "local x = capl.randn(2, 3):requires_grad_() local y = (x * x):sum() y:backward() y:backward()",
    "local x = capl.randn(2, 3):requires_grad_() local y = x * x x:free() y:sum():backward()",
    "local x = capl.randn(2, 3):requires_grad_() local y = x:exp() local z = y:sum() y:free() z:backward() v7 = x.grad",
    "local x = capl.randn(2, 3):requires_grad_() local y = x:view(6) y:fill_(1) v7 = y",
    "local x = capl.randn(2, 3) local y = x[1] y:copy_(x) v7 = y",
    "local x = capl.randn(3, 3) x:copy_(x:t()) x:t():copy_(x) v7 = x",
    "local x = capl.randn(3):expand(4, 3) x:fill_(2) v7 = x",
    "local x = capl.randn(3):expand(4, 3) capl.no_grad(function() x:copy_(capl.randn(4, 3)) end) v7 = x",
    "local x = capl.randn(2, 3):requires_grad_() capl.no_grad(function() x:zero_() end) (x * 2):sum():backward() x.grad:free() v7 = x.grad",
    "local x = capl.randn(2):requires_grad_() local y = x * 2 y:sum():backward() y:sum():backward()",
    "local x = capl.randn(2):requires_grad_() x:sum():backward(" .. values.any(1) .. ")",
    "local k capl.scope(function() k = capl.ones(2):requires_grad_() end) (k * 2):sum():backward()",
    "local k = capl.scope(function() local x = capl.ones(2):requires_grad_() return x * 2 end) k:sum():backward() v7 = k",
    "local function f(n) return n == 0 and capl.ones(2) or capl.scope(f, n - 1) end v7 = f(" .. pick{"5", "60", "70", "300", "3000"} .. ")",
    "local m = H.net_cycle() v7 = m:parameter_count() v8 = m:state_dict() m:to('f64') v9 = tostring(m) m:train(false)",
    "local m = nn.Linear(2, 2) m.weight:free() m(capl.ones(1, 2))",
    "local m = nn.Linear(2, 2) local o = optim.Adam(m:parameters(), {lr = 1}) m.weight:free() m.bias = nil o:step()",
    "local m = nn.Linear(2, 2) local o = optim.Adam(m:parameters(), {lr = 1}) m(capl.ones(1, 2)):sum():backward() m.weight.grad:free() o:step()",
    "local m = nn.Linear(2, 2) rawset(m, 'weight', " .. values.any(1) .. ") m(capl.ones(1, 2)) v7 = m",
    "local m = nn.Sequential{nn.Linear(2, 2)} m._entries = " .. values.any(1) .. " m:parameters() v7 = m",
    "local x = capl.randn(2, 3) local s = x.shape s[1] = 1e9 v7 = x:view(s)",
    "local p = nn.Linear(2, 2) local q = nn.Linear(2, 2) q.weight = p.weight q:to('f16') p:to('f64') v7 = q(capl.ones(1, 2))",
    "local x = capl.ones(2, 2) for _ = 1, 100 do x = capl.scope(function() return x + 1 end) end v7 = x",
    "local x = capl.ones(2):requires_grad_() for _ = 1, 3000 do x = x + 1 end x:sum():backward()",
    "local l = " .. loader("train") .. " for b in l:epoch(1) do b.image:free() l:set_batch(" .. values.any(1) .. ") v7 = b break end for b in l:epoch(2) do v8 = b end",
    "local l = " .. loader("train") .. " local i = l:epoch(1) local j = l:epoch(2) v7 = i() v8 = j() v7 = i() l:set_state(l:state()) v8 = i()",
    "local s = setmetatable({}, {__index = function(_, k) return " .. values.any(1) .. " end}) v7 = nn.Linear(2, 2):load_state_dict(s, {strict = false})",
  }
end

-- ---- steps that are done twice, recorded or fused ---------------------------------------------------

local function body()
  return pick{
    "return x * 2", "x:free() return x * 2", "collectgarbage() return x:exp()", "n = n + 1 return n % 2 == 0 and x:exp() or x:abs()", "return nil",
    "n = n + 1 if n == 2 then error('mine') end return x * 2", "n = n + 1 if n == 2 then coroutine.yield() end return x * 2", "return x, x",
    "n = n + 1 return capl.scope(function() return x * n end)", "n = n + 1 return capl.ones(n, 2) * x:sum()", "kept = x * 2 return kept",
    "if kept then kept:sum():backward() end kept = x * 2 return kept", "return (x * 2):detach()", "return x:to('f64')", "return x:to('ref')", "return {x * 2}",
    "local y = x * 2 y:sum():backward() return y", "return capl.checkpoint(function(z) return z:exp() end, x)", "return capl.no_grad(function() return x * 2 end)",
    "return capl.fuse(function(z) return z * 2 end)(x)", "return capl.autocast('bf16', function() return x:mm(x:t()) end)", "x:requires_grad_(false) return x * 2",
    "return capl.capture(function(z) return z + 1 end)(x)", "return nn.Dropout(0.5)(x)", "return x:view(-1):clone()", "x:fill_(1) return x", "return x",
    "return coroutine.wrap(function() return x * 2 end)()", "return select(2, pcall(function() return x * 2 end))",
  }
end

local function twice()
  local given = pick{"capl.randn(2, 3):requires_grad_()", "capl.randn(2, 3)", "capl.randn(3, 3):requires_grad_():exp()", values.tensor()}
  local wrapped = pick{"capl.checkpoint(f, x)", "capl.fuse(f)(x)", "capl.capture(f)(x)", "capl.scope(f, x)", "capl.profile(f, x)", "capl.no_grad(f, x)",
    "(function() local g = capl.capture(f) g(x) g(x) g(x) return g(x) end)()", "(function() local g = capl.fuse(f) g(x) return g(x) end)()"}
  local after = pick{"", "y:sum():backward()", "x:free() y:sum():backward()", "y:sum():backward() y:sum():backward()", "kept:sum():backward()", "collectgarbage()"}
  return ("local n, kept = 0 local x = %s local function f(x) %s end local y = %s v%d, v%d = y, kept %s"):format(given, body(), wrapped,
    upto(values.slots), upto(values.slots), after)
end

-- Memory ends somewhere within.
local function limited(scene)
  return ("capl.memory_limit(capl.memory().live + %d) %s"):format(upto(64) * 256, scene())
end

--- The text of one scene.
function scenes.one()
  local scene = pick{fit, step, step, taking_functions, taking_functions, coroutine_scene, tape, tape, twice, twice, twice}
  return chance(0.15) and limited(scene) or scene()
end

return scenes
