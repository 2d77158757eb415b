-- recurrent.lua: LSTM, GRU and plain recurrent layers over sequences, and single steps of them.
--
-- The inputs of all time steps are multiplied with w_ih at once, by one linear op for both directions; the ops lstm and
-- gru then go through time. A plain layer goes through time here, with ordinary ops for each step.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local classes = require "module_class"
local parameter = require "nn.parameter"
local Module = require "nn.module"
local tensors = require "tensor"

local op = core.op

-- ---- parameters ----

-- Values of h per time step.
local function state_width(self) return (self.proj_size or 0) > 0 and self.proj_size or self.hidden_size end

-- weight_ih_l0 and so on, in PyTorch's order; suffix: "_l0", "_l0_reverse" …, "" for cells.
local function add_parameters(self, parts, suffix, inputs)
  local hidden, width = self.hidden_size, state_width(self)
  local bound = 1 / math.sqrt(hidden)
  self["weight_ih" .. suffix] = parameter.uniform({parts * hidden, inputs}, bound)
  self["weight_hh" .. suffix] = parameter.uniform({parts * hidden, width}, bound)
  if self.has_bias then
    self["bias_ih" .. suffix] = parameter.uniform({parts * hidden}, bound)
    self["bias_hh" .. suffix] = parameter.uniform({parts * hidden}, bound)
  end
  if width ~= hidden then self["weight_hr" .. suffix] = parameter.uniform({width, hidden}, bound) end
end

-- The parameter of a name for one direction, or of both below each other; nil where there is none.
local function joined(self, name, suffixes)
  local first = self[name .. suffixes[1]]
  if not first or not suffixes[2] then return first end
  return (op.concat(first, self[name .. suffixes[2]], {dim = 1}))
end

-- ---- one layer: (self, x, suffixes, state, lengths, attributes) -> y, new state ----

-- Both biases are added to the same sum, so they go into the product of all time steps.
local function lstm(self, x, suffixes, state, lengths, attributes)
  local bias = joined(self, "bias_ih", suffixes)
  if bias then bias = op.add(bias, joined(self, "bias_hh", suffixes)) end
  local projected = op.linear(x, joined(self, "weight_ih", suffixes), bias)
  local y, h, c, gates, cells = op.lstm(projected, joined(self, "weight_hh", suffixes), state[1], state[2], lengths,
    attributes)
  for _, t in ipairs{projected, gates, cells} do t:free() end
  return y, {h, c}
end

-- b_hh belongs to the state's product: r is multiplied with that.
local function gru(self, x, suffixes, state, lengths, attributes)
  local projected = op.linear(x, joined(self, "weight_ih", suffixes), joined(self, "bias_ih", suffixes))
  local y, h, gates = op.gru(projected, joined(self, "weight_hh", suffixes), joined(self, "bias_hh", suffixes),
    state[1], lengths, attributes)
  projected:free()
  gates:free()
  return y, {h}
end

-- For which sequences time step t counts, (N,1) bool: length - t + 1 is above 0. Without constants, so it can be
-- captured.
local function counts_at(lengths, t)
  return op.cast(op.relu(op.affine(lengths, {shift = 1 - t})), {dtype = "bool"}):reshape(-1, 1)
end

-- One direction of a plain layer: its outputs in order of time, and its last state. h may be nil: zeros.
local function through_time(act, projected, weight, h, lengths, backwards)
  local steps, out, zero = projected:size(1), {}, core.zeros({}, {dtype = projected.dtype, device = projected.device})
  for step = 1, steps do
    local t = backwards and steps + 1 - step or step
    local sum = projected:select(1, t)
    local new = act(h and sum + op.linear(h, weight) or sum)
    local counts = lengths and counts_at(lengths, t)
    out[t] = counts and op.where(counts, new, zero) or new
    h = counts and op.where(counts, new, h or zero) or new
  end
  return tensors.stack(out, 1), h
end

local function plain(self, x, suffixes, state, lengths, attributes)
  local bias, H = joined(self, "bias_ih", suffixes), self.hidden_size
  if bias then bias = op.add(bias, joined(self, "bias_hh", suffixes)) end
  local projected = op.linear(x, joined(self, "weight_ih", suffixes), bias)
  if attributes.batch_first then projected = projected:transpose(1, 2) end
  local act, all, last = op[self.nonlinearity], {}, {}
  for d, suffix in ipairs(suffixes) do
    local part = #suffixes == 1 and projected or projected:narrow(3, (d - 1) * H + 1, H)
    local h = state[1] and state[1]:select(1, d)
    all[d], last[d] = through_time(act, part, self["weight_hh" .. suffix], h, lengths, d == 2)
  end
  local y = #all == 1 and all[1] or tensors.cat(all, 3)
  return attributes.batch_first and y:transpose(1, 2) or y, {tensors.stack(last, 1)}
