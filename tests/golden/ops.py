#!/usr/bin/env python3
"""Single ops, losses, optimisers and schedules in PyTorch -> ops.json (see README.md for the layout).

usage: ops.py [--check]      needs PyTorch and numpy; a few seconds
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch
import torch.nn.functional as F
from torch import nn, optim

import counter
from golden_file import finish, rounded

MAX_ALL, N_SAMPLES = 24, 8  # outputs up to MAX_ALL elements are stored whole, larger ones sampled
KINDS = {
    "signed": lambda shape, t: counter.signed(shape, t),                   # [-1, 1)
    "unit": lambda shape, t: counter.uniform(shape, t),                    # [0, 1)
    "positive": lambda shape, t: counter.uniform(shape, t) + counter.np.float32(0.5),  # [0.5, 1.5)
    "bit": lambda shape, t: (counter.uniform(shape, t) >= 0.5).astype("float32"),
}


class Tensors:
    """Hands out input tensors of one case, numbered from `first`, and remembers how each was made."""

    def __init__(self, first):
        self.next, self.made, self.values = first, [], {}

    def __call__(self, name, *shape, kind="signed", grad=True):
        value = torch.from_numpy(KINDS[kind](shape, self.next)).double().requires_grad_(grad)
        self.made.append({"name": name, "shape": list(shape), "tensor": self.next, "kind": kind})
        self.next += 1
        self.values[name] = value
        return value

    def classes(self, name, *shape, n):
        value = torch.from_numpy(counter.classes(shape, self.next, n))
        self.made.append({"name": name, "shape": list(shape), "tensor": self.next, "kind": f"classes {n}"})
        self.next += 1
        return value


def summary(tensor):
    """All elements in row-major order, or norm, sum and N_SAMPLES evenly spaced elements."""
    flat = tensor.detach().double().reshape(-1)
    shape = list(tensor.shape)
    if flat.numel() <= MAX_ALL:
        return {"shape": shape, "values": [rounded(v) for v in flat]}
    at = [i * (flat.numel() - 1) // (N_SAMPLES - 1) for i in range(N_SAMPLES)]
    return {"shape": shape, "norm": rounded(flat.norm()), "sum": rounded(flat.sum()),
            "at": at, "values": [rounded(flat[i]) for i in at]}


CASES = []


def case(op, **attributes):
    """Declares a case: the function draws inputs from `t` and returns y, or y and extra outputs by name."""
    def declare(function):
        CASES.append((op, attributes, function))
        return function
    return declare


def run_case(index, op, attributes, function):
    """Forward, then backward with dy = a signed tensor of y's shape (scalars: dy = 1)."""
    t = Tensors(10000 + 20 * index)
    result = function(t, **attributes)
    y, extra = result if isinstance(result, tuple) else (result, {})
    wanted = [(name, v) for name, v in t.values.items() if v.requires_grad]
    dy = t("dy", *y.shape, grad=False) if y.dim() else None
    grads = torch.autograd.grad(y, [v for _, v in wanted], dy)
    outputs = {"y": summary(y), **{name: summary(v) for name, v in extra.items()}}
    outputs.update({f"d{name}": summary(g) for (name, _), g in zip(wanted, grads)})
    return {"op": op, "attributes": attributes, "inputs": t.made, "outputs": outputs}


# ---- layers ----

def conv_case(x_shape, w_shape, **attributes):
    @case("conv2d", **attributes)
    def _(t, **a):
        return F.conv2d(t("x", *x_shape), t("weight", *w_shape), t("bias", w_shape[0]), **a)


conv_case((2, 3, 7, 9), (4, 3, 3, 3), stride=1, padding=1, dilation=1, groups=1)
conv_case((2, 4, 8, 11), (6, 4, 3, 3), stride=2, padding=1, dilation=1, groups=1)
conv_case((2, 4, 9, 11), (6, 4, 3, 3), stride=1, padding=2, dilation=2, groups=1)
conv_case((2, 4, 8, 9), (6, 2, 3, 3), stride=1, padding=1, dilation=1, groups=2)
conv_case((2, 4, 8, 9), (4, 1, 3, 3), stride=2, padding=1, dilation=1, groups=4)
conv_case((2, 3, 9, 10), (5, 3, 5, 3), stride=[2, 1], padding=[0, 1], dilation=[1, 2], groups=1)


@case("batch_norm", training=True, momentum=0.1, eps=1e-5)
def _(t, **a):
    x, mean, var = t("x", 4, 3, 5, 6), t("running_mean", 3, grad=False), t("running_var", 3, kind="positive", grad=False)
    y = F.batch_norm(x, mean, var, t("weight", 3), t("bias", 3), **a)  # updates mean and var in place
    return y, {"running_mean": mean, "running_var": var}


@case("batch_norm", training=False, momentum=0.1, eps=1e-5)
def _(t, **a):
    x, mean, var = t("x", 4, 3, 5, 6), t("running_mean", 3, grad=False), t("running_var", 3, kind="positive", grad=False)
    return F.batch_norm(x, mean, var, t("weight", 3), t("bias", 3), **a)


def pool_case(op, shape, **attributes):
    @case(op, **attributes)
    def _(t, **a):
        return getattr(F, op)(t("x", *shape), **a)


