-- Modules: members, names, modes, state, printing, fusing, layers, losses, init, summary.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text, close, no_leak = support.error_text, support.close, support.no_leak

local function names(iterator)
  local out = {}
  for name in iterator do out[#out + 1] = name end
  return out
end

local Net = nn.class("Net")

function Net:init(hidden)
  self.body = nn.Sequential{nn.Linear(4, hidden), nn.ReLU()}
  self.scale = nn.Parameter(capl.ones(1))
  self.head = nn.Linear(hidden, 2)
  self.note = "not a member"
end

function Net:forward(x) return self.head(self.body(x)) * self.scale end

describe("a custom module", function()
  it("has parameters in the order of assignment, its own first", function()
    assert.same({"scale", "body.0.weight", "body.0.bias", "head.weight", "head.bias"}, names(Net(3):named_parameters()))
    assert.equal(5, #Net(3):parameters())
    assert.equal(1 + 4 * 3 + 3 + 3 * 2 + 2, Net(3):parameter_count())
    assert.same({"body", "head"}, names(Net(3):named_children()))
    assert.same({"", "body", "body.0", "body.1", "head"}, names(Net(3):named_modules()))
    assert.equal(2, #Net(3):children())
  end)

  it("computes and gives every parameter a gradient", function()
    local net = Net(3)
    net(capl.randn(5, 4)):sum():backward()
    for name, p in net:named_parameters() do assert.same(p.shape, p.grad.shape, name) end
    net:zero_grad()
    for name, p in net:named_parameters() do assert.is_nil(p.grad, name) end
  end)

  it("can be derived from another class", function()
    local Twice = nn.class("Twice", nn.Linear)
    function Twice:forward(x) return nn.Linear.forward(self, x) * 2 end
    local layer = Twice(2, 2)
    local x = capl.ones(1, 2)
    assert.is_true(close((nn.Linear.forward(layer, x) * 2):tolist(), layer(x):tolist()))
    assert.equal("Twice(2 -> 2)", tostring(layer))
    local Deep = nn.class("Deep", nn.Sequential)
    assert.equal(2, Deep{nn.ReLU(), nn.ReLU()}:count())
    assert.equal("ReLU()", tostring(Deep{nn.ReLU()}[1]))
  end)

  it("without forward says so", function()
    local Empty = nn.class("Empty")
    assert.truthy(error_text(function() local y = Empty()(1)
      return y end):find("Empty: the class has no forward method", 1, true))
  end)

  it("counts a shared parameter once", function()
    local shared = nn.Linear(2, 2)
    local model = nn.Sequential{shared, shared}
    assert.equal(2, #model:parameters())
    assert.is_not_nil(model:state_dict()["0.weight"])
  end)

  it("takes its fields from a table when it has no init", function()
    local Plain = nn.class("Plain")
    local model = Plain{fc = nn.Linear(1, 1)}
    assert.same({"fc.weight", "fc.bias"}, names(model:named_parameters()))
  end)
end)

describe("train, eval, apply, freeze, to", function()
  it("reach all modules", function()
    local net, seen = Net(2), 0
    assert.is_true(net.training)
    assert.equal(net, net:eval())
    assert.is_false(net.body[2].training)
    net:train()
    assert.is_true(net.head.training)
    net:apply(function() seen = seen + 1 end)
    assert.equal(5, seen)
    net:requires_grad_(false)
    assert.is_false(net.head.weight.requires_grad)
    assert.equal(5, #net:parameters())
  end)

  it("move and convert in place, for whoever holds the tensors", function()
    local model = nn.Sequential{nn.Linear(2, 3), nn.BatchNorm1d(3)}
    local weight, values = model[1].weight, model[1].weight:tolist()
    model:to("ref")
    assert.equal("ref", weight.device)
    assert.is_true(weight.requires_grad)
    assert.same(values, weight:tolist())
    model:to("f64")
    assert.equal("f64", weight.dtype)
    assert.equal("f64", model[2].running_mean.dtype)
    model:to("cpu"):to("bf16")
    assert.equal("bf16", weight.dtype)
    assert.equal("f64", model[2].weight.dtype)
  end)
end)

describe("state_dict", function()
  it("has PyTorch's names, and loads back", function()
    local function model()
      return nn.Sequential{nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)}
    end
    local a, b = model(), model()
    local x = capl.randn(3, 1, 4, 4)
    a(x) a(x)
    local state, list = a:state_dict(), {}
    for name in pairs(state) do list[#list + 1] = name end
    table.sort(list)
    assert.same({"0.bias", "0.weight", "1.bias", "1.num_batches_tracked", "1.running_mean", "1.running_var", "1.weight",
      "4.bias", "4.weight"}, list)
    assert.equal(2, state["1.num_batches_tracked"]:item())
    assert.equal("i64", state["1.num_batches_tracked"].dtype)
    assert.same({missing = {}, unexpected = {}}, b:load_state_dict(state))
    assert.same(a:eval()(x):tolist(), b:eval()(x):tolist())
    assert.equal(2, b[2].batches)
  end)

  it("lists everything that does not fit, and then changes nothing", function()
    local model = nn.Sequential{nn.Linear(2, 3)}
    local before = model[1].weight:tolist()
    assert.equal("LINE: load_state_dict: the state does not fit Sequential\n  missing: 0.bias\n  unexpected: 1.bias\n"
      .. "  other shape: 0.weight is (3,2), given (2,2)",
      error_text(function() return (model:load_state_dict{["0.weight"] = capl.zeros(2, 2), ["1.bias"] = capl.zeros(2)})
      end)
        :gsub("\n  in [^\n]+", ""):gsub("^LINE", "LINE"))
    assert.same(before, model[1].weight:tolist())
    local report = model:load_state_dict({["0.weight"] = capl.ones(3, 2), other = capl.zeros(1)}, {strict = false})
    assert.same({missing = {"0.bias"}, unexpected = {"other"}}, report)
    assert.same({{1, 1}, {1, 1}, {1, 1}}, model[1].weight:tolist())
  end)
end)

describe("Sequential", function()
  it("takes a list or arguments, grows, and is read from 1", function()
    local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    model:add(nn.Linear(3, 1))
    assert.equal(3, model:count())
    assert.equal("ReLU()", tostring(model[2]))
    assert.equal(model[3], model[-1])
    assert.is_nil(model[4])
    assert.equal("Sequential(\n  (0): Linear(2 -> 3)\n  (1): ReLU()\n  (2): Linear(3 -> 1)\n)", tostring(model))
    assert.equal("LINE: nn.Sequential: layer 1 is a table, not a module\n  hint: call the class: nn.ReLU()",
      error_text(function() local m = nn.Sequential{nn.ReLU} return m end))
  end)

  it("fuses batch norm, ReLU and pooling with the same results", function()
    finally(function() capl.fuse(true) end)
    for _, tail in ipairs{{}, {nn.MaxPool2d(2)}, {nn.MaxPool2d(3, 2, 1)}} do
      local model = nn.Sequential{nn.BatchNorm2d(3), nn.ReLU(), unpack(tail)}
      local x = capl.randn({2, 3, 6, 7}, {requires_grad = true})
      local function run(fuse)
        capl.fuse(fuse)
        model[1].running_mean:zero_()
        model[1].running_var:fill_(1)
        x:zero_grad()
        model:zero_grad()
        local fused = capl.counters().fused_ops
        local y = model:train()(x)
        ;(y * y):sum():backward()
        local evaluated = model:eval()(x)
        return {y:tolist(), evaluated:tolist(), x.grad:tolist(), model[1].weight.grad:tolist(),
          model[1].bias.grad:tolist(), model[1].running_mean:tolist()}, capl.counters().fused_ops - fused
      end
      local plain, none = run(false)
      local fused, some = run(true)
      assert.equal(0, none)
      assert.is_true(some > 0)
      for i = 1, #plain do assert.is_true(close(plain[i], fused[i], 1e-4), "result " .. i) end
    end
  end)

  it("joins Linear and ReLU with the same results", function()
    finally(function() capl.fuse(true) end)
    for _, bias in ipairs{true, false} do
      local model = nn.Sequential{nn.Linear(5, 4, {bias = bias}), nn.ReLU(), nn.Linear(4, 2)}
      local x = capl.randn({3, 5}, {requires_grad = true})
      local function run(fuse)
        capl.fuse(fuse)
        x:zero_grad()
        model:zero_grad()
        local before = capl.counters()
        local y = model(x)
        local after = capl.counters()
        ;(y * y):sum():backward()
        return {y:tolist(), x.grad:tolist(), model[1].weight.grad:tolist(), bias and model[1].bias.grad:tolist()},
          after.fused_ops + after.expanded_ops - before.fused_ops - before.expanded_ops
      end
      local plain, none = run(false)
      local joined, one = run(true)
      assert.same({0, 1}, {none, one})
      assert.same(plain, joined)
    end
  end)

  it("is not confused by lists", function()
    local list = nn.ModuleList{nn.Linear(1, 2), nn.Linear(2, 1)}
    assert.equal(4, #list:parameters())
    assert.same({1, 1}, list[2](list[1](capl.ones(1, 1))).shape)
    assert.truthy(error_text(function() local y = list(1) return y end):find("a list is not called", 1, true))
  end)
end)

describe("layers", function()
  local function shape(layer, ...) return layer(capl.randn(...)).shape end

  it("have PyTorch's output shapes", function()
    assert.same({1, 64, 16, 16}, shape(nn.Conv2d(3, 64, 3, {stride = 2, padding = 1}), 1, 3, 32, 32))
    assert.same({2, 6, 5, 7}, shape(nn.Conv2d(4, 6, {3, 5}, 1, "same"), 2, 4, 5, 7))
    assert.same({2, 4, 3, 5}, shape(nn.Conv2d{4, 4, 3, groups = 4, dilation = 2}, 2, 4, 7, 9))
    assert.same({2, 5, 3}, shape(nn.Linear(4, 3), 2, 5, 4))
    assert.same({2, 3, 2, 3}, shape(nn.MaxPool2d(2), 2, 3, 5, 7))
    assert.same({2, 3, 3, 4}, shape(nn.MaxPool2d(2, {ceil_mode = true}), 2, 3, 5, 7))
    assert.same({2, 3, 3, 4}, shape(nn.AvgPool2d(3, 2, 1), 2, 3, 5, 7))
    assert.same({2, 3, 1, 1}, shape(nn.AdaptiveAvgPool2d(1), 2, 3, 5, 7))
    assert.same({2, 3, 2, 4}, shape(nn.AdaptiveMaxPool2d{2, 4}, 2, 3, 5, 7))
    assert.same({2, 105}, shape(nn.Flatten(), 2, 3, 5, 7))
    assert.same({2, 48, 2, 3}, shape(nn.PixelUnshuffle(4), 2, 3, 8, 12))
    assert.same({2, 3}, shape(nn.BatchNorm1d(3), 2, 3))
    for _, name in ipairs{"ReLU", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Identity", "Dropout"} do
      assert.same({2, 3}, shape(nn[name](), 2, 3), name)
    end
  end)

  it("print what they are", function()
    assert.equal("Conv2d(1 -> 2, 3x3, stride 2x1, padding 1x1, no bias)",
      tostring(nn.Conv2d(1, 2, 3, {stride = {2, 1}, padding = 1, bias = false})))
    assert.equal("Linear(2 -> 1, no bias)", tostring(nn.Linear(2, 1, false)))
    assert.equal("MaxPool2d(3x3, stride 2x2, padding 1x1)", tostring(nn.MaxPool2d(3, 2, 1)))
    assert.equal("Dropout(p 0.3)", tostring(nn.Dropout(0.3)))
    assert.equal("BatchNorm2d(8)", tostring(nn.BatchNorm2d(8)))
    assert.equal("AdaptiveAvgPool2d(1x1)", tostring(nn.AdaptiveAvgPool2d(1)))
  end)

  it("PixelUnshuffle keeps PyTorch's channel order", function()
    local x = capl.arange(16):float():view(1, 1, 4, 4)
    assert.same({{{{0, 2}, {8, 10}}, {{1, 3}, {9, 11}}, {{4, 6}, {12, 14}}, {{5, 7}, {13, 15}}}},
      nn.PixelUnshuffle(2)(x):tolist())
    assert.truthy(error_text(function() local y = nn.PixelUnshuffle(3)(x) return y end):find(
      "x must be (N,C,H,W) with H and W divisible by 3, got (1,1,4,4) f32 cpu", 1, true))
  end)

  it("Dropout scales what it keeps, follows the seed, and rests in evaluation", function()
    local layer, x = nn.Dropout(0.25), capl.ones(100, 100)
    capl.manual_seed(1)
    local a, b = layer(x):tolist(), layer(x):tolist()
    capl.manual_seed(1)
    assert.same(a, layer(x):tolist())
    assert.is_false(close(a, b))
    local kept = layer(x):gt(0):float():mean():item()
    assert.is_true(math.abs(kept - 0.75) < 0.03)
    assert.is_true(close(layer(x):amax():item(), 4 / 3))
    assert.is_true(rawequal(x, layer:eval()(x)))
  end)

  it("BatchNorm follows the batch in training and its statistics in evaluation", function()
    local layer, x = nn.BatchNorm1d(2), capl.tensor{{1, 10}, {3, 30}}
    assert.is_true(close({{-1, -1}, {1, 1}}, layer(x):tolist(), 1e-4))
    assert.is_true(close({0.2, 2}, layer.running_mean:tolist()))
    assert.is_true(close({0.9 + 0.2, 0.9 + 20}, layer.running_var:tolist(), 1e-4))
    local y = layer:eval()(x):tolist()
    assert.is_true(close((1 - 0.2) / math.sqrt(1.1), y[1][1], 1e-3))
    local text = error_text(function() local z = layer(capl.zeros(1, 2, 1, 1)) return z end)
    assert.truthy(text:find("x must be (N,C) or (N,C,L), got (1,2,1,1)", 1, true), text)
  end)

  it("give their memory back", function()
    no_leak(function()
      local model = nn.Sequential{nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(),
        nn.Flatten(), nn.Linear(4 * 9, 2)}
      model(capl.randn(2, 1, 8, 8)):sum():backward()
    end)
  end)
end)

describe("losses", function()
  local logits, labels = capl.tensor{{1, 2, 3}, {0, 5, 0}}, capl.tensor({2, 0}, {dtype = "i32"})

  it("have known values", function()
    local function nll(row, k)
      local sum = 0
      for _, v in ipairs(row) do sum = sum + math.exp(v) end
      return math.log(sum) - row[k]
    end
    local a, b = nll({1, 2, 3}, 3), nll({0, 5, 0}, 1)
    assert.is_true(close((a + b) / 2, nn.cross_entropy(logits, labels):item(), 1e-5))
    assert.is_true(close(a + b, nn.cross_entropy(logits, labels, {reduction = "sum"}):item(), 1e-5))
    assert.is_true(close({a, b}, nn.cross_entropy(logits, labels, {reduction = "none"}):tolist(), 1e-5))
    assert.is_true(close(a, nn.cross_entropy(logits, labels, {ignore_index = 0}):item(), 1e-5))
    local x, t = capl.tensor{{0, 2}}, capl.tensor{{1, 0}}
    local bce = (math.log(2) + math.log(1 + math.exp(2))) / 2
    assert.is_true(close(bce, nn.bce_with_logits(x, t):item(), 1e-5))
    assert.is_true(close(bce, nn.multilabel_soft_margin(x, t):item(), 1e-5))
    assert.is_true(close((1 + 4) / 2, nn.mse(x, t):item()))
    assert.is_true(close({{1, 4}}, nn.mse(x, t, {reduction = "none"}):tolist()))
  end)

  it("take classes in dim 2 of larger logits, as PyTorch", function()
    local many = capl.randn(2, 5, 3)
    local truth = capl.tensor({{0, 1, 4}, {2, 2, 3}}, {dtype = "i32"})
    local flat = nn.cross_entropy(many:transpose(2, 3):reshape(6, 5), truth:view(-1)):item()
    assert.is_true(close(flat, nn.cross_entropy(many, truth):item()))
    assert.same({2, 3}, nn.cross_entropy(many, truth, {reduction = "none"}).shape)
  end)

  it("exist as modules", function()
    assert.is_true(close(nn.cross_entropy(logits, labels, {label_smoothing = 0.1}):item(),
      nn.CrossEntropyLoss{label_smoothing = 0.1}(logits, labels):item()))
    assert.equal(0, nn.MSELoss()(logits, logits):item())
    assert.is_number(nn.BCEWithLogitsLoss()(logits, logits):item())
    assert.is_number(nn.MultiLabelSoftMarginLoss{reduction = "sum"}(logits, logits):item())
  end)

  it("check their arguments", function()
    assert.truthy(error_text(function() return (nn.cross_entropy(logits, labels, {smoothing = 1})) end):find(
      "LINE: cross_entropy: unknown option 'smoothing'; known: weight, label_smoothing, ignore_index, reduction", 1,
      true))
    assert.equal("LINE: bad argument #2 to 'mse' (tensor expected, got nil)",
      error_text(function() return (nn.mse(logits)) end))
    assert.truthy(error_text(function() return (nn.mse(logits, capl.zeros(2))) end):find("mse", 1, true))
  end)
end)

describe("nn.init", function()
  it("has PyTorch's spreads", function()
    local w = capl.empty(64, 32, 3, 3)
    local fan_in, fan_out = 32 * 9, 64 * 9
    local function bound(x) return math.max(x:amax():item(), -x:amin():item()) end
    assert.is_true(close(math.sqrt(6 / fan_in), bound(nn.init.kaiming_uniform(w)), 1e-3))
    assert.is_true(close(math.sqrt(2 / fan_in), nn.init.kaiming_normal(w, {nonlinearity = "relu"}):std():item(), 2e-3))
    assert.is_true(close(math.sqrt(1 / fan_out),
      nn.init.kaiming_normal(w, {mode = "fan_out", nonlinearity = "linear"}):std():item(), 2e-3))
    assert.is_true(close(math.sqrt(6 / (fan_in + fan_out)), bound(nn.init.xavier_uniform(w)), 1e-3))
    assert.is_true(close(math.sqrt(2 / (fan_in + fan_out)), nn.init.xavier_normal(w):std():item(), 2e-3))
    assert.is_true(bound(nn.init.uniform(w, -2, 2)) > 1.99)
    assert.is_true(close(3, nn.init.normal(w, 3, 0.5):mean():item(), 0.02))
    assert.equal(0, bound(nn.init.zeros(w)))
    assert.equal(1, nn.init.ones(w):amin():item())
    assert.equal(7, nn.init.constant(w, 7):amin():item())
    assert.truthy(error_text(function()
      return (nn.init.kaiming_uniform(capl.zeros(3))) end):find("at least 2 dims", 1, true))
  end)

  it("starts layers within 1/sqrt(fan-in)", function()
    local conv, linear = nn.Conv2d(8, 16, 3), nn.Linear(100, 50)
    local function bound(x) return math.max(x:amax():item(), -x:amin():item()) end
    assert.is_true(bound(conv.weight) <= 1 / math.sqrt(72) and bound(conv.weight) > 0.95 / math.sqrt(72))
    assert.is_true(bound(conv.bias) <= 1 / math.sqrt(72))
    assert.is_true(bound(linear.weight) <= 0.1 and bound(linear.weight) > 0.099)
  end)

  it("follows the seed", function()
    capl.manual_seed(3)
    local a = nn.Linear(3, 3).weight:tolist()
    capl.manual_seed(3)
    assert.same(a, nn.Linear(3, 3).weight:tolist())
  end)
end)

describe("nn.summary", function()
  it("takes names of any length", function()
    local Long = nn.class("Net" .. ("x"):rep(1e5))
    function Long:init() self.body = nn.Linear(2, 2) end
    function Long:forward(x) return self.body(x) end
    assert.truthy(tostring(nn.summary(Long(), {1, 2})):find("body", 1, true))
  end)

  it("has a row for what a module of others computes itself", function()
    local Product = nn.class("Product")
    function Product:init() self.fc = nn.Linear(4, 4) end
    function Product:forward(x) return self.fc(x):matmul(x:transpose(1, 2)) end
    for _, case in ipairs{{nn.TransformerEncoderLayer(8, 2, 16, {batch_first = true}), {2, 5, 8}},
      {Product(), {3, 4}}} do
      local summary = nn.summary(case[1], case[2])
      local macs, parameters = 0, 0
      for _, row in ipairs(summary.rows) do macs, parameters = macs + row.macs, parameters + row.parameters end
      assert.equal(summary.macs, macs)
      assert.equal(summary.parameters, parameters)
    end
    assert.truthy(tostring(nn.summary(Product(), {3, 4})):find("Product, its own", 1, true))
  end)

  it("lists layers, shapes, parameters, MACs, and leaves the model as it was", function()
    local model = nn.Sequential{nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Linear(128, 10)}
    local weight = model[1].weight:tolist()
    local summary = nn.summary(model, {2, 1, 8, 8})
    assert.equal(80 + 16 + 1290, summary.parameters)
    assert.equal(8 * 9 * 64 + 1280, summary.macs)
    assert.equal(6, #summary.rows)
    assert.same({2, 8, 4, 4}, summary.rows[4].shape)
    local text = tostring(summary)
    assert.truthy(text:find("0      Conv2d(1 -> 8, 3x3, padding 1x1)  (2,8,8,8)          80  4,608", 1, true), text)
    assert.truthy(text:find("total%s+1,386  5,888"), text)
    assert.equal("cpu", model[1].weight.device)
    assert.same(weight, model[1].weight:tolist())
    assert.is_true(model.training)
    assert.equal("cpu", capl.device())
    assert.equal(0, model[2].batches)
  end)

  it("leaves it so after an error too", function()
    local model = nn.Sequential{nn.Linear(2, 2), nn.Linear(3, 1)}
    assert.truthy(error_text(function() return (nn.summary(model, {1, 2})) end):find("Linear(3 -> 1)", 1, true))
    assert.equal("cpu", model[1].weight.device)
    assert.equal("cpu", capl.device())
    assert.is_true(capl.fuse())
  end)
end)
