-- Options of layers and the CTC loss against PyTorch: results, indices, gradients, evaluation.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local golden = support.load("options.json")

local function wave(shape, scale, step)
  local values, n = {}, 1
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n do values[i] = math.cos((i - 1) * (step or 1.7)) * (scale or 1) end
  return capl.tensor(values):reshape(shape)
end

local function flat(y, out)
  if capl.is_tensor(y) then
    out[#out + 1] = y
  else
    for _, part in ipairs(y) do flat(part, out) end
  end
  return out
end

local function same(what, wanted, have)
  have = have:detach():float():reshape(-1):tolist()
  assert.equal(#wanted, #have, what)
  for i, w in ipairs(wanted) do
    if math.abs(w - have[i]) > 2e-5 * math.max(1, math.abs(w)) then
      error(("%s[%d]: PyTorch %.9g, capl %.9g"):format(what, i, w, have[i]), 0)
    end
  end
end

describe("options", function()
  for _, case in ipairs(golden.modules) do
    it("are PyTorch's: " .. case.lua, function()
      local module = setfenv(loadstring("return " .. case.lua), {nn = capl.nn})()
      capl.no_grad(function()
        for _, p in ipairs(module:parameters()) do p:copy_(wave(p.shape, 0.5, 0.9)) end
      end)
      local x = wave(case.shape):requires_grad_()
      local outputs = flat({module(x)}, {});
      (outputs[1] * wave(outputs[1].shape, 1, 1)):sum():backward()
      for i, y in ipairs(case.y) do same("output " .. i, y, outputs[i]) end
      same("dx", case.dx, x.grad)
      local seen = 0
      for name, p in module:named_parameters() do
        same(name, case.dp[name] or {}, p.grad)
        seen = seen + 1
      end
      for _ in pairs(case.dp) do seen = seen - 1 end
      assert.equal(0, seen, "parameters")
      if case.eval then same("evaluation", case.eval, (module:eval()(x))) end
    end)
  end

  it("targets of the CTC loss may lie one behind the other", function()
    local x = wave{6, 3, 5}:requires_grad_()
    local targets = capl.tensor({1, 2, 3, 4, 1, 1}, {dtype = "i64"})
    local loss = capl.nn.ctc_loss(x:log_softmax(-1), targets, {6, 6, 5}, {3, 1, 2})
    loss:backward()
    same("loss", {golden.ctc.loss}, loss)
    same("dx", golden.ctc.dx, x.grad)
  end)
end)
