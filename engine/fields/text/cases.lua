-- Cases of kind text, as tests/lua/kinds_spec.lua reads them.
-- SPDX-License-Identifier: Apache-2.0
local argmax = {output = "text", charset = "AB-é", length = 2}
local ctc = {output = "text", charset = "AB", decoding = "ctc", blank = 2, length_min = 1, length_max = 4}
local e, B, far = {0, 0, 0, 9}, {0, 9, 0, 0}, -1e4

return {
  {"reads the best character at each place", meta = argmax, output = {e, B},
    gives = {text = "éB", sure = {0.99963, 0.99963}},
    columns = {"éB", "0.9993"}, json = {text = "éB", chars = {0.9996, 0.9996}}},
  {"reads places that stand in one row", meta = argmax, output = {0, 0, 0, 9, 0, 9, 0, 0}, gives = {text = "éB"}},
  {"joins equal neighbours of CTC and drops blanks", meta = ctc,
    output = {{9, 0, 0}, {9, 0, 0}, {0, 0, 9}, {9, 0, 0}, {0, 9, 0}}, gives = {text = "AAB"}},
  {"reads no text of blanks alone", meta = ctc, output = {{far, far, 0}, {far, far, 0}},
    gives = {text = "", confidence = 1}},
  {"refuses another charset than the network's", meta = argmax, output = {{1, 2}, {3, 4}},
    fails = "the graph gives (N,2,2), meta.json describes 2 characters out of a charset of 4: (N,2,4)"},
  {"says that a score is not finite", meta = argmax, output = {{0 / 0, 0, 0, 0}, B}, wrong = "is not finite"},
}
