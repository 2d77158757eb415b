-- text.lua: what class scores per time step say as texts: CTC decoding, greedy and by beam search.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local symbols = require "fields.symbols"

local text = {}

local greedy_spec = {
  {"charset", "string"}, {"blank", "whole"}, {"lengths", "table", "tensor"}, {"length", "whole"},
  {"min_length", "whole", default = 0}, {"max_length", "whole", default = 0}, {"allowed", "string", "table"},
  {"pattern", "table"},
}
local beam_spec = {unpack(greedy_spec)}
for _, entry in ipairs {{"width", "whole", default = 16, from = 1}, {"top", "whole", default = 0},
  {"n", "whole", default = 1}} do
  beam_spec[#beam_spec + 1] = entry
end

-- Class of each character of the charset: the blank is no character, so classes behind it are one further.
local function classes_of_characters(charset, blank)
  local class = {}
  for i, symbol in ipairs(symbols.list(charset)) do class[symbol] = i - 1 < blank and i - 1 or i end
  return class
end

-- One flag per class: of a string of characters, or a list of classes.
local function flags_of(op, list, K, classes)
  local wanted = {}
  if type(list) == "string" then
    if not classes then
      check.fail(op, "characters were given, but no charset", "charset = the characters in the order of their classes")
    end
    for _, c in ipairs(symbols.of(list)) do
      if not classes[c] then check.fail(op, ("'%s' is not in the charset"):format(c)) end
      wanted[classes[c]] = true
    end
  else
    for _, k in ipairs(list) do
      if type(k) ~= "number" or k < 0 or k >= K or k % 1 ~= 0 then
        check.fail(op, ("%s is no class; they are 0 to %d"):format(tostring(k), K - 1))
      end
      wanted[k] = true
    end
  end
  local flags = {}
  for k = 0, K - 1 do flags[k + 1] = wanted[k] and "\1" or "\0" end
  return table.concat(flags)
end

local function places_of(op, pattern, K, classes)
  local rows = {}
  for i, list in ipairs(pattern) do rows[i] = flags_of(op, list, K, classes) end
  return table.concat(rows)
end

-- Also settles o.blank.
local function check_scores(op, scores, o)
  check.arg(1, op, "tensor", scores)
  if scores.ndim ~= 3 then
    check.fail(op, ("scores must be (N,T,K): samples, time steps, classes; they have %d dims"):format(scores.ndim))
  end
  local K = scores:size(3)
  o.blank = o.blank or K - 1
  local characters = o.charset and symbols.count(symbols.check(op, "the charset", o.charset))
  if o.charset and characters ~= K - 1 then
    check.fail(op, ("a charset of %d characters and a blank, but %d classes"):format(characters, K),
      "scores (T,N,K) become (N,T,K) by scores:transpose(1, 2)")
  end
  return K
end

local function check_lengths(op, lengths, n)
  if core.is_tensor(lengths) then lengths = lengths:tolist() end
  if lengths and #lengths ~= n then check.fail(op, ("%d lengths for %d samples"):format(#lengths, n)) end
  return lengths
end

local function finish(results, charset, blank)
  local list = charset and symbols.list(charset)
  for _, texts in ipairs(results) do
    for _, t in ipairs(texts) do
      t.confidence = math.exp(t.log_prob)
      if charset then
        local characters = {}
        for i, k in ipairs(t.classes) do
          characters[i] = list[k < blank and k + 1 or k]
        end
        t.text = table.concat(characters)
      end
    end
  end
  return results
end

local function decode(op, scores, o, width, top, n)
  local K = check_scores(op, scores, o)
  local classes = o.charset and classes_of_characters(o.charset, o.blank)
  if o.length then o.min_length, o.max_length = o.length, o.length end
  if o.pattern and o.max_length == 0 then o.min_length, o.max_length = #o.pattern, #o.pattern end
  return finish(core.ctc_decode(scores:detach():to("f32"), check_lengths(op, o.lengths, scores:size(1)), o.blank,
    o.min_length, o.max_length, o.allowed and flags_of(op, o.allowed, K, classes), o.pattern
    and places_of(op, o.pattern, K, classes), width, top, n), o.charset, o.blank)
end

--- The characters of a text, which are Unicode code points of UTF-8.
-- out  list of strings
-- errs value: bytes that are no UTF-8
-- eg   #capl.text.characters("中国")  --> 2
function text.characters(s)
  check.arg(1, "text.characters", "string", s)
  return symbols.of(symbols.check("text.characters", "the text", s))
end

--- The text of the most probable path of each sample.
-- in   scores (N, T, K): logits or log probabilities, batch first
-- out  list of {classes, confidences = of each character, steps = where each is clearest, from 1, log_prob, confidence
--      = of the text: the probability of all its paths, text = with a charset}
-- opts charset (K - 1 characters); blank = K - 1; lengths = time steps of each sample; length, or min_length and
--      max_length: characters; allowed = a string of characters, or a list of classes; pattern = a list of such, one
--      for each place
-- errs value: scores that are not numbers; limits that no text keeps to, e.g. more characters than time steps
-- eg   capl.text.ctc_greedy(capl.tensor{{{9, 0, 0}, {9, 0, 0}, {0, 0, 9}, {9, 0, 0}}}, {charset = "ab"})[1].text == "aa"  --> true
function text.ctc_greedy(scores, opts)
  local o = check.options("text.ctc_greedy", greedy_spec, opts)
  local out = decode("text.ctc_greedy", scores, o, 0, 0, 1)
  for i, texts in ipairs(out) do out[i] = texts[1] end
  return out
end

--- The most probable texts of each sample, by prefix beam search: the paths of a text count together.
-- in   scores (N, T, K): logits or log probabilities, batch first
-- out  for each sample a list of up to n texts as of text.ctc_greedy, the best one first, never less probable than
--      greedy's
-- opts as of text.ctc_greedy; width = 16 (texts kept at each step), top = 0 (classes that extend each, 0 = all), n = 1
-- errs value: as text.ctc_greedy
-- paper A. Graves, N. Jaitly: Towards end-to-end speech recognition with recurrent neural networks, 2014
-- eg   #capl.text.ctc_beam(capl.tensor{{{9, 0, 0}, {0, 0, 9}}}, {charset = "ab", n = 2})[1]  --> 2
function text.ctc_beam(scores, opts)
  local o = check.options("text.ctc_beam", beam_spec, opts)
  return decode("text.ctc_beam", scores, o, o.width, o.top, o.n)
end

return require("missing").watch("capl.text", text)
