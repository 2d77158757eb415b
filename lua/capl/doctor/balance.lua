-- balance.lua: characters that come far more, or far less, often than the others.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"
local texts = require "doctor.texts"

local SHARE = 1 / 5 -- of the mean: rarer than that is reported
local LEAST = 20 -- times the classes: fewer characters in all show nothing

local function check(ctx)
  local train = ctx.loaders.train
  local counts, sum = texts.counts(texts.of(train))
  local list = texts.are_read(train) and symbols.list(train.charset) or {}
  local classes = #list
  if classes < 2 or sum < LEAST * classes then return ctx:skip("too few labels") end
  local mean, rare, most, of = sum / classes, {}, 0, nil
  for _, c in ipairs(list) do
    local n = counts[c] or 0
    if n > 0 and n < SHARE * mean then rare[#rare + 1] = ("%s (%d)"):format(c, n) end
    if n > most then most, of = n, c end
  end
  local where = ctx:line("source%s*=", "data%.folder", "data%.captcha")
  if #rare > 0 then
    table.sort(rare)
    ctx:warn(("%d characters are rarer than a fifth of the mean of %.0f: %s"):format(#rare, mean,
      symbols.shown(rare, ", ")), {where = where, write = train.source.dir and "perhaps more images with them" or
        "perhaps often = \"" .. rare[1]:match("^[^ ]+") .. "\", times = 4 of data.captcha"})
  end
  if most > 10 * mean then
    ctx:warn(("'%s' is %.0f %% of all characters"):format(of, 100 * most / sum),
      {where = where, write = "perhaps fewer images with it, if other sets do not have as many"})
  end
  return ("the most frequent is '%s' with %.1f %% of all, mean %.1f %%"):format(of, 100 * most / sum, 100 / classes)
end

return {name = "class balance", check = check}
