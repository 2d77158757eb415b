-- doctor.lua: `capl doctor RECIPE|RUN`: looks at a recipe before training, or at the files of a run, and says what to
-- write.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local doctor = require "doctor"
local folder = require "report.folder"
local options = require "cli.options"
local recipe = require "cli.execute"
local snapshot = require "train.snapshot"
local watch = require "doctor.watch"

local spec = {
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

-- ---- a recipe ----

-- The loaders of a recipe by their role; the first of each.
local function loaders_by_role(run)
  local out = {}
  for _, entry in ipairs(run.loaders) do out[entry.role] = out[entry.role] or entry.loader end
  return out
end

-- o: options of train.fit; nil for a loop of the recipe's own, which seen describes.
local function context_of(job, o, seen)
  local run = job.run
  local ctx = doctor.context{run = run, o = o, seen = seen, loaders = loaders_by_role(run), path = job.recipe,
    text = run.text, model = o and o.model or run.model}
  if o then
    ctx.loaders = {train = o.train, val = o.val, test = o.test or ctx.loaders.test}
    local next_batch = snapshot.batches(o.train)
    function ctx.batch() return next_batch() end
    function ctx.save() return snapshot.take{model = o.model, optimizer = o.optimizer} end
  end
  return ctx
end

-- Runs the recipe to its train.fit, or through the first steps of a loop of its own, and looks there.
local function of_recipe(job, o, rest)
  local ctx, seen
  local function look(fit)
    seen:finish()
    ctx = context_of(job, fit, seen)
    local bar = core.sys.isatty(2) and not o.json
    doctor.look(doctor.of_recipe, ctx, bar and function(name) core.sys.bar("looking at " .. name) end or nil)
  end
  seen = watch.begin(job.run, function() core.sys.unwind() end)
  job.run:on("fit", function(fit)
    look(fit)
    core.sys.unwind()
  end)
  core.can_capture = function() return false end
  core.sys.mute(true)
  recipe.execute(job, {mode = "bench", args = rest, quiet = true})
  core.sys.mute(false)
  if not ctx and seen.steps > 0 then look(nil) end
  if not ctx then
    core.error{code = "state", message = job.recipe
      .. " ended without train.fit and without a step, so there is nothing to check",
        hint = "a step ends with opt:step() or opt:backward_step(loss)"}
  end
  return ctx
end

-- ---- a run ----

local function of_run(path)
  local r = folder.read(path)
  local text = core.sys.read(r.path .. "/recipe.lua")
  local name = type(r.settings.recipe) == "string" and r.settings.recipe or "recipe.lua"
  local ctx = doctor.context{r = r, text = text, path = name}
  doctor.look(doctor.of_run, ctx)
  return ctx, r.path
end

-- ---- telling ----

local ORDER = {error = 1, warning = 2, note = 3, ok = 4, skipped = 5}

local function print_findings(title, findings)
  local out = core.sys.out
  local sorted = {}
  for i, f in ipairs(findings) do sorted[i] = {f, i} end
  table.sort(sorted, function(a, b)
    local x, y = ORDER[a[1].severity], ORDER[b[1].severity]
    if x ~= y then return x < y end
    return a[2] < b[2]
  end)
  for _, entry in ipairs(sorted) do
    local f = entry[1]
    out(("%-8s %-18s %s\n"):format(f.severity, f.rule, f.text))
    local marked = f.severity ~= "ok" and f.severity ~= "skipped"
    if marked and (f.where or f.write) then
      out(("%27s %s%s%s\n"):format("", f.where or "", f.where and f.write and ": " or "", f.write
        and "write " .. f.write or ""))
    end
  end
  local n = doctor.count(findings)
  local function of(count, word) return ("%d %s%s"):format(count, word, count == 1 and "" or "s") end
  out(("%s: %s, %s, %s, %d ok, %d not checked\n"):format(title, of(n.error, "error"), of(n.warning, "warning"),
    of(n.note, "note"), n.ok, n.skipped))
end

local function main(job)
  local o, words, rest = options.read(job.args, spec, {command = "doctor", rest = true})
  local ctx, title
  if job.recipe then
    if words[1] then core.error{code = "value", message = ("'%s' is no option; write --key=value"):format(words[1])} end
    ctx, title = of_recipe(job, o, rest), job.recipe
  else
    if #words ~= 1 or rest[1] then
      core.error{code = "value", message = "capl doctor takes one recipe, or the folder of one run; usage: "
        .. job.usage}
    end
    ctx, title = of_run(words[1])
  end
  local n = doctor.count(ctx.findings)
  if o.json then
    core.sys.out(core.json_encode({of = title, errors = n.error, warnings = n.warning, findings = ctx.findings}, true)
      .. "\n")
  else
    print_findings(title, ctx.findings)
  end
  return n.error > 0 and 1 or 0
end

return {main = main, options = spec, examples = {
  {"capl doctor mine.lua", "checks a recipe, its data and its first steps"},
  {"capl doctor runs/mine", "checks the files of a run"},
}}
