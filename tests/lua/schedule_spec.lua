-- augment.schedule: what it refuses, what a loader makes of it, metrics, state, and what it reports.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local augment, data = capl.augment, capl.data

local function refused(message, list)
  local text = support.error_text(augment.schedule, list)
  assert.equal("augment.schedule: " .. message, (text:gsub("^LINE: ", "")))
end

local function loader(schedule, opts)
  opts = opts or {}
  return data.loader{source = opts.source or data.captcha{count = 24, seed = 3}, role = opts.role or "train", batch = 4,
    workers = opts.workers or 0, augment = schedule, dtype = "u8"}
end

local function sum(batch) return batch.image:to("f32"):sum():item() end

local function sums(l, epoch)
  local out = {}
  for batch in l:epoch(epoch) do out[#out + 1] = sum(batch) end
  return out
end

describe("augment.schedule refuses", function()
  it("what is no list of stages", function()
    local hint = '\n  hint: augment.schedule{{augment = "minimal"}, {from = {epoch = 3}, augment = "strong"}}'
    refused("takes a list of stages" .. hint, nil)
    refused("takes a list of stages" .. hint, {})
    refused("takes a list of stages, and has an entry ramp\n  hint: each stage is a table", {{}, ramp = {epochs = 2}})
    refused("stage 2: it is a table, not a string", {{}, "strong"})
  end)

  it("keys it does not know", function()
    assert.equal("LINE: augment.schedule: stage 1: unknown option 'agument'; did you mean 'augment'?",
      support.error_text(augment.schedule, {{agument = {}}}))
    assert.equal("LINE: augment.schedule: stage 2.from: unknown option 'epcoh'; did you mean 'epoch'?",
      support.error_text(augment.schedule, {{}, {from = {epcoh = 3}}}))
    assert.equal("LINE: augment.schedule: stage 1.difficulty: unknown option 'lenght'; did you mean 'length'?",
      support.error_text(augment.schedule, {{difficulty = {lenght = 3}}}))
    assert.equal("LINE: augment.schedule: stage 2.ramp: unknown shape 'cosin'; did you mean 'cosine'?",
      support.error_text(augment.schedule, {{}, {from = {epoch = 2}, ramp = {epochs = 1, shape = "cosin"}}}))
  end)

  it("a stage that does not say when it begins, or says it twice", function()
    local example = '\n  hint: from = {epoch = 3}, {step = 1000} or {metric = "exact", above = 0.9}'
    refused("stage 2: its start is missing" .. example, {{}, {augment = {rotate = 3}}})
    refused("stage 2: its from is empty" .. example, {{}, {from = {}}})
    refused("stage 2: epoch and step are both given as its start\n  hint: give one of them",
      {{}, {from = {epoch = 2, step = 3}}})
    refused("stage 2: above and below are of a metric, and from names none" .. example,
      {{}, {from = {epoch = 2, above = 3}}})
    refused("stage 2: give above or below for the metric\n  hint: " ..
      'from = {metric = "exact", above = 0.9}', {{}, {from = {metric = "exact"}}})
    refused("stage 1: it starts with the run\n  hint: leave its from out; a first stage {} leaves images as they are",
      {{from = {epoch = 2}}})
  end)

  it("stages out of order", function()
    refused("stage 3: it starts at epoch 3, and stage 2 before it at epoch 4\n  hint: stages must be in the order of their start",
      {{}, {from = {epoch = 4}}, {from = {epoch = 3}}})
    refused("stage 2: it starts at epoch 1; the first stage already starts at 1", {{}, {from = {epoch = 1}}})
    refused("stage 2: it starts at step 0; the first stage already starts at 0", {{}, {from = {step = 0}}})
    refused("stage 2: it starts at step 1e+18, which does not exist", {{}, {from = {step = 1e18}}})
  end)

  it("ramps that come from nowhere, take no time, or take longer than their stage", function()
    refused("stage 1: nothing comes before it that it could come in from\n  hint: give the ramp to a later stage",
      {{ramp = {epochs = 2}}})
    refused("stage 2: its ramp takes 0 epochs\n  hint: it is above 0; without a ramp the stage comes at once",
      {{}, {from = {epoch = 2}, ramp = {epochs = 0}}})
    refused('stage 2: its ramp takes a number of epochs or of steps; give one of the two\n  hint: ramp = {epochs = 2, shape = "cosine"}',
      {{}, {from = {epoch = 2}, ramp = {shape = "cosine"}}})
    refused("stage 2: its ramp takes 3 epochs, but the stage lasts 2\n  hint: shorten the ramp, or start the next stage later",
      {{}, {from = {epoch = 2}, ramp = {epochs = 3}}, {from = {epoch = 4}}})
  end)

  it("numbers that mean nothing", function()
    refused("stage 1: length runs backwards: 5 to 3", {{difficulty = {length = {5, 3}}}})
    refused("stage 1: length is a number of characters or {shortest, longest}", {{difficulty = {length = {3}}}})
    refused("stage 1: noise is a share, 0 to 1, got 2", {{difficulty = {noise = 2}}})
    refused("stage 2: exact never gets above 1.5\n  hint: exact is a share, 0 to 1",
      {{}, {from = {metric = "exact", above = 1.5}}})
    refused('stage 1: augment is a table of ranges, the name of a preset, or false\n  hint: augment = "strong"',
      {{augment = true}})
    refused("stage 1: difficulty is a table {length =, charset =, noise =, warp =}, or false for all of it",
      {{difficulty = true}})
  end)
end)

describe("a loader with a schedule", function()
  it("refuses one for validation, one that has another loader, and an augmentation that is none", function()
    local s = augment.schedule{{augment = {rotate = 3}}}
    assert.equal("LINE: data.loader: a schedule is for training, and role is \"val\"\n  hint: give it to the train loader alone",
      support.error_text(loader, s, {role = "val"}))
    loader(s)
    assert.equal("LINE: augment.schedule: this schedule is used by another loader\n  hint: create one for each: it has " ..
      "state", support.error_text(loader, s))
    local text = support.error_text(augment.schedule, {{}, {from = {epoch = 2}, augment = {rotat = 3}}})
    assert.truthy(text:find("augment.schedule: stage 2: ", 1, true) and text:find("unknown option 'rotat'", 1, true),
      text)
    text = support.error_text(augment.schedule, {{}, {from = {epoch = 2}, augment = {rotate = {9, 3}}}})
    assert.equal("LINE: augment.schedule: stage 2: rotate runs backwards: 9 to 3", text)
  end)

  it("refuses difficulty where the source has none, and epochs where they never end", function()
    local easy = {{difficulty = {charset = 0.5}}}
    assert.truthy(support.error_text(loader, augment.schedule(easy), {source = data.captcha{count = 24, fixed = true}})
      :find("stage 1: the source is fixed, the same images in every epoch, and difficulty would change them", 1, true))
    assert.truthy(support.error_text(loader, augment.schedule(easy), {source = data.faces{size = 64, count = 24}})
      :find("stage 1: the source has no difficulty; only data.captcha has one", 1, true))
    assert.truthy(support.error_text(loader, augment.schedule{{}, {from = {epoch = 2}}}, {source = data.captcha{}})
      :find("stage 2 counts epochs, but the source is endless: its first epoch does not end", 1, true))
    assert.truthy(support.error_text(loader, augment.schedule{{difficulty = {length = {2, 3}}}})
      :find("stage 1: length is 2 to 3; the source draws 4 to 4 characters", 1, true))
    assert.truthy(support.error_text(loader,
      augment.schedule{{}, {from = {step = 5}, ramp = {steps = 4}, augment = {rotate = 3}},
      {from = {epoch = 2}, augment = {rotate = 9}}}):find(
      "the ramp of stage 2 takes 4 steps, but stage 3 starts 1 steps after it", 1, true))
  end)

  it("makes batches by their stage", function()
    local plain = sums(loader(nil), 2)
    local l = loader(augment.schedule{{}, {from = {step = 9}, augment = {rotate = {5, 9}}}})
    local staged = sums(l, 2)
    for i = 1, 6 do assert.equal(i <= 3, plain[i] == staged[i], "batch " .. i) end
    assert.equal(12, l:stats().augmented)
  end)

  it("keeps what a stage does not say, and switches off what it calls false", function()
    local l = loader(augment.schedule{{augment = {rotate = 5}, difficulty = {noise = 0.5}},
      {from = {epoch = 2}, difficulty = {warp = 0}}, {from = {epoch = 3}, augment = false, difficulty = false}})
    assert.same({rotate = {-5, 5, 1}}, l.schedule:at(6).augment)
    assert.same({length = {4, 4}, charset = {1, 1}, noise = {0.5, 0.5}, warp = {0, 0}}, l.schedule:at(6).difficulty)
    assert.same({}, l.schedule:at(12).augment)
    assert.same({length = {4, 4}, charset = {1, 1}, noise = {1, 1}, warp = {1, 1}}, l.schedule:at(12).difficulty)
  end)

  it("moves ranges along a ramp", function()
    local l = loader(augment.schedule{{augment = {rotate = 4}},
      {from = {step = 4}, augment = {rotate = 12}, ramp = {steps = 8}}})
    for step, expected in pairs{[3] = 4, [4] = 4, [6] = 6, [8] = 8, [12] = 12, [99] = 12} do
      assert.same({-expected, expected, 1}, l.schedule:at(step).augment.rotate)
    end
  end)
end)

describe("a stage with a metric", function()
  local function waiting()
    return augment.schedule{{}, {from = {metric = "exact", above = 0.9}, augment = {rotate = {5, 9}}}}
  end

  it("begins when the metric has got there, at a fixed distance", function()
    local s = waiting()
    local l = loader(s)
    local next = l:epoch(1)
    next()
    assert.is_nil(s:report{exact = 0.5})
    assert.same({2, 5}, {s:report{exact = 0.9}}) -- 1 batch handed out, prefetch = 2, and 2 more
    assert.is_nil(s:report{exact = 1})
    for _ = 1, 5 do next() end
    assert.same({{stage = 1, step = 0}, {stage = 2, step = 5}}, s:history())
  end)

  it("says which metric it misses", function()
    local s = waiting()
    loader(s)
    assert.equal("LINE: augment.schedule: stage 2 waits for exact, which was not reported: chars, loss\n  hint: schedule:report{exact = …}",
      support.error_text(s.report, s, {chars = 1, loss = 2}))
    assert.equal("LINE: augment.schedule: no loader has this schedule yet\n  hint: data.loader{…, augment = schedule}",
      support.error_text(function() waiting():report{exact = 1} end))
  end)

  it("gives the same batches for any number of workers, and after resuming from a state", function()
    local function run(workers, stop)
      local s, out = waiting(), {}
      local l = loader(s, {workers = workers})
      local next = l:epoch(1)
      for k = 1, 6 do
        if k == 2 then s:report{exact = 0.95} end
        if k == stop then
          local state = l:state()
          s = waiting()
          l = loader(s, {workers = 2})
          l:set_state(state)
          next = function() return l.box:next() end
        end
        out[k] = sum(next())
      end
      return out
    end
    local expected = run(0)
    assert.same(expected, run(3))
    for stop = 3, 6 do assert.same(expected, run(1, stop)) end
  end)

  it("remembers after resuming what has begun", function()
    local s = waiting()
    local l = loader(s)
    local next = l:epoch(1)
    next()
    s:report{exact = 0.95}
    for _ = 1, 5 do next() end
    local again = waiting()
    local other = loader(again)
    other:set_state(l:state())
    assert.same({{stage = 1, step = 0}, {stage = 2, step = 5}}, again:history())
    assert.same({since = {0, 5}}, again:state())
  end)
end)

describe("what a schedule tells", function()
  it("is a table of its stages", function()
    local s = augment.schedule{{augment = {rotate = 5}, name = "easy"},
      {from = {epoch = 2}, augment = {rotate = 20, noise = {0, 12}}, difficulty = {noise = 0.5},
      ramp = {epochs = 2, shape = "cosine"}},
      {from = {metric = "exact", above = 0.9}, augment = false, ramp = {steps = 10}}}
    assert.equal("augment.schedule of 3 stages", tostring(s))
    loader(s)
    assert.equal(([[
curriculum of the train loader, 6 batches an epoch:
  stage   from           comes in over     what changes
  1 easy  the beginning  at once           rotate ±5, difficulty: length 4, charset 1, noise 1, warp 1
  2       epoch 2        2 epochs, cosine  rotate ±5 -> ±20, noise 0..12, difficulty: noise 1 -> 0.5
  3       exact >= 0.9   10 steps, linear  rotate ±20 -> off, noise 0..12 -> off]]), tostring(s))
  end)

  it("is a picture with a panel for each range that changes", function()
    local path = os.tmpname()
    local s = augment.schedule{{augment = {rotate = 5, scale = 0.1}},
      {from = {epoch = 2}, augment = {rotate = 20, scale = 0.1}}}
    loader(s)
    s:draw(path, 20)
    local image = data.png_read(path)
    os.remove(path)
    assert.same({1, 3, 564, 900}, image.shape) -- stage and rotate
    assert.is_true(image:to("f32"):amin():item() < 100)
  end)
end)

describe("train.fit", function()
  local function fit(schedule, val)
    local net = capl.nn.Sequential{capl.nn.Flatten(), capl.nn.Linear(160 * 60, 4 * 36)}
    return capl.train.fit{model = net, train = loader(schedule), val = val or false, steps = 2,
      loss = function(output, batch) return capl.nn.cross_entropy(output:view(-1, 36), batch.target:view(-1)) end,
      optimizer = capl.optim.SGD(net:parameters(), {lr = 0.1})}
  end

  it("refuses a metric that nobody reports, before training", function()
    assert.truthy(support.error_text(fit, augment.schedule{{}, {from = {metric = "exact", above = 0.5}}})
      :find("stage 2 waits for exact, but nothing is evaluated: it would never start", 1, true))
    assert.truthy(support.error_text(fit, augment.schedule{{}, {from = {metric = "exakt", above = 0.5}}},
      loader(nil, {role = "val"}))
      :find("stage 2 waits for exakt, which train.fit does not report; did you mean exact?", 1, true))
  end)
end)
