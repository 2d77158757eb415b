-- LSTM, GRU and plain recurrent layers and cells: states, lengths, dropout, names, messages, and what they are saved
-- as.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text, close, no_leak = support.error_text, support.close, support.no_leak

local function random(shape, t) return capl.randn(shape, {seed = 11, stream = {t, 0, 0}}) end

-- The state as a list of tensors, whatever the kind.
local function list_of(state) return capl.is_tensor(state) and {state} or state end

local function same_state(a, b, tolerance)
  a, b = list_of(a), list_of(b)
  for i = 1, #a do
    if not close(a[i]:tolist(), b[i]:tolist(), tolerance) then return false end
  end
  return #a == #b
end

describe("recurrent layers", function()
  before_each(function() capl.manual_seed(3) end)

  for _, kind in ipairs{"LSTM", "GRU", "RNN"} do
    describe(kind, function()
      it("goes on from the state it gave", function()
        local model, x = nn[kind](3, 5, {num_layers = 2}), random({6, 2, 3}, 1)
        local whole, last = model(x)
        local first, state = model(x:narrow(1, 1, 4))
        local second, after = model(x:narrow(1, 5, 2), state)
        assert.is_true(close(whole:narrow(1, 1, 4):tolist(), first:tolist(), 1e-6))
        assert.is_true(close(whole:narrow(1, 5, 2):tolist(), second:tolist(), 1e-6))
        assert.is_true(same_state(last, after, 1e-6))
      end)

      it("reads each sequence as if it were alone and no longer than its length", function()
        local model, x, lengths = nn[kind](3, 4, {bidirectional = true, batch_first = true}), random({3, 5, 3}, 2),
          {2, 5, 4}
        local y, state = model(x, {lengths = lengths})
        for n, length in ipairs(lengths) do
          local alone, last = model(x:narrow(1, n, 1):narrow(2, 1, length))
          assert.is_true(close(alone:tolist(), y:narrow(1, n, 1):narrow(2, 1, length):tolist(), 1e-6))
          for i, t in ipairs(list_of(last)) do
            assert.is_true(close(t:tolist(), list_of(state)[i]:narrow(2, n, 1):tolist(), 1e-6))
          end
          if length < 5 then assert.equal(0, y:narrow(1, n, 1):narrow(2, length + 1, 5 - length):abs():sum():item()) end
        end
      end)

      it("takes lengths as a tensor of either type, or a table", function()
        local model, x = nn[kind](2, 3), random({4, 2, 2}, 3)
        local wanted = model(x, {lengths = {1, 4}}):tolist()
        for _, dtype in ipairs{"i32", "i64"} do
          assert.same(wanted, model(x, nil, capl.tensor({1, 4}, {dtype = dtype})):tolist())
        end
      end)

      it("is what its cell does step by step", function()
        local model, cell, x = nn[kind](3, 4), nn[kind .. "Cell"](3, 4), random({3, 2, 3}, 4)
        local state, last = nil, {}
        for name, tensor in pairs(model:state_dict()) do last[(name:gsub("_l0$", ""))] = tensor end
        cell:load_state_dict(last)
        local y = model(x)
        for t = 1, 3 do
          local h, c = cell(x:narrow(1, t, 1):squeeze(1), state)
          state = c and {h, c} or h
          assert.is_true(close(y:narrow(1, t, 1):squeeze(1):tolist(), h:tolist(), 1e-6))
        end
        local alone = cell(x:narrow(1, 1, 1):squeeze(1):narrow(1, 2, 1):squeeze(1))
        assert.is_true(close(y:narrow(1, 1, 1):squeeze(1):narrow(1, 2, 1):squeeze(1):tolist(), alone:tolist(), 1e-6))
      end)

      it("takes one sequence without a batch", function()
        local model, x = nn[kind](3, 4, {bidirectional = true}), random({5, 3}, 5)
        local y, state = model(x)
        local with_batch, same = model(x:unsqueeze(2))
        assert.same({5, 8}, y.shape)
        assert.same({2, 4}, list_of(state)[1].shape)
        assert.is_true(close(y:tolist(), with_batch:squeeze(2):tolist()))
        assert.is_true(close(list_of(state)[1]:tolist(), list_of(same)[1]:squeeze(2):tolist()))
        assert.same({5, 8}, model(x, state).shape)
      end)

      it("drops between its layers only while training, and follows the seed", function()
        local model, x = nn[kind](3, 4, {num_layers = 2, dropout = 0.5}), random({4, 2, 3}, 6)
        local function outputs(seed)
          capl.manual_seed(seed)
          return model(x):tolist()
        end
        assert.same(outputs(1), outputs(1))
        assert.is_false(close(outputs(1), outputs(2), 1e-4))
        model:eval()
        assert.same(outputs(1), outputs(2))
        assert.same(outputs(1), (function()
          local plain = nn[kind](3, 4, {num_layers = 2})
          plain:load_state_dict(model:state_dict())
          return plain(x):tolist()
        end)())
      end)

      it("is nearly the same in bf16, with states of 32 bits and gradients of 32", function()
        local model, x = nn[kind](8, 16, {num_layers = 2, bidirectional = true}), random({6, 4, 8}, 7)
        local wanted = model(x)
        local y = capl.autocast("bf16", function() return (model(x)) end)
        assert.equal("bf16", y.dtype)
        assert.is_true(close(wanted:tolist(), y:float():tolist(), 0.02))
        y:float():sum():backward()
        for _, p in ipairs(model:parameters()) do assert.equal("f32", p.grad.dtype) end
      end)

      it("is saved, and runs for other batches and from other memory orders", function()
        local Net = nn.class("Net")
        function Net:init()
          self.conv, self.rnn, self.head = nn.Conv2d(1, 4, 3, {padding = 1}),
            nn[kind](12, 5, {bidirectional = true, batch_first = true}), nn.Linear(10, 3)
        end
        function Net:forward(x) -- images of 3 px height: a column is a time step
          local columns = self.conv(x):permute(1, 4, 2, 3):flatten(3)
          return self.head((self.rnn(columns)))
        end
        local net, path = Net(), os.tmpname()
        os.remove(path)
        capl.io.save_model(path, net, capl.zeros(1, 1, 3, 7), {})
        local x = random({4, 1, 3, 7}, 8)
        assert.is_true(close(net(x):tolist(), capl.io.load_model(path).forward(x):tolist(), 1e-5))
        os.execute("rm -r '" .. path .. "'")
      end)

      it("trains the same captured and plain, bit for bit", function()
        local function weights(captured)
          capl.manual_seed(4)
          local model = nn[kind](6, 8, {num_layers = 2, bidirectional = true, dropout = 0.1})
          local opt = optim.Adam(model:parameters(), {lr = 0.01})
          local lengths = capl.tensor({5, 2, 3}, {dtype = "i32"})
          local function step(x)
            local loss = (model(x, {lengths = lengths}) ^ 2):mean()
            opt:backward_step(loss)
            return loss
          end
          local run, all = captured and capl.capture(step) or step, {}
          for i = 1, 5 do run(random({5, 3, 6}, 20 + i)) end
          for i, p in ipairs(model:parameters()) do all[i] = p:tolist() end
          return all
        end
        assert.same(weights(false), weights(true))
      end)

      it("gives its memory back", function()
        no_leak(function()
          local model = nn[kind](3, 4, {num_layers = 2, bidirectional = true, dropout = 0.2})
          model(random({5, 2, 3}, 9), {lengths = {5, 1}}):sum():backward()
        end)
      end)
    end)
  end

  it("are named, sized and printed as in PyTorch", function()
    local names = {}
    for name, p in nn.LSTM(3, 4, {num_layers = 2, bidirectional = true}):named_parameters() do
      names[#names + 1] = name .. " " .. table.concat(p.shape, "x")
    end
    assert.same({"weight_ih_l0 16x3", "weight_hh_l0 16x4", "bias_ih_l0 16", "bias_hh_l0 16",
      "weight_ih_l0_reverse 16x3", "weight_hh_l0_reverse 16x4", "bias_ih_l0_reverse 16", "bias_hh_l0_reverse 16",
      "weight_ih_l1 16x8", "weight_hh_l1 16x4", "bias_ih_l1 16", "bias_hh_l1 16", "weight_ih_l1_reverse 16x8",
      "weight_hh_l1_reverse 16x4", "bias_ih_l1_reverse 16", "bias_hh_l1_reverse 16"}, names)
    assert.equal("GRU(3 -> 4, 2 layers, bidirectional, batch first, dropout 0.1, no bias)",
      tostring(nn.GRU(3, 4, 2, false, true, 0.1, true)))
    assert.equal("LSTMCell(3 -> 4)", tostring(nn.LSTMCell(3, 4)))
  end)

  it("start within 1/sqrt(hidden size)", function()
    for _, p in ipairs(nn.GRU(3, 16):parameters()) do
      local most = p:abs():amax():item()
      assert.is_true(most <= 0.25 and most > 0.2, tostring(most))
    end
  end)

  it("stand in Sequential, and in nn.summary with both their outputs", function()
    local Net = nn.class("Net")
    function Net:init() self.rnn, self.head = nn.LSTM(3, 4, {batch_first = true}), nn.Linear(4, 2) end
    function Net:forward(x)
      local _, state = self.rnn(x)
      return self.head(state[1]:squeeze(1))
    end
    local summary = nn.summary(Net(), {2, 5, 3})
    assert.equal("LSTM(3 -> 4, batch first)", summary.rows[1].layer)
    assert.same({2, 5, 4}, summary.rows[1].shape)
    assert.equal(16 * 3 + 16 * 4 + 32, summary.rows[1].parameters)
    assert.equal(5 * (16 * 3 + 16 * 4), summary.rows[1].macs)
    assert.same({5, 2, 7}, nn.Sequential{nn.LSTM(3, 4), nn.GRU(4, 7)}(random({5, 2, 3}, 1)).shape)
  end)

  it("say what is wrong, with both sides and the remedy", function()
    local lstm, gru, x = nn.LSTM(3, 4), nn.GRU(3, 4), random({5, 2, 3}, 1)
    local function says(text, fn, ...)
      local message = error_text(fn, ...)
      assert.is_truthy(message:find(text, 1, true), message)
    end
    says("input_size is 3, x has 6 values per time step", lstm, random({5, 2, 6}, 1))
    says("make the layer nn.LSTM(6, 4, …)", lstm, random({5, 2, 6}, 1))
    says("x must be (T,N,I), or (T,I) for one sequence; it has 4 dims", lstm, random({5, 2, 3, 1}, 1))
    says("state is a table {h, c}, got a tensor", lstm, x, capl.zeros(1, 2, 4))
    says("state is a table {h, c}, got 1 tensors", lstm, x, {capl.zeros(1, 2, 4)})
    says("c of state must be (1,2,4): layers times directions, sequences, hidden size; it is (1,3,4)", lstm, x,
      {capl.zeros(1, 2, 4), capl.zeros(1, 3, 4)})
    says("h of state must be (1,2,4)", gru, x, capl.zeros(2, 2, 4))
    says("lengths[2] is 6, x has 5 time steps", lstm, x, {lengths = {5, 6}})
    says("lengths must be (2), one per sequence; it is (3)", lstm, x, {lengths = {5, 5, 5}})
    says("unknown option 'length'; did you mean 'lengths'?", gru, x, {length = {5, 5}})
    says("dropout works between layers, and num_layers is 1", nn.GRU, 3, 4, {dropout = 0.5})
    says("dropout is a probability, 0 to 1, got 1.5", nn.GRU, 3, 4, {num_layers = 2, dropout = 1.5})
    says("proj_size = 4: only nn.LSTM has it, and it is less than hidden_size", nn.LSTM, 3, 4, {proj_size = 4})
    says("proj_size = 2: only nn.LSTM has it", nn.GRU, 3, 4, {proj_size = 2})
    says("hidden_size must be a whole number from 1 on, got 0", nn.LSTM, 3, 0)
    says("hidden_size is missing", nn.LSTM, 3)
    says("c of state must be (2,4) for x (2,3), it is (4)", nn.LSTMCell(3, 4), random({2, 3}, 1),
      {capl.zeros(2, 4), capl.zeros(4)})
    says("x must be (N,I), or (I) for one sequence; it has 3 dims", nn.LSTMCell(3, 4), x)
  end)
end)
