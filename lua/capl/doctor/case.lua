-- case.lua: letters that come in both cases: two characters to the model, often one to those who typed the labels.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"
local texts = require "doctor.texts"

local function check(ctx)
  local train = ctx.loaders.train
  if not train or not train.source.dir then return ctx:skip("the train loader reads no folder of labels") end
  local counts, both = texts.counts(texts.of(train)), {}
  for c, n in pairs(counts) do
    local small = symbols.fold(c, "lower")
    if small ~= c and counts[small] then both[#both + 1] = ("%s/%s (%d and %d)"):format(c, small, n, counts[small]) end
  end
  if #both == 0 then return "no letter comes in both cases" end
  table.sort(both)
  ctx:note(("letters in both cases: %s; if a captcha accepts either, or both look alike, labels that distinguish them "
    .. "cannot be learned"):format(symbols.shown(both, ", ")),
      ctx:setting("case", '"lower"', "data%.open", "data%.folder"))
end

return {name = "case", check = check}
