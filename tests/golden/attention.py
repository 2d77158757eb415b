#!/usr/bin/env python3
"""Layer, RMS, group norm, attention and its layers in PyTorch -> attention.json (see README.md for the layout).

usage: attention.py [--check]      needs PyTorch and numpy; a few seconds
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

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
    t = Tensors(40000 + 30 * index)
    y = function(t, **attributes)
    wanted = [(name, v) for name, v in t.values.items() if v.requires_grad]
    dy = t("dy", *y.shape, grad=False)
    grads = torch.autograd.grad(y, [v for _, v in wanted], dy)
    outputs = {"y": summary(y), **{f"d{name}": summary(g) for (name, _), g in zip(wanted, grads)}}
    return {"op": op, "attributes": attributes, "inputs": t.made, "outputs": outputs}


for shape, x_shape in (([7], (3, 4, 7)), ([4, 7], (3, 4, 7))):
    @case("layer_norm", normalized_shape=shape, eps=1e-5, x_shape=list(x_shape))
    def _(t, normalized_shape, eps, x_shape):
        return F.layer_norm(t("x", *x_shape), normalized_shape, t("weight", *normalized_shape), t("bias", *normalized_shape), eps)


@case("rms_norm", normalized_shape=[7], eps=1e-6)
def _(t, normalized_shape, eps):
    x, weight = t("x", 3, 4, 7), t("weight", *normalized_shape)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


for groups in (1, 3, 6):
    @case("group_norm", num_groups=groups, eps=1e-5)
    def _(t, num_groups, eps):
        return F.group_norm(t("x", 2, 6, 3, 5), num_groups, t("weight", 6), t("bias", 6), eps)


def attend(q, k, v, mask):
    """What F.scaled_dot_product_attention computes, which is held against it where there is one."""
    y = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + mask, -1) @ v
    if hasattr(F, "scaled_dot_product_attention"):
        torch.testing.assert_close(y, F.scaled_dot_product_attention(q, k, v, mask.expand(*q.shape[:-1], k.shape[-2])))
    return y


def blocked(keep):
    """Added to the scores: 0 where keep is true, else minus infinity."""
    return torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, float("-inf"))


def qkv(t):
    return t("q", 2, 3, 5, 4), t("k", 2, 3, 6, 4), t("v", 2, 3, 6, 7)


@case("attention", mask="none")
def _(t, mask):
    return attend(*qkv(t), torch.zeros(1, dtype=torch.float64))


@case("attention", mask="causal")
def _(t, mask):
    return attend(*qkv(t), blocked(torch.ones(5, 6, dtype=torch.bool).tril()))


@case("attention", mask="bool")
def _(t, mask):
    bits = t("mask", 5, 6, kind="bit", grad=False) > 0
    bits[:, 0] = True  # every query has a key
    return attend(*qkv(t), blocked(bits))


@case("attention", mask="float")
def _(t, mask):
    values = t("mask", 2, 1, 5, 6, grad=False)
    return attend(*qkv(t), values)


def use(t, module):
    """The module in float64 with all parameters drawn from t."""
    module = module.double()
    for name, parameter in list(module.named_parameters()):
        owner, _, last = name.rpartition(".")
        owner = module.get_submodule(owner)
        del owner._parameters[last]
        setattr(owner, last, t(name, *parameter.shape))
    return module


PADDING = torch.tensor([[False] * 5, [False, False, False, True, True], [False, True, False, True, False]])

for masked in ("none", "padding", "causal"):
    @case("MultiheadAttention", mask=masked)
    def _(t, mask):
        module = use(t, nn.MultiheadAttention(8, 2, batch_first=True))
        x = t("x", 3, 5, 8)
        future = torch.ones(5, 5, dtype=torch.bool).triu(1) if mask == "causal" else None
        return module(x, x, x, key_padding_mask=PADDING if mask == "padding" else None, attn_mask=future)[0]

for first in (False, True):
    @case("TransformerEncoderLayer", norm_first=first)
    def _(t, norm_first):
        module = use(t, nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, activation="gelu", norm_first=norm_first))
        return module(t("x", 5, 3, 8))


if __name__ == "__main__":
    finish(__file__, {
        "about": "normalisation within a sample and attention in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM,
        "ops": [run_case(i, *c) for i, c in enumerate(CASES)],
    })
