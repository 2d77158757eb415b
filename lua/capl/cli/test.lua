-- test.lua: `capl test RECIPE`: runs the recipe, once for each seed, and says whether it reaches what its capl.expect
-- claims.
--
-- The runs are ordinary ones, in the sandbox, of the same bytes of the recipe each; this process runs nothing of it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local about = require "recipe.about"
local claim = require "recipe.claim"
local options = require "cli.options"
local proof = require "recipe.proof"
local sorted_keys = require "sorted_keys"

local spec = {
  {name = "seeds", type = "number", from = 1, to = 1000, default = 1, doc = "number of runs, with consecutive seeds"},
  {name = "out", type = "text", value = "FILE", doc = "output file (NAME.result.json beside the recipe)"},
  {name = "json", type = "flag", default = false, doc = "prints the record as JSON"},
}

-- ---- before it runs ----

-- "--key=value" words -> {key = text}
local function named(words)
  local out = {}
  for _, word in ipairs(words) do
    local key, value = options.split(word)
    if key then out[key:gsub("-", "_")] = value end
  end
  return out
end

-- Whether the words say what a claim is about, or at least nothing else about it.
local function fits(c, said)
  for key, value in pairs(c.given) do
    if said[key] ~= nil and tostring(said[key]) ~= tostring(value) then return false end
  end
  return true
end

-- How well a claim fits the words: one about a setting that was said, one about no settings, one whose settings were
-- not said.
local function rank(c, said)
  for key in pairs(c.given) do
    if said[key] ~= nil then return 3 end
  end
  return next(c.given) == nil and 2 or 1
end

-- The claim of the text that the words are about; nil for one that is computed when the recipe runs.
local function choose(a, words)
  local said, best, most = named(words), nil, 0
  for _, entry in ipairs(a.claims) do
    local found = fits(entry.claim, said) and rank(entry.claim, said) or 0
    if found > most then best, most = entry.claim, found end
  end
  if best or a.claims_computed then return best end
  if #a.claims == 0 then
    core.fail(a.path .. " claims nothing, so there is nothing to prove",
      "state in the recipe what it reaches: capl.expect{exact = 0.96, within = \"10 min\"}")
  end
  core.fail(("%s claims nothing about these settings; it does about: %s"):format(a.path, claim.text(a.claims[1].claim)))
end

-- The settings a claim is about, as words, where they are not said already.
local function with_given(c, words)
  local out, said = {unpack(words)}, named(words)
  local keys = sorted_keys(c and c.given)
  for _, key in ipairs(keys) do
    if said[key] == nil then out[#out + 1] = ("--%s=%s"):format(key, tostring(c.given[key])) end
  end
  return out
end

local function check_device(c, words)
  local device = named(words).device
  if type(device) ~= "string" or device == "auto" then device = (core.device()) end
  if not c or not c.on or device:match("^%a+") == c.on then return end
  core.fail(("the claim is about runs on %s, and this one would be on %s"):format(c.on, device),
    c.on == "cuda" and "it can be proved on a machine with a GPU" or "--device=" .. c.on .. " runs it there")
end

-- ---- what it says ----

local function say(o, text)
  if not o.json then core.sys.out(text .. "\n") end
end

local function seed_line(run)
  local f, parts = run.metrics, {}
  if f.exact then
    parts[1] = ("exact %.2f %% [%.2f, %.2f], n %d"):format(100 * f.exact, 100 * (f.low or 0), 100 * (f.high or 1), f.n
      or 0)
  end
  parts[#parts + 1] = ("%d steps in %s"):format(f.steps or 0, claim.time(run.seconds))
  return ("%s: %s, %s"):format(run.seed and "seed " .. run.seed or "run", table.concat(parts, ", "), run.folder)
end

local function report(o, record, path)
  say(o, "")
  for _, line in ipairs(record.result.lines) do say(o, line) end
  for _, line in ipairs(record.machine.lines or {}) do say(o, line) end
  say(o, record.held and "verdict: the claim holds" or "verdict: the claim does not hold")
  say(o, "record: " .. path)
end

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "test", rest = true})
  if #words ~= 1 then
    core.fail(words[2] and ("'%s' is no option; write --key=value"):format(words[2]) or "no recipe is named",
      "usage: " .. job.usage)
  end
  local a = about.read(words[1])
  local c = choose(a, rest)
  check_device(c, rest)
  local plan = proof.plan(job, a, with_given(c, rest), o)
  say(o, c and ("%s claims: %s"):format(a.path, claim.text(c)) or a.path .. " claims what it computes when it runs")
  say(o, "machine: " .. proof.machine_text())
  local runs = {}
  for i, seed in ipairs(plan.seeds) do -- false: as the recipe says
    runs[i] = proof.run(plan, seed or nil, i, not o.json)
    say(o, seed_line(runs[i]))
  end
  local record = proof.record(a, plan, runs)
  local path = proof.save(a, plan, record)
  if o.json then core.sys.out(core.json_encode(record, true) .. "\n") else report(o, record, path) end
  return record.held and 0 or 1
end

return {main = main, options = spec, examples = {
  {"capl test mine.lua", "one run with the default settings"},
  {"capl test mine.lua --seeds=3", "three runs with different seeds"},
}}
