-- claim.lua: what a recipe says it reaches: reads capl.expect's table, puts it into words, and compares measured
-- metrics with it by it.
--
-- A claim is data, so that it can be read from a recipe's text, from a manifest and from a running recipe alike.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local devices = require "devices"
local interval = require "meter.interval"
local sorted_keys = require "sorted_keys"

local claim = {}

local OP = "capl.expect"
local NARROW = 400 -- samples from which on a metric below the claim may be called chance: fewer would excuse anything

local spec = {
  {"exact", "number"}, {"chars", "number"}, {"merged", "number"}, {"loss", "number"}, {"steps", "whole"},
  {"at_least", "table"}, {"at_most", "table"}, {"within", "string", "number"}, {"on", "string"}, {"hardware", "string"},
  {"data", "string"}, {"given", "table"},
}

local shares = {exact = true, chars = true, merged = true}

-- ---- reading ----

local units = {s = 1, sec = 1, second = 1, m = 60, min = 60, minute = 60, h = 3600, hour = 3600, d = 86400, day = 86400}

--- Seconds of "10 min", "90s", "1h 30m", "2 hours" or a number; nil for anything else.
function claim.seconds(value)
  if type(value) == "number" then return value > 0 and value < math.huge and value or nil end
  local sum, rest = 0, value
  repeat
    local count, unit, after = rest:match("^%s*([%d.]+)%s*(%a+)%s*(.*)$")
    local factor = unit and (units[unit] or units[unit:gsub("s$", "")])
    if not tonumber(count) or not factor then return nil end
    sum, rest = sum + tonumber(count) * factor, after
  until rest == ""
  return sum > 0 and sum or nil
end

local function check_share(name, value)
  if value > 1 and value <= 100 then
    check.fail(OP, ("%s is a share from 0 to 1, not %g"):format(name, value),
      ("%g %% are %s = %g"):format(value, name, value / 100))
  end
  if not (value > 0 and value <= 1) then check.fail(OP, ("%s is a share from 0 to 1, not %g"):format(name, value)) end
end

local function check_metrics(key, list)
  for name, value in pairs(list) do
    if type(name) ~= "string" or type(value) ~= "number" or value ~= value then
      check.fail(OP, ("%s contains metrics and values: %s = {mae = 2.5}"):format(key, key))
    end
    if shares[name] then check.fail(OP, ("%s: %s is a separate key: %s = %g"):format(key, name, name, value)) end
  end
end

local function check_given(given)
  for key, value in pairs(given) do
    local kind = type(value)
    if type(key) ~= "string" or not key:match("^[%a_][%w_]*$")
      or (kind ~= "number" and kind ~= "string" and kind ~= "boolean") then
      check.fail(OP, "given names settings and their values: given = {preset = \"long\"}")
    end
  end
end

