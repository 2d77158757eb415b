--- capl: 1
--- needs: minutes=10
-- Collectives between GPUs through NCCL, for scripts/gpu-check: right numbers, a training step that is recorded
-- together with its all_reduce, and how fast 64 MB are added up. On one GPU with CAPL_COLLECTIVES=nccl, on several with
-- --ranks=gpus. Prints one line of JSON.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {
  mb = 64, -- of f32, added up by all ranks
  times = 20,
  steps = 12, -- of training
  batch = 32,
}
local world = capl.distributed()
if world.backend ~= "nccl" then error("the ranks talk through " .. world.backend .. ", not through NCCL") end
local rank, size = world.rank, world.size

-- ---- numbers ----

local function same(what, got, wanted)
  local off = (got:to("f32"):view(-1) - wanted:to("f32"):view(-1)):abs():sum():item()
  if off ~= 0 then error(("rank %d: %s in %s is off by %g"):format(rank, what, got.dtype, off)) end
end

-- Small whole numbers, exact in every dtype; of another rank too.
local function of(r, n, dtype)
  local list = {}
  for i = 1, n do list[i] = (5 * i + 3 * r) % 7 - 3 end
  return capl.tensor(list):to(dtype)
end

local function sum_of(n, dtype)
  local total = of(0, n, dtype)
  for r = 1, size - 1 do total = total + of(r, n, dtype) end
  return total
end

local checked = 0
for _, dtype in ipairs{"f32", "f16", "bf16", "i32", "i64"} do
  for _, n in ipairs{1, 1000, 5003} do
    local last, peer = size - 1, size - 1 - rank
    same("all_reduce", world:all_reduce(of(rank, n, dtype)), sum_of(n, dtype))
    same("broadcast", world:broadcast(of(rank, n, dtype), {from = last}), of(last, n, dtype))
    same("all_gather", world:all_gather(of(rank, n, dtype)):narrow(1, size, 1), of(last, n, dtype))
    same("reduce_scatter", world:reduce_scatter(of(rank, n * size, dtype):view(size, n)),
      sum_of(n * size, dtype):view(size, n):narrow(1, rank + 1, 1))
    same("exchange", world:exchange(of(rank, n, dtype), peer), of(peer, n, dtype))
    checked = checked + 5
  end
end

-- ---- steps, plain and recorded ----

local function train(graph)
  capl.manual_seed(7)
  local model = nn.Sequential {
    nn.Conv2d(1, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 15 * 40, 36),
  }
  local opt = optim.SGD(model:parameters(), {lr = 1e-2})
  local parameters = model:parameters()
  local function step(image, label)
    local loss = nn.cross_entropy(model(image), label)
    loss:backward()
    if size == 1 then -- with more ranks the optimiser does it
      for _, w in ipairs(parameters) do world:all_reduce(w.grad, {op = "mean"}) end
    end
    opt:step()
    opt:zero_grad()
    return loss
  end
  if graph then step = capl.capture(step) end
  local losses = {}
  for k = 1, p.steps do
    local image = capl.rand(p.batch, 1, 30, 80, {seed = 3, stream = {k, rank, 1}})
    losses[k] = step(image, (capl.rand(p.batch, {seed = 3, stream = {k, rank, 2}}) * 36):to("i32")):item()
  end
  if graph and step:state().replays == 0 then
    error(("rank %d: no step was captured: %s"):format(rank, tostring(step:state().eager)))
  end
  return losses, parameters[1]:sum():item()
end

local plain, first = train(false)
local recorded, second = train(true)
local furthest = math.abs(first - second)
for k, loss in ipairs(plain) do furthest = math.max(furthest, math.abs(loss - recorded[k])) end
if not (furthest <= 1e-4) then
  error(("rank %d: a recorded step is %g away from a plain one"):format(rank, furthest))
end

-- ---- speed ----

local data = capl.ones(math.max(1, math.floor(p.mb * 1e6 / 4)))
local function seconds()
  for _ = 1, 3 do world:all_reduce(data, {op = "mean"}) end
  world:barrier()
  local start = capl.clock()
  for _ = 1, p.times do world:all_reduce(data, {op = "mean"}) end
  world:barrier()
  return (capl.clock() - start) / p.times
end
local slowest = 0
for _, s in ipairs(world:all_gather_object(seconds())) do slowest = math.max(slowest, s) end
local bus = p.mb * 1e6 / slowest * 2 * (size - 1) / size / 1e9
world:print(('{"ranks": %d, "checked": %d, "apart": %.3g, "mb": %g, "ms": %.4f, "bus_gb_s": %.2f}'):format(size,
  checked, furthest, p.mb, 1e3 * slowest, bus))
