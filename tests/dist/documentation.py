"""Every command of docs/distributed.md, as far as one machine can run it, and its lines of Lua.

A command that the page shows and that nobody here has looked at fails the test.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from ranks import CAPL, ROOT, check, finish, in_empty_folder, need_mpi, start, succeed, write

# What runs instead of a command, with what it says; None: this machine cannot.
COMMANDS = {
    "build/capl recipes/a100_ddp.lua --ranks=2 --preset=try": (
        "build/capl recipes/a100_ddp.lua --ranks=2 --preset=try --steps=2 --samples=96 --batch=4 --val=8 --test=8", r"2 devices \(cpu\).*\n(?s:.*)^final .* n=8 "),
    "build/capl recipes/a100_ddp.lua": (
        "! CAPL_DEVICE=auto CUDA_VISIBLE_DEVICES=-1 build/capl recipes/a100_ddp.lua", r"^try it here: build/capl \S*a100_ddp.lua --ranks=2 --preset=try$"),
    "build/capl recipes/a100_ddp.lua --ranks=2": None,  # needs two GPUs; on processors it is the try line
    "CUDA_VISIBLE_DEVICES=0,2 build/capl recipes/a100_ddp.lua": None,
    "build/capl recipes/captcha.lua --ranks=2": (
        "build/capl recipes/captcha.lua --ranks=2 --samples=256 --batch=8 --val=8 --test=12 --files=4 --warmup=1",
        r"^efficiency \d+ %: of a step of .*\n(?s:.*)^efficiency \d+ %: 2 ranks\n(?s:.*)^final .* n=12 "),
    "mpirun -n 16 --host a:8,b:8 build/capl recipes/a100_ddp.lua": None,  # the page's Lua below runs by mpirun
    "salloc -N 2 --ntasks-per-node=8 --gpus-per-node=8 mpirun build/capl recipes/a100_ddp.lua": None,
    "srun --mpi=pmix -N 2 --ntasks-per-node=8 --gpus-per-node=8 build/capl recipes/a100_ddp.lua": None,
    "torchrun --nproc_per_node=8 --no-python build/capl recipes/a100_ddp.lua": None,
    "sudo apt install openmpi-bin libopenmpi-dev": None,
    "scripts/build": None,
    "build/capl recipes/a100_ddp.lua --restart=5": None, # dist/restart loses ranks
    "build/capl check recipes/a100_ddp.lua --ranks=3": ("build/capl check recipes/a100_ddp.lua --ranks=3", r"3,072 images a step"),
}


def page():
    with open(os.path.join(ROOT, "docs/distributed.md"), encoding="utf-8") as file:
        return file.read()


def shown(text):
    """The commands of the page: those in its table, and lines by themselves."""
    rows = [cell for row in text.splitlines() if row.startswith("| ") for cell in re.findall(r"`([^`]* [^`]*)`", row.split("|")[2])]
    return rows + re.findall(r"^    ((?:build|scripts|sudo|mpirun|srun).*)$", text, re.M)


def run(command, wanted):
    fails = command.startswith("! ")
    status, out, err = finish(start("bash", "-c", command.removeprefix("! ")), 100)
    check((status == 1) == fails and (status == 0 or fails), command, out + err)
    check(re.search(wanted, out + err, re.M), f"{command}: it says {wanted}", out + err)


def main():
    need_mpi()
    os.mkdir("build")
    os.symlink(CAPL, "build/capl")
    os.symlink(os.path.join(ROOT, "recipes"), "recipes")
    commands = shown(page())
    check(set(commands) == set(COMMANDS), "commands of the page", str(set(commands) ^ set(COMMANDS)))
    for command in commands:
        if COMMANDS[command]:
            run(*COMMANDS[command])
    blocks = re.findall(r"```lua\n(.*?)```", page(), re.S)
    check(len(blocks) == 1, "the Lua of the page", str(len(blocks)))
    out = succeed(2, write("page.lua", blocks[0]), what="the lines of Lua")
    check(out.startswith("2 ranks, mean 0.5, 21 images\n") and out.count("images\n") == 1, "what they say, once", out)


in_empty_folder(main)
