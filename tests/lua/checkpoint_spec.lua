-- train.save, train.load and train.Checkpoint: what is saved is what comes back, to the bit; what cannot be saved is
-- refused.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local train = capl.train
local error_text = support.error_text

local path = os.tmpname()

local function there_and_back(value)
  train.save(path, value)
  return (train.load(path))
end

describe("train.save", function()
  teardown(function() os.remove(path) end)

  it("keeps numbers to the bit, also those JSON does not know", function()
    local numbers = {0.1, 1 / 3, 2 ^ 53 - 1, -2 ^ 60, 5e-324, 1.7976931348623157e308, math.huge, -math.huge, 1e-7,
      123456.789}
    assert.same(numbers, there_and_back(numbers))
    local back = there_and_back{nan = 0 / 0, zero = -0.0}
    assert.is_true(back.nan ~= back.nan)
    assert.equal(-math.huge, 1 / back.zero)
  end)

  it("keeps texts byte for byte, whatever they are", function()
    local bytes = {}
    for i = 0, 255 do bytes[i + 1] = string.char(i) end
    local texts = {table.concat(bytes), "", "验证码 é 😀", 'a "quoted" \\ word\n', "a\0b", "\200\200", "$", "${tensor}"}
    assert.same(texts, there_and_back(texts))
  end)

  it("keeps tables, lists and keys as they are", function()
    local tree = {list = {1, {2, "x"}, true, false}, ["a.b"] = {["$tensor"] = "x", ["$"] = 1}, ["$hex"] = 5, empty = {},
      ["é"] = 0, [""] = 1}
    assert.same(tree, there_and_back(tree))
  end)

  it("keeps tensors of every dtype and layout to the bit", function()
    capl.manual_seed(3)
    local w = capl.randn(4, 3, 2, 2)
    local tree = {model = {["0.weight"] = w, ["0"] = {weight = capl.ones(2)}}, turned = capl.randn(3, 5):t(),
      count = capl.tensor(7, {dtype = "i64"}), half = capl.randn(9):to("bf16"),
      none = capl.zeros(0, 4), yes = capl.tensor({1, 0}, {dtype = "u8"}),
      sha256 = capl.ones(1), again = w}
    local back = there_and_back(tree)
    for _, key in ipairs{"turned", "count", "half", "none", "yes", "sha256", "again"} do
      assert.equal(tree[key].dtype, back[key].dtype)
      assert.same(tree[key].shape, back[key].shape)
      assert.same(tree[key]:tolist(), back[key]:tolist())
    end
    assert.same(w:tolist(), back.model["0.weight"]:tolist())
    assert.same({1, 1}, back.model["0"].weight:tolist())
  end)

  it("leaves nothing behind", function()
    support.no_leak(function() there_and_back{a = capl.ones(100), b = {capl.zeros(3, 3)}} end)
  end)

  it("refuses what is no state and says where it is", function()
    assert.equal("LINE: state 'optimizer.fn': it is a function\n  hint: state is made of tables with text keys, lists, numbers, " ..
      "texts, booleans and tensors", error_text(train.save, path, {optimizer = {fn = print}}))
    assert.matches("state 'a': a key is a number, in no list", error_text(train.save, path, {a = {[1] = 1, [3] = 2}}),
      1, true)
    local loop = {}
    loop.loop = loop
    assert.matches("it may contain itself", error_text(train.save, path, loop), 1, true)
  end)

  it("says what is wrong with a file", function()
    assert.matches("cannot open /no/such: No such file or directory", error_text(train.load, "/no/such"), 1, true)
    train.save(path, {step = 1})
    local file = io.open(path, "rb")
    local bytes = file:read("*a")
    file:close()
    file = io.open(path, "wb")
    file:write(bytes:sub(1, -10))
    file:close()
    assert.matches(("the checkpoint %s is damaged: it has %d bytes of the %d it should have"):format(path, #bytes - 9,
      #bytes), error_text(train.load, path), 1, true)
  end)
end)

-- ---- loops ----

local nn, optim, data = capl.nn, capl.optim, capl.data

local function make_folder()
  local name = os.tmpname()
  os.remove(name)
  return name
end

local function remove_folder(name) os.execute("rm -rf '" .. name .. "'") end

-- What a recipe would build: the same every time.
local function build(options)
  capl.manual_seed(5)
  local o = {}
  o.model = nn.Sequential{nn.Conv2d(1, 2, 3, {stride = 4}), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2),
    nn.Linear(2 * 5 * 10, 6)}
  o.optimizer = optim.AdamW(o.model:parameters(), {lr = options and options.lr or 0.01,
    amsgrad = options and options.amsgrad})
  o.train = data.loader{source = data.captcha{charset = "0O1", length = 2, width = 40, height = 20, count = 22,
    seed = 5}, role = "train", batch = 4, workers = options and options.workers or 0, augment = {rotate = 10}, seed = 3}
  return o
end

local function loss_of(o, batch)
  return nn.cross_entropy(o.model(batch.image):view(-1, 3), batch.target:view(-1))
end

-- Trains up to so many steps, in epochs; returns the losses.
local function run_loop(o, last, ck, from)
  local losses, step, epoch = {}, from or 0, o.train:state().epoch
  epoch = math.max(epoch, 1)
  while step < last do
    for batch in o.train:epoch(epoch) do
      local loss = loss_of(o, batch)
      o.optimizer:backward_step(loss)
      losses[#losses + 1] = loss:item()
      step = step + 1
      if ck then ck:after_step() end
      if step == last then break end
    end
    epoch = epoch + 1
  end
  return losses
end

local function weights(o)
  local out = {}
  for name, tensor in pairs(o.model:state_dict()) do out[name] = tensor:tolist() end
  return out
end

local function checkpoint_of(o, where, options)
  local all = {folder = where, model = o.model, optimizer = o.optimizer, train = o.train}
  for key, value in pairs(options or {}) do all[key] = value end
  return train.Checkpoint(all)
end

describe("train.Checkpoint", function()
  local where
  before_each(function() where = make_folder() end)
  after_each(function() remove_folder(where) end)

  local function names()
    local out = {}
    for name in io.popen("ls '" .. where .. "'"):lines() do out[#out + 1] = name end
    return out
  end

  it("goes on to the bit, in the middle of an epoch, with other numbers of threads", function()
    local whole = build()
    local all = run_loop(whole, 14)
    for _, stop in ipairs{1, 6, 9} do
      local first = build{workers = 2}
      local ck = checkpoint_of(first, where)
      run_loop(first, stop, ck)
      ck:save()
      local second = build{workers = 1}
      assert.equal(stop, (checkpoint_of(second, where):resume(where)))
      local rest = run_loop(second, 14, nil, stop)
      assert.same({unpack(all, stop + 1)}, rest)
      assert.same(weights(whole), weights(second))
      remove_folder(where)
    end
  end)

  it("goes on with joined optimizers, clipping, schedules and a loss scale", function()
    local function joined()
      local o = build()
      local matrices, others = {}, {}
      for _, p in ipairs(o.model:parameters()) do table.insert(p.ndim == 2 and matrices or others, p) end
      o.optimizer = optim.join({optim.Muon(matrices, {lr = optim.schedule.cosine{lr = 0.02, T_max = 12}}),
        optim.AdamW(others, {lr = 0.01, clip_norm = 1, amsgrad = true})},
        {loss_scale = {init_scale = 1024, growth_interval = 3}})
      return o
    end
    local whole = joined()
    local all = run_loop(whole, 10)
    local first = joined()
    run_loop(first, 5, checkpoint_of(first, where, {every = 5}))
    local second = joined()
    assert.equal(5, (checkpoint_of(second, where):resume(where)))
    assert.same({unpack(all, 6)}, run_loop(second, 10, nil, 5))
    assert.same(weights(whole), weights(second))
    assert.equal(whole.optimizer.loss_scale, second.optimizer.loss_scale)
  end)

  it("changes nothing by saving", function()
    local plain, saved = build(), build()
    local losses = run_loop(plain, 8)
    local seen = build()
    assert.same(losses, run_loop(seen, 8, checkpoint_of(seen, where, {every = 1})))
    assert.same(weights(plain), weights(seen))
    assert.is_true(#names() == 2 and saved ~= nil)
  end)

  it("keeps the last ones, those of every so many steps, and the best", function()
    local o = build()
    local ck = checkpoint_of(o, where, {every = 1, keep = 2, every_n = 4})
    run_loop(o, 11, ck)
    assert.same({"step-000004.capl", "step-000008.capl", "step-000010.capl", "step-000011.capl"}, names())
    remove_folder(where)
    o = build()
    ck = checkpoint_of(o, where, {every = 1000, keep = 1, top_k = 2})
    for step, metric in ipairs{0.5, 0.9, 0.7, 0.1, 0.8} do
      run_loop(o, step, ck, step - 1)
      ck:evaluated(metric)
    end
    ck.step = 6
    ck:save()
    assert.same({"step-000002.capl", "step-000005.capl", "step-000006.capl"}, names())
  end)

  it("reads the best ones of a checkpoint from before they were called value", function()
    local o, options = build(), {every = 1000, top_k = 2}
    local ck = checkpoint_of(o, where, options)
    run_loop(o, 1, ck)
    ck.top = {{step = 1, figure = 0.9}}
    ck:save()
    o = build()
    ck = checkpoint_of(o, where, options)
    ck:resume(where)
    run_loop(o, 2, ck, 1)
    ck:evaluated(0.5)
    assert.same({{step = 1, value = 0.9, figure = 0.9}, {step = 2, value = 0.5}}, ck.top)
  end)

  it("falls back to the one before when the newest is damaged", function()
    local o = build()
    run_loop(o, 5, checkpoint_of(o, where, {every = 1}))
    local file = io.open(where .. "/step-000005.capl", "r+b")
    file:seek("set", 3000)
    file:write("x")
    file:close()
    local again = build()
    assert.equal(4, (checkpoint_of(again, where):resume(where)))
    file = io.open(where .. "/step-000004.capl", "wb")
    file:close()
    assert.matches("step-000004.capl is damaged: it is empty", error_text(function()
      local step = checkpoint_of(build(), where):resume(where)
      return step
    end), 1, true)
  end)

  it("saves anything that has state", function()
    local counter = {n = 3, state = function(self) return {n = self.n, list = {1, 0.5, "x"}} end,
      set_state = function(self, s) self.n = s.n end}
    local o = build()
    local ck = checkpoint_of(o, where, {counter = counter})
    ck:save()
    counter.n = 9
    ck:resume(where)
    assert.equal(3, counter.n)
  end)

  it("lets a rate that the recipe has changed stay, and one that the loop has changed too", function()
    local o = build()
    local ck = checkpoint_of(o, where)
    o.optimizer:set_lr(0.001)
    ck:save()
    local same = build()
    checkpoint_of(same, where):resume(where)
    assert.equal(0.001, same.optimizer.lr)
    local other = build{lr = 0.5}
    checkpoint_of(other, where):resume(where)
    assert.equal(0.5, other.optimizer.lr)
  end)

  it("refuses to go on with other data, and says what differs", function()
    local o = build()
    checkpoint_of(o, where):save()
    local saved = train.load(where .. "/step-000000.capl")
    saved.facts.isa, saved.facts.threads = "avx9", 512
    train.save(where .. "/step-000000.capl", saved)
    local text = error_text(function()
      local step = checkpoint_of(build(), where):resume(where)
      return step
    end)
    assert.matches("would not be bit-exact", text, 1, true)
    assert.matches("instruction set: %w+, was avx9", text)
    assert.matches("compute threads: %d+, was 512", text)
    assert.matches("--inexact allows it", text, 1, true)
  end)

  it("goes on with a schedule where an override of lr had taken its place", function()
    local first = build{lr = optim.schedule.cosine{lr = 0.01, T_max = 8}}
    first.optimizer.groups[1].lr = 0.002
    local ck = checkpoint_of(first, where)
    run_loop(first, 2, ck)
    ck:save()
    local second = build{lr = optim.schedule.cosine{lr = 0.01, T_max = 8}}
    assert.equal(2, (checkpoint_of(second, where):resume(where)))
  end)

  it("keeps the recipe's value of an option that the version before did not save", function()
    local o = build()
    run_loop(o, 2, checkpoint_of(o, where, {every = 2}))
    local file = where .. "/step-000002.capl"
    local saved = train.load(file)
    saved.objects.optimizer.groups[1].amsgrad = nil
    train.save(file, saved)
    o = build{amsgrad = true}
    assert.equal(2, (checkpoint_of(o, where):resume(where)))
    assert.is_true(o.optimizer.groups[1].amsgrad)
    assert.is_true(#run_loop(o, 3, nil, 2) == 1 and o.optimizer.state[o.model:parameters()[1]].max_exp_avg_sq ~= nil)
  end)

  it("refuses values that no run has saved, and names file and place", function()
    local file = where .. "/step-000000.capl"
    local function refused(change)
      local o = build()
      o.optimizer:make_states()
      checkpoint_of(o, where, {ema = train.EMA(o.model), stop = train.EarlyStopping{patience = 2}}):save()
      local saved = train.load(file)
      change(saved, saved.objects)
      train.save(file, saved)
      o = build()
      local ck = checkpoint_of(o, where, {ema = train.EMA(o.model), stop = train.EarlyStopping{patience = 2}})
      return error_text(function()
        local step = ck:resume(where)
        return step
      end)
    end
    local cases = {
      ["objects.optimizer.groups.1.lr must be a number, got table"] = function(_, objects)
        objects.optimizer.groups[1].lr = {} end,
      ["objects.optimizer.groups.1.params must be left out, got 3"] = function(_, objects)
        objects.optimizer.groups[1].params = 3 end,
      ["objects.optimizer.state.1.exp_avg must be (2,1,3,3), got (3)"] = function(_, objects)
        objects.optimizer.state[1].exp_avg = capl.ones(3) end,
      ["objects.optimizer.state must be a table, got 'x'"] = function(_, objects) objects.optimizer.state = "x" end,
      ["objects.train.position must be a whole number from 0 on, got -1"] = function(_, objects)
        objects.train.position = -1 end,
      ["objects.ema.updates must be a whole number from 0 on, got 0.5"] = function(_, objects)
        objects.ema.updates = 0.5 end,
      ["objects.stop.best must be a number, got true"] = function(_, objects) objects.stop.best = true end,
      ["facts.data must be a table, got 3"] = function(saved) saved.facts.data = 3 end,
      ["top.1: it must be {step = number, value = number}"] = function(saved) saved.top = {{step = 1}} end,
    }
    for text, change in pairs(cases) do
      local said = refused(change)
      assert.matches(file .. " holds other state than that of this run: " .. text, said, 1, true)
      assert.matches("hint: the file was changed, or another program has written it; --resume=FILE", said, 1, true)
    end
  end)

  it("says what it cannot save, and which cadence it does not know", function()
    local model = build().model
    local function checkpoint(options)
      return error_text(function()
        local ck = train.Checkpoint(options)
        return ck
      end)
    end
    assert.matches("ema is a number without state() and set_state(), so it cannot be saved",
      checkpoint{model = model, ema = 3}, 1, true)
    assert.matches("evrey is a number without state() and set_state(), so it cannot be saved\n  hint: did you mean every?",
      checkpoint{model = model, evrey = 3}, 1, true)
    assert.matches("there is nothing to save", checkpoint{}, 1, true)
    assert.matches('every is a number of steps, a time such as "5m", "eval" or "auto", got \'often\'',
      checkpoint{model = model, every = "often"}, 1, true)
    assert.matches("every is a number of steps from 1 on", checkpoint{model = model, every = 0}, 1, true)
    assert.matches("keep must be a whole number from 1 on, got 0", checkpoint{model = model, keep = 0}, 1, true)
  end)
end)

describe("train.load_weights", function()
  it("takes what fits, and reports for every tensor what became of it", function()
    local file = os.tmpname()
    capl.manual_seed(1)
    local a = nn.Sequential{nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)}
    local state = {}
    for name, tensor in pairs(a:state_dict()) do state["module." .. name] = tensor end
    state["module.extra"] = capl.ones(2)
    capl.io.save(file, state)
    local b = nn.Sequential{nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.Linear(5, 1)}
    local before = b:state_dict()["2.weight"]:tolist()
    local report = train.load_weights(b, file, {quiet = true})
    local function kinds(list)
      local out = {}
      for i, e in ipairs(list) do out[i] = e.name end
      return out
    end
    assert.same({"0.bias", "0.weight"}, kinds(report.taken))
    assert.same({"2.bias", "2.weight"}, kinds(report.shape))
    assert.same({"3.bias", "3.weight"}, kinds(report.missing))
    assert.same({"extra"}, kinds(report.unused))
    assert.equal("module.", report.prefix)
    assert.same(a:state_dict()["0.weight"]:tolist(), b:state_dict()["0.weight"]:tolist())
    assert.same(before, b:state_dict()["2.weight"]:tolist())
    local function load(model, options)
      return error_text(function()
        local r = train.load_weights(model, file, options)
        return r
      end)
    end
    assert.matches("does not fit the model", load(b, {strict = true, quiet = true}), 1, true)
    assert.matches("no tensor of .* has a name and a shape of this model", load(nn.Linear(7, 7), {quiet = true}))
    local map = {["module.0.weight"] = "weight", ["module.0.bias"] = "bias"}
    assert.equal(2, #train.load_weights(nn.Linear(3, 4), file, {map = map, quiet = true}).taken)
    assert.is_nil(train.load_weights(b, "none"))
    os.remove(file)
  end)
end)
