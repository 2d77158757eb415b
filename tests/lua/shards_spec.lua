-- Steps made of shards: the tree that adds them up, whatever the ranks; the step beside a plain one; what is refused.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim, train = capl.nn, capl.optim, capl.train
local tree = getfenv(capl.manual_seed).require "dist.tree_reduce"

local function brackets(a, b) return "(" .. a .. "+" .. b .. ")" end

-- How a number of shards is added up on so many ranks.
local function sum_of(shards, ranks)
  local whole = tree.new(shards, brackets)
  for rank = 0, ranks - 1 do
    local own = tree.new(shards, brackets)
    for k = 0, shards / ranks - 1 do own:add(rank * shards / ranks + k, tostring(rank * shards / ranks + k)) end
    for i, node in ipairs(tree.nodes_of(shards, rank, ranks)) do
      assert.equal(node.level, own.nodes[i].level)
      assert.equal(node.at, own.nodes[i].at)
      whole:join(node.level, node.at, own.nodes[i].value)
    end
  end
  return whole:sum()
end

describe("sums over shards", function()
  it("are made in one order on any number of ranks", function()
    assert.equal("((0+1)+(2+3))", sum_of(4, 1))
    assert.equal("(((0+1)+(2+3))+(4+5))", sum_of(6, 1))
    assert.equal("(((0+1)+(2+3))+4)", sum_of(5, 5))
    for shards = 1, 40 do
      for ranks = 2, shards do
        if shards % ranks == 0 then assert.equal(sum_of(shards, 1), sum_of(shards, ranks)) end
      end
    end
  end)

  it("leave one number of each rank to be exchanged where ranks and shards are powers of two", function()
    for rank = 0, 3 do assert.same({{level = 1, at = rank, value = true}}, tree.nodes_of(8, rank, 4)) end
  end)
end)

