#!/usr/bin/env python3
"""Activations and losses in PyTorch -> losses.json (see README.md for the layout).

usage: losses.py [--check]      needs PyTorch and numpy; a few seconds
Focal losses are not PyTorch's own: they are written here as torchvision and the paper define them; dice by its formula.
SPDX-License-Identifier: Apache-2.0
"""

import torch
import torch.nn.functional as F

import counter
import ops
from golden_file import finish

ops.CASES.clear()
case, KINDS = ops.case, ops.KINDS
KINDS["wide"] = lambda shape, t: counter.signed(shape, t) * counter.np.float32(6)  # [-6, 6)
KINDS["sign"] = lambda shape, t: (counter.uniform(shape, t) >= 0.5).astype("float32") * 2 - 1

# ---- activations: name, arguments ----

ACTIVATIONS = [
    ("silu", {}), ("gelu", {"approximate": "none"}), ("gelu", {"approximate": "tanh"}), ("softplus", {"beta": 1, "threshold": 20}),
    ("softplus", {"beta": 2.5, "threshold": 4}), ("leaky_relu", {"negative_slope": 0.01}), ("elu", {"alpha": 1.0}), ("elu", {"alpha": 0.4}),
    ("hardsigmoid", {}), ("hardswish", {}), ("logsigmoid", {}), ("mish", {}), ("selu", {}), ("relu6", {}), ("hardtanh", {}),
]


def declare_activation(name, attributes):
    @case(name, **attributes)
    def _(t, **a):
        return getattr(F, name)(t("x", 4, 6, kind="wide"), **a)


for name, attributes in ACTIVATIONS:
    declare_activation(name, attributes)


@case("prelu")
def _(t):
    return F.prelu(t("x", 2, 3, 4), t("weight", 3))


# ---- classes ----

def labels_with(t, *shape, n, ignored):
    """Labels of n classes; where they are the last one and ignored is asked for, that is the label to ignore."""
    return t.classes("labels", *shape, n=n), (n - 1 if ignored else -100)


def class_case(op, function, shape, weighted, ignored, **attributes):
    @case(op, **attributes, weighted=weighted, ignored=ignored)
    def _(t, weighted, ignored, **a):
        x = t("x", *shape, kind="wide")
        labels, ignore = labels_with(t, shape[0], *shape[2:], n=shape[1], ignored=ignored)
        weight = t("weight", shape[1], kind="positive", grad=False) if weighted else None
        return function(x, labels, weight=weight, ignore_index=ignore, **a)


def nll(x, labels, **a):
    return F.nll_loss(F.log_softmax(x, 1), labels, **a)


def focal(x, labels, gamma, weight, ignore_index, reduction):
    """-(1 - p)^gamma log p of the label; a mean is over the labels that count."""
    log_p = F.log_softmax(x, 1)
    each = F.nll_loss(log_p, labels, weight=weight, ignore_index=ignore_index, reduction="none")
    counts = labels != ignore_index
    p = log_p.gather(1, (labels * counts).unsqueeze(1)).squeeze(1).exp()
    each = each * (1 - p) ** gamma
    return each.sum() / counts.sum() if reduction == "mean" else each.sum() if reduction == "sum" else each


for reduction in ("mean", "sum", "none"):
    class_case("cross_entropy", F.cross_entropy, (7, 4), True, False, label_smoothing=0.0, reduction=reduction)
    class_case("cross_entropy", F.cross_entropy, (2, 4, 3, 2), True, True, label_smoothing=0.2, reduction=reduction)
    class_case("nll_loss", nll, (7, 4), True, True, reduction=reduction)
    class_case("focal_loss", focal, (7, 4), False, False, gamma=2.0, reduction=reduction)
    class_case("focal_loss", focal, (2, 4, 3, 2), True, True, gamma=1.5, reduction=reduction)
class_case("nll_loss", nll, (2, 4, 3, 2), False, False, reduction="mean")


@case("cross_entropy_shares", label_smoothing=0.1, reduction="mean")
def _(t, **a):
    return F.cross_entropy(t("x", 5, 4), F.softmax(t("target", 5, 4), 1), weight=t("weight", 4, kind="positive", grad=False), **a)


@case("cross_entropy_shares", label_smoothing=0.0, reduction="none")
def _(t, **a):
    return F.cross_entropy(t("x", 2, 4, 3), F.softmax(t("target", 2, 4, 3), 1), weight=t("weight", 4, kind="positive", grad=False), **a)


# ---- elements ----

def pair(op, function, x_kind="signed", target_kind="signed", target_grad=False, shape=(4, 6), **attributes):
    @case(op, **attributes)
    def _(t, **a):
        return function(t("x", *shape, kind=x_kind), t("target", *shape, kind=target_kind, grad=target_grad), **a)


def sigmoid_focal(x, target, alpha, gamma, reduction):
    """As torchvision.ops.sigmoid_focal_loss."""
    p = torch.sigmoid(x)
    each = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    each = each * (1 - p_t) ** gamma
    if alpha >= 0:
        each = each * (alpha * target + (1 - alpha) * (1 - target))
    return each.mean() if reduction == "mean" else each.sum() if reduction == "sum" else each


