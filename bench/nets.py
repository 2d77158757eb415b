#!/usr/bin/env python3
"""A training step of the networks of four recipes in PyTorch, as its users write them: peers of capl bench RECIPE.

usage: nets.py {slider|faces|classify|pm25} {f32|f32cl|bf16|bf16cl} BATCH STEPS      (prints one line of JSON)

slider: recipes/slider.lua --preset=small at 256x128 px, with its losses. faces: face_parsing.lua at 128 px. classify: ResNet-18 with
100 classes at 64 px. pm25: LSTM and attention over 7 days of 31 features. AdamW is fused, batches are random and stay the same.
cl = channels_last, bf16 = CPU autocast. Threads: OMP_NUM_THREADS.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import resource
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional as F

from torch_step import time_steps

# ---- slider: Lite-HRNet-18, LiteFPN, two heads ----


def conv(c, d, kernel=1, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(c, d, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(d)]
    return nn.Sequential(*layers, *([nn.SiLU(inplace=True)] if act else []))


def down(c, d):
    return nn.Sequential(conv(c, c, 3, 2, c), conv(c, d))


class LiteBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layers = nn.Sequential(conv(c, 2 * c), conv(2 * c, 2 * c, 3, groups=2 * c), conv(2 * c, c, act=False))

    def forward(self, x):
        return x + self.layers(x)


def blocks(c, count):
    return nn.Sequential(*[LiteBlock(c) for _ in range(count)])


def resized(x, like):
    return F.interpolate(x, size=like.shape[2:], mode="bilinear")


class Fusion(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.paths = nn.ModuleList([nn.ModuleList([self.path(channels, a, b) for a in range(len(channels))])
                                    for b in range(len(channels))])
        self.merge = nn.ModuleList([conv(c, c, 3) for c in channels])

    @staticmethod
    def path(channels, a, b):
        if a == b:
            return nn.Identity()
        if a > b:
            return conv(channels[a], channels[b], act=False)
        return nn.Sequential(*[down(channels[a], channels[b] if k == b - 1 else channels[a]) for k in range(a, b)])

    def forward(self, xs):
        out = []
        for b, merge in enumerate(self.merge):
            out.append(merge(sum(self.paths[b][a](resized(x, xs[b]) if a > b else x) for a, x in enumerate(xs))))
        return out


class Stage(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        self.first = conv(channels[0], channels[0]) if len(channels) == 2 else nn.Identity()
        self.new = down(channels[-2], channels[-1])
        self.branches = nn.ModuleList([blocks(c, depth) for c in channels])
        self.fusion = Fusion(channels)

    def forward(self, xs):
        ys = [*xs, self.new(xs[-1])]
        ys[0] = self.first(ys[0])
        return self.fusion([branch(y) for branch, y in zip(self.branches, ys)])


class Slider(nn.Module):
    def __init__(self, width=16, fpn=48):
        super().__init__()
        c = [width, 2 * width, 4 * width, 8 * width]
        self.stem = nn.Sequential(conv(4, c[0], 3, 2), conv(c[0], c[0], 3, 2), blocks(c[0], 2))
        self.stages = nn.Sequential(Stage(c[:2], 2), Stage(c[:3], 3), Stage(c, 2))
        self.lateral = nn.ModuleList([conv(d, fpn, act=False) for d in c])
        self.smooth = nn.ModuleList([conv(fpn, fpn, 3) for _ in c])
        self.weight = nn.Parameter(torch.ones(3, 2))
        self.heads = nn.ModuleList([self.head(fpn, n) for n in (1, 1, 4, 2)])

    @staticmethod
    def head(c, n):
        return nn.Sequential(nn.Conv2d(c, c // 2, 3, padding=1), nn.BatchNorm2d(c // 2), nn.ReLU(inplace=True),
                             nn.Conv2d(c // 2, n, 1))

    def forward(self, x):
        xs = self.stages([self.stem(x)])
        weight = F.softplus(self.weight)
        weight = weight / (weight.sum(1, keepdim=True) + 1e-4)
        y = self.smooth[3](self.lateral[3](xs[3]))
        for i in (2, 1, 0):
            here = self.lateral[i](xs[i])
            y = self.smooth[i](here * weight[i, 0] + resized(y, here) * weight[i, 1])
        gap, piece, place, angle = (head(y) for head in self.heads)
        return torch.cat([gap, piece], 1), place.tanh() * 3 + 0.5, F.normalize(angle, dim=1)


def slider_loss(output, batch):
    maps, places, angle = (t.float() for t in output)
    n, _, h, w = maps.shape
    columns, rows = torch.arange(w).view(1, 1, w), torch.arange(h).view(1, h, 1)
    total = batch["outside"].mul(F.softplus(maps).clamp(max=10)).sum() * 0.3 / batch["outside"].sum().clamp(min=1)
    for k in range(2):
        at = batch["points"][:, k] / 4
        dx, dy = columns - at[:, 0].floor().view(n, 1, 1), rows - at[:, 1].floor().view(n, 1, 1)
        heat = torch.exp((dx * dx + dy * dy) * (-1 / 4.5)) * ((dx.abs() <= 4) & (dy.abs() <= 4))
        logits = maps[:, k]
        score, positive = logits.sigmoid(), (heat >= 0.8).float()
        focal = positive * (1 - score) ** 1.5 * F.softplus(-logits)
        focal = focal + (1 - positive) * (1 - heat) ** 4 * score ** 1.5 * F.softplus(logits)
        total = total + focal.sum() / positive.sum().clamp(min=1)
        wanted = torch.stack([at[:, 0].view(n, 1, 1) - columns.expand(n, h, w), at[:, 1].view(n, 1, 1) - rows.expand(n, h, w)], 1)
        near = (heat > 0.35).float().unsqueeze(1)
        far = F.smooth_l1_loss(places[:, 2 * k:2 * k + 2], wanted, reduction="none", beta=0.1)
        total = total + (far * near).sum() / (2 * near.sum()).clamp(min=1)
        found, truth = (m.mean(2) + 1e-8 for m in (score, heat))
        found, truth = found / found.sum(1, keepdim=True), truth / truth.sum(1, keepdim=True)
        total = total + 0.4 * (-(truth * found.log()).sum(1).mean() + 0.3 * (found.cumsum(1) - truth.cumsum(1)).abs().mean())
        if k == 0:
            off = 1 - angle[:, 0] * batch["sine"].view(n, 1, 1) - angle[:, 1] * batch["cosine"].view(n, 1, 1)
            total = total + 0.5 * (off * (heat > 0.7)).sum() / (heat > 0.7).sum()
    at = torch.cat([batch["points"][:, :1], batch["points"][:, 2:]], 1) / torch.tensor([2.0 * w, 2.0 * h]) - 1
    score = F.grid_sample(maps[:, :1].sigmoid(), at.unsqueeze(1), align_corners=False).view(n, -1)
    return total + 0.5 * F.relu(score[:, 1:] - score[:, :1] + 0.2).mean()


def slider(n):
    points = torch.rand(n, 4, 2) * torch.tensor([256.0, 128.0])
    outside = torch.zeros(n, 1, 32, 64)
    outside[:, :, :4] = 1
    return Slider(), torch.rand(n, 4, 128, 256), slider_loss, {
        "points": points, "outside": outside, "sine": torch.zeros(n), "cosine": torch.ones(n)}


# ---- faces: MicroSegFormer ----


def tokens(x):
    return x.flatten(2).transpose(1, 2)


def image(x, h, w):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], h, w)


class Block(nn.Module):
    def __init__(self, c, ratio):
        super().__init__()
        self.norm1, self.norm2, self.ratio = nn.LayerNorm(c), nn.LayerNorm(c), ratio
        self.q, self.kv, self.proj = nn.Linear(c, c), nn.Linear(c, 2 * c), nn.Linear(c, c)
        if ratio > 1:
            self.reduce, self.norm = nn.Conv2d(c, c, ratio, ratio), nn.LayerNorm(c)
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    def forward(self, x, h, w):
        y = self.norm1(x)
        source = self.norm(tokens(self.reduce(image(y, h, w)))) if self.ratio > 1 else y
        k, v = self.kv(source).chunk(2, 2)
        x = x + self.proj(F.scaled_dot_product_attention(self.q(y), k, v))
        return x + self.mlp(self.norm2(x))


class FaceStage(nn.Module):
    def __init__(self, c, d, depth, ratio, first):
        super().__init__()
        self.embed = nn.Conv2d(c, d, 7 if first else 3, 4 if first else 2, 3 if first else 1)
        self.embed_norm, self.norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.blocks = nn.ModuleList([Block(d, ratio) for _ in range(depth)])

    def forward(self, x):
        y = self.embed(x)
        h, w = y.shape[2:]
        t = self.embed_norm(tokens(y))
        for block in self.blocks:
            t = block(t, h, w)
        return image(self.norm(t), h, w)


class MicroSegFormer(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(32, 1, 8), (64, 2, 4), (128, 2, 2), (192, 2, 1)]
        self.stages = nn.ModuleList([FaceStage(sizes[i - 1][0] if i else 3, *sizes[i], i == 0) for i in range(4)])
        self.linears = nn.ModuleList([nn.Linear(c, 128) for c, _, _ in sizes])
        self.fuse = nn.Sequential(nn.Linear(512, 128), nn.GELU(), nn.Linear(128, 128))
        self.near = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1, groups=128, bias=False),
                                  nn.Conv2d(128, 128, 1, bias=False), nn.BatchNorm2d(128))
        self.gate = nn.Sequential(nn.Linear(128, 32, bias=False), nn.ReLU(), nn.Linear(32, 128, bias=False), nn.Sigmoid())
        self.classify = nn.Conv2d(128, 19, 1)

    def forward(self, x):
        maps = []
        for stage, linear in zip(self.stages, self.linears):
            x = stage(x)
            y = image(linear(tokens(x)), *x.shape[2:])
            maps.append(y if not maps else resized(y, maps[0]))
        h, w = maps[0].shape[2:]
        y = image(self.fuse(tokens(torch.cat(maps, 1))), h, w)
        u = self.near(y)
        y = u * self.gate(u.mean((2, 3)))[:, :, None, None] + y
        return F.interpolate(self.classify(y), scale_factor=4, mode="bilinear")


def faces_loss(output, mask):
    logits = output.float()
    share, one_hot = logits.softmax(1), F.one_hot(mask, 19).permute(0, 3, 1, 2).float()
    dice = 1 - ((2 * (share * one_hot).sum((2, 3)) + 1e-8) / (share.sum((2, 3)) + one_hot.sum((2, 3)) + 1e-8)).mean()
    return F.cross_entropy(logits, mask) + 1.5 * dice


def faces(n):
    return MicroSegFormer(), torch.rand(n, 3, 128, 128), faces_loss, torch.randint(19, (n, 128, 128))


# ---- classify: ResNet-18 ----


class Basic(nn.Module):
    def __init__(self, c, d, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, d, 3, stride, 1, bias=False), nn.BatchNorm2d(d)
        self.conv2, self.bn2 = nn.Conv2d(d, d, 3, 1, 1, bias=False), nn.BatchNorm2d(d)
        self.down = conv(c, d, 1, stride, act=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.down(x), inplace=True)


def classify(n):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for c, d, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Basic(c, d, stride), Basic(d, d, 1)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))
    return model, torch.rand(n, 3, 64, 64), lambda y, t: F.cross_entropy(y.float(), t, label_smoothing=0.1), torch.randint(100, (n,))


# ---- pm25: LSTM and attention over the days ----


class Pm25(nn.Module):
    def __init__(self, features=31, hidden=128, layers=2, dropout=0.5):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, dropout=dropout)
        self.score, self.drop, self.out = nn.Linear(hidden, 1), nn.Dropout(dropout), nn.Linear(hidden, 1)

    def forward(self, x):
        y, _ = self.lstm(x)
        return x[:, -1, :1] + self.out(self.drop((y * self.score(y).softmax(1)).sum(1)))


def pm25(n):
    return Pm25(), torch.randn(n, 7, 31), lambda y, t: F.mse_loss(y.float(), t), torch.randn(n, 1)


# ---- timing ----


def make_step(model, x, loss_of, target, bf16):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            output = model(x)
        loss = loss_of(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def main(name, mode, batch, steps):
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count()))
    torch.manual_seed(0)
    model, x, loss_of, target = {"slider": slider, "faces": faces, "classify": classify, "pm25": pm25}[name](batch)
    model.train()
    if mode.endswith("cl") and x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    milliseconds, first, last = time_steps(make_step(model, x, loss_of, target, mode.startswith("bf16")), steps)
    print(json.dumps({
        "step_ms": round(statistics.median(milliseconds), 2), "parameters": sum(p.numel() for p in model.parameters()),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss_first": round(first, 5), "loss_last": round(last, 5), "torch": torch.__version__}))


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[2] not in ("f32", "f32cl", "bf16", "bf16cl"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
