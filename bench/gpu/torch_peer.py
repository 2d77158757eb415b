#!/usr/bin/env python3
"""captcha_cnn's training step on a GPU in PyTorch, in each of the ways its users would try: the peer to beat.

usage: torch_peer.py [--batches=1024,512] [--precisions=bf16,fp16,tf32,fp32] [--modes=eager,graph,compile] [--steps=50]
                     [--rounds=5] [--data] [--infer] [--layers] [--device=cuda]
Prints one line of JSON per case: mode, precision, batch, step_ms, blocks_ms (the mean of a step in each of the rounds, by two
events of the device), of which step_ms is the median, images_per_s, peak_bytes; a case that fails has "error" instead. As
`capl bench --blocks` does it. --infer: the network in eval mode instead of a training step. --data: also with a data set of u8 images on the GPU, shuffled, and
augmented by a compiled affine warp (grid_sample) with contrast, brightness and noise. --layers: instead, single layers
forward and backward, as bench/gpu/layers.lua has them, by cuDNN's LSTM and PyTorch's best attention: layer, precision, ms.
Everything PyTorch offers is on: channels_last, fused AdamW, cudnn.benchmark, autocast with GradScaler for fp16;
"graph" replays the whole step, optimizer included, as one torch.cuda.graph, its input copied in; "compile" is torch.compile
with mode reduce-overhead, which captures CUDA graphs itself, "max-autotune" that mode: minutes of trials before the first step.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

POSITIONS, CLASSES = 4, 36
HEIGHT, WIDTH = 60, 160
WARM_UP = 15


def block(c_in, c_out, pool=False):
    layers = [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    return layers + ([nn.MaxPool2d(2)] if pool else [])


def captcha_cnn():
    return nn.Sequential(
        *block(1, 32, pool=True), *block(32, 64), *block(64, 64, pool=True), *block(64, 128),
        *block(128, 128), *block(128, 128, pool=True), *block(128, 128),
        nn.Flatten(), nn.Linear(17920, 1024), nn.Dropout(0.5), nn.ReLU(),
        nn.Linear(1024, POSITIONS * CLASSES))


# Modes of torch.compile by ours. Triton's trials of max-autotune did not end within 240 s beside other programs.
COMPILED = {"compile": "reduce-overhead", "max-autotune": "max-autotune"}


def make_step(device, precision, compiled=None, graph=False):
    """step(images, target) -> loss; the model and its optimizer live in it."""
    cuda = device.type == "cuda"
    model = captcha_cnn().to(device).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=1e-4, 
                                  **({"fused": True, "capturable": graph} if cuda else {}))
    criterion = nn.MultiLabelSoftMarginLoss()
    low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    scaler = torch.amp.GradScaler("cuda") if precision == "fp16" and cuda else None

    def forward(images, target):
        with torch.autocast(device.type, dtype=low or torch.bfloat16, enabled=low is not None):
            logits = model(images)
        return criterion(logits.float(), target)

    if compiled:
        forward = torch.compile(forward, mode=compiled)

    def step(images, target):
        optimizer.zero_grad(set_to_none=True)
        loss = forward(images, target)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    return step


def make_inference(device, precision, compiled=None):
    """read(images, target) -> logits: the network in eval mode; the target is there for the sake of the caller."""
    model = captcha_cnn().to(device).to(memory_format=torch.channels_last).eval()
    low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)

    def forward(images):
        with torch.no_grad(), torch.autocast(device.type, dtype=low or torch.bfloat16, enabled=low is not None):
            return model(images)

    if compiled:
        forward = torch.compile(forward, mode=compiled)
    return lambda images, _target: forward(images)


def as_graph(step, batch):
    """The step as one CUDA graph with inputs of its own. batch: an example. Recorded after plain steps on a side stream."""
    inputs = [x.clone() for x in batch]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(*inputs)

    def replay(*batch):
        for own, given in zip(inputs, batch):
            own.copy_(given, non_blocking=True)
        graph.replay()
        return result

    return replay


def one_hot(labels):
    return F.one_hot(labels, CLASSES).float().reshape(labels.shape[0], -1)


def fixed_batch(device, batch):
    images = torch.rand(batch, 1, HEIGHT, WIDTH, device=device).to(memory_format=torch.channels_last)
    target = one_hot(torch.randint(CLASSES, (batch, POSITIONS), device=device))
    return lambda: (images, target)


def augment(levels, noise):
    """u8 (N,1,H,W) -> float, each image with its own rotation, scale, shear, shift, contrast, brightness and noise."""
    n = levels.shape[0]
    draw = torch.rand(n, 7, device=levels.device) * 2 - 1
    angle, shear = draw[:, 0] * math.radians(8), draw[:, 1] * 0.1
    scale = 1 + 0.1 * draw[:, 2]
    ratio = WIDTH / HEIGHT
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    theta = torch.stack([
        torch.stack([cos, (shear * cos - sin) / ratio, draw[:, 3] * 0.05], 1),
        torch.stack([sin * ratio, cos + shear * sin, draw[:, 4] * 0.05], 1)], 1)
    grid = F.affine_grid(theta, levels.shape, align_corners=False)
    images = F.grid_sample(levels.float() / 255, grid, padding_mode="border", align_corners=False)
    images = (images - 0.5) * (1 + 0.3 * draw[:, 5]).view(-1, 1, 1, 1) + 0.5 + 0.2 * draw[:, 6].view(-1, 1, 1, 1)
    return (images + noise * torch.randn_like(images)).clamp(0, 1)


def resident_batches(device, batch, count=50030):
    """Batches of a data set on the device, in another order every epoch."""
    images = torch.randint(256, (count, 1, HEIGHT, WIDTH), device=device, dtype=torch.uint8)
    labels = torch.randint(CLASSES, (count, POSITIONS), device=device)
    warp = torch.compile(augment) if hasattr(torch, "compile") and device.type == "cuda" else augment
    state = {"order": None, "at": count}

    def next_batch():
        if state["at"] + batch > count:
            state.update(order=torch.randperm(count, device=device), at=0)
        rows = state["order"][state["at"]:state["at"] + batch]
        state["at"] += batch
        return warp(images[rows], 0.05).to(memory_format=torch.channels_last), one_hot(labels[rows])

    return next_batch


class Clock:
    """Seconds between two moments of the device."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def now(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, a, b):
        if not self.cuda:
            return b - a
        b.synchronize()
        return a.elapsed_time(b) / 1e3