end

-- One step of an LSTM whose h is projected. x: what the input gives the gates (N, 4H); h, c may be nil: zeros -> h, c
local function projected_step(self, suffix, x, h, c)
  local i, f, g, o = unpack((h and x + op.linear(h, self["weight_hh" .. suffix]) or x):chunk(4, 2))
  local new = i:sigmoid() * g:tanh()
  c = c and f:sigmoid() * c + new or new
  return op.linear(o:sigmoid() * c:tanh(), self["weight_hr" .. suffix]), c
end

-- One direction through time: its outputs, and its last h and c.
local function projected_direction(self, suffix, x, h, c, lengths, backwards)
  local steps, out = x:size(1), {}
  local zero = core.zeros({}, {dtype = x.dtype, device = x.device})
  for step = 1, steps do
    local t = backwards and steps + 1 - step or step
    local new_h, new_c = projected_step(self, suffix, x:select(1, t), h, c)
    local counts = lengths and counts_at(lengths, t)
    out[t] = counts and op.where(counts, new_h, zero) or new_h
    h = counts and op.where(counts, new_h, h or zero) or new_h
    c = counts and op.where(counts, new_c, c or zero) or new_c
  end
  return tensors.stack(out, 1), h, c
end

-- The op lstm has no projection, so each time step is ordinary ops.
local function projected_lstm(self, x, suffixes, state, lengths, attributes)
  local ys, hs, cs = {}, {}, {}
  if attributes.batch_first then x = x:transpose(1, 2) end
  for d, suffix in ipairs(suffixes) do
    local bias = self["bias_ih" .. suffix]
    local part = op.linear(x, self["weight_ih" .. suffix], bias and bias + self["bias_hh" .. suffix])
    local h, c = state[1] and state[1]:select(1, d), state[2] and state[2]:select(1, d)
    ys[d], hs[d], cs[d] = projected_direction(self, suffix, part, h, c, lengths, d == 2)
  end
  local y = #ys == 1 and ys[1] or tensors.cat(ys, 3)
  return attributes.batch_first and y:transpose(1, 2) or y, {tensors.stack(hs, 1), tensors.stack(cs, 1)}
end

local LSTM_KIND = {name = "LSTM", run = lstm, parts = 4, states = {"h", "c"}}
local GRU_KIND = {name = "GRU", run = gru, parts = 3, states = {"h"}}
local RNN_KIND = {name = "RNN", run = plain, parts = 1, states = {"h"}, plain = true}

