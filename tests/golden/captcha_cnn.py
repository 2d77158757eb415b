#!/usr/bin/env python3
"""Ten training steps of captcha_cnn in PyTorch -> captcha_cnn.json (see README.md for the formulas).

usage: captcha_cnn.py [--check]      needs PyTorch and numpy; about a minute
SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import torch
from torch import nn

import counter
from golden_file import finish, rounded

N, N_POSITIONS, N_CLASSES, N_STEPS = 8, 4, 36, 10
T_BATCH, T_LABELS, T_DROPOUT = 500, 501, 1000
# eps is large so that Adam does not blow rounding noise up to full steps: with 1e-8, PyTorch's own float32 is
# 1e-2 away from its float64 after ten steps; with this, 2e-5.
ADAMW = {"lr": 6e-4, "weight_decay": 1e-4, "betas": (0.9, 0.999), "eps": 1e-2}


class CounterDropout(nn.Module):
    """Dropout 0.5 whose mask for step s is tensor T_DROPOUT + s: kept (and doubled) where u >= 0.5."""

    step = 0

    def forward(self, x):
        keep = counter.uniform(tuple(x.shape), T_DROPOUT + self.step) >= 0.5
        return x * torch.from_numpy(keep * 2.0).to(x.dtype)


def block(c_in, c_out, pool=False):
    layers = [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    return layers + ([nn.MaxPool2d(2)] if pool else [])


class CaptchaCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            *block(1, 32, pool=True), *block(32, 64), *block(64, 64, pool=True), *block(64, 128),
            *block(128, 128), *block(128, 128, pool=True), *block(128, 128))
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(17920, 1024), CounterDropout(), nn.ReLU(),
            nn.Linear(1024, N_POSITIONS * N_CLASSES))

    def forward(self, x):
        return self.classifier(self.features(x))


def bounds(model):
    """1/sqrt(fan_in) by parameter name; BN parameters have none, they stay 1 and 0."""
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            fan_in = module.weight[0].numel()
            found[f"{name}.weight"] = found[f"{name}.bias"] = 1 / np.sqrt(fan_in)
    return found


def set_parameters(model):
    bound = bounds(model)
    with torch.no_grad():
        for t, (name, p) in enumerate(model.named_parameters()):
            if name in bound:
                p.copy_(torch.from_numpy(counter.signed(tuple(p.shape), t, bound[name])))


def make_batch(dtype):
    images = torch.from_numpy(counter.uniform((N, 1, 60, 160), T_BATCH)).to(dtype)
    labels = torch.from_numpy(counter.classes((N, N_POSITIONS), T_LABELS, N_CLASSES))
    return images, labels, nn.functional.one_hot(labels, N_CLASSES).reshape(N, -1).to(dtype)


def norm(tensor):
    return tensor.detach().double().norm().item()


def train(dtype, memory_format=torch.contiguous_format):
    """Losses and global gradient norms of each step, gradient norms at step 0, the model afterwards."""
    model = CaptchaCNN().train()
    set_parameters(model)
    model = model.to(dtype=dtype, memory_format=memory_format)
    images, _, target = make_batch(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    criterion = nn.MultiLabelSoftMarginLoss()
    losses, grad_norms, first_norms = [], [], {}
    for step in range(N_STEPS):
        model.classifier[2].step = step
        optimizer.zero_grad()
        loss = criterion(model(images), target)
        loss.backward()
        norms = {name: norm(p.grad) for name, p in model.named_parameters()}
        first_norms = first_norms or norms
        losses.append(loss.item())
        grad_norms.append(float(np.sqrt(sum(n * n for n in norms.values()))))
        optimizer.step()
    return losses, grad_norms, first_norms, model


def is_zero_gradient(name):
    """BN removes its input's mean, so a convolution's bias before it has no gradient but rounding noise."""
    return name.startswith("features.") and name.endswith(".bias") and int(name.split(".")[1]) in (
        0, 4, 7, 11, 14, 17, 21)


def noise(exact, runs):
    """Largest relative distance of some float32 runs from the float64 one, step by step."""
    return [rounded(max(abs(run[i] / e - 1) for run in runs), 2) for i, e in enumerate(exact)]


def main():
    # A seed without near-ties: where a maximum changes place by rounding, the gradient norm jumps by 1e-4 at once.
    counter.SEED = 43
    losses, grad_norms, first_norms, model = train(torch.float64)
    float32 = [train(torch.float32, f) for f in (torch.contiguous_format, torch.channels_last)]
    _, labels, _ = make_batch(torch.float64)
    rows = lambda values: [rounded(v) for v in values]
    finish(__file__, {
        "about": "captcha_cnn, 10 steps, PyTorch float64; *_noise is float32's distance; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM, "batch": N,
        "tensors": {"parameters": 0, "batch": T_BATCH, "labels": T_LABELS, "dropout": T_DROPOUT},
        "optimizer": {"name": "AdamW", **ADAMW, "betas": list(ADAMW["betas"])},
        "labels": labels.tolist(),
        "first_pixels": rows(counter.uniform((8,), T_BATCH)),
        "loss": rows(losses), "loss_noise": noise(losses, [run[0] for run in float32]),
        "grad_norm": rows(grad_norms), "grad_norm_noise": noise(grad_norms, [run[1] for run in float32]),
        "parameters": [
            {"name": name, "tensor": t, "shape": list(p.shape),
             "grad_norm_step0": 0.0 if is_zero_gradient(name) else rounded(first_norms[name]),
             # a bias without gradient drifts by noise, so its final norm says nothing
             "norm_final": None if is_zero_gradient(name) else rounded(norm(p))}
            for t, (name, p) in enumerate(model.named_parameters())],
        "buffers": [{"name": name, "norm_final": rounded(norm(b))} for name, b in model.named_buffers()
                    if name.endswith("running_var")],
    })


if __name__ == "__main__":
    main()
