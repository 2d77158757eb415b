#!/usr/bin/env python3
"""Values and gradients where a formula divides by 0, takes a logarithm of 0 or broadcasts, in PyTorch -> edges.json.

usage: edges.py [--check]      needs PyTorch 2.15 and numpy; a second
Inputs are stored with the case; gradients are those of the plain sum of y. NaN and Infinity stand as such.
SPDX-License-Identifier: Apache-2.0
"""
import warnings

import torch
import torch.nn.functional as F

from golden_file import finish, rounded

CASES = []
NAN, INF = float("nan"), float("inf")


def case(op, function, *inputs, constant=(), **attributes):
    """inputs: nested lists; constant: names of those without a gradient."""
    names = function.__code__.co_varnames
    CASES.append((op, function, dict(zip(names, inputs)), constant, attributes))


def flat(tensor):
    return [rounded(v) for v in tensor.detach().reshape(-1).tolist()]


def run(op, function, inputs, constant, attributes):
    tensors = {n: torch.tensor(v, dtype=torch.float64, requires_grad=n not in constant) for n, v in inputs.items()}
    y = function(*tensors.values(), **attributes)
    wanted = [(n, t) for n, t in tensors.items() if t.requires_grad]
    if not y.requires_grad:  # bools, places
        return {"op": op, "attributes": attributes, "inputs": inputs, "outputs": {"y": flat(y.double())}}
    grads = torch.autograd.grad(y.sum(), [t for _, t in wanted])
    outputs = {"y": flat(y), **{f"d{n}": flat(g) for (n, _), g in zip(wanted, grads)}}
    return {"op": op, "attributes": attributes, "inputs": inputs, "outputs": outputs}


# ---- roots of 0 ----

for p in (0.5, 1, 1.5, 2, 3):
    case("norm", lambda x, p: x.norm(p), [0, 0], p=p)
    case("norm", lambda x, p, dim: x.norm(p, dim), [[0, 0], [3, -4], [0, 2]], p=p, dim=1)
case("norm", lambda x, p: x.norm(p), [2, -2, 1], p=INF)
for unbiased in (True, False):
    case("std", lambda x, unbiased: x.std(unbiased=unbiased), [2, 2, 2], unbiased=unbiased)
    case("std", lambda x, unbiased, dim: x.std(dim, unbiased=unbiased), [[2, 2], [1, 3]], unbiased=unbiased, dim=1)
    case("var", lambda x, unbiased, dim: x.var(dim, unbiased=unbiased), [[2, 2], [1, 3]], unbiased=unbiased, dim=1)
case("std", lambda x, unbiased: x.std(unbiased=unbiased), [2], unbiased=True)
for eps in (1e-6, 0.0):
    for p in (1, 2, 3):
        case("triplet_margin_loss", lambda a, b, c, p, eps: F.triplet_margin_loss(a, b, c, p=p, eps=eps),
             [[1, 1]], [[1, 1]], [[1, 1.5]], p=p, eps=eps)

# ---- cosine: zeros, and sizes that differ ----

COSINES = [([0, 0], [0, 0], 0), ([0, 0], [3, 4], 0), ([[1, 1, 1, 1], [1, 2, 3, 4]], [[1, 1, 1, 1]], 1),
           ([[1, 1], [1, 3]], [[1]], 1), ([[1, 2], [3, 4]], [2, 5], 0), ([2, 5], [[1, 2], [3, 4]], 1),
           ([[1, 2], [3, 4]], [[2], [5]], 0), ([[[1, 2]], [[3, 4]]], [[2, 1], [5, 1]], 2)]
for a, b, dim in COSINES:
    case("cosine_similarity", lambda a, b, dim: F.cosine_similarity(a, b, dim=dim), a, b, dim=dim)

# ---- variances per element, per row, per column ----

for var in ([1, 100], [[1], [100]], [[1, 100]], [[1, 100], [4, 25]], [[0, 1e-7], [1, 1]]):
    case("gaussian_nll_loss", lambda x, target, var: F.gaussian_nll_loss(x, target, var, reduction="none"),
         [[1, 1], [1, 2]], [[0, 0], [0, 0]], var)
case("gaussian_nll_loss", lambda x, target, var: F.gaussian_nll_loss(x, target, var, reduction="none"),
     [[1, 1, 2], [1, 2, 2]], [[0, 0, 0], [0, 0, 1]], [1, 100])

