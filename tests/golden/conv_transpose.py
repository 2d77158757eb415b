#!/usr/bin/env python3
"""Transposed convolution in PyTorch -> conv_transpose.json: odd strides, paddings, output paddings, dilations, groups.

usage: conv_transpose.py [--check]      needs PyTorch and numpy; a second
Cases are those of ops.py in form (README.md), their tensors are numbered from 40000 on.
SPDX-License-Identifier: Apache-2.0
"""
import torch.nn.functional as F

import counter
import ops
from golden_file import finish

FIRST = 1500  # ops.run_case numbers the tensors of case i from 10000 + 20 * i on

CASES = [
    ((2, 3, 4, 5), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 1, "groups": 1}),
    ((1, 4, 3, 5), (4, 3, 4, 4), {"stride": 2, "padding": 1, "output_padding": 0, "dilation": 1, "groups": 1}),
    ((2, 3, 3, 4), (3, 2, 3, 5), {"stride": [3, 2], "padding": [1, 2], "output_padding": [2, 1], "dilation": [1, 2],
                                  "groups": 1}),
    ((2, 6, 4, 3), (6, 2, 3, 2), {"stride": [1, 3], "padding": [2, 0], "output_padding": [0, 2], "dilation": [2, 1],
                                  "groups": 2}),
    ((2, 5, 3, 4), (5, 1, 4, 4), {"stride": 2, "padding": 1, "output_padding": 0, "dilation": 1, "groups": 5}),
    ((1, 3, 3, 3), (3, 2, 2, 3), {"stride": 2, "padding": 1, "output_padding": [3, 2], "dilation": 4, "groups": 3}),
]


def layer(x_shape, w_shape):
    def run(t, **a):
        return F.conv_transpose2d(t("x", *x_shape), t("weight", *w_shape), t("bias", w_shape[1] * a["groups"]), **a)
    return run


def main():
    cases = [ops.run_case(FIRST + i, "conv_transpose2d", attributes, layer(x_shape, w_shape))
             for i, (x_shape, w_shape, attributes) in enumerate(CASES)]
    finish(__file__, {
        "about": "F.conv_transpose2d in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM, "ops": cases,
    })


if __name__ == "__main__":
    main()