-- A state as given ({h, c}, or h alone where that is all) as a list of tensors.
local function state_list(kind, where, state)
  if state == nil then return {} end
  local list = core.is_tensor(state) and {state} or state
  local wanted = #kind.states == 1 and "state is a tensor h" or "state is a table {h, c}"
  if #list ~= #kind.states then
    check.fail(where, ("%s, got %s"):format(wanted, core.is_tensor(state) and "a tensor" or #list .. " tensors"))
  end
  for i, name in ipairs(kind.states) do
    if not core.is_tensor(list[i]) then
      check.fail(where, ("%s of state must be a tensor, got %s"):format(name, core.typename(list[i])))
    end
  end
  return list
end

local function state_out(kind, list)
  if #kind.states == 1 then return list[1] end
  return list
end

-- ---- sequences ----

local spec = {
  {"input_size", "whole", required = true, from = 1}, {"hidden_size", "whole", required = true, from = 1},
  {"num_layers", "whole", default = 1, from = 1},
  {"bias", "boolean", default = true}, {"batch_first", "boolean", default = false}, {"dropout", "number", default = 0},
  {"bidirectional", "boolean", default = false}, {"proj_size", "whole", default = 0},
}

-- The options of a kind: the place of PyTorch's nonlinearity is behind `after`.
local function spec_of(kind, options, after)
  if not kind.plain then return options end
  local out = {}
  for _, entry in ipairs(options) do
    out[#out + 1] = entry
    if entry[1] == after then out[#out + 1] = {"nonlinearity", "string", default = "tanh"} end
  end
  return out
end

local function read_nonlinearity(self, where, o)
  if self.kind.plain then self.nonlinearity = check.one_of(where, "nonlinearity", o.nonlinearity, {"tanh", "relu"}) end
end

local function check_options(where, o)
  if o.dropout < 0 or o.dropout > 1 then
    check.fail(where, ("dropout is a probability, 0 to 1, got %g"):format(o.dropout))
  end
  if o.dropout > 0 and o.num_layers == 1 then
    check.fail(where, "dropout works between layers, and num_layers is 1",
      "put nn.Dropout after the layer, or remove dropout")
  end
  if o.proj_size ~= 0 and (where ~= "nn.LSTM" or o.proj_size < 0 or o.proj_size >= o.hidden_size) then
    check.fail(where, ("proj_size = %d: only nn.LSTM has it, and it is less than hidden_size, which is %d"):format(
      o.proj_size, o.hidden_size), "put nn.Linear after the layer")
  end
end

local forward_spec = {{"x", "tensor", required = true}, {"state", "table", "tensor"}, {"lengths", "tensor", "table"}}

-- Raises unless x has `dims` dims, as `wanted` calls them, or one less, and input_size values in the last.
local function check_values(self, where, x, dims, wanted)
  if x.ndim ~= dims and x.ndim ~= dims - 1 then
    core.error{code = "shape", op = where,
      message = ("x must be %s for one sequence; it has %d dims"):format(wanted, x.ndim),
      context = "x " .. core.describe(x)}
  end
  local width = x:size(x.ndim)
  if width ~= self.input_size then
    core.error{code = "shape", op = where,
      message = ("input_size is %d, x has %d values per time step"):format(self.input_size, width),
      context = "x " .. core.describe(x),
      hint = ("make the layer nn.%s(%d, %d, …)"):format(self.__name, width, self.hidden_size)}
  end
end

-- x as three dims, and whether it came as two: one sequence without a batch.
local function check_input(self, where, x)
  check_values(self, where, x, 3, self.batch_first and "(N,T,I), or (T,I)" or "(T,N,I), or (T,I)")
  if x.ndim == 3 then return x, false end
  return x:unsqueeze(self.batch_first and 1 or 2), true
end

local function check_state(self, where, list, batch)
  local layers = self.num_layers * self.directions
  for i, name in ipairs(self.kind.states) do
    local t, width = list[i], name == "h" and state_width(self) or self.hidden_size
    if t and (t.ndim ~= 3 or t:size(1) ~= layers or t:size(2) ~= batch or t:size(3) ~= width) then
      local wanted = ("(%d,%d,%d): layers times directions, sequences, %s size"):format(layers, batch, width,
        width == self.hidden_size and "hidden" or "projected")
      core.error{code = "shape", op = where,
        message = ("%s of state must be %s; it is (%s)"):format(name, wanted, table.concat(t.shape, ","))}
    end
  end
end

-- The part of a state that belongs to layer l, from 0.
local function layer_state(self, list, l)
  local out, d = {}, self.directions
  for i, t in ipairs(list) do
    out[i] = self.num_layers == 1 and t or op.narrow(t, {dim = 1, start = l * d + 1, length = d})
  end
  return out
end

local function between(self, y)
  if not self.training or self.dropout == 0 then return y end
  return (op.dropout(y, {p = self.dropout, seed = core.rng(), offset = core.next_stream()}))
end

-- States of all layers above each other.
local function stack(states)
  if #states == 1 then return states[1] end
  local out = {}
  for i = 1, #states[1] do
    local all = {}
    for l, state in ipairs(states) do all[l] = state[i] end
    all[#all + 1] = {dim = 1}
    out[i] = op.concat(unpack(all))
  end
  return out
end

local function squeeze_batch(list, dim)
  for i, t in ipairs(list) do list[i] = t:squeeze(dim) end
  return list
end

-- Lengths given as a table, for x's device.
local function length_tensor(where, list, x, steps)
  for i, length in ipairs(list) do
    if type(length) ~= "number" or length % 1 ~= 0 or length < 0 or length > steps then
      check.fail(where, ("lengths[%d] is %s, x has %d time steps"):format(i, tostring(length), steps))
    end
  end
  return core.tensor(list, {dtype = "i32", device = x.device})
end

local function forward(self, ...)
  local kind, where = self.kind, "nn." .. self.__name
  local o = check.arguments(where, forward_spec, ...)
  local x, alone = check_input(self, where, o.x)
  local state, lengths, batch_dim = state_list(kind, where, o.state), o.lengths, self.batch_first and 1 or 2
  if type(lengths) == "table" then lengths = length_tensor(where, lengths, x, x:size(self.batch_first and 2 or 1)) end
  if alone then
    for i, t in ipairs(state) do state[i] = t:unsqueeze(2) end
  end
  check_state(self, where, state, x:size(batch_dim))
  local states = {}
  for l = 0, self.num_layers - 1 do
    local run = state_width(self) == self.hidden_size and kind.run or projected_lstm
    local y, new = run(self, x, self.suffixes[l + 1], layer_state(self, state, l), lengths, self.attributes)
    if l > 0 then x:free() end
    x, states[l + 1] = y, new
    if l < self.num_layers - 1 then
      x = between(self, y)
      if not rawequal(x, y) then y:free() end
    end
  end
  local last = stack(states)
  if alone then return x:squeeze(batch_dim), state_out(kind, squeeze_batch(last, 2)) end
  return x, state_out(kind, last)
end

local function extra(self)
  local text = ("%d -> %d"):format(self.input_size, self.hidden_size)
  if (self.proj_size or 0) > 0 then text = text .. (", projected to %d"):format(self.proj_size) end
  if self.nonlinearity then text = text .. ", " .. self.nonlinearity end
  if self.num_layers > 1 then text = text .. (", %d layers"):format(self.num_layers) end
  if self.bidirectional then text = text .. ", bidirectional" end
  if self.batch_first then text = text .. ", batch first" end
  if self.dropout > 0 then text = text .. (", dropout %g"):format(self.dropout) end
  return self.has_bias and text or text .. ", no bias"
end

local function layer_class(kind)
  local class = classes.class(kind.name, Module)
  class.kind, class.forward, class.extra, class.pure = kind, forward, extra, true
  local options = spec_of(kind, spec, "num_layers")
  function class:init(...)
    local where = "nn." .. kind.name
    local o = check.arguments(where, options, ...)
    check_options(where, o)
    read_nonlinearity(self, where, o)
    for _, name in ipairs{"input_size", "hidden_size", "num_layers", "batch_first", "dropout", "bidirectional", "proj_size"} do
      self[name] = o[name]
    end
    if o.proj_size > 0 then self.alone = "proj_size" end
    self.has_bias, self.directions, self.attributes = o.bias, o.bidirectional and 2 or 1, {batch_first = o.batch_first}
    self.suffixes = {}
    for l = 0, o.num_layers - 1 do
      local suffixes = {"_l" .. l, o.bidirectional and "_l" .. l .. "_reverse" or nil}
      local inputs = l == 0 and o.input_size or state_width(self) * self.directions
      for _, suffix in ipairs(suffixes) do add_parameters(self, kind.parts, suffix, inputs) end
      self.suffixes[l + 1] = suffixes
    end
  end
  return class
end

-- ---- single steps ----

local cell_spec = {
  {"input_size", "whole", required = true, from = 1}, {"hidden_size", "whole", required = true, from = 1},
  {"bias", "boolean", default = true},
}
local cell_forward_spec = {{"x", "tensor", required = true}, {"state", "table", "tensor"}}

-- The states of a cell, each shaped like x but for its last size, as (1,N,hidden size).
local function cell_state(self, where, state, x)
  local list, out = state_list(self.kind, where, state), {}
  for i, t in ipairs(list) do
    local wanted = x.ndim == 2 and {x:size(1), self.hidden_size} or {self.hidden_size}
    if table.concat(t.shape, ",") ~= table.concat(wanted, ",") then
      core.error{code = "shape", op = where,
        message = ("%s of state must be (%s) for x (%s), it is (%s)"):format(self.kind.states[i],
        table.concat(wanted, ","), table.concat(x.shape, ","), table.concat(t.shape, ","))}
    end
    out[i] = t:view(1, -1, self.hidden_size)
  end
  return out
end

-- x (N,I), or (I) for one sequence, is a sequence of one step.
local function cell_forward(self, ...)
  local where = "nn." .. self.__name
  local o = check.arguments(where, cell_forward_spec, ...)
  check_values(self, where, o.x, 2, "(N,I), or (I)")
  local state = cell_state(self, where, o.state, o.x)
  local x = (o.x.ndim == 1 and o.x:unsqueeze(1) or o.x):unsqueeze(1)
  local _, new = self.kind.run(self, x, {""}, state, nil, self.attributes)
  squeeze_batch(new, 1)
  if o.x.ndim == 1 then squeeze_batch(new, 1) end
  return unpack(new)
end

local function cell_class(kind)
  local class = classes.class(kind.name .. "Cell", Module)
  class.kind, class.forward, class.extra, class.pure = kind, cell_forward, extra, true
  class.num_layers, class.dropout, class.attributes = 1, 0, {}
  local options = spec_of(kind, cell_spec, "bias")
  function class:init(...)
    local where = "nn." .. kind.name .. "Cell"
    local o = check.arguments(where, options, ...)
    read_nonlinearity(self, where, o)
    self.input_size, self.hidden_size, self.has_bias = o.input_size, o.hidden_size, o.bias
    add_parameters(self, kind.parts, "", o.input_size)
  end
  return class
end

local recurrent = {}

--- Long short-term memory over sequences.
-- in   x (T,N,I), (N,T,I) with batch_first, or (T,I) for one sequence; state {h, c} to begin with, each
--      (layers * directions, N, hidden_size), h with proj_size instead, zeros when left out; lengths (N) i32 | i64,
--      or a table of numbers: how many time steps of each sequence count, in any order. The state stops at a sequence's
--      end, the reverse direction begins there, and y is 0 behind it: as PyTorch does with packed sequences
-- out  y (T,N,directions * hidden_size) or (N,T,…), and the state {h, c} after each sequence's last step
-- opts nn.LSTM(input_size, hidden_size, {num_layers = 1, bias = true, batch_first = false, dropout = 0, bidirectional =
--      false, proj_size = 0}); dropout: between the layers, while training; proj_size above 0: h is multiplied with
--      weight_hr (proj_size, hidden_size) at each step, and time steps are ordinary ops, which takes longer
-- init all parameters: uniform within 1/sqrt(hidden_size), as PyTorch; gates in the order i, f, g, o
-- errs shape: x or a state of other sizes; value: a length beyond T
-- paper S. Hochreiter, J. Schmidhuber: Long short-term memory, 1997
-- eg   nn.LSTM(8, 16, {bidirectional = true})(capl.zeros(5, 2, 8)):size(3)  --> 32
recurrent.LSTM = layer_class(LSTM_KIND)

--- Gated recurrent units over sequences; like nn.LSTM, but a state is one tensor h. Gates in the order r, z, n.
-- paper K. Cho and others: Learning phrase representations using RNN encoder-decoder, 2014
-- eg   nn.GRU(8, 16, {batch_first = true})(capl.zeros(2, 5, 8)):size(3)  --> 16
recurrent.GRU = layer_class(GRU_KIND)

--- Plain recurrence, h = tanh(w_ih x + b_ih + w_hh h + b_hh); like nn.GRU. Each time step is some ops of its own: for
-- sequences of more than a few dozen steps nn.GRU is faster, and learns better.
-- opts nn.RNN(input_size, hidden_size, {num_layers = 1, nonlinearity = "tanh"|"relu", bias = true, batch_first = false,
--      dropout = 0, bidirectional = false})
-- eg   nn.RNN(8, 16, {nonlinearity = "relu"})(capl.zeros(5, 2, 8)):size(3)  --> 16
recurrent.RNN = layer_class(RNN_KIND)

--- One step of an LSTM: h, c = cell(x, {h, c}), with x (N,I) and states (N, hidden_size).
-- opts nn.LSTMCell(input_size, hidden_size, {bias = true})
-- eg   nn.LSTMCell(8, 16)(capl.zeros(2, 8)):size(2)  --> 16
recurrent.LSTMCell = cell_class(LSTM_KIND)

--- One step of a GRU: h = cell(x, h), with x (N,I) and h (N, hidden_size).
-- opts nn.GRUCell(input_size, hidden_size, {bias = true})
-- eg   nn.GRUCell(8, 16)(capl.zeros(2, 8)):size(2)  --> 16
recurrent.GRUCell = cell_class(GRU_KIND)

--- One step of a plain recurrent layer: h = cell(x, h), with x (N,I) and h (N, hidden_size).
-- opts nn.RNNCell(input_size, hidden_size, {bias = true, nonlinearity = "tanh"|"relu"})
-- eg   nn.RNNCell(8, 16)(capl.zeros(2, 8)):size(2)  --> 16
recurrent.RNNCell = cell_class(RNN_KIND)

return recurrent
