--- capl: 1
-- overlap.lua: steps of the seeds' network (19 M parameters, 76 MB of gradients) on random images: images a second of a
-- rank; the report after it shows the share of the exchange that the backward pass has hidden. Weak scaling is images
-- a second of two ranks to twice those of one: capl --ranks=2 bench/dist/overlap.lua and --ranks=1, in turn, with
-- OMP_NUM_THREADS=1.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params{batch = 16, steps = 6}
local world = capl.distributed()
local function block(a, b, pool)
  return nn.Sequential{nn.Conv2d(a, b, 3, {padding = 1}), nn.BatchNorm2d(b), nn.ReLU(), pool and nn.MaxPool2d(2)
    or nn.Identity()}
end
local model = nn.Sequential{block(1, 32, true), block(32, 64), block(64, 64, true), block(64, 128), block(128, 128),
  block(128, 128, true), block(128, 128), nn.Flatten(), nn.Linear(17920, 1024), nn.ReLU(), nn.Linear(1024, 144)}
local opt = optim.AdamW(model:parameters(), {lr = 1e-4})
local x = capl.randn({p.batch, 1, 60, 160}, {seed = 1, stream = {world.rank, 0, 0}})
local function step() opt:backward_step((model(x) ^ 2):mean()) end
step()
step()
world:barrier()
local began = capl.clock()
for _ = 1, p.steps do step() end
world:barrier()
world:print(("%.1f images/s a rank, %d ranks"):format(p.batch * p.steps / (capl.clock() - began), world.size))
