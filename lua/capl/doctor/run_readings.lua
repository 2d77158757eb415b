-- run_readings.lua: readings that have collapsed: nothing at all, or nearly always the same character, class or place.
-- SPDX-License-Identifier: Apache-2.0
local fields = require "fields"
local value = require "report.value"

local MOST = 0.5 -- of all characters that were read, from which on one of them is reported
local TIMES = 3 -- what it was meant
local LEAST = 50 -- characters

-- The kind of output that an evaluation measures; of several with its meter the one that checks it; nil: none does.
local function kind_of(evaluation)
  for _, kind in ipairs(fields.kinds) do
    local checks = kind.confused or kind.faults
    if checks and kind.meter == value.text(evaluation, "kind") then return kind end
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

-- Faults of an evaluation that counts confusions -> what was looked at; nil, why not
local function look_at_confusion(ctx, confusion, of)
  local by, read, meant = counted(confusion)
  if meant < LEAST then return nil, "too few " .. of[2] end
  local where = ctx:line("lr%s*=", "optim%.")
  if read < 0.01 * meant then
    ctx:error(("%d characters of %d were predicted; a CTC model that predicts only blanks has not started to learn")
      :format(read, meant), {where = where,
        write = "run capl doctor on the recipe: check lr, clip_norm, and labels first"})
    return ""
  end
  for label, n in pairs(by) do
    local share = n.read / read
    if label ~= "" and share > MOST and share > TIMES * n.meant / meant then
      ctx:error(("readings have collapsed to one %s: '%s' is %.0f %% of what was read and %.0f %% of what was meant")
        :format(of[1], label, 100 * share, 100 * n.meant / meant),
        {where = where, write = "perhaps a lower lr or a longer warmup; check labels against images (capl preview)"})
      return ""
    end
  end
  return ("%d %s read, %d meant"):format(read, of[2], meant)
end

-- Likewise of one whose kind checks it. name: of one output of several
local function look_at_kind(ctx, kind, evaluation, name)
  local faults, said = kind.faults(evaluation, value)
  for _, fault in ipairs(faults or {}) do
    ctx[fault.severity](ctx, (name and name .. ": " or "") .. fault.text, {where = ctx:line("lr%s*=", "optim%."),
      write = fault.write})
  end
  return faults and said, said
end

local function look(ctx, evaluation, name)
  local kind, confusion = kind_of(evaluation), value.table(evaluation, "confusion")
  if kind and kind.faults then return look_at_kind(ctx, kind, evaluation, name) end
  if kind and value.has(confusion) then return look_at_confusion(ctx, confusion, kind.confused) end
  return nil, "no evaluation that says what was read is here"
end

local function check(ctx)
  local outputs, said = value.table(ctx.r.evaluation, "outputs"), {}
  for _, name in ipairs(value.keys(outputs)) do
    local text = look(ctx, outputs[name], name)
    if text then said[#said + 1] = name .. ": " .. text end
  end
  if said[1] then return table.concat(said, "; ") end
  local text, why = look(ctx, ctx.r.evaluation)
  return text or ctx:skip(why)
end

return {name = "readings", check = check}