# ---- gradients of targets, logarithms of 0 ----

X, T = [[0.5, -1], [20, -20]], [[0.25, 1], [0, 0.75]]
for reduction in ("mean", "sum", "none"):
    case("bce_with_logits", lambda x, target, reduction: F.binary_cross_entropy_with_logits(x, target, reduction=reduction),
         X, T, reduction=reduction)
    case("multilabel_soft_margin",
         lambda x, target, reduction: F.multilabel_soft_margin_loss(x, target, reduction=reduction), X, T, reduction=reduction)
    case("binary_cross_entropy", lambda x, target, reduction: F.binary_cross_entropy(x, target, reduction=reduction),
         [0.5, 0.25, 0.875, 1e-20], [0, 0.75, 1, 1], reduction=reduction)
for name, fn in (("mse", F.mse_loss), ("l1_loss", F.l1_loss), ("smooth_l1_loss", F.smooth_l1_loss), ("huber_loss", F.huber_loss),
                 ("poisson_nll_loss", F.poisson_nll_loss)):
    case(name, lambda x, target, fn=fn: fn(x, target), X, T)
case("cross_entropy", lambda x, target: F.cross_entropy(x, target), X, T)
case("binary_cross_entropy", lambda x, target, reduction: F.binary_cross_entropy(x, target, reduction=reduction),
     [0, 0, 1, 1], [0, 1, 0, 1], constant=("target",), reduction="none")
case("kl_div", lambda x, target, reduction: F.kl_div(x, target, reduction=reduction), [0, -1, -1, -1], [-1, 0, 0.5, 1],
     constant=("target",), reduction="none")
# ---- bounds ----

case("clamp", lambda x, lo, hi: x.clamp(lo, hi), [-2, -1, 0, 1, 2, NAN], lo=-1, hi=1)
case("clamp", lambda x, lo: x.clamp(lo), [-2, -1, 0], lo=-1)
case("relu6", lambda x: F.relu6(x), [-1, 0, 3, 6, 7])
case("hardtanh", lambda x: F.hardtanh(x), [-2, -1, 0, 1, 2])

# ---- equals, NaN, tensors without dims ----

for x in ([[1, 3, 3], [2, 2, 0]], [[NAN, 1, NAN], [-INF, -INF, 0]]):
    case("max", lambda x, dim: x.max(dim)[0], x, dim=1)
    case("min", lambda x, dim: x.min(dim)[0], x, dim=0)
    case("amax", lambda x, dim: x.amax(dim), x, dim=1)
case("maximum", lambda a, b: torch.maximum(a, b), [NAN, 1, 2, 3], [1, NAN, 2, 1])
case("minimum", lambda a, b: torch.minimum(a, b), [NAN, 1, 2, 3], [1, NAN, 2, 1])
for dim in (0, -1):
    for name in ("sum", "mean", "amax", "softmax", "log_softmax", "cumsum"):
        case(name, lambda x, dim, name=name: getattr(x, name)(dim), -2, dim=dim)
    case("max", lambda x, dim: x.max(dim)[0], -2, dim=dim)
    case("norm", lambda x, p, dim: x.norm(p, dim), -2, p=2, dim=dim)
    case("cosine_similarity", lambda a, b, dim: F.cosine_similarity(a, b, dim=dim), 2, -3, dim=dim)
case("prelu", lambda x: F.prelu(x, torch.tensor([0.25], dtype=torch.float64)), -2)
for reduction in ("mean", "none"):
    case("nll", lambda x, reduction: F.nll_loss(x, torch.tensor(1), reduction=reduction), [-1, -2, -3], reduction=reduction)

# ---- names: a call each, of x or of a and b ----

NUMBERS = [[-2.5, -0.5, 0.25, 1.5], [2.5, 3, -1, 0.75], [1, 1, -3, 4]]
for name in ("floor", "ceil", "round", "trunc", "frac", "square", "reciprocal", "expm1", "exp2", "relu6", "hardtanh", "selu",
             "celu", "mish", "softsign", "tanhshrink", "isnan", "isfinite", "logical_not", "prod", "nan_to_num", "min", "any"):
    fn = getattr(F, name, None) if name in ("relu6", "hardtanh", "selu", "celu", "mish", "softsign", "tanhshrink") else None
    case("call", lambda x, name, args, fn=fn or getattr(torch, name): fn(x), NUMBERS, name=name, args=[])
