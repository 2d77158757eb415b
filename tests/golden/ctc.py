#!/usr/bin/env python3
"""The CTC loss in PyTorch, and its gradient by the scores -> ctc.json: blanks, lengths, reductions, infeasible samples.

usage: ctc.py [--check]      needs PyTorch and numpy; a second
Cases are those of ops.py in form (README.md), their tensors are numbered from 50000 on. Scores are 4x, labels the classes
drawn, counted on past the blank.
SPDX-License-Identifier: Apache-2.0
"""
import torch
import torch.nn.functional as F

import counter
import ops
from golden_file import finish

FIRST = 2000  # ops.run_case numbers the tensors of case i from 10000 + 20 * i on

# T, N, K, S, blank, reduction, input lengths, target lengths
CASES = [
    (12, 4, 6, 5, 0, "mean", [12, 10, 12, 7], [5, 3, 0, 2]),
    (12, 4, 6, 5, 5, "sum", [12, 10, 12, 7], [5, 3, 1, 2]),
    (12, 4, 6, 5, 2, "none", [12, 9, 12, 11], [4, 3, 5, 0]),
    (5, 4, 3, 5, 2, "mean", [5, 5, 2, 0], [5, 2, 4, 0]),  # too few steps for two of them
    (5, 4, 3, 5, 0, "none", [5, 5, 3, 1], [5, 2, 4, 3]),
    (60, 2, 37, 9, 36, "mean", [60, 55], [9, 6]),
    (80, 1, 3, 30, 0, "sum", [80], [30]),
]


def loss(T, N, K, S, blank, reduction, input_lengths, target_lengths):
    def run(t, **_):
        scores = t("x", T, N, K)
        labels = t.classes("targets", N, S, n=K - 1)
        labels = labels + (labels >= blank)
        return F.ctc_loss(F.log_softmax(4 * scores, dim=-1), labels, torch.tensor(input_lengths), torch.tensor(target_lengths),
                          blank=blank, reduction=reduction, zero_infinity=True)
    return run


def main():
    cases = [ops.run_case(FIRST + i, "ctc_loss", {"blank": c[4], "reduction": c[5], "input_lengths": c[6],
                                                  "target_lengths": c[7]}, loss(*c)) for i, c in enumerate(CASES)]
    finish(__file__, {
        "about": "F.ctc_loss of log_softmax in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM, "ops": cases,
    })


if __name__ == "__main__":
    main()
