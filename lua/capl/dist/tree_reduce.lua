-- tree_reduce.lua: sums over S shards in one fixed order, on any distribution over ranks.
--
-- Level 0 of the tree are the shards, in pairs they make level 1, and so on; an odd last one goes up as it is. A rank
-- holds consecutive shards and adds up what of the tree lies within them: one number where ranks and shards are powers
-- of two. All ranks then finish the tree in the same order. What is added is a tensor, or anything else with a function
-- for it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local Tree = {}
Tree.__index = Tree

-- numbers of a rank that are gathered at a time, so that the memory for it does not grow with the ranks
local CHUNK = 1048576

-- The sum of two nodes of the tree; both are let go.
local function plus(a, b)
  local sum = a + b
  a:free()
  b:free()
  return sum
end

-- Takes a node up as long as the one it is added to is there already, or there is none.
local function settle(self, node)
  local nodes, last = self.nodes, self.nodes[#self.nodes]
  local width = math.ceil(self.shards / 2 ^ node.level) -- nodes of its level
  if width == 1 then
    nodes[#nodes + 1] = node
  elseif node.at % 2 == 0 and node.at == width - 1 then
    return settle(self, {level = node.level + 1, at = node.at / 2, value = node.value})
  elseif node.at % 2 == 1 and last and last.level == node.level and last.at == node.at - 1 then
    nodes[#nodes] = nil
    return settle(self, {level = node.level + 1, at = last.at / 2, value = self.plus(last.value, node.value)})
  else
    nodes[#nodes + 1] = node
  end
end

--- Takes the next shard's value; shards come in their order.
function Tree:add(shard, value) settle(self, {level = 0, at = shard, value = value}) end

--- Takes a node that another part of the tree has come to.
function Tree:join(level, at, value) settle(self, {level = level, at = at, value = value}) end

--- The sum of all, when all are there.
function Tree:sum()
  assert(#self.nodes == 1, "shards are missing")
  return self.nodes[1].value
end

--- A tree over a number of shards. plus: function(a, b) -> their sum; of tensors without it.
local function new(shards, add) return setmetatable({shards = shards, plus = add or plus, nodes = {}}, Tree) end

--- Which nodes of the tree a rank comes to with its shards: list of {level, at}.
local function nodes_of(shards, rank, ranks)
  local tree, each = new(shards, function() return true end), shards / ranks
  for k = 0, each - 1 do tree:add(rank * each + k, true) end
  return tree.nodes
end

-- (nodes, n) of this rank, n of them after another number; short of most where others have more nodes.
local function stacked(tree, first, n, most)
  local rows = {}
  for i = 1, most do
    local node = tree.nodes[math.min(i, #tree.nodes)]
    rows[i] = node.value:narrow(1, first, n):reshape(1, n)
  end
  return most == 1 and rows[1]:contiguous() or core.op.concat(rows, {dim = 1})
end

-- The whole sum of numbers first … of all ranks' trees.
local function finish(world, tree, plans, first, n)
  local whole, all = new(tree.shards, function(a, b) return a + b end),
    world:all_gather(stacked(tree, first, n, plans.most))
  for rank = 0, world.size - 1 do
    for i, node in ipairs(plans[rank]) do
      whole:join(node.level, node.at, all:narrow(1, rank + 1, 1):narrow(2, i, 1):reshape(n))
    end
  end
  return whole:sum()
end

local function plans_of(shards, ranks)
  local plans = {most = 0}
  for rank = 0, ranks - 1 do
    plans[rank] = nodes_of(shards, rank, ranks)
    plans.most = math.max(plans.most, #plans[rank])
  end
  return plans
end

--- The sum over all ranks of what their trees hold: vectors of one length; the same bits for any number of ranks.
local function over_ranks(world, tree)
  if world.size == 1 then return tree:sum() end
  local plans, length, parts = plans_of(tree.shards, world.size), tree.nodes[1].value:numel(), {}
  for first = 1, length, CHUNK do
    parts[#parts + 1] = finish(world, tree, plans, first, math.min(CHUNK, length - first + 1))
  end
  return #parts == 1 and parts[1] or core.op.concat(parts, {dim = 1})
end

return {new = new, nodes_of = nodes_of, over_ranks = over_ranks}
