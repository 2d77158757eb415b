-- ctc.lua: what time steps of a CTC model say: (N,T,K) scores, batch first, K = the charset and a blank behind it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local symbols = require "fields.symbols"

local ctc = {}

--- Text of the classes of T time steps: equal neighbours are one character, blanks none.
-- in   classes: flat list; first: of the sample; steps
-- out  text; number of blank steps
function ctc.collapse(charset, classes, first, steps)
  local list, out, blanks, before = symbols.list(charset), {}, 0, -1
  local blank = #list
  for i = first, first + steps - 1 do
    local class = classes[i]
    if class == blank then blanks = blanks + 1
    elseif class ~= before then out[#out + 1] = list[class + 1] end
    before = class
  end
  return table.concat(out), blanks
end

-- Best classes (N,T) as texts: characters (N,T), 0 behind a text's end; lengths (N). The device waits for nobody.
local function collapsed(class, blank)
  local N, T = class:size(1), class:size(2)
  local before = core.op.concat({core.full({N, 1}, -1, {dtype = "i32", device = class.device}),
    class:narrow(2, 1, T - 1)}, {dim = 2})
  local begins = class:ne(before):to("f32") * class:ne(blank):to("f32")
  -- a character goes to its place, from 0 on; all else to one behind the last, which is cut off
  local place = ((begins:cumsum(2) - 1) * begins + (1 - begins) * T):to("i32")
  local texts = core.zeros({N, T + 1}, {device = class.device}):scatter(2, place, class:to("f32"))
  return texts:narrow(2, 1, T):to("i32"), begins:sum(2):to("i32")
end

--- How probable the texts of the best paths are, over all paths that spell them: (N).
-- in   log_probs (N,T,K), class (N,T): the greatest of each step; blank
function ctc.confidence(log_probs, class, blank)
  local texts, lengths = collapsed(class, blank)
  local steps = core.full({class:size(1)}, class:size(2), {dtype = "i32", device = class.device})
  local loss = core.op.ctc_loss(log_probs:transpose(1, 2), texts, steps, lengths,
    {blank = blank, reduction = "none", zero_infinity = false})
  return (-loss):exp()
end

local function shape_of(t) return "(" .. table.concat(t:size(), ",") .. ")" end

--- Scores (N,T,K+1) f32 of an output.
-- errs value: another shape; both numbers are named
function ctc.scores(op, charset, output, n)
  local K = symbols.count(charset)
  if output.ndim == 3 and output:size(1) == n and output:size(3) == K + 1 then return output:to("f32") end
  local hint = "the last dimension are the charset's characters and the blank, the first the images"
  if output.ndim == 3 and output:size(1) == n and output:size(3) == K then
    hint = ('%d scores are the charset without a blank: one more output, or no decoding = "ctc" in capl.model'):format(K)
  elseif output.ndim == 3 and output:size(2) == n and output:size(3) == K + 1 then
    hint = "batch first: output:transpose(1, 2)"
  end
  check.fail(op, ("the model's output is %s; CTC reads (%d,T,%d): %d characters and a blank at each of T time " ..
    "steps"):format(
    shape_of(output), n, K + 1, K), hint)
end

--- Raises for CTC's shape where characters at places are expected.
function ctc.refuse(op, charset, output, n)
  local K = symbols.count(charset)
  if output.ndim ~= 3 or output:size(1) ~= n or output:size(3) ~= K + 1 then return end
  check.fail(op, ("the model's output is %s: %d classes, one more than the %d characters of the charset"):format(
    shape_of(output), K + 1, K),
    'a blank makes it CTC: capl.model(model, {output = "text", charset = …, decoding = "ctc"})')
end

--- Raises where a character at each place cannot say how long a text is.
function ctc.check_places(op, loader)
  local least, most = loader and loader.length_min, loader and loader.length
  if not least or not most or least >= most then return end
  check.fail(op, ("the texts have %d to %d characters; classification of %d positions cannot represent the end of a " ..
    "text"):format(
    least, most, most), 'decoding = "ctc" in capl.model reads texts of any length; so does a meter with decode =')
end

return ctc
