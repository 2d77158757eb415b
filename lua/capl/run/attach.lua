-- attach.lua: `capl attach`: opens a prompt inside a run between two of its steps; then the run continues.
--
-- A run is held at a point between two steps (of train.fit, of a loop with train.Checkpoint, else behind opt:step).
-- Lines of the client run here. What all ranks have to do (train on, another rate, save) is an order: the line waits as
-- a coroutine, the order is carried out by every rank at the same step, and the line continues with the result. Time
-- for which a run is held does not count.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local json_file = require "json_file"
local sync = require "dist.sync"
local check = require "check"
local loops = require "run.loops"
local process = require "run.process"

local attach = {
  -- function() -> {repl =, strict =, frames =, scope =, term =}: the prompt that a client gets, of the program
  prompt = nil,
}

local HOLD = 7 * 86400 -- seconds that a signal may wait for the end of a visit, which it ends

local sys = core.sys
local visit -- the session of the client who is inside, nil = nobody; on rank 0
local left -- steps until the run is held again, nil = it is not; on every rank
local at_work = false -- the run is held now

-- ---- orders ----

local ORDER = {} -- marks what a line yields

-- What a line may ask for; each rank does it. loop: of run.loops
local deeds = {
  lr = function(loop, order) loop:set_lr(order.value) end,
  save = function(loop) return loop:save() end,
  steps = function(_, order) left = order.value end,
  stop = function() end, -- when nobody is inside any more
  go = function() end,
}

-- Whether the run trains on after an order.
local goes_on = {steps = true, go = true, stop = true}

local function order(what, value)
  local back = coroutine.yield({mark = ORDER, what = what, value = value})
  if back.error then core.error(back.error) end
  return back.value
end

-- ---- what a client can say ----

local words = {}

function words.lr(value)
  if value == nil then return visit.loop:lr() end
  if value ~= "recipe" and not (type(value) == "number" and value >= 0 and value < math.huge) then
    check.fail("lr", ('a number from 0 on expected, or "recipe" for the recipe\'s own, got %s'):format(tostring(value)))
  end
  order("lr", value)
  return visit.loop:lr()
end

function words.step(n)
  n = n == nil and 1 or n
  if type(n) ~= "number" or n < 1 or n % 1 ~= 0 or n > 1e9 then
    check.fail("step", ("a number of steps from 1 on expected, got %s"):format(tostring(n)))
  end
  order("steps", n)
  return visit.loss
end

function words.save() return order("save") end
function words.go() visit.over = {what = "go"} end
function words.stop() visit.over = {what = "stop"} end

-- ---- a visit ----

local Visit = {}
Visit.__index = Visit

-- fn(…) with the client's terminal in place of the run's -> what attach_run gives
function Visit:with_terminal(fn, ...)
  return attach.prompt().term.as(self.hello, sys.attach_run, self.hello.columns, fn, ...)
end

function Visit:done(text)
  self.line = nil
  sys.attach_answer("d", text or "")
end

-- The text of anything raised, as the program would print it.
function Visit:fail(err)
  local _, text = sys.attach_run(0, error, err, 0)
  self:done(text)
end

-- Resumes the line. -> an order, when it ends in one
function Visit:resume(...)
  local ok, fine, result = self:with_terminal(coroutine.resume, self.line, ...)
  if not ok then return self:done(fine) end
  if not fine then return self:fail(result) end
  if coroutine.status(self.line) ~= "suspended" then
    self:done()
    return self.over
  end
  if type(result) == "table" and result.mark == ORDER then return result end
  self:fail("attempt to yield from the prompt")
end

-- A statement of the client, which may not be whole yet.
function Visit:take(text)
  local repl = attach.prompt().repl
  local ok, compiled = self:with_terminal(repl.compile, text)
  if not ok then return self:done(compiled) end
  if type(compiled) ~= "function" then
    if compiled == "leave" then return {what = "go"} end
    if compiled == "more" then sys.attach_answer("m", "") else self:done() end
    return nil
  end
  self.line = coroutine.create(repl.run)
  return self:resume(compiled)
end

function Visit:complete(text)
  local ok, insert, list = self:with_terminal(attach.prompt().repl.complete, text)
  sys.attach_answer("t", core.json_encode{insert = ok and insert or "", list = ok and list or nil})
end

-- What the prompt makes of globals is not for a run that trains.
local function let_train(wish)
  attach.prompt().strict.stop()
  return wish
end

-- Leaves. -> the last order
function Visit:leave(what, why)
  attach.prompt().frames.leave()
  attach.prompt().strict.stop()
  sys.attach_leave(why)
  visit = nil
  return {what = what}
end

local goodbyes = {go = "the run continues", stop = "the run ends"}

