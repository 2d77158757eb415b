"""The ledger of a training step of recipes/captcha_cnn.lua: nodes of its graph, and bytes of device memory by node.

A step in bf16 is captured on the stand-in for CUDA at two batch sizes. What a node moves is a constant and so much per
image, so two sizes give the bytes of batch 1024. cuDNN's and cuBLASLt's work counts as its inputs and outputs, once.
By hand: CAPL_BIN=build/capl tests/cuda/ledger.py build/cuda-shim prints what goes where. With a recipe behind it, and settings of
the recipe, it prints the same of that recipe's step at the recipe's batch size, and the ops that run on slow own kernels.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "sass"))
import budgets  # noqa: E402
import sass  # noqa: E402
import step  # noqa: E402

CAPL = os.path.abspath(os.environ["CAPL_BIN"])
SHIM = os.path.abspath(sys.argv[1])
RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "recipes", "captcha_cnn.lua")
FEW, MORE, BATCH = 2, 6, 1024
# A change that needs more has to say so here; one that needs less moves these down.
MOST_NODES, MOST_MB = 67, 19.2
# A page more or less in MORE images, in MB at BATCH.
PAGE_MB = 4096 / (MORE - FEW) * BATCH / 1e6


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what)


def short(name):
    """A kernel without its arguments and spaces of names, a record without sizes."""
    name = name.replace("(anonymous namespace)::", "").replace("void ", "")
    record = re.match(r"(\S+ \S+) x=", name)
    if record:
        return "cuDNN " + record[1]
    if re.match(r"b?f(16|32) \d+x", name):
        return "cuBLASLt " + name.split()[0]
    return re.sub(r"\(\w+\)$", "", name)


def ledger(batch, folder, recipe=RECIPE, settings=("--capture=true",)):
    """[(node, bytes read, bytes written)] of the step's graph, and what bench says of the step."""
    at = os.path.join(folder, f"ledger{batch}")
    done = subprocess.run(
        [CAPL, "bench", recipe, "--fixed", "--json", "--precision=bf16", f"--batch={batch}", "--steps=1", "--warmup=3", *settings],
        capture_output=True, text=True, timeout=170 if recipe == RECIPE else 3600, stdin=subprocess.DEVNULL, cwd=folder,
        env={**os.environ, "CAPL_BACKEND_PATH": SHIM, "CAPL_DEVICE": "cuda", "CAPL_FAKE_DNN": "zeros",
             "CAPL_FAKE_BLAS": "zeros", "CAPL_SHIM_LEDGER": at, "OMP_NUM_THREADS": "1"})
    check(done.returncode == 0, f"a captured step of {batch} images", done.stdout + done.stderr)
    bench = json.loads(done.stdout)
    lines = []
    for name in glob.glob(at + ".*"):
        with open(name, encoding="utf-8") as file:
            lines += file.read().splitlines()
    graphs = "\n".join(lines).split("graph\n")[1:]
    check(len(graphs) > 0, "the step was launched as a graph")
    nodes = [line.split(" ", 2) for line in graphs[-1].splitlines()]
    return [(short(name), int(read), int(written)) for read, written, name in nodes], bench


def per_image(few, more, batch):
    """Bytes per image of a step of `batch` images."""
    slope = (more - few) / (MORE - FEW)
    return slope + (few - slope * FEW) / batch


def sums(nodes):
    """{node: [count, bytes read, bytes written]}"""
    rows = {}
    for name, read, written in nodes:
        count, *moved = rows.get(name, (0, 0, 0))
        rows[name] = [count + 1, moved[0] + read, moved[1] + written]
    return rows


def table(few, more, batch=BATCH):
    """{node: [count, MB read, MB written]}, each per image at batch size `batch`."""
    few, more = sums(few), sums(more)
    return {name: [more.get(name, [0])[0]] + [per_image(few.get(name, [0] * 3)[i], more.get(name, [0] * 3)[i], batch) / 1e6
                                              for i in (1, 2)] for name in {**few, **more}}


def own_kernels(rows):
    return {sass.short(name): row for name, row in rows.items() if not name.startswith("cu")}


def budget_faults(rows):
    """Kernels of the engine whose machine code has no budget although they move much, and budgets of kernels that are gone."""
    held = {name for file in budgets.BUDGETS.values() for name in file} | set(step.WAYS)
    own = own_kernels(rows)
    for name, (count, read, written) in own.items():
        moved = (read + written) * BATCH / count
        if name not in held and name not in step.SMALL:
            yield f"{name} has no budget in sass/budgets.py or sass/step.py"
        elif name not in held and moved > step.SMALL[name].mb + PAGE_MB:
            yield f"{name} moves {moved:.1f} MB, {step.SMALL[name].mb} are allowed in sass/step.py"
    yield from (f"{name}, of sass/step.py, is not launched" for name in {*step.WAYS, *step.SMALL} - set(own))


def check_budgets(rows):
    planted = {**rows, "other<float>": [1, 0.001, 0], "decide": [1, 0.01, 0]}
    del planted["step<adam>"]
    found = " ".join(budget_faults(planted))
    for fault in ("other<f32> has no", "decide moves 10.2 MB, 0.1 are", "step<adam>, of sass/step.py, is not"):
        check(fault in found, f"found where planted: {fault}", found)
    check(not list(budget_faults(rows)), "the machine code of the step's kernels has budgets", list(budget_faults(rows)))


def print_rows(rows, batch):
    print(f"\n{'node':44} {'count':>5} {'read MB':>8} {'written':>8}   per image at batch {batch}")
    for name, (count, read, written) in sorted(rows.items(), key=lambda row: -row[1][1] - row[1][2]):
        print(f"{name:44} {count:5} {read:8.3f} {written:8.3f}")


def print_sum(rows, nodes):
    print(f"{'all':44} {nodes:5} {sum(r[1] for r in rows.values()):8.3f} {sum(r[2] for r in rows.values()):8.3f}\n")


def both_sizes(*what):
    with tempfile.TemporaryDirectory() as folder:
        (few, _), (more, bench) = ledger(FEW, folder, *what), ledger(MORE, folder, *what)
    return few, more, bench


def other_recipe(recipe, settings):
    """Prints the step of any recipe; nothing is asserted but that it is captured."""
    with open(recipe, encoding="utf-8") as file:
        batch = int(re.search(r"^  batch = (\d+)", file.read(), re.MULTILINE)[1])
    few, more, bench = both_sizes(os.path.abspath(recipe), settings)
    rows = table(few, more, batch)
    print_rows(rows, batch)
    print_sum(rows, len(more))
    own = [f"{op} {n['own']} of {n['total']}" for op, n in bench["own_kernels"].items() if n["own"]]
    print("on slow own kernels:", ", ".join(own) or "none")


def main():
    few, more, _ = both_sizes()
    check([node[0] for node in few] == [node[0] for node in more], f"the same nodes in both sizes: {len(few)}, {len(more)}")
    rows = table(few, more)
    print_rows(rows, BATCH)
    for name, (count, read, written) in own_kernels(rows).items():
        if name in step.SMALL:
            print(f"{name:44} {(read + written) * BATCH / count:.2f} MB a launch")
    check_budgets(rows)
    nodes, moved = len(few), sum(read + written for _, read, written in rows.values())
    print_sum(rows, nodes)
    check(nodes <= MOST_NODES, f"{nodes} nodes, at most {MOST_NODES}")
    check(moved <= MOST_MB, f"{moved:.2f} MB per image, at most {MOST_MB}")


if len(sys.argv) > 2:
    other_recipe(sys.argv[2], sys.argv[3:])
else:
    main()
