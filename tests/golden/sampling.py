#!/usr/bin/env python3
"""Resampling and embeddings in PyTorch -> sampling.json (see README.md for the layout).

usage: sampling.py [--check]      needs PyTorch and numpy; a few seconds
SPDX-License-Identifier: Apache-2.0
"""
import torch
import torch.nn.functional as F

import counter
from golden_file import finish
from ops import Tensors, summary

CASES = []


def case(op, **attributes):
    """Declares a case: the function draws inputs from `t` and returns y."""
    def declare(function):
        CASES.append((op, attributes, function))
        return function
    return declare


def run_case(index, op, attributes, function):
    """Forward, then backward with dy = a signed tensor of y's shape."""
    t = Tensors(30000 + 10 * index)
    y = function(t, **attributes)
    wanted = [(name, v) for name, v in t.values.items() if v.requires_grad]
    dy = t("dy", *y.shape, grad=False)
    grads = torch.autograd.grad(y, [v for _, v in wanted], dy)
    outputs = {"y": summary(y), **{f"d{name}": summary(g) for (name, _), g in zip(wanted, grads)}}
    return {"op": op, "attributes": attributes, "inputs": t.made, "outputs": outputs}


def interpolate_case(shape, **attributes):
    @case("interpolate", **attributes)
    def _(t, mode, **a):
        if mode == "bilinear":
            a.setdefault("align_corners", False)
        return F.interpolate(t("x", *shape), mode=mode, **a)


for mode in ("nearest", "bilinear"):
    interpolate_case((2, 3, 5, 7), mode=mode, size=[9, 12])
    interpolate_case((1, 2, 9, 11), mode=mode, size=[4, 5])
    interpolate_case((1, 2, 5, 7), mode=mode, scale_factor=[1.7, 2.3])
    interpolate_case((1, 2, 5, 7), mode=mode, scale_factor=[1.7, 2.3], recompute_scale_factor=True)
    interpolate_case((1, 2, 9, 8), mode=mode, scale_factor=[0.6, 0.45])
interpolate_case((2, 3, 5, 7), mode="bilinear", size=[9, 12], align_corners=True)
interpolate_case((1, 2, 9, 11), mode="bilinear", size=[4, 1], align_corners=True)


def grid_case(**attributes):
    @case("grid_sample", **attributes)
    def _(t, **a):
        return F.grid_sample(t("x", 2, 3, 5, 6), 1.7 * t("grid", 2, 4, 7, 2), **a)  # y = grid_sample(x, 1.7 * grid)


for mode in ("nearest", "bilinear"):
    for padding_mode in ("zeros", "border", "reflection"):
        for align_corners in (False, True):
            grid_case(mode=mode, padding_mode=padding_mode, align_corners=align_corners)

for align_corners in (False, True):
    @case("affine_grid", align_corners=align_corners)
    def _(t, **a):
        return F.affine_grid(t("theta", 2, 2, 3), [2, 1, 4, 5], **a)


@case("embedding", padding_idx=2)
def _(t, **a):
    return F.embedding(t.classes("index", 3, 5, n=6).long(), t("weight", 6, 4), **a)


@case("gather", dim=1)
def _(t, dim):
    return torch.gather(t("x", 4, 6), dim, t.classes("index", 3, 8, n=6).long())


@case("scatter_add", dim=0)
def _(t, dim):
    return t("x", 4, 6).scatter_add(dim, t.classes("index", 9, 5, n=4).long(), t("src", 9, 5))


@case("index_select", dim=2)
def _(t, dim):
    return torch.index_select(t("x", 2, 3, 5), dim, t.classes("index", 7, n=5).long())


if __name__ == "__main__":
    finish(__file__, {
        "about": "resampling and indexing in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM,
        "ops": [run_case(i, *c) for i, c in enumerate(CASES)],
    })
