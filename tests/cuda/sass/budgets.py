"""budgets.py OBJECTS NVCC ARCHS SCRATCH -- what the machine code of kernels may take, and what it must have.

No function keeps anything in local memory beyond STACKS. Those whose speed decides a training step have a number of loads under way at a
time, fit so many blocks into a multiprocessor, and issue their instructions faster than the memory moves their bytes. So do the
other kernels of a step (step.py) on the way that it takes through them, or they are over before a launch is.
Faults of each kind, in fixture.cu, must be found. --table prints the times in Markdown. Skipped where the tools are not.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import glob
import os
import subprocess
import sys

import sass
import step

# Least loads issued before the first is used, of how many bytes; blocks of 256 threads that run at once.
Budget = collections.namedtuple("Budget", "loads bytes blocks")
BUDGETS = {
    "norm.cu.o": {
        "norm_moments<bf16, 8>": Budget(4, 64, 4), "norm_moments<f32, 4>": Budget(4, 64, 4),
        "norm_apply<bf16, 8, relu>": Budget(4, 64, 4), "norm_apply<f32, 4, relu>": Budget(4, 64, 4),
        "norm_apply<bf16, 8, silu>": Budget(3, 48, 4), "norm_apply<f32, 4, silu>": Budget(4, 64, 4),
        "norm_pool<bf16, 8>": Budget(4, 64, 4), "norm_pool<f32, 4>": Budget(4, 64, 4),
        "norm_grad_sums<bf16, 8, relu>": Budget(8, 128, 2), "norm_grad_sums<f32, 4, relu>": Budget(8, 128, 3),
        "norm_grad_sums<bf16, 8, silu>": Budget(5, 80, 2), "norm_grad_sums<f32, 4, silu>": Budget(6, 96, 3),
        "norm_grad_apply<bf16, 8, relu>": Budget(8, 128, 2), "norm_grad_apply<f32, 4, relu>": Budget(8, 128, 3),
        "norm_grad_apply<bf16, 8, silu>": Budget(5, 80, 2), "norm_grad_apply<f32, 4, silu>": Budget(8, 128, 3),
        "norm_pool_grad_apply<bf16, 8>": Budget(5, 80, 2), "norm_pool_grad_apply<f32, 4>": Budget(5, 80, 3),
    },
    "reduce.cu.o": {
        "reduce_columns<bf16, adding<f32>, 8>": Budget(4, 64, 3), "reduce_columns<f32, adding<f32>, 4>": Budget(4, 64, 4),
        "reduce_rows<bf16, adding<f32>, 8>": Budget(4, 64, 4), "reduce_rows<f32, adding<f32>, 4>": Budget(4, 64, 4),
        "reduce_rows<f32, largest<f32>, 4>": Budget(4, 64, 4),
    },
}
# Bytes of local memory that the functions of a file may have, on sm_90.
STACKS = {"activation.cu.o": 32, "attention.cu.o": 8, "ctc.cu.o": 8, "sample.cu.o": 88}
FAULTS = {
    "one_by_one": (Budget(2, 8, 1), "1 loads of 4 bytes under way, 2 of 8 are needed"),
    "array_in_memory": (Budget(1, 4, 1), "bytes of local memory"),
    "many_instructions": (Budget(1, 4, 1), "issuing takes"),
}
SLOW_WAYS = {
    "narrow_accesses": (step.Way("", 24, 8, 24), "no loop moves 24 bytes in accesses of 8 or more"),
    "slow_wide_way": (step.Way("", 32, 16, 32), "issuing takes"),
}
SMALL_FAULTS = {
    "many_instructions": (step.Small("", 100, 8, None, ""), "longer than an empty launch"),
    "long_thread": (step.Small("", 0.1, 0, None, ""), "instructions of one thread"),
}
REGISTERS, THREADS = 65536, 256

# Bytes a second; instructions of threads a second: multiprocessors x 4 schedulers x 32 threads x clock (the lower one).
Card = collections.namedtuple("Card", "name bytes issues clock")
CARDS = {"90": Card("H200", 4.8e12, 132 * 128 * 1.755e9, 1.755e9), "80": Card("A100", 2.0e12, 108 * 128 * 1.41e9, 1.41e9)}


def issue_share(loop, card, moved=None):
    """Time to issue a loop's instructions over the time to move its bytes; every instruction counts once."""
    return len(loop.body) / card.issues / ((moved or loop.bytes) / card.bytes)


def way_faults(kernel, way, card):
    """What is wrong with a kernel whose loop has several ways, in words."""
    loop = kernel.way(way.bytes, way.least)
    if not loop:
        yield f"{kernel.name}: no loop moves {way.bytes} bytes in accesses of {way.least} or more"
    elif issue_share(loop, card, way.moved) >= 1:
        yield f"{kernel.name}: issuing takes {issue_share(loop, card, way.moved):.2f} of the memory's time on {card.name}"


def faults(kernel, budget, card):
    """What is wrong with a kernel, in words."""
    if kernel.stack:
        yield f"{kernel.name}: {kernel.stack} bytes of local memory"
    if kernel.registers * THREADS * budget.blocks > REGISTERS:
        yield f"{kernel.name}: {kernel.registers} registers, too many for {budget.blocks} blocks"
    loop = kernel.main_loop()
    if not loop:
        yield f"{kernel.name}: no loop with loads"
        return
    loads, size = loop.in_flight()
    if loads < budget.loads or size < budget.bytes:
        yield f"{kernel.name}: {loads} loads of {size} bytes under way, {budget.loads} of {budget.bytes} are needed"
    if issue_share(loop, card) >= 1:
        yield f"{kernel.name}: issuing takes {issue_share(loop, card):.2f} of the memory's time on {card.name}"


