-- ctc.lua -- the CTC loss, for texts of which only the order of the letters is known.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local Module = require "nn.module"

local op = core.op
local ctc = {}

local spec = {
  {"blank", "whole", default = 0}, {"reduction", "string", default = "mean"},
  {"zero_infinity", "boolean", default = true},
}

-- Lengths may be a tensor, a list, or one number for all samples.
local function lengths_of(value, arg, n, device)
  if type(value) == "number" then -- not from a list of the host: a captured step may fill a tensor
    return core.full({n}, value, {dtype = "i32", device = device})
  end
  if type(value) ~= "table" then return value end
  if #value ~= n then
    local name = arg == 3 and "input_lengths" or "target_lengths"
    check.fail("ctc_loss", ("%s: a list of %d lengths for %d samples"):format(name, #value, n))
  end
  return n > 0 and core.tensor(value, {dtype = "i32", device = device})
    or core.zeros({0}, {dtype = "i32", device = device})
end

-- Targets one behind the other, (sum of the lengths), as rows (N, S).
local function rows_of(targets, lengths, n)
  local width, at, places = math.max(0, unpack(lengths)), 0, {}
  for i = 1, n do
    for k = 0, width - 1 do places[#places + 1] = k < lengths[i] and at + k or 0 end
    at = at + lengths[i]
  end
  if at ~= targets:numel() then
    core.error{code = "shape", op = "ctc_loss",
      message = ("targets are %d labels one behind the other, target_lengths are %d in sum"):format(targets:numel(), at),
      hint = "targets may also be (N,S): a row for each sample"}
  end
  if #places == 0 then return targets:reshape(n, 0) end
  return targets:index_select(1, places):reshape(n, width)
end

--- Connectionist temporal classification: the loss of texts of any length under scores per time step.
-- in   log_probs (T, N, K): log_softmax of the scores, any strides; targets (N, S) i32|i64, anything behind a text's
--      length, or all labels one behind the other, (sum of target_lengths); input_lengths, target_lengths:
--      (N) i32|i64, a list, or one number for all
-- out  scalar f32; with reduction "none" one per sample. Second: infeasible (N) u8, not 0 where no path spells the text
-- opts blank = 0 (its class), reduction = "mean" (each loss by its text's length)|"sum"|"none", zero_infinity = true
-- errs shape; value, naming the sample: a length or label out of range, a label that is the blank
-- paper A. Graves and others: Connectionist temporal classification, 2006
-- eg   nn.ctc_loss(capl.zeros(2, 1, 2):log_softmax(-1), capl.tensor({{1}}, {dtype = "i32"}), 2, 1):item()  --> 0.28768208622932
function ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, opts)
  check.arg(1, "ctc_loss", "tensor", log_probs)
  check.arg(2, "ctc_loss", "tensor", targets)
  local o = check.options("ctc_loss", spec, opts)
  local n = log_probs.ndim == 3 and log_probs:size(2) or 0
  local device = log_probs.device
  input_lengths, target_lengths = lengths_of(input_lengths, 3, n, device), lengths_of(target_lengths, 4, n, device)
  if targets.ndim == 1 and target_lengths:numel() == n then targets = rows_of(targets, target_lengths:tolist(), n) end
  local loss, infeasible = op.ctc_loss(log_probs, targets, input_lengths, target_lengths, o)
  if observer.on_loss_value then
    observer.on_loss_value("ctc_loss", loss, log_probs, targets, o,
      {input_lengths = input_lengths, target_lengths = target_lengths})
  end
  if observer.on_ctc then observer.on_ctc(infeasible) end
  return loss, infeasible
end

--- The CTC loss as a module; options as in nn.ctc_loss go to the constructor. After a call .infeasible is what the call
-- said of its samples.
ctc.CTCLoss = classes.class("CTCLoss", Module)

function ctc.CTCLoss:init(...)
  self.options = check.arguments("nn.CTCLoss", spec, ...)
  if select("#", ...) > 0 and type((...)) ~= "table" then check.fail("nn.CTCLoss", "options are given by name") end
end

function ctc.CTCLoss:forward(log_probs, targets, input_lengths, target_lengths)
  local loss
  loss, self.infeasible = ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.options)
  return loss
end

return ctc