pool_case("max_pool2d", (2, 3, 7, 10), kernel_size=2, stride=2, padding=0, ceil_mode=False)
pool_case("max_pool2d", (2, 3, 7, 10), kernel_size=2, stride=2, padding=0, ceil_mode=True)
pool_case("max_pool2d", (2, 3, 8, 9), kernel_size=3, stride=2, padding=1, ceil_mode=False)
pool_case("max_pool2d", (2, 3, 8, 9), kernel_size=3, stride=2, padding=1, ceil_mode=True)
for count_include_pad in (True, False):
    pool_case("avg_pool2d", (2, 3, 8, 9), kernel_size=3, stride=2, padding=1, ceil_mode=False,
              count_include_pad=count_include_pad)
pool_case("avg_pool2d", (2, 3, 8, 10), kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=True)
pool_case("adaptive_avg_pool2d", (2, 3, 7, 10), output_size=[3, 4])
pool_case("adaptive_max_pool2d", (2, 3, 7, 10), output_size=[3, 4])


# ---- losses (mean reduction unless told otherwise) ----

@case("log_softmax", dim=1)
def _(t, dim):
    return F.log_softmax(4 * t("x", 3, 7), dim)  # y = log_softmax(4 * x)


@case("cross_entropy", label_smoothing=0.0, ignore_index=-100)
def _(t, **a):
    return F.cross_entropy(t("x", 6, 5), t.classes("labels", 6, n=5), **a)


@case("cross_entropy", label_smoothing=0.1, ignore_index=-100)
def _(t, **a):
    return F.cross_entropy(t("x", 6, 5), t.classes("labels", 6, n=5), **a)


@case("cross_entropy", label_smoothing=0.1, ignore_index=2)
def _(t, **a):
    return F.cross_entropy(t("x", 12, 5), t.classes("labels", 12, n=5), **a)


def pair_case(op, function, target_kind, **attributes):
    @case(op, **attributes)
    def _(t, **a):
        return function(t("x", 4, 6), t("target", 4, 6, kind=target_kind, grad=False), **a)


pair_case("bce_with_logits", F.binary_cross_entropy_with_logits, "bit", reduction="mean")
pair_case("bce_with_logits", F.binary_cross_entropy_with_logits, "unit", reduction="sum")
pair_case("multilabel_soft_margin", F.multilabel_soft_margin_loss, "bit", reduction="mean")
pair_case("mse", F.mse_loss, "signed", reduction="mean")


# ---- optimisers: parameter x (7), gradient of step k is the next tensor; x after each of three steps ----

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("Adam", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8}),
    ("Adam", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.99, "eps": 1e-8}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.9, "eps": 1e-8, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "betas": [0.9, 0.5], "eps": 1e-8, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "betas": [0.9, 0.5], "eps": 1e-8, "weight_decay": 0.1, "amsgrad": True}),
]


def run_optimizer(index, name, options):
    t = Tensors(20000 + 10 * index)
    x = nn.Parameter(t("x", 7).detach().clone())
    optimizer = getattr(optim, name)([x], **options)
    after = []
    for step in range(3):
        x.grad = t(f"grad{step}", 7, grad=False)
        optimizer.step()
        after.append([rounded(v) for v in x.detach()])
    return {"optimizer": name, "options": options, "inputs": t.made, "x_after_step": after}


# ---- schedules: the learning rate used by step 0, 1, 2 ... ----

def warmup_cosine(step, lr, warmup, total, eta_min):
    """Linear (step + 1) / warmup, then half a cosine down to eta_min at step `total`."""
    if step < warmup:
        return lr * (step + 1) / warmup
    return eta_min + (lr - eta_min) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def sampled(make, n_steps):
    """Learning rates of n_steps steps under a PyTorch scheduler."""
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = make(optimizer)
    rates = []
    for _ in range(n_steps):
        rates.append(rounded(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return rates


def schedules():
    one_cycle = {"max_lr": 0.1, "total_steps": 20, "pct_start": 0.3, "anneal_strategy": "cos",
                 "div_factor": 25.0, "final_div_factor": 1e4}
    ramp = {"lr": 6e-4, "warmup": 5, "total": 20, "eta_min": 1e-6}
    S = optim.lr_scheduler
    return [
        {"schedule": "StepLR", "lr": 0.1, "options": {"step_size": 3, "gamma": 0.5},
         "rates": sampled(lambda o: S.StepLR(o, step_size=3, gamma=0.5), 10)},
        {"schedule": "CosineAnnealingLR", "lr": 0.1, "options": {"T_max": 10, "eta_min": 1e-6},
         "rates": sampled(lambda o: S.CosineAnnealingLR(o, T_max=10, eta_min=1e-6), 11)},
        {"schedule": "OneCycleLR", "lr": 0.1, "options": one_cycle,
         "rates": sampled(lambda o: S.OneCycleLR(o, cycle_momentum=False, **one_cycle), 20)},
        {"schedule": "warmup_cosine", "lr": ramp["lr"], "options": {k: v for k, v in ramp.items() if k != "lr"},
         "rates": [rounded(warmup_cosine(step, **ramp)) for step in range(21)]},
    ]


def main():
    finish(__file__, {
        "about": "single ops in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM,
        "ops": [run_case(i, *c) for i, c in enumerate(CASES)],
        "optimizers": [run_optimizer(i, *c) for i, c in enumerate(OPTIMIZERS)],
        "schedules": schedules(),
    })


if __name__ == "__main__":
    main()
