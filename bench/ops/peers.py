"""What the programs here share: ops forward and backward in capl and in PyTorch, in turn: milliseconds and their ratio.

Of each case the least time of all rounds; the ratio is the median of the rounds' ratios. capl: CAPL_BIN, else build/capl.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import time

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def best_ms(run, repeats, patience=math.inf):
    """Least milliseconds of some calls after one that does not count; patience: seconds after which there are enough."""
    best, began = math.inf, time.perf_counter()
    for k in range(repeats + 1):
        start = time.perf_counter()
        if k > 1 and start - began > patience:
            break
        run()
        if k:
            best = min(best, time.perf_counter() - start)
    return 1e3 * best


def shapes_word(shapes):
    return "--shapes=" + ";".join(",".join(map(str, shape)) for shape in shapes)


def capl_ms(words, threads):
    """Runs the recipe beside this file that words name first -> what its last line says, a list in the cases' order."""
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.environ.get("CAPL_BIN") or os.path.join(here, "..", "..", "build", "capl")
    out = subprocess.run([binary, os.path.join(here, words[0]), *words[1:]], check=True, capture_output=True, text=True,
                         env={**os.environ, "CAPL_THREADS": str(threads)}).stdout
    return json.loads(out.strip().splitlines()[-1])


def read_arguments(doc, dtypes):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="f32", choices=dtypes)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def compare(doc, words, cases, torch_ms, describe, dtypes=tuple(DTYPES)):
    """Prints a table of all cases. words: the recipe and its settings; torch_ms(case, dtype, threads) -> milliseconds."""
    args = read_arguments(doc, dtypes)
    torch.set_num_threads(args.threads)
    dtype_word = [f"--dtype={args.dtype}"] if len(dtypes) > 1 else []
    rounds = []
    for _ in range(args.rounds):
        ours = capl_ms([*words, *dtype_word], args.threads)
        rounds.append(list(zip(ours, [torch_ms(case, DTYPES[args.dtype], args.threads) for case in cases])))
    rows = [{"case": describe(case), "capl_ms": min(r[i][0] for r in rounds), "torch_ms": min(r[i][1] for r in rounds),
             "ratio": statistics.median(r[i][0] / r[i][1] for r in rounds)} for i, case in enumerate(cases)]
    if args.json:
        print(json.dumps({"dtype": args.dtype, "threads": args.threads, "torch": torch.__version__, "rows": rows}))
        return
    wide = max(len(row["case"]) for row in rows)
    print(f"{'':{wide}} {'capl ms':>9} {'torch ms':>9} {'ratio':>6}")
    for row in rows:
        print(f"{row['case']:{wide}} {row['capl_ms']:9.2f} {row['torch_ms']:9.2f} {row['ratio']:6.2f}")
