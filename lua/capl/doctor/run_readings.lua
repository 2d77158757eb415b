-- run_readings.lua: readings that have collapsed: nothing at all, or nearly always the same character or class.
-- SPDX-License-Identifier: Apache-2.0
local fields = require "fields"
local value = require "report.value"

local MOST = 0.5 -- of all characters that were read, from which on one of them is reported
local TIMES = 3 -- what it was meant
local LEAST = 50 -- characters

-- What an evaluation's confusion counts; nil where it has none.
local function confused(evaluation)
  for _, kind in ipairs(fields.kinds) do
    if kind.meter == value.text(evaluation, "kind") then return kind.confused end
  end
end

-- What was read and meant how often: {label = {read =, meant =}}, both sums. "" is nothing.
local function counted(confusion)
  local by, read, meant = {}, 0, 0
  for i, label in ipairs(confusion.labels) do by[label] = by[label] or {read = 0, meant = 0, at = i} end
  for i, want in ipairs(confusion.labels) do
    for k, got in ipairs(confusion.labels) do
      local n = confusion.counts[i][k]
      by[want].meant, by[got].read = by[want].meant + n, by[got].read + n
      if got ~= "" then read = read + n end
      if want ~= "" then meant = meant + n end
    end
  end
  return by, read, meant
end

local function check(ctx)
  local evaluation = ctx.r.evaluation
  local confusion = value.table(evaluation, "confusion")
  local of = confused(evaluation)
  if not of or not value.has(confusion) then return ctx:skip("no evaluation that counts confusions is here") end
  local by, read, meant = counted(confusion)
  if meant < LEAST then return ctx:skip("too few " .. of[2]) end
  local where = ctx:line("lr%s*=", "optim%.")
  if read < 0.01 * meant then
    return ctx:error(("%d characters of %d were predicted; a CTC model that predicts only blanks has not started to " ..
      "learn"):format(
      read, meant), {where = where, write = "run capl doctor on the recipe: check lr, clip_norm, and labels first"})
  end
  for label, n in pairs(by) do
    local share = n.read / read
    if label ~= "" and share > MOST and share > TIMES * n.meant / meant then
      return ctx:error(("readings have collapsed to one %s: '%s' is %.0f %% of what was read and %.0f %% of " ..
        "what was meant"):format(
        of[1], label, 100 * share, 100 * n.meant / meant),
        {where = where, write = "perhaps a lower lr or a longer warmup; check labels against images (capl preview)"})
    end
  end
  return ("%d %s read, %d meant"):format(read, of[2], meant)
end

return {name = "readings", check = check}
