--- capl: 1
-- train.lua: twenty steps of a small network on one or more ranks, the same images of a step in all; prints the losses
-- of all ranks and the sum of all weights. Run by ranks.py.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {
  steps = 20,
  images = 8, -- of a step, on all ranks together
  graph = false, -- one launch per step
}
local world = capl.distributed()
capl.manual_seed(11 + world.rank) -- the weights of rank 0 count

local model = capl.replicate(nn.Sequential {
  nn.Conv2d(1, 8, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(8, 8, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
  nn.Flatten(), nn.Linear(8 * 4 * 4, 10),
}, {bucket_mb = 0.004, first_bucket_mb = 0.002})
local opt = optim.AdamW(model:parameters(), {lr = 1e-2, weight_decay = 0.01})

local function step(image, label)
  local loss = nn.cross_entropy(model(image), label)
  opt:backward_step(loss)
  return loss
end
if p.graph then step = capl.capture(step) end

local share = p.images / world.size
local losses = {}
for k = 1, p.steps do
  local images = capl.rand(p.images, 1, 16, 16, {seed = 5, stream = {k, 0, 1}}):narrow(1, world.rank * share + 1,
    share):contiguous()
  local labels = (capl.rand(p.images, {seed = 5, stream = {k, 0, 2}}) * 10):to("i32"):narrow(1, world.rank * share + 1,
    share):contiguous()
  -- Beside recorded steps others go on: each has to wait for them.
  local work = p.graph and world:all_reduce(capl.ones(3), {async = true})
  losses[k] = step(images, labels)
  if work and work:wait():get(1) ~= world.size then error("step " .. k .. ": a sum beside it is wrong") end
end
for k, loss in ipairs(losses) do
  local total = world:sum{loss = loss:item()}.loss
  world:print(("loss %d %.9g"):format(k, total / world.size))
end
local traffic = world:traffic()
if world.size > 1 and (traffic.busy == 0) ~= p.graph then error("busy for " .. traffic.busy .. " s") end
local sum, squares = 0, 0
for _, w in ipairs(model:parameters()) do
  sum, squares = sum + w:sum():item(), squares + (w * w):sum():item()
end
local alike = world:all_gather_object(("%.17g %.17g"):format(sum, squares))
for r, text in ipairs(alike) do
  if text ~= alike[1] then error(("rank %d has other weights than rank 0: %s, %s"):format(r - 1, text, alike[1])) end
end
world:print(("weights %.9g %.9g"):format(sum, squares))