describe("steps of shards", function()
  local images, labels

  before_each(function()
    capl.deterministic(true)
    capl.manual_seed(3)
    local numbers = {}
    for i = 1, 24 do numbers[i] = i * 7 % 4 end
    images, labels = capl.randn{24, 1, 8, 8}, capl.tensor(numbers, {dtype = "i32"})
  end)
  after_each(function() capl.deterministic(false) end)

  local function build(norm, p)
    capl.manual_seed(4)
    local net = nn.Sequential{nn.Conv2d(1, 4, 3, {padding = 1}), norm and nn.BatchNorm2d(4) or nn.Identity(), nn.ReLU(),
      nn.Flatten(), nn.Dropout(p or 0), nn.Linear(256, 4)}
    return net, optim.AdamW(net:parameters(), {lr = 1e-2, clip_norm = 1})
  end

  local loss_of = nn.CrossEntropyLoss()

  local function batch_of(first, count)
    return {count = count, image = images:narrow(1, first, count), target = labels:narrow(1, first, count)}
  end

  local function run(shards, o)
    o = o or {}
    local net, opt = build(o.norm, o.dropout)
    local losses = {}
    for step = 1, o.steps or 3 do
      local batch = batch_of(1, o.count or 24)
      local function fn(part) return loss_of(net(part.image), part.target) end
      losses[step] = shards and train.sharded_step(opt, batch, fn, {shards = shards, model = net}) or fn(batch)
      if not shards then opt:backward_step(losses[step]) end
    end
    return net, losses
  end

  local function weights(net)
    local out = {}
    for name, p in net:named_parameters() do out[name] = p:detach():clone() end
    return out
  end

  local function farthest(a, b)
    local most = 0
    for name, x in pairs(a) do most = math.max(most, (x - b[name]):abs():max():item()) end
    return most
  end

  it("are plain steps within rounding, also of batches that no number of shards divides", function()
    for _, count in ipairs{24, 19} do
      local plain = weights((run(nil, {count = count})))
      for _, shards in ipairs{1, 2, 3, 5, 6} do
        local net, losses = run(shards, {count = count})
        assert.is_true(farthest(plain, weights(net)) < 2e-5, ("%d shards of %d"):format(shards, count))
        assert.is_true(losses[1].ndim == 0)
      end
    end
    local _, plain = run(nil)
    local _, sharded = run(4)
    for i = 1, 3 do assert.near(plain[i]:item(), sharded[i]:item(), 1e-5) end
  end)

  it("keep statistics of each shard, whose mean the layer remembers", function()
    local net = run(4, {norm = true, steps = 1})
    local fresh = build(true)
    local mean, var, start = capl.zeros(4), capl.zeros(4), weights(fresh)
    for s = 0, 3 do
      local one = build(true)
      for name, p in one:named_parameters() do assert.equal(0, (p - start[name]):abs():max():item()) end
      one(images:narrow(1, s * 6 + 1, 6))
      mean, var = mean + one[2].running_mean * 0.25, var + one[2].running_var * 0.25
    end
    assert.is_true((net[2].running_mean - mean):abs():max():item() < 1e-6)
    assert.is_true((net[2].running_var - var):abs():max():item() < 1e-6)
    assert.equal(1, net[2].batches)
  end)

  it("leave what is frozen as it is, to the last bit", function()
    local net, opt = build(true)
    net[2].running_mean:fill_(0.1)
    train.freeze(net, {"0", "1"})
    local first = net[1].weight:detach():clone()
    train.sharded_step(opt, batch_of(1, 24), function(part)
      return loss_of(net(part.image), part.target) end, {shards = 3, model = net})
    assert.equal(0, (net[2].running_mean - capl.full({4}, 0.1)):abs():max():item())
    assert.equal(0, (net[1].weight - first):abs():max():item())
  end)

  it("drop other elements in each shard, and count random streams as one shard does", function()
    local same = capl.ones{4, 1, 8, 8}
    local seen = {}
    local net, opt = build(false, 0.5)
    local batch = {count = 8, image = capl.cat{same, same}, target = labels:narrow(1, 1, 8)}
    local drop = nn.Dropout(0.5)
    capl.manual_seed(9)
    train.sharded_step(opt, batch, function(part)
      seen[#seen + 1] = drop(part.image)
      return loss_of(net(part.image), part.target)
    end, {shards = 2, model = net})
    local after = capl.rand(1):item()
    assert.is_true((seen[1] - seen[2]):abs():max():item() > 0)
    capl.manual_seed(9)
    drop(same)
    net(same)
    assert.equal(capl.rand(1):item(), after)
  end)

  it("give no gradient to parameters that no shard has reached", function()
    local net = build()
    local spare = nn.Parameter(capl.ones(3))
    local opt = optim.SGD({net[1].weight, spare}, {lr = 0.1})
    local before = net[1].weight:detach():clone()
    train.sharded_step(opt, batch_of(1, 24), function(part)
      return loss_of(net(part.image), part.target) end, {shards = 2, model = net})
    assert.is_true((net[1].weight - before):abs():max():item() > 0)
    assert.same({1, 1, 1}, spare:tolist())
    assert.is_nil(opt.state[spare])
  end)

  it("are a key of train.fit, which says what does not go with it", function()
    local net, opt = build()
    local source = capl.data.tensors{image = (images * 20 + 100):to("u8"), target = labels, classes = 4}
    local loader = capl.data.loader{source = source, role = "train", batch = 6}
    local function fit(more)
      local function loss(y, batch) return loss_of(y, batch.target) end
      local o = {model = net, train = loader, val = false, optimizer = opt, steps = 2, loss = loss}
      for key, value in pairs(more) do o[key] = value end
      return support.error_text(train.fit, o)
    end
    assert.matches("a batch of 6 on all ranks together makes no 4 shards of one size\n  hint: for example batch = 8",
      fit{shards = 4})
    assert.matches("shards = 2 and on_oom = \"split\" both cut a batch into parts", fit{shards = 2, on_oom = "split"})
    assert.matches("each of the 2 shards of a step is a separate pass", fit{shards = 2, capture = true})
    assert.matches("deterministic is not on", fit{shards = 2, deterministic = false})
    assert.matches("shards must be a whole number", fit{shards = 0.5})
  end)

  it("say what does not go together", function()
    local net, opt = build()
    local function step(opts, count)
      opts.model = opts.model or net
      return support.error_text(train.sharded_step, opt, batch_of(1, count or 24), function(part)
        return loss_of(net(part.image), part.target)
      end, opts)
    end
    assert.matches("the number of shards is missing", step{})
    assert.matches("a batch of 3 samples is less than the 4 shards of this rank", step({shards = 4}, 3))
    capl.deterministic(false)
    assert.matches("deterministic is not on", step{shards = 2})
  end)
end)
