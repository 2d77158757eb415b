-- learning_curve.lua: `capl RECIPE --learning_curve`: the recipe on a tenth, a third and all of its training images, one after
-- the other, and how many images its captchas need.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local curve = require "sweep.learning_curve"
local folders = require "sweep.folder"
local options = require "cli.options"
local sweep = require "sweep"

local learning_curve = {}

local USUAL = "0.1,0.3,1"

local function fail(message, hint) core.error{code = "value", message = message, hint = hint} end

-- "0.1,0.3,1" -> the shares, ascending
local function read_shares(text)
  local shares = {}
  for word in text:gmatch("[^,]+") do
    local share = tonumber(word)
    if not share or share <= 0 or share > 1 then
      fail(("--learning_curve lists shares of the training images, above 0 and at most 1, such as %s; '%s' is none"):format(USUAL, word))
    end
    shares[#shares + 1] = share
  end
  table.sort(shares)
  if #shares < 2 or shares[1] == shares[#shares] then
    fail(("--learning_curve wants two different shares of the training images at least, such as %s"):format(USUAL))
  end
  return shares
end

--- Whether the words of a command ask for a learning curve -> its shares or nil, the other words.
function learning_curve.asked(words)
  local shares, rest = nil, {}
  for _, word in ipairs(words) do
    local key, value = options.split(word)
    if key and key:gsub("-", "_") == "learning_curve" then
      shares = value ~= "false" and read_shares((value == true or value == "true") and USUAL or value) or nil
    else
      rest[#rest + 1] = word
    end
  end
  return shares, rest
end

local function check_words(words)
  for _, word in ipairs(words) do
    local key = options.split(word)
    if key == "fraction" or key == "resume" then fail(("--%s has no place beside --learning_curve, which sets it"):format(key)) end
  end
end

-- Ranks on processors share the cores.
local function threads_of(ranks_word)
  local ranks = tonumber((ranks_word or ""):match("%d+")) or 1
  return math.max(1, math.floor(core.sys.threads() / ranks))
end

local function plan_of(job, shares, words)
  local trials = {}
  for i, share in ipairs(shares) do trials[i] = {share} end
  return {
    recipe = job.recipe, word = job.word,
    program = job.program, version = core.version(), started = core.sys.date(), args = words, keys = {"fraction"},
    kind = "grid", trials = trials, sweep_seed = 1, metric = "val_exact", goal = "max", at = "best", jobs = 1,
    threads = threads_of(job.ranks_word), processors = core.sys.cpus(), device = (core.device()), rungs = {{trials = #trials}},
    grid_1 = "fraction=" .. table.concat(shares, ","),
  }
end

local function say(text) core.sys.out(text .. "\n") end

-- What the runs say together, in place of which of them is best.
local function report(self)
  local results = self:ranked()
  for _, r in ipairs(results) do
    if r.status ~= "done" then
      core.error{code = "state", message = ("the run with fraction=%s failed: %s"):format(tostring(r.settings.fraction), r.error),
        hint = "what it printed is in " .. r.folder .. ".log"}
    end
  end
  local points = curve.points(results)
  if #points < #results then
    fail("the training images of this recipe have no number, so there are no parts of them", "the setting fraction is for files")
  end
  local lines, law, wanted = curve.say(points)
  self:draw()
  curve.write(self.folder, self.plan.recipe:match("([^/]+)$") .. ": how many images are needed", points, lines, law, wanted)
  say("\n" .. curve.table(points))
  for _, line in ipairs(lines) do say(line) end
  say(("learning curve: %s/learning_curve.png, learning_curve.json, report.html"):format(self.folder.path))
  say(("keep: %s/best.capl"):format(results[1].folder))
  return 0
end

--- Trains on each share of the training images, fewest first, and tells what the figures say. -> exit status
function learning_curve.run(job, shares, words)
  check_words(words)
  words = job.ranks_word and {job.ranks_word, unpack(words)} or words -- which each of the runs starts by itself
  local plan = plan_of(job, shares, words)
  local folder = folders.new("runs/" .. job.recipe:match("([^/]+)$"):gsub("%.lua$", "") .. "-learning_curve")
  folder:save_plan(plan)
  folder:write("recipe.lua", job.text)
  say(("%s: %d runs, one after the other, with %s of the training images"):format(folder.path, #shares, table.concat(shares, ", ")))
  local runs = sweep.new(plan, folder)
  runs.report = report
  return runs:run()
end

return learning_curve
