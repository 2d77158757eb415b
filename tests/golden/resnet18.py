#!/usr/bin/env python3
"""torchvision's ResNet-18 -> resnet18.json: names and shapes of its state_dict, outputs, loss, gradients.

usage: resnet18.py [--check]      needs PyTorch, torchvision and numpy; half a minute

Tensor t of the state_dict is (2u - 1) * float32(sqrt(6/fan_in)) for convolutions and fc.weight, `positive` for batch
norm's weight and running variance, (2u - 1) / 10 for all else (README.md has u). The loss is label-smoothed cross-entropy.
SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import torch
import torchvision

import counter
from golden_file import finish, rounded

N, SIDE, CLASSES = 4, 48, 10
T_BATCH, T_LABELS = 500, 501
SMOOTHING = 0.1


def values_of(name, shape, t):
    if len(shape) > 1:
        return counter.signed(shape, t, np.sqrt(6 / np.prod(shape[1:])))
    if name.endswith("running_var") or (name.endswith("weight") and len(shape) == 1):
        return counter.uniform(shape, t) + np.float32(0.5)
    return counter.signed(shape, t, 0.1)


def network():
    model = torchvision.models.resnet18(weights=None, num_classes=CLASSES)
    state = model.state_dict()
    for t, (name, tensor) in enumerate(state.items()):
        if tensor.ndim:
            tensor.copy_(torch.from_numpy(values_of(name, tuple(tensor.shape), t)))
    return model.double(), state


def few(tensor):
    """Norm, and three elements: the first, the middle one, the last."""
    flat = tensor.detach().double().reshape(-1)
    return [rounded(x) for x in (flat.norm(), flat[0], flat[len(flat) // 2], flat[-1])]


def main():
    counter.SEED = 53  # of 60 the one whose ReLUs and maxima are farthest from a tie, which rounding would decide
    model, state = network()
    images = torch.from_numpy(counter.signed((N, 3, SIDE, SIDE), T_BATCH, 2)).double().requires_grad_()
    labels = torch.from_numpy(counter.classes((N,), T_LABELS, CLASSES))
    evaluated = model.eval()(images)
    output = model.train()(images)
    loss = torch.nn.functional.cross_entropy(output, labels, label_smoothing=SMOOTHING)
    loss.backward()
    gradients = {name: few(p.grad) for name, p in model.named_parameters()}
    finish(__file__, {
        "about": "torchvision's resnet18 in float64 on float32 weights and images; see resnet18.py",
        "seed": counter.SEED, "stream": counter.STREAM, "batch": [N, 3, SIDE, SIDE], "classes": CLASSES,
        "tensors": {"batch": T_BATCH, "labels": T_LABELS}, "label_smoothing": SMOOTHING,
        "parameters": sum(p.numel() for p in model.parameters()),
        "eval": [[rounded(x) for x in row] for row in evaluated.tolist()],
        "train": [[rounded(x) for x in row] for row in output.tolist()],
        "loss": rounded(loss.detach()), "image_gradient": few(images.grad),
        "state": [{"name": name, "shape": list(tensor.shape), "gradient": gradients.get(name)} for name, tensor in state.items()],
    })


if __name__ == "__main__":
    main()
