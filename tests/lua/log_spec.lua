-- log_spec.lua: the files of lines that a run writes, and what becomes of them when it goes on; the plan before it.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

describe("train.Log", function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
  end)
  after_each(function() os.execute("rm -r " .. folder) end)

  local function new() return capl.train.Log {folder = folder, tensorboard = false} end

  it("writes a line and a row each, with empty cells for what a row has not", function()
    local log = new()
    log:line {step = 1, loss = 2.5, time = {load = 0.25}}
    log:line {step = 2, val_exact = 0.5}
    log:line {step = 3, loss = 1 / 0, event = 'a "b", c\nd'}
    log:close()
    assert.equal('{"loss": 2.5, "step": 1, "time": {"load": 0.25}}\n{"step": 2, "val_exact": 0.5}\n' ..
      '{"event": "a \\"b\\", c\\nd", "step": 3}\n', read(folder .. "/metrics.jsonl"))
    assert.equal('step,loss,time.load,val_exact,event\n1,2.5,0.25,,\n2,,,0.5,\n3,,,,"a ""b"", c\nd"\n',
      read(folder .. "/metrics.csv"))
  end)

  it("holds lines back for a moment and writes whole ones only", function()
    local log = new()
    log:line {step = 1, loss = 1}
    assert.is_false(exists(folder .. "/metrics.jsonl"))
    for step = 2, 300 do log:line {step = step, loss = 1} end
    local text = read(folder .. "/metrics.jsonl")
    assert.equal("\n", text:sub(-1))
    log:flush()
    assert.equal(300, select(2, read(folder .. "/metrics.jsonl"):gsub("\n", "")))
  end)

  it("is cut where a state was taken, new columns and all", function()
    local log = new()
    for step = 1, 5 do log:line {step = step, loss = step} end
    local state = log:state()
    local lines, rows = read(folder .. "/metrics.jsonl"), read(folder .. "/metrics.csv")
    for step = 6, 9 do log:line {step = step, loss = step, ['late, "it"'] = 1} end
    log:close()
    local again = new()
    assert.same({}, again:set_state(state))
    assert.equal(lines, read(folder .. "/metrics.jsonl"))
    assert.equal((rows:gsub("\n", ",\n"):gsub("loss,", 'loss,"late, ""it"""')), read(folder .. "/metrics.csv"))
    again:line {step = 6, loss = 0.5}
    again:close()
    assert.equal(6, #again:read())
    assert.equal("6,0.5,\n", read(folder .. "/metrics.csv"):match("[^\n]*\n$"))
  end)

  it("goes on behind a torn line, which the cut removes", function()
    local log = new()
    log:line {step = 1, loss = 1}
    local state = log:state()
    write(folder .. "/metrics.jsonl", read(folder .. "/metrics.jsonl") .. '{"step": 2, "lo')
    write(folder .. "/metrics.csv", read(folder .. "/metrics.csv") .. "2,0.")
    local again = new()
    again:set_state(state)
    again:line {step = 2, loss = 0.5}
    again:close()
    assert.equal(2, #again:read())
    assert.equal("step,loss\n1,1\n2,0.5\n", read(folder .. "/metrics.csv"))
  end)

  it("reports files that are not as they were, and goes on", function()
    local log = new()
    log:line {step = 1, loss = 1}
    local state = log:state()
    write(folder .. "/metrics.jsonl", "")
    local notes = new():set_state(state)
    assert.truthy(notes[1]:find("cannot shorten .*metrics.jsonl to %d+ bytes: it has 0"))
  end)

  it("adds to what an earlier loop of the run has written", function()
    local log = new()
    log:line {step = 1, loss = 1}
    log:close()
    local second = new()
    second:line {step = 1, lr = 2}
    second:close()
    assert.equal(2, #second:read())
    assert.equal("step,loss,lr\n1,1,\n1,,2\n", read(folder .. "/metrics.csv"))
  end)

  it("refuses lines without a step, unknown options and other words for tensorboard", function()
    local log = new()
    assert.truthy(support.error_text(log.line, log, {loss = 1}):find("whole number expected, got nil"))
    local loop = {step = 1}
    loop.self = loop
    assert.truthy(support.error_text(log.line, log, loop):find("metrics are nested at most 4 tables deep", 1, true))
    assert.truthy(support.error_text(log.line, log, {step = 1, 5}):find("a metric has a name, not the key 1"))
    assert.truthy(support.error_text(capl.train.Log,
      {folder = folder, tensorbord = true}):find("did you mean 'tensorboard'"))
    assert.truthy(support.error_text(capl.train.Log,
      {folder = folder, tensorboard = "on"}):find("unknown tensorboard 'on'"))
  end)

  it("writes TensorBoard's file as it was at the state", function()
    local log = capl.train.Log {folder = folder}
    log:line {step = 1, loss = 1}
    log:add(1, {{tag = "weights", tensor = capl.ones {3}}, {tag = "settings", text = "lr"}})
    local state = log:state()
    local path = folder .. "/" .. state.events.name
    local before = read(path)
    assert.equal(state.events.bytes, #before)
    log:line {step = 2, loss = 1}
    log:close()
    assert.truthy(#read(path) > #before)
    local again = capl.train.Log {folder = folder}
    again:set_state(state)
    assert.equal(before, read(path))
  end)
end)

describe("train.draw_schedule", function()
  local optim, nn = capl.optim, capl.nn
  local path
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  it("draws the rate of each group as the optimizer will find it", function()
    local model = nn.Linear(2, 2)
    local lr = optim.schedule.warmup_cosine {lr = 1, warmup = 10, total = "run"}
    local opt = optim.AdamW({{params = {model.weight}, lr = lr}, {params = {model.bias}, lr = 0.5}}, {lr = lr})
    local curves = capl.train.draw_schedule {optimizer = opt, steps = 100, path = path,
      moments = {{x = 30, label = "freeze ends"}}}
    assert.equal(2, #curves)
    assert.equal("constant", curves[2].rule)
    for i, step in ipairs(curves[1].x) do assert.equal(lr:lr(step - 1, (step - 1) / 100), curves[1].y[i]) end
    assert.equal(1, curves[1].high)
    assert.equal(0, opt.steps)
    assert.equal("\137PNG", read(path):sub(1, 4))
  end)

  it("finds the highest rate of any number of steps at once", function()
    local model = nn.Linear(2, 2)
    local lr = optim.schedule.warmup_cosine {lr = 1, warmup = 123456789, total = "run"}
    local opt, began = optim.AdamW({{params = {model.weight}, lr = lr}}, {lr = lr}), os.clock()
    local curves = capl.train.draw_schedule {optimizer = opt, steps = 1e12, path = path}
    assert.is_true(os.clock() - began < 2)
    assert.near(1, curves[1].high, 1e-6)
    assert.near(123456789, curves[1].high_step, 1e6)
  end)

  it("takes groups of one rate together, and draws a time box over its share", function()
    local a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    local opt = optim.join {optim.SGD(a:parameters(), {lr = 0.1}),
      optim.SGD({{params = {b.weight}}, {params = {b.bias}}}, {lr = 0.1})}
    local curves = capl.train.draw_schedule {optimizer = opt, path = path}
    assert.equal(2, #curves)
    assert.equal(2, curves[2].groups)
  end)

  it("refuses what it does not know", function()
    local opt = optim.SGD(nn.Linear(2, 2):parameters(), {lr = 0.1})
    assert.truthy(support.error_text(capl.train.draw_schedule,
      {optimizer = opt, step = 3, path = path}):find("did you mean 'steps'"))
    assert.truthy(support.error_text(capl.train.draw_schedule, {optimizer = opt, steps = 0, path = path})
      :find("steps must be a whole number from 1 on"))
  end)
end)
