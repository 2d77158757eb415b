"""A step made of shards ends with the same bits on any number of ranks, also of a run that goes on with another number.

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil

from ranks import capl, check, in_empty_folder, need_mpi, succeed, write

HERE = os.path.dirname(os.path.abspath(__file__))

STREAMS = """--- capl: 1
capl.manual_seed(3)
local world = capl.distributed()
local source = data.tensors{target = capl.arange(8, {dtype = "i32"}), classes = 8}
local function text(t) return table.concat(t:tolist(), " ") end
local before = world:all_gather_object(text(capl.rand(3)))
for _ in data.loader{source = source, role = "train", batch = 2}:epoch(1) do end
local after = world:all_gather_object(text(nn.Dropout(0.5)(capl.ones(40))))
if before[1] ~= before[2] then error("weights would begin differently") end
if after[1] == after[2] then error("the ranks drop the same") end
capl.manual_seed(4)
local again = world:all_gather_object(text(capl.rand(3)))
if again[1] ~= again[2] then error("the weights of a second training would begin differently") end
capl.deterministic(true)
local net = nn.Linear(1, 1)
local opt = optim.SGD(net:parameters(), {lr = 1})
local fine, err = pcall(train.sharded_step, opt, {count = 3}, function() end, {shards = 3, model = net})
if fine or not err.message:match("shards = 3 is no multiple of the 2 ranks") then error(err) end
fine, err = pcall(capl.params, {shards = 5})
if fine or err.message ~= "shards = 5 is no multiple of the 2 ranks" or not err.hint:match("%-%-shards=6") then error(err) end
"""


def bits(out):
    return [line for line in out.splitlines() if line.startswith("bits ")]


def run(n, *words):
    shutil.rmtree("runs", ignore_errors=True)
    if n > 1:
        return bits(succeed(n, "shards.lua", *words, what="a run of shards"))
    status, out, err = capl("shards.lua", *words, env={"OMP_NUM_THREADS": "2"})
    check(status == 0, "a run of shards, alone", out + err)
    return bits(out)


def same(a, b, what):
    different = [(x, y) for x, y in zip(a, b) if x != y]
    check(len(a) == len(b) and len(a) > 10 and not different, what, different[:3] or (a[:3], b[:3]))


def main():
    need_mpi()
    shutil.copy(os.path.join(HERE, "shards.lua"), "shards.lua")
    alone = run(1)
    check(any("val chars" in line for line in alone), "the evaluation is among what is compared", alone)
    for n in (2, 4):
        same(alone, run(n), f"20 steps of 4 shards on {n} ranks")
    six = run(1, "--parts=6", "--batch=18", "--steps=5")
    check(six != alone, "other shards are other sums", six)
    for n in (2, 3):
        same(six, run(n, "--parts=6", "--batch=18", "--steps=5"), f"6 shards on {n} ranks")
    run(4, "--steps=8")
    same(alone, bits(succeed(2, "shards.lua", "--resume", "--steps=20", what="a run goes on")), "8 steps on 4 ranks, 12 on 2")
    same(run(1, "--loop"), run(2, "--loop"), "a custom training loop")
    succeed(2, write("streams.lua", STREAMS), what="ranks drop other elements, begin with the same weights, and want a share of the shards each")


in_empty_folder(main)
