#!/usr/bin/env python3
"""Writes options.json: layers and losses with options that came after their first version.

usage: options.py [--check]
Inputs and parameters are formulas (wave), so the file holds results alone.
SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch import nn

from golden_file import finish, rounded

torch.set_default_dtype(torch.float64)


def wave(shape, scale=1.0, step=1.7):
    n = 1
    for size in shape:
        n *= size
    return ((torch.arange(n) * step).cos() * scale).reshape(shape)


def numbers(tensor):
    return [rounded(v, 7) for v in tensor.detach().double().reshape(-1).tolist()]


class Resize(nn.Module):
    """interpolate as a layer: nn.Upsample has no mode area."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return nn.functional.interpolate(x, **self.options)


# Lua's constructor, PyTorch's, shape of x. All outputs of the module are flattened behind each other.
MODULES = [
    ("nn.BatchNorm2d(4, {affine = false})", lambda: nn.BatchNorm2d(4, affine=False), (2, 4, 3, 5)),
    ("nn.BatchNorm2d(4, {bias = false, momentum = 0.3})", lambda: nn.BatchNorm2d(4, bias=False, momentum=0.3), (2, 4, 3, 5)),
    ("nn.BatchNorm2d(4, {track_running_stats = false})", lambda: nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 3, 5)),
    ("nn.BatchNorm2d(4, {momentum = false})", lambda: nn.BatchNorm2d(4, momentum=None), (2, 4, 3, 5)),
    ("nn.GroupNorm(2, 4, {bias = false})", lambda: nn.GroupNorm(2, 4, bias=False), (2, 4, 3, 5)),
    ("nn.MultiheadAttention(4, 2, {add_bias_kv = true, add_zero_attn = true})",
     lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True), (5, 2, 4)),
    ("nn.TransformerEncoderLayer(4, 2, 6, {bias = false, dropout = 0})",
     lambda: nn.TransformerEncoderLayer(4, 2, 6, bias=False, dropout=0), (5, 2, 4)),
    ("nn.BatchNorm1d(4, {affine = false, track_running_stats = false})",
     lambda: nn.BatchNorm1d(4, affine=False, track_running_stats=False), (3, 4, 5)),
    ("nn.Conv2d(3, 4, 3, {padding = 1, padding_mode = 'reflect'})", lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 4, 5)),
    ("nn.Conv2d(3, 4, 3, {padding = {2, 1}, stride = 2, padding_mode = 'replicate'})",
     lambda: nn.Conv2d(3, 4, 3, padding=(2, 1), stride=2, padding_mode="replicate"), (2, 3, 4, 5)),
    ("nn.Conv2d(3, 4, {3, 5}, {padding = 'same', padding_mode = 'circular'})",
     lambda: nn.Conv2d(3, 4, (3, 5), padding="same", padding_mode="circular"), (2, 3, 4, 5)),
    ("nn.Conv2d(3, 4, {4, 2}, {padding = 'same'})", lambda: nn.Conv2d(3, 4, (4, 2), padding="same"), (2, 3, 5, 4)),
    ("nn.Conv1d(3, 4, 3, {padding = 2, dilation = 2, padding_mode = 'reflect'})",
     lambda: nn.Conv1d(3, 4, 3, padding=2, dilation=2, padding_mode="reflect"), (2, 3, 6)),
    ("nn.Conv1d(3, 4, 4, {padding = 'same', padding_mode = 'circular'})", lambda: nn.Conv1d(3, 4, 4, padding="same", padding_mode="circular"), (2, 3, 6)),
    ("nn.MaxPool2d(3, {stride = 2, padding = 1, dilation = 2, return_indices = true})",
     lambda: nn.MaxPool2d(3, stride=2, padding=1, dilation=2, return_indices=True), (2, 3, 7, 6)),
    ("nn.MaxPool2d({2, 3}, {stride = {1, 2}, dilation = {3, 1}, ceil_mode = true, return_indices = true})",
     lambda: nn.MaxPool2d((2, 3), stride=(1, 2), dilation=(3, 1), ceil_mode=True, return_indices=True), (2, 3, 7, 6)),
    ("nn.MaxPool1d(2, {dilation = 3, padding = 1, return_indices = true})",
     lambda: nn.MaxPool1d(2, dilation=3, padding=1, return_indices=True), (2, 3, 9)),
    ("nn.AvgPool2d(2, {stride = 1, padding = 1, divisor_override = 3})", lambda: nn.AvgPool2d(2, stride=1, padding=1, divisor_override=3), (2, 3, 4, 5)),
    ("nn.LSTM(4, 6, {proj_size = 3})", lambda: nn.LSTM(4, 6, proj_size=3), (5, 2, 4)),
    ("nn.LSTM(4, 5, {proj_size = 2, num_layers = 2, bidirectional = true, batch_first = true, bias = false})",
     lambda: nn.LSTM(4, 5, proj_size=2, num_layers=2, bidirectional=True, batch_first=True, bias=False), (2, 3, 4)),
    ("nn.Upsample{size = {9, 4}, mode = 'bicubic'}", lambda: nn.Upsample(size=(9, 4), mode="bicubic"), (2, 3, 6, 5)),
    ("nn.Upsample{scale_factor = {1.7, 0.6}, mode = 'bicubic'}", lambda: nn.Upsample(scale_factor=(1.7, 0.6), mode="bicubic"), (2, 3, 6, 5)),
    ("nn.Upsample{size = {9, 4}, mode = 'bicubic', align_corners = true}", lambda: nn.Upsample(size=(9, 4), mode="bicubic", align_corners=True), (2, 3, 6, 5)),
    ("nn.Upsample{size = {4, 3}, mode = 'area'}", lambda: Resize(size=(4, 3), mode="area"), (2, 3, 6, 5)),
    ("nn.Upsample{scale_factor = 1.7, mode = 'area'}", lambda: Resize(scale_factor=1.7, mode="area"), (2, 3, 6)),
    ("nn.Upsample{scale_factor = 1.7, mode = 'linear'}", lambda: Resize(scale_factor=1.7, mode="linear"), (2, 3, 6)),
    ("nn.Upsample{size = 4, mode = 'linear', align_corners = true}", lambda: Resize(size=4, mode="linear", align_corners=True), (2, 3, 6)),
    ("nn.Upsample{size = 9, mode = 'nearest'}", lambda: Resize(size=9, mode="nearest"), (2, 3, 6)),
    ("nn.Upsample{size = {9, 4}, mode = 'nearest-exact'}", lambda: nn.Upsample(size=(9, 4), mode="nearest-exact"), (2, 3, 6, 5)),
    ("nn.Upsample{scale_factor = {1.7, 0.6}, mode = 'nearest-exact'}", lambda: nn.Upsample(scale_factor=(1.7, 0.6), mode="nearest-exact"), (2, 3, 6, 5)),
]


