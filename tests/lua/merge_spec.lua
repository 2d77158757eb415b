-- Meters of several ranks: each reads its part of a set, and every one gets what one process would have counted.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local data, nn, train = capl.data, capl.nn, capl.train

local function upvalue(fn, name)
  for i = 1, 60 do
    local found, value = debug.getupvalue(fn, i)
    if found == name then return value end
    if not found then error("no upvalue " .. name) end
  end
end

local merge = upvalue(upvalue(train.evaluate, "whole_meter"), "merge")
local PAUSE = {}

-- A world whose ranks take turns in this one process: each runs until it needs the others, and from the start again
-- when they have said what they had to say.
local function world_of(rank, size, device, known, mine)
  local at = 0
  local function collective(value)
    at = at + 1
    if known[at] then return known[at] end
    mine[1] = value
    error(PAUSE, 0)
  end
  local world = {rank = rank, size = size, device = device, is_main = rank == 0}
  function world:all_gather_object(value) return collective(value) end
  function world:all_gather(t) return capl.tensor(collective(t:tolist())) end
  function world:hold() end
  function world:sum(values)
    local out = {}
    for _, told in ipairs(collective(values)) do
      for key, value in pairs(told) do out[key] = (out[key] or 0) + value end
    end
    return out
  end
  return world
end

