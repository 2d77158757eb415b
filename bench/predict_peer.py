#!/usr/bin/env python3
"""Milliseconds from pixels in memory to the classes of a model file's network, in ONNX Runtime or PyTorch.

usage: predict_peer.py ort MODEL.onnx WIDTH BATCH SECONDS           what `capl export --format=onnx` writes, without its resizing
       predict_peer.py torch-{f32|bf16} MODEL.capl WIDTH BATCH SECONDS

WIDTH: of the images in px. PyTorch: the networks of recipes/captcha.lua and recipes/crnn_ctc.lua with the file's weights, batch norm
folded, channels-last, eager and frozen by TorchScript: the faster counts. Threads: OMP_NUM_THREADS. Normalization and argmax are
included, as bench/predict_bench.c has them. step_ms: the median of all calls; network_ms: without normalization and argmax.
Prints one line of JSON. Status 3 says what is not installed.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import resource
import statistics
import sys
import time

THREADS = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count())
WARM_UP = 5


def missing(what):
    print(what, file=sys.stderr)
    sys.exit(3)


def median_ms(call, seconds):
    for _ in range(WARM_UP):
        call()
    taken, since = [], time.perf_counter()
    while time.perf_counter() - since < seconds or not taken:
        start = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken)


def report(call, network, batch, seconds, **more):
    step_ms, network_ms = median_ms(call, seconds), median_ms(network, seconds / 2)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"step_ms": round(step_ms, 4), "network_ms": round(network_ms, 4), "images": batch, "threads": THREADS, **more,
                      "peak_rss_bytes": peak}))


# ---- ONNX Runtime ----------------------------------------------------------------------------------------------------

def cut_preparation(onnx, model):
    """Leaves of the graph what follows the first convolution's input, whose name is returned. Image sizes may stay an input."""
    graph = model.graph
    first = next(node.input[0] for node in graph.node if node.op_type == "Conv")
    wanted, kept = {value.name for value in graph.output}, []
    for node in reversed(graph.node):
        outputs = wanted.intersection(node.output) - {first}
        if outputs:
            wanted.update(node.input)
            kept.insert(0, node)
    inputs = [value for value in graph.input if value.name in wanted]
    del graph.node[:], graph.input[:]
    graph.node.extend(kept)
    graph.input.extend([onnx.helper.make_tensor_value_info(first, onnx.TensorProto.FLOAT, ["N", "C", "H", "W"]), *inputs])
    return first


def run_ort(path, width, batch, seconds):
    try:
        import numpy
        import onnx
        import onnxruntime
    except ImportError as problem:
        missing(problem)
    model = onnx.load(path)
    first = cut_preparation(onnx, model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3  # of the constants that were cut away it would warn one by one
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    images = numpy.random.default_rng(1).integers(0, 256, (batch, 1, 60, width), dtype=numpy.uint8)

    def run(x):
        given = {first: x, "image": images.reshape(batch, 60, width, 1)}
        return session.run(None, {i.name: given[i.name] for i in session.get_inputs()})[0]

    def prepare():
        x = images.astype(numpy.float32)
        return (x - x.mean((1, 2, 3), keepdims=True)) / x.std((1, 2, 3), keepdims=True)

    x = prepare()
    report(lambda: run(prepare()).argmax(-1), lambda: run(x), batch, seconds, onnxruntime=onnxruntime.__version__)


# ---- PyTorch ---------------------------------------------------------------------------------------------------------

def networks(torch):
    nn = torch.nn

    def block(inputs, outputs, kernel, stride, padding):
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    class Attention(nn.Module):
        def __init__(self, channels, height, width, length, classes):
            super().__init__()
            self.length, self.width = length, width
            self.query = nn.Sequential(nn.Conv2d(channels, channels // 4, 1), nn.ReLU(), nn.Flatten(),
                                       nn.Linear(channels // 4 * height * width, length * width))
            self.value = block(channels, channels, (height, 1), 1, 0)
            self.read = nn.Linear(channels, classes)

        def forward(self, x):
            weights = self.query(x).view(-1, self.length, self.width).softmax(-1)
            return self.read(weights.matmul(self.value(x).flatten(2).transpose(1, 2)))

    class Crnn(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.features = nn.Sequential(block(1, 24, 5, 2, 2), block(24, 48, 3, 2, 1), block(48, 48, 3, 1, 1),
                                          block(48, 96, 3, (2, 1), 1), block(96, 96, 3, 1, 1), block(96, 128, 3, (2, 1), 1))
            self.columns = block(128, 160, (4, 1), 1, 0)
            self.sequence = nn.LSTM(160, 128, bidirectional=True, batch_first=True)
            self.read = nn.Linear(256, classes)

        def forward(self, x):
            return self.read(self.sequence(self.columns(self.features(x)).squeeze(2).transpose(1, 2))[0])

    def captcha(classes):
        return nn.Sequential(block(1, 8, 3, 1, 1), block(8, 16, 3, 2, 1), block(16, 32, 3, 2, 1), block(32, 32, 3, 1, 1),
                             block(32, 64, 3, 2, 1), block(64, 64, 3, 1, 1), block(64, 128, 3, (2, 1), 1),
                             Attention(128, 4, 20, 4, classes))

    return captcha, Crnn


def load_network(torch, folder):
    from safetensors.torch import load_file
    captcha, crnn = networks(torch)
    weights = load_file(folder + "/weights.safetensors")
    classes = next(weight.numel() for name, weight in weights.items() if name.endswith("read.bias"))
    model = (crnn if "sequence.weight_hh_l0" in weights else captcha)(classes)
    model.load_state_dict(weights, strict=False)
    absent = [name for name in model.state_dict() if name not in weights and not name.endswith("num_batches_tracked")]
    if absent:
        sys.exit(f"{folder} has no {', '.join(absent)}: a network of other layers than the recipe's")
    model.eval()
    for parent in list(model.modules()):
        if isinstance(parent, torch.nn.Sequential) and len(parent) == 3 and isinstance(parent[1], torch.nn.BatchNorm2d):
            parent[0], parent[1] = torch.nn.utils.fusion.fuse_conv_bn_eval(parent[0], parent[1]), torch.nn.Identity()
    return model.to(memory_format=torch.channels_last)


def run_torch(dtype, folder, width, batch, seconds):
    try:
        import torch
    except ImportError as problem:
        missing(problem)
    torch.set_num_threads(THREADS)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    images = torch.randint(0, 256, (batch, 1, 60, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        model = load_network(torch, folder).to(dtype)

        def prepare():
            x = images.float()
            x = (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True)
            return x.to(dtype).contiguous(memory_format=torch.channels_last)

        x = prepare()
        ways = {"eager": model}
        try:
            ways["frozen"] = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x)))
            ways["frozen"](x)
        except RuntimeError as problem:
            print("frozen:", str(problem).splitlines()[0], file=sys.stderr)
        least = {name: median_ms(lambda way=way: way(x), seconds / 3) for name, way in ways.items()}
        best = min(least, key=least.get)
        report(lambda: ways[best](prepare()).argmax(-1), lambda: ways[best](x), batch, seconds, way=best, torch=torch.__version__)


def main():
    if len(sys.argv) != 6 or sys.argv[1] not in ("ort", "torch-f32", "torch-bf16"):
        sys.exit(__doc__)
    path, width, batch, seconds = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    if sys.argv[1] == "ort":
        run_ort(path, width, batch, seconds)
    else:
        run_torch(sys.argv[1][6:], path, width, batch, seconds)


main()
