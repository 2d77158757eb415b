-- Loaders of the ranks of a world: blocks, even rounds for training, each sample once for metrics, and going on
-- elsewhere.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data = capl.data

local function world(rank, size) return setmetatable({rank = rank, size = size}, getmetatable(capl.distributed())) end

local function source_of(count)
  return data.tensors{target = capl.arange(count, {dtype = "i32"}), classes = count}
end

local function loader_of(o, rank, size)
  return data.loader{source = o.source, role = o.role or "train", batch = o.batch, workers = 0, shuffle = o.shuffle,
    drop_last = o.drop_last, shard = world(rank, size), seed = 7}
end

-- The ids that a loader still gives in an epoch, batch by batch: {ids =, padded =}.
local function batches_of(loader, epoch, most)
  local out = {}
  for batch in loader:epoch(epoch or 1) do
    out[#out + 1] = {ids = batch.ids, padded = batch.padded}
    if #out == most then break end
  end
  return out
end

local function all_ranks(o, size, epoch)
  local out = {}
  for rank = 0, size - 1 do out[rank + 1] = batches_of(loader_of(o, rank, size), epoch) end
  return out
end

-- The rows of a step over all ranks, without repeated ones.
local function step_of(ranks, t)
  local ids = {}
  for _, batches in ipairs(ranks) do
    local b = batches[t]
    for i = 1, b and #b.ids - b.padded or 0 do ids[#ids + 1] = b.ids[i] end
  end
  return ids
end

local function joined(ranks)
  local ids = {}
  for t = 1, #ranks[1] do
    for _, id in ipairs(step_of(ranks, t)) do ids[#ids + 1] = id end
  end
  return ids
end

local counts = {1, 2, 3, 5, 16, 23, 24, 25, 48, 50, 97}

describe("the loaders of several ranks", function()
  it("give every rank equally many batches for training, and each sample to one of them", function()
    for _, count in ipairs(counts) do
      local source = source_of(count)
      for size = 1, 4 do
        local ranks, seen = all_ranks({source = source, batch = 6}, size), {}
        for _, batches in ipairs(ranks) do assert.equal(#ranks[1], #batches) end
        for _, id in ipairs(joined(ranks)) do seen[id] = (seen[id] or 0) + 1 end
        for id = 0, count - 1 do assert.equal(1, seen[id], ("sample %d of %d on %d ranks"):format(id, count, size)) end
      end
    end
  end)

  it("report how many samples a step has on all ranks, by which the share of each counts", function()
    local source = source_of(23)
    for size = 2, 4 do
      local sums, together = {}, {}
      for rank = 0, size - 1 do
        local t = 0
        for batch in loader_of({source = source, batch = 6}, rank, size):epoch(1) do
          t = t + 1
          sums[t] = (sums[t] or 0) + batch.count - batch.padded
          together[t] = together[t] or batch.global_batch_size
          assert.equal(together[t], batch.global_batch_size)
        end
      end
      assert.same(sums, together)
    end
    assert.is_nil(loader_of({source = source, batch = 6}, 0, 1):epoch(1)().global_batch_size)
    assert.is_nil(loader_of({source = source, batch = 6, role = "val"}, 0, 2):epoch(1)().global_batch_size)
  end)

  it("share a step out in blocks: the samples of a step are the next ones of the order, on any number of ranks",
    function()
    local source = source_of(50)
    local alone = joined(all_ranks({source = source, batch = 12}, 1))
    for _, size in ipairs{2, 3, 4} do
      assert.same(alone, joined(all_ranks({source = source, batch = 12 / size}, size)))
    end
    local two = all_ranks({source = source, batch = 6, shuffle = false}, 2)
    assert.same({6, 7, 8, 9, 10, 11}, two[2][1].ids)
    assert.same({18, 19, 20, 21, 22, 23}, two[2][2].ids)
  end)

  it("drop the samples that make no step of all ranks when they are asked to", function()
    local ranks = all_ranks({source = source_of(50), batch = 6, drop_last = true}, 3)
    for _, batches in ipairs(ranks) do assert.equal(2, #batches) end
    assert.equal(36, #joined(ranks))
    assert.equal(36, loader_of({source = source_of(50), batch = 6, drop_last = true}, 1, 3):all_samples())
    assert.matches("batch is 30 on each of 2 ranks but there are only 50 samples",
      support.error_text(loader_of, {source = source_of(50), batch = 30, drop_last = true}, 0, 2))
  end)

  it("repeat samples only where a last step has fewer than ranks, and say which rows do", function()
    local ranks = all_ranks({source = source_of(9), batch = 2, shuffle = false}, 4)
    for rank = 1, 4 do
      assert.equal(2, #ranks[rank])
      assert.equal(1, #ranks[rank][2].ids)
      assert.equal(rank == 1 and 0 or 1, ranks[rank][2].padded)
    end
  end)

  it("give val and test samples once, in the batches of a single process", function()
    for _, count in ipairs(counts) do
      local source = source_of(count)
      local alone = batches_of(loader_of({source = source, batch = 6, role = "val"}, 0, 1))
      for size = 2, 4 do
        local ranks, dealt = all_ranks({source = source, batch = 6, role = "val"}, size), {}
        for t = 1, #ranks[1] do
          for rank = 1, size do dealt[#dealt + 1] = ranks[rank][t] end
        end
        assert.same(alone, dealt)
        for rank = 1, size do
          local loader, samples = loader_of({source = source, batch = 6, role = "val"}, rank - 1, size), 0
          for _, b in ipairs(ranks[rank]) do samples = samples + #b.ids end
          assert.equal(#ranks[rank], loader:batches())
          assert.equal(samples, loader:samples())
          assert.equal(count, loader:all_samples())
        end
      end
    end
  end)

  it("go on with the same steps on another number of ranks", function()
    local source = source_of(50)
    for _, role in ipairs{"train", "val"} do
      local function run(size, state, most)
        local ranks = {}
        for rank = 0, size - 1 do
          local loader = loader_of({source = source, batch = 12 / size, role = role, shuffle = true}, rank, size)
          if state then loader:set_state(state) end
          ranks[rank + 1] = batches_of(loader, 3, most)
          if rank == 0 and most then ranks.state = loader:state() end
        end
        return ranks
      end
      for _, size in ipairs{1, 2, 4} do
        local expected = joined(run(size))
        for _, later in ipairs{1, 2, 3, 4} do
          local first = run(size, nil, 2)
          local got, rest = joined(first), joined(run(later, first.state))
          for _, id in ipairs(rest) do got[#got + 1] = id end
          if role == "val" then
            table.sort(got)
            table.sort(expected)
          end
          assert.same(expected, got, ("%s: %d ranks, then %d"):format(role, size, later))
        end
      end
    end
  end)

  it("cut a smaller last step into the same parts on any number of ranks", function()
    for _, count in ipairs(counts) do
      local source = source_of(count)
      local function rows(size)
        local steps = {}
        for rank = 0, size - 1 do
          local loader = loader_of({source = source, batch = 24 / size}, rank, size)
          loader:set_parts(12)
          for t, batch in ipairs(batches_of(loader)) do
            steps[t] = steps[t] or {}
            for _, id in ipairs(batch.ids) do table.insert(steps[t], id) end
          end
        end
        return steps
      end
      local alone = rows(1)
      for _, size in ipairs{2, 3, 4, 6, 12} do assert.same(alone, rows(size)) end
      for _, step in ipairs(alone) do assert.is_true(#step >= 12) end
    end
    local loader = loader_of({source = source_of(50), batch = 8}, 0, 2)
    assert.matches("parts is 3; it is a multiple of the 2 ranks", support.error_text(loader.set_parts, loader, 3))
    assert.matches("16 images of all ranks together make no 6 parts of one size",
      support.error_text(loader.set_parts, loader, 6))
  end)

  it("change a sample in the same way on whichever rank it comes", function()
    local image = (capl.rand{40, 1, 16, 16} * 255):to("u8")
    local source = data.tensors{image = image, target = capl.arange(40, {dtype = "i32"}), classes = 40}
    local function images(size)
      local out = {}
      for rank = 0, size - 1 do
        local loader = data.loader{source = source, role = "train", batch = 12 / size, workers = 0,
          shard = world(rank, size), seed = 3, augment = {rotate = 20, noise = 0.2}}
        for batch in loader:epoch(4) do
          for i, id in ipairs(batch.ids) do out[id] = batch.image:narrow(1, i, 1):clone() end
        end
      end
      return out
    end
    local alone, three = images(1), images(3)
    for id = 0, 39 do assert.equal(0, (alone[id] - three[id]):abs():max():item()) end
  end)

  it("give the rule of rates how many images a step has on all of them", function()
    local net = capl.nn.Sequential{capl.nn.Embedding(50, 4), capl.nn.Linear(4, 50)}
    local opt = capl.optim.SGD(net:parameters(), {lr = 0.1})
    local loader = loader_of({source = source_of(50), batch = 6}, 0, 4)
    capl.train.fit{model = net, train = loader, val = false, optimizer = opt, steps = 2, lr_rule = "linear",
      base_batch = 8, input = function(batch) return batch.target:reshape(-1) end, precision = "fp32",
      loss = function(y, batch) return capl.nn.CrossEntropyLoss()(y, batch.target:reshape(-1)) end}
    assert.equal(3, opt.lr_factor)
    assert.matches("the train loader gives the same images to all of the 1 ranks",
      support.error_text(capl.train.fit,
      {model = net, train = loader, val = false, optimizer = opt, steps = 2, deterministic = true, shards = 4,
      loss = print}))
    capl.deterministic(false)
  end)

  it("read everything on every rank with shard = false", function()
    local loader = data.loader{source = source_of(10), role = "train", batch = 4, shard = false}
    assert.equal(3, loader:batches())
    assert.equal(1, loader:ranks())
    assert.matches("shard is a number; capl.distributed%(%) gives one, false gives all",
      support.error_text(data.loader, {source = source_of(10), role = "train", batch = 4, shard = 2}))
  end)
end)

describe("a world", function()
  it("names the new method where a recipe calls an old one", function()
    for old, new in pairs{gather = "all_gather_object", tell = "all_gather_text"} do
      local text = support.error_text(function() return capl.distributed()[old] end)
      assert.matches(("world:%s was renamed"):format(old), text, 1, true)
      assert.matches("call world:" .. new, text, 1, true)
    end
    assert.same({7}, capl.distributed():all_gather_object(7))
  end)
end)