-- program(rank, size) as each of `size` ranks -> list of what they return
local function as_ranks(size, program)
  local former, known = merge.world, {}
  while true do
    local said, results, paused = {}, {}, 0
    for rank = 0, size - 1 do
      local mine = {}
      local world = world_of(rank, size, capl.device(), known, mine)
      merge.world = function() return size > 1 and world or nil end
      local ok, result = pcall(program, rank, size)
      merge.world = former
      if not ok and result ~= PAUSE then error(result, 0) end
      if not ok then paused = paused + 1 end
      said[rank + 1], results[rank + 1] = mine[1], result
    end
    if paused == 0 then return results end
    assert(paused == size, "the ranks have parted company")
    known[#known + 1] = said
  end
end


local function loader_of(source, rank, size, batch, opts)
  local o = {source = source, role = "val", batch = batch, workers = 0, shard = setmetatable({rank = rank, size = size},
    getmetatable(capl.distributed()))}
  for key, value in pairs(opts or {}) do o[key] = value end
  return data.loader(o)
end

-- What a meter says, without the loader and what else is no metric.
local function told(meter)
  local out = meter.write and meter:write() or meter:result()
  out.loss, out.samples, out.lines = meter.loss, meter.samples and meter:samples(), meter.lines and meter:lines()
  out.pairs = meter.pairs_with_samples and meter:pairs_with_samples(5)
  out.role = nil
  return out
end

-- Fails unless 2, 3 and 4 ranks give what one gives, on each of them. make(rank, size) -> model, loader, opts
local function same_on_all(make)
  local function program(rank, size)
    local model, loader, opts = make(rank, size)
    return told(train.evaluate(model, loader, opts))
  end
  local one = as_ranks(1, program)[1]
  assert.is_true(one.n > 0)
  for size = 2, 4 do
    for _, other in ipairs(as_ranks(size, program)) do assert.same(one, other) end
  end
end

local counts = {1, 5, 7, 24, 25, 61} -- so that ranks get unequal parts, and some none

local function texts_of(count)
  local rows, images = {}, {}
  for i = 1, count do
    rows[i], images[i] = {i % 3, i * i % 3}, {}
    for k = 1, 6 do images[i][k] = math.sin(i * k) end
  end
  return data.tensors{input = capl.tensor(images), target = capl.tensor(rows, {dtype = "i32"}), charset = "ABC"}
end

local Linear = function(out)
  capl.manual_seed(3)
  return nn.Linear(6, out)
end

describe("an evaluation of several ranks", function()
  it("counts texts as one process does: metrics, confusions, the worst and some right ones", function()
    for _, count in ipairs(counts) do
      same_on_all(function(rank, size)
        return Linear(6), loader_of(texts_of(count), rank, size, 4),
          {loss = function(output) return (output * output):mean() end}
      end)
    end
  end)

  it("counts readings of time steps, and of a decoder of the recipe's own", function()
    for _, count in ipairs(counts) do
      same_on_all(function(rank, size)
        local function steps(batch)
          local x = batch.input:reshape(-1, 1, 6)
          return capl.op.concat({x, x * -1, x * 2, x * -3, x * 0.5}, {dim = 2})
        end
        return Linear(4), loader_of(texts_of(count), rank, size, 4), {decoding = "ctc", input = steps}
      end)
      same_on_all(function(rank, size)
        local meter = function(loader)
          return train.TextMeter{loader = loader, decode = function(output)
            local texts, sure = {}, {}
            for i, row in ipairs(output:tolist()) do
              texts[i], sure[i] = row[1] > 0 and "AB" or "CA", math.abs(row[2]) % 1
            end
            return texts, sure
          end}
        end
        return Linear(6), loader_of(texts_of(count), rank, size, 4), {meter = meter}
      end)
    end
  end)

  it("counts masks, points and numbers as one process does", function()
    for _, count in ipairs(counts) do
      local numbers, points, masks, images = {}, {}, {}, {}
      for i = 1, count do
        images[i], numbers[i], points[i], masks[i] = {{}}, {}, {}, {}
        for y = 1, 4 do
          images[i][1][y], masks[i][y] = {}, {}
          for x = 1, 4 do images[i][1][y][x], masks[i][y][x] = (i * x * y * 37) % 256, (i * x + y) % 3 end
        end
        for k = 1, 2 do numbers[i][k], points[i][k] = math.cos(i * k), {i % 4, k, (i + k) % 3 > 0 and 1 or 0} end
      end
      local image = capl.tensor(images, {dtype = "u8"})
      local function part(field, rank, size) return loader_of(data.tensors(field), rank, size, 3) end
      local function dense(out) return nn.Sequential{nn.Flatten(),
        (function() capl.manual_seed(4) return nn.Linear(16, out) end)()} end
      same_on_all(function(rank, size)
        return dense(2), part({image = image, value = capl.tensor(numbers)}, rank, size), {meter = "regression"}
      end)
      same_on_all(function(rank, size)
        return dense(4), part({image = image, points = capl.tensor(points, {dtype = "f32"})}, rank, size),
          {meter = "localization"}
      end)
      same_on_all(function(rank, size)
        capl.manual_seed(5)
        return nn.Conv2d(1, 3, 1), part({image = image, mask = capl.tensor(masks, {dtype = "u8"})}, rank, size),
          {meter = "segmentation"}
      end)
    end
  end)

  it("counts images once that every rank has read", function()
    local one = told(train.evaluate(Linear(6), loader_of(texts_of(7), 0, 1, 4)))
    for _, other in ipairs(as_ranks(3, function()
      return told(train.evaluate(Linear(6), loader_of(texts_of(7), 0, 1, 4))) end)) do
      assert.same(one, other)
    end
  end)

  it("puts meters of a recipe's own together by their state, and says what one lacks", function()
    local function make(with_state)
      return function()
        local meter = {n = 0, sum = 0, main = "mean", better = "min"}
        function meter:add(output) self.n, self.sum = self.n + output:size(1), self.sum + output:sum():item() end
        function meter:result() return {n = self.n, mean = self.n} end
        if not with_state then return meter end
        function meter:state() return {n = self.n} end
        function meter:merge(state) self.n = self.n + state.n end
        return meter
      end
    end
    local function program(with_state)
      return function(rank, size)
        return train.evaluate(Linear(6), loader_of(texts_of(13), rank, size, 4), {meter = make(with_state)}):result().n
      end
    end
    assert.same({13, 13, 13}, as_ranks(3, program(true)))
    assert.equal("LINE: train.evaluate: each of 2 ranks reads a part of the images, and this meter cannot put them together\n" ..
      "  hint: give it state(), which JSON can hold, and merge(state), which adds that of another rank; or shard = " ..
      "false to the loader",
      support.error_text(as_ranks, 2, program(false)))
  end)

  it("keeps a meter of a custom loop the same on all ranks, however often it is asked", function()
    local function program(rank, size)
      local meter = capl.text_meter("ABC")
      local first
      for batch in loader_of(texts_of(25), rank, size, 4):epoch(1) do meter:add(Linear(6)(batch.input), batch) end
      first = meter:line()
      for batch in loader_of(texts_of(25), rank, size, 4):epoch(1) do meter:add(Linear(6)(batch.input), batch) end
      return {first, meter:line(), told(meter)}
    end
    local one = as_ranks(1, program)[1]
    for _, other in ipairs(as_ranks(3, program)) do assert.same(one, other) end
  end)
end)
