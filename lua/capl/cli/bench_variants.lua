-- bench_variants.lua: the variants of a comparison: every combination of the values that --ab gives to settings.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local MOST = 16 -- variants: all of them are in memory at the same time

-- "precision=fp32,bf16" -> "precision", {"fp32", "bf16"}
local function read_axis(text)
  local key, rest = text:match("^%-*([%w_]+)=(.*)$")
  if not key then core.fail(("--ab takes KEY=A,B, not '%s'"):format(text), "such as --ab precision=fp32,bf16") end
  local values, seen = {}, {}
  for value in (rest .. ","):gmatch("([^,]*),") do
    if value == "" then core.fail(("--ab %s has an empty value"):format(text)) end
    if seen[value] then core.fail(("--ab %s has the value %s twice"):format(text, value)) end
    seen[value] = true
    values[#values + 1] = value
  end
  if #values < 2 then
    core.fail(("--ab %s has one value; there is nothing to compare it with"):format(text),
      "such as --ab precision=fp32,bf16")
  end
  return key, values
end

local function read_axes(asked, words)
  local axes, seen = {}, {}
  for _, word in ipairs(words) do seen[word:match("^%-%-([^=]+)") or ""] = word end
  for _, text in ipairs(asked) do
    local key, values = read_axis(text)
    if seen[key] then core.fail(("%s is given twice: %s and --ab %s"):format(key, seen[key], text)) end
    seen[key] = "--ab " .. text
    axes[#axes + 1] = {key = key, values = values}
  end
  return axes
end

-- The next combination: the last key changes first. false after the last one.
local function advance(axes, at)
  for i = #axes, 1, -1 do
    at[i] = at[i] + 1
    if at[i] <= #axes[i].values then return true end
    at[i] = 1
  end
  return false
end

local function variant_at(axes, at)
  local variant, names = {words = {}, keys = {}, settings = {}}, {}
  for i, axis in ipairs(axes) do
    local value = axis.values[at[i]]
    names[i] = axis.key .. "=" .. value
    variant.words[i], variant.keys[i], variant.settings[axis.key] = "--" .. names[i], axis.key, value
  end
  variant.name = table.concat(names, " ")
  return variant
end

--- -> list of {name = "precision=bf16 batch=64", words = {"--precision=bf16", …}, keys, settings}
-- errs value: no key, no second value, a value or key twice, too many variants
return function(asked, words)
  local axes, at, count, variants = read_axes(asked, words), {}, 1, {}
  for i, axis in ipairs(axes) do at[i], count = 1, count * #axis.values end
  if count > MOST then
    core.fail(("these are %d variants, and at most %d can be compared"):format(count, MOST),
      "compare fewer values at a time")
  end
  repeat variants[#variants + 1] = variant_at(axes, at) until not advance(axes, at)
  return variants
end
