-- expect.lua: capl.expect: a recipe states what it reaches, and its run says at its end whether that was so.
--
-- A run does not fail for a claim that it missed; `capl test` does (cli/test.lua).
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local claim = require "recipe.claim"
local output = require "output"

-- A run has claims: list of {claim, said = the table as the recipe wrote it}; and judged, of the claim that it is
-- about.
local expect = {}

-- Settings that change neither what is computed nor what is claimed.
local neutral = {
  device = true, seed = true, workers = true, quiet = true, json = true, deterministic = true, autotune = true,
  capture = true, monitor_every = true, watchdog = true, precision = true, prefetch = true, files = true,
}
-- Those that name somebody's own files: right where a claim says in words which data it is about.
local of_data = {data = true, test_data = true, label = true, charset = true, length = true, val = true, test = true}

-- ---- stating ----

--- capl.expect{exact = 0.96, within = "10 min"}: the metrics that the recipe reaches with its own settings. The run
-- says at its end whether that was so; `capl test RECIPE` proves it; `capl recipe info` and `capl check` show it.
-- Several of them may be about several settings.
-- in   exact, chars, merged: shares that are reached at least; loss (on the val images) and steps: at most;
--      at_least = {miou = 0.8}, at_most = {mae = 2.5}: other metrics; within = "10 min", "90 s": the whole run;
--      on = "cpu" or "cuda", hardware = "two AVX-512 cores": where that was measured; data = "8,000 captchas of …": of
--      what, where the user names the files; given = {preset = "long"}: settings that it is about
-- errs value: unknown key, a share above 1, a time that is none, two claims about the same settings; state: after the
--      first step
-- eg   capl.expect{exact = 0.96, chars = 0.99, within = "10 min"}
function expect.add(table_given)
  local run = Run.of(observer)
  local claims = run.claims
  if run.steps > 0 then
    core.error{code = "state", message = "capl.expect after the first step: it must come before", path = false}
  end
  local c = claim.read(table_given)
  for _, other in ipairs(claims) do
    if run.mode ~= "none" and claim.same_given(other.claim, c) then
      claim.fail("capl.expect was called twice for the same settings"
        .. (next(c.given) and ": " .. claim.given_text(c.given) or ""),
          "put all claims into one table, or give the settings of each: given = {preset = \"long\"}")
    end
  end
  if run.mode ~= "none" then claims[#claims + 1] = {claim = c, said = table_given} end
end

--- A line for each claim of the recipe, in order.
function expect.lines(run)
  local out = {}
  for i, entry in ipairs(run.claims) do out[i] = "expected: " .. claim.text(entry.claim) end
  return out
end

--- What settings.json and `capl check --json` keep: the tables as they were written; nil without any.
function expect.said(run)
  local out = {}
  for i, entry in ipairs(run.claims) do out[i] = entry.said end
  return out[1] and out or nil
end

-- ---- which claim is it ----

local function as_given(run, key, wanted)
  local value = run:setting(key)
  if value == nil and key == "preset" then value = run.preset end
  return tostring(value) == tostring(wanted)
end

-- Settings that were chosen for this run and that the claim is not about; nil when there are none.
local function foreign(run, c)
  local names = {}
  for _, s in ipairs(run.settings) do
    local of_preset = s.origin:match("^preset") and c.given.preset ~= run.preset
    local chosen = s.origin == "flag" or s.origin == "as before" or of_preset
    local known = neutral[s.key] or c.given[s.key] ~= nil or (c.data and of_data[s.key])
    if chosen and not known and not s.usual and not s.same then
      names[#names + 1] = ("%s = %s"):format(s.key, tostring(s.value))
    end
  end
  return names[1] and table.concat(names, ", ")
end

local function device_kind() return (core.device()):match("^%a+") end

-- Why a claim is not about this run; nil when it is.
local function elsewhere(run, c)
  for key, wanted in pairs(c.given) do
    if not as_given(run, key, wanted) then return ("of a run with %s"):format(claim.given_text(c.given)) end
  end
  local other = foreign(run, c)
  if other then return ("of the recipe's own settings, and this run has %s"):format(other) end
  if c.on and c.on ~= device_kind() then
    return ("of a run on %s, and this one is on %s"):format(c.on, device_kind())
  end
end

-- The claim this run is about, the one of the most settings first; else the first one and why it is not.
local function choose(run)
  local claims = run.claims
  local best, count, first_why
  for _, entry in ipairs(claims) do
    local why, n = elsewhere(run, entry.claim), 0
    for _ in pairs(entry.claim.given) do n = n + 1 end
    first_why = first_why or why
    if not why and (not best or n > count) then best, count = entry.claim, n end
  end
  if best then return best end
  return claims[1].claim, first_why
end

-- A claim about settings that the recipe has not is a mistake; raised at the first step, before hours are spent.
local function check_given(run)
  if run.steps > 1 then return end
  for _, entry in ipairs(run.claims) do
    for key in pairs(entry.claim.given) do
      local names = {}
      for i, s in ipairs(run.settings) do names[i] = s.key end
      if key ~= "preset" and run:setting(key) == nil then
        local near = core.nearest(key, names)
        claim.fail(("capl.expect: given: this recipe has no setting %s%s"):format(key, near
          and "; did you mean " .. near .. "?" or ""))
      end
    end
  end
end

-- ---- the end of the run ----

-- All that was measured: the last line's metrics, those of train.fit, loss and steps.
local function metrics(run)
  local out = {}
  for _, from in ipairs{run.measured or {}, run.final_values or {}} do
    for key, value in pairs(from) do
      if type(value) == "number" then out[key] = value end
    end
  end
  out.steps = run.steps
  return out
end

-- Judges the run and says so.
local function verify(run)
  if not run.claims[1] or run.mode ~= "run" or run.scratch then return end
  local c, why = choose(run)
  if c.data and not run.is_test then return end -- somebody's own images: the claim is not about these
  if why then
    run.claim_result = {expected = claim.text(c), not_judged = why}
    run:print(("expected: %s\nexpected: not verified, as that is %s"):format(claim.text(c), why))
  else
    local found = claim.verify(c, metrics(run), core.clock() - run.began)
    run.claim_result = {expected = claim.text(c), given = next(c.given) and c.given or nil, met = found.met,
      verdicts = found.verdicts}
    for _, line in ipairs(found.lines) do run:print("expected: " .. line) end
  end
  output.object{expected = run.claim_result}
end

--- Judges a run by its claims from its first step on; settings.json says what was expected.
function expect.listen(run)
  run:on("step", function() check_given(run) end)
  run:on("settings", function(out) out.expected = expect.said(run) end)
  run:on("finish", function() verify(run) end)
end

return expect
