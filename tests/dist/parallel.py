"""Ranks that train together learn what one process learns from all their images: gradients, norms, optimizers, their weights.

SPDX-License-Identifier: Apache-2.0
"""
import os

from ranks import check, in_empty_folder, need_mpi, on_ranks, succeed, write

HERE = os.path.dirname(os.path.abspath(__file__))

DRIFT = """--- capl: 1
local model = capl.model(nn.Sequential{nn.Linear(2, 2), nn.Linear(2, 2)})
local opt = optim.SGD(model:parameters(), {lr = 0.1})
opt:backward_step(model(capl.ones(1, 2)):sum())
if capl.distributed().rank == 1 then capl.no_grad(function() model[2].bias:fill_(3) end) end
"""

# Each rank has seen other images; after an epoch, and before an evaluation, their statistics are the mean of all.
STATISTICS = """--- capl: 1
local world = capl.distributed()
local model = nn.Sequential{nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)}
capl.model(model)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local train = data.loader{source = data.tensors{input = capl.randn(24, 4), goal = capl.zeros(24, 2)},
  role = "train", batch = 4}
local function spread()
  local all = world:all_gather(model[3].running_var)
  return (all[1] - all[world.size]):abs():max():item()
end
for batch in train:epoch(1) do
  opt:backward_step(nn.mse(model(batch.input), batch.goal))
  if spread() == 0 then error("ranks have seen the same images") end
end
if spread() ~= 0 then error("statistics differ after an epoch: " .. spread()) end
world:print("even")
"""

# Rank 0 times; both use its choices from the same step on.
ALGORITHMS = """--- capl: 1
local world = capl.distributed()
local p = capl.params {autotune = true}
local model = nn.Sequential{nn.Conv2d(32, 32, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(32, 32, 3, {padding = 1})}
capl.model(model)
local opt = optim.SGD(model:parameters(), {lr = 0.01})
for _ = 1, 5 do opt:backward_step((model(capl.randn(4, 32, 12, 16)) ^ 2):mean()) end
local calls = world:all_gather_object(capl.counters().autotuned_kernels)
world:print(("calls %d %d"):format(calls[1], calls[2]))
"""


def main():
    need_mpi()
    for n in (1, 2, 3):
        out = succeed(n, os.path.join(HERE, "parallel.lua"), what="ranks learn what one process learns")
        check(f"checks on {n} rank" in out, "rank 0 says that all was checked", out)
    status, out, err = on_ranks(2, write("drift.lua", DRIFT))
    check(status == 1 and "the ranks have drifted apart: 1.bias of rank 1" in err, "weights that differ are found", (status, out, err))
    out = succeed(2, write("statistics.lua", STATISTICS), what="running statistics become the mean of all ranks")
    check("even" in out and "gradients: 0.0 MB in 1 piece a step" in out, "the report tells of the exchange", out)
    out = succeed(2, write("algorithms.lua", ALGORITHMS), what="two ranks time convolutions")
    check("calls 20 20" in out and "report: autotune: 3 shapes of convolutions" in out, "and use the same algorithms from the same step on", out)


in_empty_folder(main)