def measure(args, device, mode, precision, batch, data):
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    make = make_inference if args.infer else make_step
    step = make(device, precision, COMPILED.get(mode), **({} if args.infer else {"graph": mode == "graph"}))
    batches = resident_batches(device, batch) if data else fixed_batch(device, batch)
    if mode == "graph":
        step = as_graph(step, batches())
    clock, times = Clock(device), []
    for _ in range(min(WARM_UP, args.steps)):
        step(*batches())
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(args.rounds):
        began = clock.now()
        for _ in range(args.steps):
            step(*batches())
        times.append(clock.between(began, clock.now()) / args.steps)
    seconds = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    return {"step_ms": round(1e3 * seconds, 4), "min_ms": round(1e3 * min(times), 4),
            "max_ms": round(1e3 * max(times), 4), "blocks_ms": [round(1e3 * t, 4) for t in times],
            "images_per_s": round(batch / seconds, 1), "peak_bytes": peak}


def make_layer(name, n, device):
    """The forward function of a layer, and what has gradients."""
    def random(*size):
        return torch.randn(*size, device=device, requires_grad=True)

    if name in ("lstm", "gru"):
        layer = getattr(nn, name.upper())(128, 128, 2, bidirectional=True).to(device)
        x = random(50, n, 128)
        return lambda: layer(x)[0], [x, *layer.parameters()]
    if name == "ctc":
        scores, texts = random(50, n, 37), torch.arange(1, 7, device=device).repeat(n, 1)
        steps, lengths = torch.full((n,), 50, device=device), torch.full((n,), 6, device=device)
        return lambda: F.ctc_loss(scores.log_softmax(-1), texts, steps, lengths, zero_infinity=True), [scores]
    if name == "attention":
        qkv = [random(n, 8, 128, 64) for _ in range(3)]
        return lambda: F.scaled_dot_product_attention(*qkv), qkv
    layer, x = {
        "layer_norm": lambda: (nn.LayerNorm(256), random(128 * n, 256)),
        "depthwise": lambda: (nn.Conv2d(64, 64, 3, padding=1, groups=64), random(n, 64, 30, 80)),
        "transposed": lambda: (nn.ConvTranspose2d(64, 64, 4, stride=2, padding=1), random(n, 64, 15, 40)),
        "conv_first": lambda: (nn.Conv2d(1, 32, 3, padding=1), random(n, 1, 60, 160)),
        "conv_first_5x5": lambda: (nn.Conv2d(1, 32, 5, padding=2), random(n, 1, 60, 160)),
        "conv_first_8": lambda: (nn.Conv2d(8, 32, 3, padding=1), random(n, 8, 60, 160)),
    }[name]()
    layer = layer.to(device)
    if x.dim() == 4:
        layer, x = layer.to(memory_format=torch.channels_last), x.detach().to(memory_format=torch.channels_last).requires_grad_()
    if name.startswith("conv_first"):  # images ask for no gradient
        x.requires_grad_(False)
        return lambda: layer(x), [*layer.parameters()]
    return lambda: layer(x), [x, *layer.parameters()]


LAYERS = ["lstm", "gru", "ctc", "layer_norm", "attention", "depthwise", "transposed", "conv_first", "conv_first_5x5",
          "conv_first_8"]


def measure_layer(args, device, name, precision):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    forward, owners = make_layer(name, 2 if args.small else 256, device)

    def step():
        for owner in owners:
            owner.grad = None
        with torch.autocast(device.type, dtype=low or torch.bfloat16, enabled=low is not None):
            loss = forward().float().mean()
        loss.backward()

    clock, times = Clock(device), []
    for _ in range(min(WARM_UP, args.steps)):
        step()
    for _ in range(args.rounds):
        began = clock.now()
        for _ in range(args.steps):
            step()
        times.append(clock.between(began, clock.now()) / args.steps)
    return round(1e3 * statistics.median(times), 4)


def print_layers(args, device):
    for precision in args.precisions.split(","):
        for name in LAYERS:
            case = {"layer": name, "precision": precision}
            try:
                case["ms"] = measure_layer(args, device, name, precision)
            except Exception as error:  # the next case may still work
                case["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            print(json.dumps(case), flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--batches", default="1024,512")
    parser.add_argument("--precisions", default="bf16,fp16,tf32,fp32")
    parser.add_argument("--modes", default="eager,graph,compile")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", action="store_true")
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("--small", action="store_true", help="two samples: to try this file")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.backends.cudnn.benchmark = True
    if args.layers:
        print_layers(args, device)
        return
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    for precision in args.precisions.split(","):
        for batch in map(int, args.batches.split(",")):
            for mode in args.modes.split(","):
                for data in ([False, True] if args.data else [False]):
                    case = {"torch": torch.__version__, "device": name, "mode": mode, "precision": precision,
                            "batch": batch, "data": data}
                    try:
                        case.update(measure(args, device, mode, precision, batch, data))
                    except Exception as error:  # the next case may still work
                        case["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                    print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
