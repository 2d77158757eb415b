-- ctc.lua: what time steps of a CTC model say: (N,T,K) scores, batch first, K = the charset and a blank behind it.
-- SPDX-License-Identifier: Apache-2.0

local check = require "check"

local ctc = {}

--- How the output of a text model is read; capl.model and meters take one.
ctc.decodings = {"argmax", "ctc"}

--- Checks what capl.model is told.
function ctc.check_options(opts)
  if opts.decoding == nil then return end
  check.one_of("capl.model", "decoding", opts.decoding, ctc.decodings)
  if opts.decoding == "ctc" and (type(opts.charset) ~= "string" or opts.charset == "") then
    check.fail("capl.model", 'decoding = "ctc" needs the charset', "the loader has it: charset = train.charset")
  end
end

--- Text of the classes of T time steps: equal neighbours are one character, blanks none.
-- in   classes: flat list; first: of the sample; steps
-- out  text; number of blank steps
function ctc.collapse(charset, classes, first, steps)
  local out, blanks, before, blank = {}, 0, -1, #charset
  for i = first, first + steps - 1 do
    local class = classes[i]
    if class == blank then blanks = blanks + 1
    elseif class ~= before then out[#out + 1] = charset:sub(class + 1, class + 1) end
    before = class
  end
  return table.concat(out), blanks
end

local function shape_of(t) return "(" .. table.concat(t:size(), ",") .. ")" end

--- Scores (N,T,K+1) f32 of an output.
-- errs value: another shape; both numbers are named
function ctc.scores(op, charset, output, n)
  local K = #charset
  if output.ndim == 3 and output:size(1) == n and output:size(3) == K + 1 then return output:to("f32") end
  local hint = "the last dimension are the charset's characters and the blank, the first the images"
  if output.ndim == 3 and output:size(1) == n and output:size(3) == K then
    hint = ('%d scores are the charset without a blank: one more output, or no decoding = "ctc" in capl.model'):format(K)
  elseif output.ndim == 3 and output:size(2) == n and output:size(3) == K + 1 then
    hint = "batch first: output:transpose(1, 2)"
  end
  check.fail(op, ("the model's output is %s; CTC reads (%d,T,%d): %d characters and a blank at each of T time steps"):format(
    shape_of(output), n, K + 1, K), hint)
end

--- Raises for CTC's shape where characters at places are expected.
function ctc.refuse(op, charset, output, n)
  if output.ndim ~= 3 or output:size(1) ~= n or output:size(3) ~= #charset + 1 then return end
  check.fail(op, ("the model's output is %s: %d classes, one more than the %d characters of the charset"):format(
    shape_of(output), #charset + 1, #charset),
    'a blank makes it CTC: capl.model(model, {output = "text", charset = …, decoding = "ctc"})')
end

--- Raises where a character at each place cannot say how long a text is.
function ctc.check_places(op, loader)
  local least, most = loader and loader.length_min, loader and loader.length
  if not least or not most or least >= most then return end
  check.fail(op, ("the texts have %d to %d characters; a class at each of %d places cannot tell where a text ends"):format(
    least, most, most), 'decoding = "ctc" in capl.model reads texts of any length; so does a meter with decode =')
end

return ctc