for name in ("log1p", "log2", "log10", "rsqrt"):
    case("call", lambda x, name, args: getattr(torch, name)(x), [0.25, 1, 3, 1e-4], name=name, args=[])
for name, *args in (("logsumexp", 1), ("prod", 0), ("sort", 1), ("sort", 0), ("softmin", 1), ("glu", 1), ("argsort", 1), ("argmin", 1),
                    ("all", 1), ("movedim", 0, 1), ("diagonal",)):
    def call(x, name, args):
        y = getattr(torch if hasattr(torch, name) else F, name)(x, *args) if name != "softmin" else F.softmin(x, *args)
        return y if isinstance(y, torch.Tensor) else y[0]
    case("dims", call, NUMBERS, name=name, args=args)
case("dims", lambda x, name, args: x.logsumexp(*args), [[-INF, -INF], [0, -INF], [200, 200]], name="logsumexp", args=[1])
for name in ("remainder", "fmod", "pow", "clamp", "logaddexp", "outer", "logical_and", "logical_or", "logical_xor", "maximum"):
    x, y = ([1, 2], [3, -1.5]) if name == "outer" else ([5, 5.5, 0.5, 7], [3, 2.5, -3, 2])
    case("pair", lambda a, b, name: getattr(torch, name)(a, b), x, y, name=name)
case("pair", lambda a, b, name: a ** b, [0, 0, 2, -2, 3], [0, 2, 3, 2, -1], name="pow", constant=("b",))
for name, a, b in (("remainder", 1, 0.1), ("remainder", -7, 3), ("remainder", 7, -3), ("fmod", -7, 3), ("fmod", 7, -3)):
    case("number", lambda x, name, value: getattr(torch, name)(x, value), [a], name=name, value=b)
for args in ([1], [-5], [2, 1], [[1, 2], [0, 1]]):
    case("dims", lambda x, name, args: x.roll(*args), NUMBERS, name="roll", args=args)
case("norm", lambda x, p: x.norm(p), [2, 1, -3], p=-INF)
case("norm", lambda x, p: x.norm(p), [2, 0, -3], p=0, constant=("x",))
case("dims", lambda x, name, args: x.t(), [1, 2], name="t", args=[])

# ---- layers, by name and arguments ----

IMAGE = (torch.arange(1 * 8 * 2 * 4.).reshape(1, 8, 2, 4) % 7 - 3).tolist()
for name, *args in (("PixelShuffle", 2), ("PixelUnshuffle", 2), ("ChannelShuffle", 4), ("ConstantPad2d", [1, 0, 2, 1], 3.),
                    ("ReflectionPad2d", 1), ("ReplicationPad2d", [1, 2, 0, 1]), ("CircularPad2d", 1), ("ZeroPad2d", 2),
                    ("Softmax2d",), ("Softshrink", 1), ("Hardshrink", 1), ("Threshold", 0.5, 9), ("CELU", 2), ("AvgPool2d", 2)):
    case("layer", lambda x, name, args: getattr(torch.nn, name)(*(tuple(a) if isinstance(a, list) else a for a in args))(x),
         IMAGE, name=name, args=args)
    if name not in ("ChannelShuffle",):
        case("layer", lambda x, name, args: getattr(torch.nn, name)(*(tuple(a) if isinstance(a, list) else a for a in args))(x),
             IMAGE[0], name=name, args=args)
for name, *args in (("AdaptiveAvgPool1d", 2), ("AdaptiveMaxPool1d", 3), ("ReflectionPad1d", 1), ("ReplicationPad1d", [2, 0]),
                    ("ConstantPad1d", 1, 2.), ("CircularPad1d", 1), ("MaxPool1d", 2)):
    case("layer", lambda x, name, args: getattr(torch.nn, name)(*(tuple(a) if isinstance(a, list) else a for a in args))(x),
         [[[1, 5, 2, 4, 3], [0, -2, 2, 7, 7.5]]], name=name, args=args)
for p in (1, 2):
    case("normalize", lambda x, p: F.normalize(x, p=p), [[3, 4], [0, 0]], p=p)
    case("distance", lambda a, b, p: F.pairwise_distance(a, b, p=p), [[3, 4], [0, 1]], [[0, 0], [0, 1]], p=p)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the deviation of one number
    finish(__file__, {
        "about": "edges of losses and norms in PyTorch 2.15, float64; see README.md",
        "ops": [run(*c) for c in CASES],
    })