def flat(y):
    return [t for part in y for t in flat(part)] if isinstance(y, (list, tuple)) else [y]


def of_module(lua, make, shape):
    module, x = make(), wave(shape).requires_grad_()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(wave(p.shape, 0.5, 0.9))
    if "Multihead" in lua:
        outputs = flat(module(x, x, x, need_weights=False)[0])
    else:
        outputs = flat(module(x))
    (outputs[0] * wave(outputs[0].shape, 1, 1)).sum().backward()
    out = {"lua": lua, "shape": list(shape), "y": [numbers(y) for y in outputs], "dx": numbers(x.grad),
           "dp": {name: numbers(p.grad) for name, p in module.named_parameters()}}
    if "BatchNorm" in lua:
        out["eval"] = numbers(module.eval()(x))
    return out


def of_ctc():
    x = wave((6, 3, 5)).requires_grad_()
    loss = nn.functional.ctc_loss(x.log_softmax(-1), torch.tensor([1, 2, 3, 4, 1, 1]), torch.tensor([6, 6, 5]), torch.tensor([3, 1, 2]))
    loss.backward()
    return {"loss": rounded(loss.item()), "dx": numbers(x.grad)}


finish(__file__, {
    "modules": [of_module(*row) for row in MODULES],
    "ctc": of_ctc(),
})