for reduction in ("mean", "sum", "none"):
    pair("smooth_l1_loss", F.smooth_l1_loss, "wide", target_grad=True, beta=1.0, reduction=reduction)
    pair("sigmoid_focal_loss", sigmoid_focal, "wide", "bit", alpha=0.25, gamma=2.0, reduction=reduction)
pair("smooth_l1_loss", F.smooth_l1_loss, target_grad=True, beta=0.3, reduction="mean")
pair("sigmoid_focal_loss", sigmoid_focal, "wide", "unit", alpha=-1.0, gamma=0.7, reduction="mean")
pair("l1_loss", F.l1_loss, target_grad=True, reduction="mean")
pair("huber_loss", F.huber_loss, "wide", target_grad=True, delta=1.7, reduction="mean")
pair("soft_margin_loss", F.soft_margin_loss, "wide", "sign", reduction="mean")
pair("hinge_embedding_loss", F.hinge_embedding_loss, "wide", "sign", margin=1.3, reduction="mean")
pair("binary_cross_entropy", F.binary_cross_entropy, "unit", "unit", reduction="mean")
pair("poisson_nll_loss", F.poisson_nll_loss, "signed", "wide", log_input=True, full=False, reduction="mean")
pair("poisson_nll_loss", F.poisson_nll_loss, "positive", "positive", log_input=False, full=True, reduction="mean")
pair("kl_div", F.kl_div, "signed", "unit", log_target=False, reduction="batchmean")
pair("kl_div", F.kl_div, "signed", "unit", target_grad=True, log_target=True, reduction="mean")


@case("bce_with_logits_weighted", reduction="mean")
def _(t, **a):
    return F.binary_cross_entropy_with_logits(t("x", 4, 6, kind="wide"), t("target", 4, 6, kind="unit", grad=False),
                                              weight=t("weight", 4, 1, kind="positive", grad=False),
                                              pos_weight=t("pos_weight", 6, kind="positive", grad=False), **a)


@case("gaussian_nll_loss", full=True, reduction="mean")
def _(t, **a):
    return F.gaussian_nll_loss(t("x", 4, 6), t("target", 4, 6), t("var", 4, 6, kind="positive"), **a)


# ---- distances ----

@case("cosine_similarity", dim=1)
def _(t, **a):
    return F.cosine_similarity(t("a", 4, 6, 2), t("b", 4, 6, 2), **a)


@case("cosine_embedding_loss", margin=0.1, reduction="mean")
def _(t, **a):
    return F.cosine_embedding_loss(t("a", 8, 5), t("b", 8, 5), t("target", 8, kind="sign", grad=False), **a)


@case("margin_ranking_loss", margin=0.2, reduction="mean")
def _(t, **a):
    return F.margin_ranking_loss(t("a", 8), t("b", 8), t("target", 8, kind="sign", grad=False), **a)


for p in (1, 2):
    @case("multi_margin_loss", p=p, margin=0.8, reduction="mean")
    def _(t, **a):
        return F.multi_margin_loss(t("x", 7, 4), t.classes("labels", 7, n=4), weight=t("weight", 4, kind="positive", grad=False), **a)


for swap in (False, True):
    @case("triplet_margin_loss", margin=1.0, p=2.0, swap=swap, reduction="mean")
    def _(t, **a):
        return F.triplet_margin_loss(t("a", 6, 5), t("b", 6, 5), t("c", 6, 5), **a)


# ---- dice ----

def dice(p, target, dims, smooth):
    return 1 - (2 * (p * target).sum(dims) + smooth) / (p.sum(dims) + target.sum(dims) + smooth)


@case("dice_loss", smooth=1.0, per_image=False)
def _(t, smooth, per_image):
    x, labels = t("x", 2, 3, 4, 5, kind="wide"), t.classes("labels", 2, 4, 5, n=3)
    weight = t("weight", 3, kind="positive", grad=False)
    each = dice(F.softmax(x, 1), F.one_hot(labels, 3).permute(0, 3, 1, 2), (0, 2, 3), smooth)
    return (each * weight).sum() / weight.sum()


@case("dice_loss", smooth=0.5, per_image=True)
def _(t, smooth, per_image):
    x, labels = t("x", 2, 3, 4, 5, kind="wide"), t.classes("labels", 2, 4, 5, n=3)
    return dice(F.softmax(x, 1), F.one_hot(labels, 3).permute(0, 3, 1, 2), (2, 3), smooth).mean()


@case("dice_mask", smooth=1.0)
def _(t, smooth):
    return dice(torch.sigmoid(t("x", 2, 4, 5, kind="wide")), t("target", 2, 4, 5, kind="bit", grad=False), (0, 1, 2), smooth)


if __name__ == "__main__":
    finish(__file__, {
        "about": "activations and losses in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM,
        "ops": [ops.run_case(i + 400, *c) for i, c in enumerate(ops.CASES)],
    })