local function add(checks, metric, way, value)
  if value ~= nil then checks[#checks + 1] = {metric = metric, way = way, value = value} end
end

-- The metrics of a claim, each with the side on which it has to be.
local function checks_of(o)
  local checks = {}
  for _, name in ipairs{"exact", "chars", "merged"} do add(checks, name, "at_least", o[name]) end
  for _, name in ipairs(sorted_keys(o.at_least)) do add(checks, name, "at_least", o.at_least[name]) end
  for _, name in ipairs{"loss", "steps"} do add(checks, name, "at_most", o[name]) end
  for _, name in ipairs(sorted_keys(o.at_most)) do add(checks, name, "at_most", o.at_most[name]) end
  return checks
end

--- Reads a table as capl.expect takes it.
-- out  {checks = list of {metric, way = "at_least" or "at_most", value}, within = seconds, on, hardware, data, given}
-- errs value: unknown key, wrong type, a share above 1, no metric at all
function claim.read(given)
  local o = check.options(OP, spec, given)
  for name in pairs(shares) do
    if o[name] then check_share(name, o[name]) end
  end
  check_metrics("at_least", o.at_least or {})
  check_metrics("at_most", o.at_most or {})
  check_given(o.given or {})
  if o.steps and o.steps < 1 then check.fail(OP, "steps is a number from 1 on, not " .. o.steps) end
  if o.loss and not (o.loss == o.loss and math.abs(o.loss) < math.huge) then
    check.fail(OP, "loss is a finite number")
  end
  local within = o.within and claim.seconds(o.within)
  if o.within and not within then
    check.fail(OP, ("within is a time such as \"10 min\", \"90 s\" or \"1h30m\", not '%s'"):format(tostring(o.within)))
  end
  if o.on then check.one_of(OP, "on", o.on, devices.chosen()) end
  local out = {checks = checks_of(o), within = within, on = o.on, hardware = o.hardware, data = o.data, given = o.given
    or {}}
  if #out.checks == 0 and not within then
    check.fail(OP, "nothing is expected", "give a metric: capl.expect{exact = 0.96, within = \"10 min\"}")
  end
  return out
end

-- ---- words ----

local function percent(x) return ("%.4g %%"):format(100 * x) end

--- A time as people say it: "45 s", "10 min", "1 h 30 min".
function claim.time(seconds)
  if seconds < 60 then return ("%.3g s"):format(seconds) end
  local minutes = math.floor(seconds / 60 + 0.5)
  if minutes < 120 and minutes % 60 ~= 0 then
    local rest = math.floor(seconds % 60)
    return rest > 0 and seconds < 3600 and ("%d min %d s"):format(seconds / 60, rest) or ("%d min"):format(minutes)
  end
  return minutes % 60 == 0 and ("%d h"):format(minutes / 60) or ("%d h %d min"):format(minutes / 60, minutes % 60)
end

local function value_text(metric, value) return shares[metric] and percent(value) or ("%.6g"):format(value) end

-- "exact at least 96 %"
local function check_text(c)
  return ("%s at %s %s"):format(c.metric, c.way == "at_least" and "least" or "most", value_text(c.metric, c.value))
end

--- "preset = long, seed = 3"
function claim.given_text(given)
  local parts = {}
  for i, key in ipairs(sorted_keys(given)) do parts[i] = ("%s = %s"):format(key, tostring(given[key])) end
  return table.concat(parts, ", ")
end

--- "exact at least 96 %, within 10 min, on cpu (two AVX-512 cores)"
function claim.text(c)
  local parts = {}
  for i, one in ipairs(c.checks) do parts[i] = check_text(one) end
  if c.within then parts[#parts + 1] = "within " .. claim.time(c.within) end
  if c.on then parts[#parts + 1] = "on " .. c.on end
  local text = table.concat(parts, ", ")
  if c.hardware then text = ("%s (%s)"):format(text, c.hardware) end
  if next(c.given) then text = ("%s, with %s"):format(text, claim.given_text(c.given)) end
  if c.data then text = ("%s, of %s"):format(text, c.data) end
  return text
end

--- Two claims are about the same run.
function claim.same_given(a, b)
  return claim.given_text(a.given) == claim.given_text(b.given) and a.on == b.on
end

-- ---- judging ----

local function bounds(metric, metrics)
  local prefix = (metric == "exact" or metric == "accuracy") and "" or metric .. "_"
  local low, high = metrics[prefix .. "low"], metrics[prefix .. "high"]
  if low and high then return low, high end
  if metric == "exact" and metrics.n then
    return interval.wilson(math.floor(metrics.exact * metrics.n + 0.5), metrics.n)
  end
end

local function verdict_of(c, metrics)
  local value, n = metrics[c.metric], metrics.n
  if type(value) ~= "number" or value ~= value then return {verdict = "not measured"} end
  local low, high = bounds(c.metric, metrics)
  local met = c.way == "at_least" and value >= c.value or c.way == "at_most" and value <= c.value
  local out = {verdict = met and "met" or "missed", measured = value, low = low, high = high, n = c.metric ~= "steps"
    and n or nil}
  local inside = not met and low and low <= c.value and c.value <= high
  if inside then out.verdict = (n or 0) >= NARROW and "within chance" or "missed" end
  if inside and out.verdict == "missed" then out.few = true end
  return out
end

-- "97.31 % [96.97, 97.61], n 10000"
local function measured_text(c, v)
  local text = value_text(c.metric, v.measured)
  if shares[c.metric] then text = ("%.2f %%"):format(100 * v.measured) end
  if v.low and v.high then
    local scale = shares[c.metric] and 100 or 1
    text = ("%s [%.2f, %.2f]"):format(text, scale * v.low, scale * v.high)
  end
  if v.n then text = ("%s, n %d"):format(text, v.n) end
  if v.few then
    text = ("%s; the interval contains the claim, but is too wide with fewer than %d"):format(text, NARROW)
  end
  return text
end

local function line(what, v, text) return ("%s: %s%s"):format(what, v.verdict, text and ", " .. text or "") end

--- Judges a claim.
-- in   metrics: {exact, low, high, chars, n, loss, steps …}; seconds that the run took
-- out  {met = nothing was missed, lines = list of sentences, verdicts = list of {what, verdict, expected, measured …}}
function claim.verify(c, metrics, seconds)
  local out = {met = true, lines = {}, verdicts = {}}
  local function take(what, v, text, expected)
    out.met = out.met and (v.verdict == "met" or v.verdict == "within chance")
    out.lines[#out.lines + 1] = line(what, v, text)
    v.what, v.expected = what, expected
    out.verdicts[#out.verdicts + 1] = v
  end
  for _, one in ipairs(c.checks) do
    local v = verdict_of(one, metrics)
    v.metric, v.way = one.metric, one.way
    take(check_text(one), v, v.measured and measured_text(one, v), one.value)
  end
  if c.within then
    local v = {verdict = seconds <= c.within and "met" or "missed", metric = "seconds", way = "at_most",
      measured = seconds}
    take("within " .. claim.time(c.within), v, claim.time(seconds), c.within)
  end
  return out
end

claim.is_share = function(metric) return shares[metric] == true end
claim.fail = function(message, hint) core.error{code = "value", message = message, hint = hint} end

return claim