def turn_of(kernel, small):
    """The instructions of a turn of a small kernel's loop."""
    if small.way:
        way = kernel.way(*small.way)
        return way.body if way else []
    return max((loop.body for loop in kernel.loops()), key=len, default=kernel.code)


def small_times(kernel, small, card):
    """Microseconds of a launch: of its bytes, of its instructions."""
    memory, turn = small.mb * 1e12 / card.bytes, len(turn_of(kernel, small))
    if not small.moved:
        return memory, len(kernel.code) * step.THREAD_CYCLES * 1e6 / card.clock
    return memory, small.mb * 1e12 / small.moved * turn / card.issues


def small_faults(kernel, small, card):
    """What is wrong with a kernel that a launch should outlast, in words."""
    memory, issue = small_times(kernel, small, card)
    if not turn_of(kernel, small):
        yield f"{kernel.name}: no loop moves {small.way[0]} bytes in accesses of {small.way[1]} or more"
    elif not small.moved and issue > step.LAUNCH_US:
        yield f"{kernel.name}: {len(kernel.code)} instructions of one thread take {issue:.1f} us"
    elif small.moved and max(memory, issue) > step.LAUNCH_US:
        yield f"{kernel.name}: {max(memory, issue):.1f} us, longer than an empty launch: it needs a budget in step.WAYS"


def check_small(dumps, table):
    """H200 only: figures of the step are for that."""
    wrong = []
    for name, small in step.SMALL.items():
        kernel = dumps[small.file].get(name)
        wrong += small_faults(kernel, small, CARDS["90"]) if kernel else [f"{small.file}: there is no {name}"]
        if table and kernel:
            print("| {} | {} | {} | {:.1f} | {:.1f} |".format(name, small.mb, len(turn_of(kernel, small)),
                                                              *small_times(kernel, small, CARDS["90"])))
    return wrong


def stacks(env, file, arch):
    """Functions of a file that keep more in local memory than is allowed."""
    base = os.path.basename(file)
    return [f"{base}: {name}: {stack} bytes of local memory"
            for name, (_, stack) in sass.usage(env, file, arch).items() if stack > STACKS.get(base, 0)]


def check(env, objects, arch, table):
    wrong = []
    for file in sorted(glob.glob(os.path.join(objects, "*.cu.o"))) if arch == "90" else ():
        wrong += stacks(env, file, arch)
    for file, budgets in BUDGETS.items():
        kernels = sass.dump(env, os.path.join(objects, file), arch)
        for name, budget in budgets.items():
            if name not in kernels:
                wrong.append(f"{file}: there is no {name}")
                continue
            wrong += faults(kernels[name], budget, CARDS[arch])
            if table:
                row(kernels[name], kernels[name].main_loop(), CARDS[arch])
    files = {kernel.file for kernel in [*step.WAYS.values(), *step.SMALL.values()]}
    dumps = {file: sass.dump(env, os.path.join(objects, file), arch) for file in sorted(files)}
    return wrong + check_ways(dumps, arch, table) + (check_small(dumps, table) if arch == "90" else [])


def check_ways(dumps, arch, table):
    wrong = []
    for name, way in step.WAYS.items():
        kernel = dumps[way.file].get(name)
        wrong += way_faults(kernel, way, CARDS[arch]) if kernel else [f"{way.file}: there is no {name}"]
        if table and kernel and kernel.way(way.bytes, way.least):
            row(kernel, kernel.way(way.bytes, way.least), CARDS[arch], way.moved)
    return wrong


def row(kernel, loop, card, moved=None):
    loads, size = loop.in_flight()
    print(f"| {card.name} | {kernel.name} | {kernel.registers} | {loads} x {size // loads} | {len(loop.body)} | {moved or loop.bytes} | "
          f"{issue_share(loop, card, moved):.2f} |")


def check_faults(env, nvcc, scratch):
    """Every planted fault is found, in those words."""
    cubin = os.path.join(scratch, "fixture.cubin")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixture.cu")
    subprocess.run([nvcc, "-arch=sm_90", "-cubin", "-o", cubin, source], check=True)
    kernels = sass.dump(env, cubin, "90")
    missed = [f"{name}: the fault was not found" for name, (budget, words) in FAULTS.items()
              if not any(words in text for text in faults(kernels[name], budget, CARDS["90"]))]
    missed += [f"{name}: the fault was not found" for name, (way, words) in SLOW_WAYS.items()
               if not any(words in text for text in way_faults(kernels[name], way, CARDS["90"]))]
    missed += [f"{name}: the fault was not found" for name, (small, words) in SMALL_FAULTS.items()
               if not any(words in text for text in small_faults(kernels[name], small, CARDS["90"]))]
    return missed if stacks(env, cubin, "90") else missed + ["fixture.cu: local memory was not found"]


def main(objects, nvcc, archs, scratch, *options):
    env = sass.tools()
    if not env:
        print("SASS budgets: NOT CHECKED: there is no cuobjdump or nvdisasm on the PATH, beside nvcc or in Python's nvidia-* packages")
        return 77
    wrong = [] if options else check_faults(env, nvcc, scratch)
    for arch in sorted(set(archs.split(",")) & set(CARDS)):
        wrong += check(env, objects, arch, "--table" in options)
    print("\n".join(wrong) or f"SASS budgets kept by {sum(map(len, BUDGETS.values())) + len(step.WAYS) + len(step.SMALL)} kernels")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
