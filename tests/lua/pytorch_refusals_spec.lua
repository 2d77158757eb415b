-- What PyTorch takes and capl does not, as its own operator tests (golden/pytorch_op_db.py) and its users meet it: each
-- has a message that names what was given, and nothing is dropped in silence.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim

-- Code, and what its message says.
local refusals = {
  -- of op_db and module_db
  {"x:norm(-1)", "bad argument #1 to 'norm' (a number above 0 expected, got -1)"},
  {"x:narrow(1, capl.tensor(1), 2)", "bad argument #2 to 'narrow' (whole number expected, got tensor)"},
  {"x:tile{2}", "tile: 1 numbers for 3 dims\n  hint: one for each dim of x, or more"},
  {"nn.GroupNorm(1, 3, {eps = -1})(x)", "group_norm: eps must be in 0..1, not -1"},
  {"capl.op.conv2d(images:select(1, 1), images)", "conv2d: x must have 4 dims, it has 3"},
  {"capl.op.linear(x, x)", "linear: weight must have 2 dims, it has 3"},
  {"nn.AdaptiveAvgPool2d{nil, 3}", "nn.AdaptiveAvgPool2d: unknown option '2'; known: output_size"},
  {"nn.AvgPool2d(2, {divisor_override = 3, ceil_mode = true})", "divisor_override is not possible with ceil_mode = true"},
  {"x:movedim({1, 2}, {2, 1})", "bad argument #1 to 'movedim' (whole number expected, got table)"},
  {"x:gather(1, index:byte())", "gather: index must be i32 or i64, it is u8"},
  {"scalar:gather(1, index)", "bad argument #1 to 'gather' (dim 1 is outside 1..0)"},
  {"scalar:scatter(1, index, 1)", "bad argument #1 to 'scatter' (dim 1 is outside 1..0)"},
  {"scalar:transpose(1, 1)", "bad argument #1 to 'transpose' (dim 1 is outside 1..0)"},
  {"x:pad({-1, 1}, {mode = \"reflect\"})", "pad: mode \"reflect\" cannot cut: -1, 1"},
  {"nn.Bilinear(2, 2, 3)", "nn: unknown name 'Bilinear'\n  hint: w (O,I,J) of your own"},
  {"nn.MultiLabelSoftMarginLoss{weight = scalar}", "unknown option 'weight'; nn.BCEWithLogitsLoss has it"},
  {"x:sort(1, {stable = true})", "unknown option 'stable'; leave it out: equal elements stay in order"},
  {"x:sum(1, {dtype = \"f64\"})", "unknown option 'dtype'; x:to(dtype) before it"},
  -- arguments that a method does not take
  {"x:add(x, {alpha = 2})", "add: x:add(…) takes 1 argument, got a table more\n  hint: alpha: x + y * 2"},
  {"x:div(2, {rounding_mode = \"floor\"})", "hint: rounding_mode: (x / y):floor(), (x / y):trunc()"},
  {"x:round{decimals = 1}", "round: x:round(…) takes no arguments, got a table more\n  hint: decimals: (x * 100):round() / 100"},
  {"x:cumsum(1, {dtype = \"f64\"})", "cumsum: x:cumsum(…) takes 1 argument, got a table more\n  hint: dtype: x:to(dtype) before it"},
  {"x:to(\"cpu\", \"f16\")", "to: x:to(…) takes 1 argument, got a string more\n  hint: x:to{dtype = …, device = …}"},
  {"x:contiguous{memory_format = 1}", "hint: images are N,H,W,C in memory already"},
  {"x:norm(2, 1, true, 1)", "norm: x:norm(…) takes 3 arguments, got a number more"},
  {"nn.ReLU()(x, 5)", "nn.ReLU: the layer takes 1 argument, got a number more"},
  {"nn.ConvTranspose2d(3, 2, 3)(images, {9, 9}, x)", "nn.ConvTranspose2d: the layer takes 2 arguments, got a tensor more"},
  {"nn.MSELoss()(x, x, {reduction = \"sum\"})", "nn.MSELoss: the layer takes 2 arguments, got a table more"},
  {"nn.LSTM(4, 2)(x, nil, nil, 5)", "nn.LSTM: at most 3 arguments, got 4"},
  {"opt:zero_grad{set_to_none = true}", "zero_grad: option 'set_to_none' is always on"},
  {"opt:step(function() end)", "optim.SGD: step: takes no arguments, got a function"},
  -- what is tried first
  {"opt.param_groups", "optim.SGD: there is no param_groups\n  hint: opt.groups has the options of each"},
  {"x:max(x)", "max: the dim is a tensor\n  hint: x:maximum(y)"},
  {"capl.where(x:gt(1))", "where: tensor or number expected, got nil"},
  {"index:masked_fill(index:gt(0), 1.5)", "masked_fill: 1.5 is no value of i64\n  hint: x:float() holds it"},
  {"x:var(1, {unbiased = true, correction = 0})", "var: unbiased and correction are both given"},
  {"model:cuda()", "attempt to call method 'cuda' (a nil value)"},
  {"nn.utils.clip_grad_norm_(1)", "hint: train.clip_grad_norm_(parameters, max_norm)"},
  {"capl.set_num_threads(2)", "hint: in the shell: CAPL_THREADS=2"},
}

describe("what PyTorch takes and capl does not", function()
  local scope = setmetatable({capl = capl, nn = nn, optim = optim, x = capl.arange(24):float():view(2, 3, 4),
    scalar = capl.tensor(2), index = capl.tensor({1, 0}, {dtype = "i64"}), images = capl.ones(2, 3, 4, 4),
    model = nn.Linear(4, 2), opt = optim.SGD(nn.Linear(4, 2):parameters(), {lr = 1})}, {__index = _G})
  for _, row in ipairs(refusals) do
    it(row[1], function()
      local said = support.error_text(setfenv(assert(loadstring("local y = " .. row[1] .. " return y")), scope))
      assert.truthy(said:find(row[2], 1, true), said)
    end)
  end

  -- Lists and recurrent layers say it in words of their own.
  it("is not dropped by any layer", function()
    local others = {Module = 1, ModuleList = 1, ModuleDict = 1, LSTM = 1, GRU = 1, RNN = 1, LSTMCell = 1, GRUCell = 1,
      RNNCell = 1}
    local count = 0
    for name, class in pairs(nn) do
      if type(class) == "table" and class.__module and not others[name] then
        local said = support.error_text(function() class.forward({}, 1, 2, 3, 4, 5) end)
        assert.truthy(said:find("nn%." .. name .. ": the layer takes %d arguments?, got a number more"), name .. ": " .. said)
        count = count + 1
      end
    end
    assert.is_true(count > 80)
  end)
end)