-- Serves until the run has something to do. -> an order
function Visit:serve()
  attach.prompt().frames.of_waiting()
  attach.prompt().strict.begin()
  if self.line then
    if self.early then self.back = {error = {code = "interrupt", message = "interrupted", path = false}} end
    self.loss = self.loop:loss() -- here, where the recipe's functions are in sight
    local wish = self:resume(self.back)
    if wish then return wish.mark and let_train(wish) or self:leave(wish.what, goodbyes[wish.what]) end
  end
  while true do
    local wish
    local kind, text = sys.attach_next()
    if kind == "line" then wish = self:take(text)
    elseif kind == "complete" then self:complete(text)
    elseif kind == "stop" then return self:leave("go", "the run was asked to end")
    else return self:leave("go", goodbyes.go) end
    if wish then return wish.mark and let_train(wish) or self:leave(wish.what, goodbyes[wish.what]) end
  end
end

local function sound_hello(text)
  local hello = json_file.decode(text) or {}
  hello.columns = type(hello.columns) == "number" and hello.columns or 0
  return hello
end

-- Lets somebody in. -> the visit; nil: who was there has gone
local function open(loop)
  local hello = sys.attach_enter()
  if not hello then return nil end
  local self = setmetatable({hello = sound_hello(hello), loop = loop}, Visit)
  local scope = attach.prompt().scope
  for name, fn in pairs(words) do scope.add(name, fn) end
  sys.attach_answer("h", ("%s (process %d) is held at %s"):format(loop.run.path or loop.run.recipe, process.this().pid,
    loop:line()))
  if sync.world() then
    sys.attach_answer("e", ("note: %d ranks: lr, step, save and stop act on all; what else you change is changed on rank 0 alone\n"):format(
      sync.size()))
  end
  return self
end

-- ---- holding ----

local function serve(loop)
  visit = visit or open(loop)
  if not visit then return {what = "go"} end
  visit.loop = loop
  return visit:serve()
end

-- What rank 0's client wants now, on every rank.
local function next_order(loop)
  local wish
  sync.by_main("another prompt is attached to it", function() wish = serve(loop) end)
  return sync.of_main(function() return wish and {what = wish.what, value = wish.value} end)
end

local function carry_out(loop, wish)
  local fine, result = pcall(deeds[wish.what], loop, wish)
  if not visit then
    if not fine then error(result, 0) end
    return
  end
  visit.back = {value = result}
  if not fine then
    visit.back = {error = {code = core.is_error(result) and result.code or "state", path = false,
      message = tostring(core.is_error(result) and result.message or result), hint = core.is_error(result)
      and result.hint or nil}}
  end
end

local function hold(loop)
  local began = core.clock()
  local seed, streams = core.rng()
  local wish = next_order(loop)
  carry_out(loop, wish)
  while not goes_on[wish.what] do
    wish = next_order(loop)
    carry_out(loop, wish)
  end
  local now_seed = core.rng()
  if now_seed == seed then core.rng(seed, streams) end -- who looks draws no numbers of the run
  local seconds = core.clock() - began
  core.clock_held(seconds)
  return wish, seconds
end

local function hold_now(loop)
  if visit then visit.early = left ~= nil and left > 0 end -- Ctrl-C has ended the steps that were asked for
  at_work, left = true, nil
  local asked = sys.hold(HOLD) -- a signal ends the line that runs, and then the visit; it is the loop's to save and end
  local wish = {what = "go"}
  local seconds = 0
  if not asked then
    sys.attach_hold(true)
    wish, seconds = hold(loop)
    sys.attach_hold(false)
  end
  at_work = false
  attach.since = (attach.since or 0) + seconds
  if wish.what ~= "steps" then
    loop:report_held(attach.since)
    attach.since = nil
  end
  if wish.what == "stop" then loop:stop() end
  return true
end

-- Whether the run is to be held here.
local function is_due()
  if sync.world() then
    if left then left = left - 1 end
    return left == 0 or sync.visited()
  end
  if not left then return sys.attach_wanted() end
  left = left - 1
  return left == 0 or sys.attach_hurried()
end

--- A point between two steps of a loop; see run/loops.lua. -> whether it was held
function attach.point(loop)
  if at_work or not sys.attach_wanted or not is_due() then return false end -- a Lua that loaded the library has no gate
  return hold_now(loop)
end

observer.wants_visit = function()
  if not sys.attach_wanted then return nil end
  if left then return sys.attach_hurried() or nil end
  return sys.attach_wanted() or nil
end

-- ---- custom training loops ----

-- Nobody else looks whether such a loop was asked to end meanwhile.
local function own_point(run)
  if attach.point(loops.own(run)) and sync.hold(0) then sys.stop() end
end

--- The answer to clients that ask which runs there are.
function attach.describe(run, recipe)
  if not sys.attach_describe then return end
  sys.attach_describe(core.json_encode{recipe = recipe or run.recipe, folder = run.path, started = sys.date(),
    here = attach.here})
end

--- Lets people into a run from now on: at the end of a step at opt:step, where nobody knows a better point.
-- in   prompt: function() -> the modules of the prompt; here: the folder that the program was started in
function attach.listen(run, prompt, here)
  attach.prompt, attach.here = prompt, here
  run:on("step", function()
    if run.fits == 0 and not run.checkpoint then observer:before_launch(own_point, run) end
  end)
  run:on("settings", function() attach.describe(run) end)
end

--- The run is over: the attached client is notified.
function attach.close(why)
  if visit then visit:leave("go", why) end
end

return attach
