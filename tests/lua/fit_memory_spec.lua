-- train.fit: steps that run out of memory, in halves or with an error that says what would fit; captured steps; losses
-- that are read later. Run on the CPU with a memory limit, and on a GPU or the fake runtime.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim, data, train = capl.nn, capl.optim, capl.data, capl.train
local close, error_text = support.close, support.error_text

local CHARSET, BATCH = "0O1", 16
local records = capl.device():match("^cuda") ~= nil

local function loader(role, count)
  return data.loader{source = data.captcha{charset = CHARSET, length = 2, width = 40, height = 20, count = count,
    fixed = true, seed = 5}, role = role, batch = BATCH, workers = 0}
end

local function network(norm)
  capl.manual_seed(1)
  return nn.Sequential{
    nn.Conv2d(1, 16, 3, {padding = 1}), norm and nn.BatchNorm2d(16) or nn.Identity(), nn.ReLU(), nn.AvgPool2d(10),
    nn.Flatten(), nn.Linear(128, 2 * #CHARSET),
  }
end

local function loss_of(output, batch) return nn.cross_entropy(output:view(-1, #CHARSET), batch.target:view(-1)) end

local function job(changes)
  local model = network(changes.norm)
  local o = {model = model, train = loader("train", 4 * BATCH), val = false, loss = loss_of, precision = "fp32",
    steps = 6, optimizer = (changes.make or optim.AdamW)(model:parameters(), {lr = 0.01})}
  for key, value in pairs(changes) do
    if key ~= "norm" and key ~= "make" then o[key] = value end
  end
  return o
end

local function state_of(o)
  local out = {}
  for name, t in pairs(o.model:state_dict()) do out[name] = t:tolist() end
  return out
end

-- Bytes that a step of a whole batch takes beyond what lives between steps.
local function bytes_of_step(norm)
  local o = job{norm = norm, steps = 2}
  local live = support.live_bytes()
  capl.memory_reset_peak()
  train.fit(o)
  return capl.memory().peak - live
end

-- Runs fn with `share` of what a whole step needs.
local function limited(norm, share, fn)
  local need = bytes_of_step(norm)
  return function(...)
    local live = support.live_bytes()
    capl.memory_limit(live + math.floor(need * share))
    local out = {pcall(fn, ...)}
    capl.memory_limit(0)
    if not out[1] then error(out[2], 0) end
    return unpack(out, 2)
  end
end

describe("a batch that does not fit", function()
  after_each(function() capl.memory_limit(0) end)

  it("is done in parts whose gradients are summed", function()
    local whole, parts = job{}, job{on_oom = "split"}
    train.fit(whole)
    local result = limited(false, 0.7, train.fit)(parts)
    assert.equal(BATCH / 2, result.micro_batch)
    assert.equal(6, result.steps)
    assert.equal(6, parts.optimizer.steps)
    for name, values in pairs(state_of(whole)) do assert.is_true(close(values, state_of(parts)[name], 2e-4), name) end
  end)

  it("is halved again until it fits", function()
    local o = job{on_oom = "split", steps = 2}
    local result = limited(false, 0.35, train.fit)(o)
    assert.is_true(result.micro_batch <= BATCH / 4, tostring(result.micro_batch))
  end)

  it("leaves no trace: batch norm and dropout are those of the parts alone", function()
    local o = job{norm = true, on_oom = "split", steps = 1, make = optim.SGD}
    limited(true, 0.7, train.fit)(o)
    -- The same by hand, from the same beginning.
    local model = network(true)
    local opt, step_batch = optim.SGD(model:parameters(), {lr = 0.01}), loader("train", 4 * BATCH):epoch(1)()
    for part = 0, 1 do
      local image = step_batch.image:narrow(1, 1 + part * BATCH / 2, BATCH / 2)
      local target = step_batch.target:narrow(1, 1 + part * BATCH / 2, BATCH / 2)
      opt:backward(loss_of(model(image), {target = target}) * 0.5)
    end
    opt:step()
    assert.same(state_of{model = model}, state_of(o))
    assert.equal(2, o.model[2].batches)
  end)

  it("stops with what would fit, when it may not be split", function()
    local o = job{steps = 2}
    local text = error_text(limited(false, 0.7, train.fit), o)
    assert.matches(("train.fit: a batch of %d does not fit: "):format(BATCH), text, 1, true)
    assert.matches("is out of memory: asked for", text, 1, true)
    local count = tonumber(text:match("hint: a batch of about (%d+) would fit"))
    assert.is_true(count ~= nil and count >= BATCH / 4 and count < BATCH, text)
    assert.matches('on_oom = "split" in train.fit makes smaller steps of a batch', text, 1, true)
  end)

  it("stops when not even one sample fits", function()
    local text = error_text(limited(false, 0.055, train.fit), job{on_oom = "split", steps = 1})
    assert.matches("train.fit: a batch of %d+ does not fit", text)
  end)

  it("leaves the optimizer between no two steps", function()
    local o = job{on_oom = "split", steps = 1}
    local counted = 0
    local former = o.optimizer.update
    o.optimizer.update = function(...)
      counted = counted + 1
      return former(...)
    end
    limited(false, 0.7, train.fit)(o)
    assert.equal(1, counted)
    assert.equal(1, o.optimizer.steps)
  end)
end)

describe("a card without memory left", function()
  -- Runs Lua in the program on a card of so many bytes (the fake runtime of tests/cuda only). -> output
  local function run(bytes, code)
    local pipe = assert(io.popen(("CAPL_SHIM_MEMORY=%d %s -e '%s' 2>&1"):format(bytes, os.getenv("CAPL_BIN"), code)))
    local out = pipe:read("*a")
    pipe:close()
    return out
  end

  it("says what was asked for, what is in use, and what the driver says is free", function()
    if not records then return end
    local out = run(30e6, "local a = capl.zeros(4000000) local b = capl.zeros(4000000)")
    if out == "" then return end -- a real card has more
    assert.truthy(out:find("zeros: cuda:0 is out of memory: asked for 16.0 MB, 16.8 MB in use, peak 16.8 MB, 0.0 MB " ..
      "cached; "
      .. "13.2 of 30.0 MB free on the card (other programs and the driver use 0.0 MB)", 1, true), out)
  end)

  it("is freed of caches and garbage first", function()
    if not records then return end
    local out = run(30e6, "for i = 1, 8 do local b = capl.zeros(500000 * i) end collectgarbage() local m = " ..
      "capl.memory() "
      .. "print(m.peak <= m.card_total, m.card_free <= m.card_total)")
    assert.equal("true\ttrue\n", out)
  end)
end)

describe("options of train.fit", function()
  it("name what is allowed", function()
    assert.matches("unknown capture 'allways'", error_text(function() train.fit(job{capture = "allways"}) end), 1, true)
    assert.matches("unknown on_oom 'splt'; did you mean 'split'?",
      error_text(function() train.fit(job{on_oom = "splt"}) end), 1, true)
  end)
end)

describe("a captured train.fit", function()
  it("equals the plain one", function()
    local results = {}
    for i, captured in ipairs{false, "auto", true} do
      local o = job{norm = true, capture = captured, steps = 7}
      results[i] = train.fit(o)
      results[i].state = state_of(o)
    end
    for i = 2, 3 do assert.same(results[1].state, results[i].state) end
    local before = results[1].captured_steps
    assert.equal(before + (records and 4 or 0), results[2].captured_steps)
  end)

  it("goes on as it is where the loss reads values, unless it was asked for", function()
    local function reading(output, batch)
      local loss = loss_of(output, batch)
      assert(loss:item() > 0)
      return loss
    end
    if records then assert.equal(4, train.fit(job{loss = reading, steps = 4}).steps) end
    assert.matches("values are read by the host inside a captured step", error_text(function()
      train.fit(job{loss = reading, steps = 4, capture = true})
    end), 1, true)
  end)
end)

describe("losses", function()
  it("that are not finite stop the run, whenever they arrive", function()
    local n = 0
    local function bad(output, batch)
      n = n + 1
      return loss_of(output, batch) * (n == 3 and 0 / 0 or 1)
    end
    local text = error_text(function() train.fit(job{loss = bad, steps = 5, log_every = 1, capture = false}) end)
    assert.matches("train.fit: the loss of step 3 is %-?nan", text)
  end)
end)
