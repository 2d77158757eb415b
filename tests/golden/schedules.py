#!/usr/bin/env python3
"""Learning rates of PyTorch's schedulers, and clipped gradients -> schedules.json (see README.md).

usage: schedules.py [--check]      seconds
SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from golden_file import finish, rounded

STEPS = 60
NAN = float("nan")

# capl's name, PyTorch's class, and the options of both.
BY_STEP = [
    ("step", "StepLR", {"step_size": 7, "gamma": 0.3}),
    ("multi_step", "MultiStepLR", {"milestones": [5, 6, 30], "gamma": 0.2}),
    ("exponential", "ExponentialLR", {"gamma": 0.93}),
    ("cosine", "CosineAnnealingLR", {"T_max": 60, "eta_min": 0.001}),
    ("cosine_restart", "CosineAnnealingWarmRestarts", {"T_0": 8, "T_mult": 1, "eta_min": 0.01}),
    ("cosine_restart", "CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.0}),
    ("cosine_restart", "CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 3, "eta_min": 0.0}),
    ("one_cycle", "OneCycleLR", {"max_lr": 0.1, "total_steps": 60, "pct_start": 0.25}),
    ("one_cycle", "OneCycleLR", {"max_lr": 0.1, "total_steps": 60, "anneal_strategy": "linear", "three_phase": True}),
]

# Figures as an evaluation gives them: better, no better, slightly better, no number.
FIGURES = [1.0, 0.8, 0.8, 0.79999, 0.81, 0.7, 0.72, NAN, 0.71, 0.7, 0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 0.3, 0.31, 0.32,
           0.3, 0.29999, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
PLATEAUS = [
    {"mode": "min", "factor": 0.5, "patience": 2},
    {"mode": "min", "factor": 0.1, "patience": 0, "cooldown": 3, "min_lr": 1e-5},
    {"mode": "min", "factor": 0.5, "patience": 1, "threshold": 0.05, "threshold_mode": "abs"},
    {"mode": "max", "factor": 0.5, "patience": 3, "threshold": 0.1, "threshold_mode": "rel"},
    {"mode": "max", "factor": 0.2, "patience": 2, "threshold": 0.0, "eps": 1e-3},
]

GRADIENTS = [[3.0, -4.0, 0.5], [-0.25, 12.0]]


def optimizer(lr=0.1):
    return optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)


def by_step(name, scheduler, options):
    opt = optimizer()
    schedule = getattr(lr_scheduler, scheduler)(opt, **options)
    rates = []
    for step in range(STEPS):
        rates.append(rounded(opt.param_groups[0]["lr"]))
        opt.step()
        if step + 1 < STEPS:
            schedule.step()
    return {"name": name, "options": options, "rates": rates}


def plateau(options):
    opt = optimizer()
    schedule = lr_scheduler.ReduceLROnPlateau(opt, **options)
    rates = []
    for figure in FIGURES:
        schedule.step(figure)
        rates.append(rounded(opt.param_groups[0]["lr"]))
    return {"options": options, "rates": rates}


def clipped(function, limit):
    parameters = []
    for values in GRADIENTS:
        p = nn.Parameter(torch.zeros(len(values), dtype=torch.float64))
        p.grad = torch.tensor(values, dtype=torch.float64)
        parameters.append(p)
    norm = getattr(nn.utils, function)(parameters, limit)
    return {"name": function, "limit": limit, "norm": rounded(norm) if norm is not None else -1,
            "gradients": [[rounded(v) for v in p.grad] for p in parameters]}


def main():
    finish(__file__, {
        "about": "torch.optim.lr_scheduler from lr 0.1: the rate of each step, or after each figure; torch.nn.utils.clip_grad_*",
        "figures": ["nan" if f != f else f for f in FIGURES],
        "schedules": [by_step(*row) for row in BY_STEP],
        "plateaus": [plateau(row) for row in PLATEAUS],
        "gradients": GRADIENTS,
        "clips": [clipped("clip_grad_norm_", limit) for limit in (1.0, 20.0)] + [clipped("clip_grad_value_", 2.0)],
    })


if __name__ == "__main__":
    main()
