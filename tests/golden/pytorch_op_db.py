#!/usr/bin/env python3
"""PyTorch's own samples of its operators (op_db) and modules (module_db), run by PyTorch and by capl: values and gradients.

usage: pytorch_op_db.py [--all] [--table] [--options] [OP...]     needs PyTorch 2.15 and expecttest: with_torch.py
  (nothing)  six samples of each op and module (nn.NAME); fails where one differs, unless KNOWN says why
  --all      every sample; --table prints the counts of docs/from-pytorch.md, --options what was asked for in vain
SPDX-License-Identifier: Apache-2.0
"""
import inspect
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import textwrap

import with_torch

with_torch.need("torch", "expecttest")

try:
    import torch  # noqa: E402
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
    from torch.testing._internal.common_modules import module_db  # noqa: E402
except ImportError as why:
    print(f"skipped: NOTHING WAS COMPARED WITH PYTORCH: {why}")
    sys.exit(77)

CAPL = os.environ.get("CAPL_BIN", "build/capl")
MOST, NEAR = 2500, 2e-4  # elements of a sample; distance in units of the values

# op: parameters after the input, and the call. A parameter is name, name:d (dims, which count from 1 here) or name=value
# (an option that capl lacks: samples with another value are counted as such).
TABLE = {
    "sum": ("dim:d keepdim dtype=None", "x:sum({dim}, {keepdim})"), "mean": ("dim:d keepdim dtype=None", "x:mean({dim}, {keepdim})"),
    "amax": ("dim:d keepdim", "x:amax({dim}, {keepdim})"), "amin": ("dim:d keepdim", "x:amin({dim}, {keepdim})"),
    "prod": ("dim:d keepdim dtype=None", "x:prod({dim}, {keepdim})"), "logsumexp": ("dim:d keepdim", "x:logsumexp({dim}, {keepdim})"),
    "any": ("dim:d keepdim", "x:any({dim}, {keepdim})"), "all": ("dim:d keepdim", "x:all({dim}, {keepdim})"),
    "count_nonzero": ("dim:d", "x:count_nonzero({dim})"),
    "argmax": ("dim:d keepdim", "x:argmax({dim}, {keepdim})"), "argmin": ("dim:d keepdim", "x:argmin({dim}, {keepdim})"),
    "max.reduction_no_dim": ("", "x:max()"), "min.reduction_no_dim": ("", "x:min()"),
    "max.reduction_with_dim": ("dim:d keepdim", "(x:max({dim}, {keepdim}))"),
    "min.reduction_with_dim": ("dim:d keepdim", "(x:min({dim}, {keepdim}))"),
    "cumsum": ("dim:d dtype=None", "x:cumsum({dim})"), "sort": ("dim:d descending stable", "(x:sort({dim}, {{descending = {descending}}}))"),
    "argsort": ("dim:d descending stable", "x:argsort({dim}, {{descending = {descending}}})"),
    "topk": ("k dim:d largest sorted=True", "(x:topk({k}, {dim}, {{largest = {largest}}}))"),
    "softmax": ("dim:d dtype=None", "x:softmax({dim})"), "log_softmax": ("dim:d dtype=None", "x:log_softmax({dim})"),
    "clamp": ("min max", "x:clamp({min}, {max})"), "where": ("a b", "capl.where({a}, x, {b})"),
    "lerp": ("y w", "x:lerp({y}, {w})"), "masked_fill": ("mask value", "x:masked_fill({mask}, {value})"),
    "gather": ("dim:d index sparse_grad=False", "x:gather({dim}, {index})"),
    "scatter": ("dim:d index src reduce=None", "x:scatter({dim}, {index}, {src})"),
    "scatter_add": ("dim:d index src", "x:scatter_add({dim}, {index}, {src})"),
    "index_select": ("dim:d index", "x:index_select({dim}, {index})"),
    "reshape": ("size", "x:reshape({size})"), "view": ("size", "x:view({size})"), "permute": ("dims:d", "x:permute({dims})"),
    "transpose": ("a:d b:d", "x:transpose({a}, {b})"), "squeeze": ("dim:d", "x:squeeze({dim})"),
    "unsqueeze": ("dim:d", "x:unsqueeze({dim})"), "flip": ("dims:d", "x:flip({dims})"), "t": ("", "x:t()"),
    "roll": ("shift dim:d", "x:roll({shift}, {dim})"), "tile": ("dims", "x:tile({dims})"), "repeat": ("dims", "x:tile({dims})"),
    "narrow": ("dim:d start:i length", "x:narrow({dim}, {start}, {length})"), "select": ("dim:d index:i", "x:select({dim}, {index})"),
    "flatten": ("start_dim:d end_dim:d", "x:flatten({start_dim}, {end_dim})"), "unflatten": ("dim:d sizes", "x:unflatten({dim}, {sizes})"),
    "movedim": ("a:d b:d", "x:movedim({a}, {b})"), "triu": ("k", "x:triu({k})"), "tril": ("k", "x:tril({k})"),
    "expand": ("size", "x:expand({size})"), "cat": ("dim:d", "capl.cat(x, {dim})"), "stack": ("dim:d", "capl.stack(x, {dim})"),
    "std": ("dim:d unbiased keepdim correction", "x:std({dim}, {{unbiased = {unbiased}, keepdim = {keepdim}, correction = {correction}}})"),
    "var": ("dim:d unbiased keepdim correction", "x:var({dim}, {{unbiased = {unbiased}, keepdim = {keepdim}, correction = {correction}}})"),
    "norm": ("p dim:d keepdim dtype=None", "x:norm({p}, {dim}, {keepdim})"),
    "add": ("y alpha=1", "x + {y}"), "sub": ("y alpha=1", "x - {y}"), "mul": ("y", "x * {y}"), "pow": ("y", "x ^ {y}"),
    "div.no_rounding_mode": ("y rounding_mode=None", "x / {y}"), "__radd__": ("y", "{y} + x"), "__rsub__": ("y", "{y} - x"),
    "__rmul__": ("y", "{y} * x"), "__rdiv__": ("y", "{y} / x"), "__rpow__": ("y", "{y} ^ x"), "neg": ("", "-x"), "round": ("", "x:round()"),
    "nn.functional.leaky_relu": ("slope inplace=False", "x:leaky_relu({slope})"), "nn.functional.elu": ("alpha inplace=False", "x:elu({alpha})"),
    "nn.functional.celu": ("alpha inplace=False", "x:celu({alpha})"), "nn.functional.selu": ("inplace=False", "x:selu()"),
    "nn.functional.gelu": ("approximate", "x:gelu({approximate})"), "nn.functional.glu": ("dim:d", "x:glu({dim})"),
    "nn.functional.softplus": ("beta threshold", "x:softplus({beta}, {threshold})"),
    "nn.functional.hardtanh": ("min_val max_val inplace=False", "x:hardtanh({min_val}, {max_val})"),
    "nn.functional.softmin": ("dim:d dtype=None", "x:softmin({dim})"), "nn.functional.logsigmoid": ("", "x:log_sigmoid()"),
    "nn.functional.threshold": ("threshold value inplace=False", "nn.Threshold({threshold}, {value})(x)"),
    "nn.functional.softshrink": ("lambd", "nn.Softshrink({lambd})(x)"), "nn.functional.hardshrink": ("lambd", "nn.Hardshrink({lambd})(x)"),
    "nn.functional.linear": ("weight bias", "capl.op.linear(x, {weight}, {bias})"),
    "nn.functional.conv2d": ("weight bias stride padding dilation groups", "capl.op.conv2d(x, {weight}, {bias}, {{stride = {stride}, "
                             "padding = {padding}, dilation = {dilation}, groups = {groups}}})"),
    "nn.functional.layer_norm": ("shape weight bias eps", "(capl.op.layer_norm(x, {weight}, {bias}, {{normalized_shape = {shape}, eps = {eps}}}))"),
    "nn.functional.group_norm": ("groups weight bias eps", "(capl.op.group_norm(x, {weight}, {bias}, {{num_groups = {groups}, eps = {eps}}}))"),
    "nn.functional.max_pool2d": ("kernel_size stride padding dilation ceil_mode return_indices", "nn.MaxPool2d({kernel_size}, {{stride = {stride}, "
                                 "padding = {padding}, dilation = {dilation}, ceil_mode = {ceil_mode}, return_indices = {return_indices}}})(x)"),
    "nn.functional.avg_pool2d": ("kernel_size stride padding ceil_mode count_include_pad divisor_override", "nn.AvgPool2d({kernel_size}, {{stride = {stride}, "
                                 "padding = {padding}, ceil_mode = {ceil_mode}, count_include_pad = {count_include_pad}, "
                                 "divisor_override = {divisor_override}}})(x)"),
    "nn.functional.adaptive_avg_pool2d": ("size", "nn.AdaptiveAvgPool2d({size})(x)"),
    "nn.functional.adaptive_avg_pool1d": ("size", "nn.AdaptiveAvgPool1d({size})(x)"),
    "nn.functional.pixel_shuffle": ("upscale_factor", "nn.PixelShuffle({upscale_factor})(x)"),
    "nn.functional.pixel_unshuffle": ("downscale_factor", "nn.PixelUnshuffle({downscale_factor})(x)"),
    "nn.functional.pad.constant": ("pad mode value", "x:pad({pad}, {{mode = {mode}, value = {value}}})"),
    "nn.functional.pad.reflect": ("pad mode", "x:pad({pad}, {{mode = {mode}}})"),
    "nn.functional.pad.replicate": ("pad mode", "x:pad({pad}, {{mode = {mode}}})"),
    "nn.functional.pad.circular": ("pad mode", "x:pad({pad}, {{mode = {mode}}})"),
    "nn.functional.normalize": ("p dim:d eps", "nn.normalize(x, {{p = {p}, dim = {dim}, eps = {eps}}})"),
    "nn.functional.cosine_similarity": ("y dim:d eps", "nn.cosine_similarity(x, {y}, {{dim = {dim}, eps = {eps}}})"),
    "nn.functional.pairwise_distance": ("y p eps keepdim", "nn.PairwiseDistance{{p = {p}, eps = {eps}, keepdim = {keepdim}}}(x, {y})"),
    "nn.functional.cross_entropy": ("y weight size_average=None ignore_index reduce=None reduction label_smoothing", "nn.cross_entropy(x, {y}, {{weight = {weight}, "
                                    "ignore_index = {ignore_index}, reduction = {reduction}, label_smoothing = {label_smoothing}}})"),
    "nn.functional.nll_loss": ("y weight size_average=None ignore_index reduce=None reduction",
                               "nn.nll(x, {y}, {{weight = {weight}, ignore_index = {ignore_index}, reduction = {reduction}}})"),
    "nn.functional.smooth_l1_loss": ("y beta reduction", "nn.smooth_l1(x, {y}, {{beta = {beta}, reduction = {reduction}}})"),
    "nn.functional.huber_loss": ("y delta reduction", "nn.huber(x, {y}, {{delta = {delta}, reduction = {reduction}}})"),
    "nn.functional.binary_cross_entropy_with_logits": ("y weight reduction pos_weight", "nn.bce_with_logits(x, {y}, {{weight = {weight}, "
                                                       "reduction = {reduction}, pos_weight = {pos_weight}}})"),
}
for _name in ("abs ceil floor trunc frac exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal square sin cos tanh sigmoid erf sign isnan "
              "isinf isfinite logical_not nan_to_num").split():
    TABLE[_name] = ("nan posinf neginf", "x:nan_to_num({nan}, {posinf}, {neginf})") if _name == "nan_to_num" else ("", f"x:{_name}()")
for _name in ("remainder fmod maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor logaddexp outer dot mv mm bmm matmul").split():
    TABLE[_name] = ("y", f"x:{_name}({{y}})")
for _name in ("relu relu6 silu hardswish hardsigmoid mish softsign tanhshrink").split():
    TABLE[f"nn.functional.{_name}"] = ("inplace=False", f"x:{_name}()")
for _name in ("mse_loss", "l1_loss"):
    TABLE[f"nn.functional.{_name}"] = ("y weight=None reduction", f"nn.{_name}(x, {{y}}, {{{{reduction = {{reduction}}}}}})")

# How many leading arguments of the constructor are given by place; the rest by name.
MODULES = {name: count for count, names in {
    0: "ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid Sigmoid Tanh Tanhshrink Softsign LogSigmoid Identity Flatten "
       "L1Loss MSELoss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss CrossEntropyLoss NLLLoss KLDivLoss CTCLoss "
       "CosineEmbeddingLoss HingeEmbeddingLoss SoftMarginLoss MarginRankingLoss MultiLabelSoftMarginLoss MultiMarginLoss "
       "TripletMarginLoss GaussianNLLLoss PoissonNLLLoss CELU ELU GELU GLU Hardtanh Hardshrink Softshrink LeakyReLU PReLU "
       "Softmax LogSoftmax Softmin Softplus",
    1: "BatchNorm1d BatchNorm2d LayerNorm RMSNorm MaxPool1d MaxPool2d AvgPool1d AvgPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d "
       "AdaptiveMaxPool1d AdaptiveMaxPool2d CircularPad1d CircularPad2d ReflectionPad1d ReflectionPad2d ReplicationPad1d "
       "ReplicationPad2d ZeroPad1d ZeroPad2d PixelShuffle PixelUnshuffle",
    2: "Linear Embedding GroupNorm ConstantPad1d ConstantPad2d Threshold LSTM GRU RNN LSTMCell GRUCell RNNCell "
       "TransformerEncoderLayer MultiheadAttention",
    3: "Conv1d Conv2d ConvTranspose2d Bilinear",
}.items() for name in names.split()}
DIMS = {"dim", "start_dim", "end_dim"}  # arguments that count from 1 here
UNSAID = {"device", "dtype", "size_average", "reduce"}  # the first two are the test's own

# op: why samples of it differ.
KNOWN = {"nn.CTCLoss": "PyTorch's gradient of log_probs is that of the scores before log_softmax, behind which both are equal"}


class NoOption(Exception):
    """A sample uses an option that capl does not have."""


class Sample:
    """One call: its tensors, and its code in Lua."""

    def __init__(self, op, sample):
        self.op, self.sample, self.tensors = op, sample, []
        parameters, call = TABLE[label(op)]
        given, args = dict(sample.kwargs), list(sample.args)
        values = {}
        for spec in parameters.split():
            name, default = spec.split("=") if "=" in spec else (spec, None)
            name, kind = name.split(":") if ":" in name else (name, "")
            last = spec == parameters.split()[-1] and len(args) > 1
            value = (args if last else args.pop(0)) if args else given.pop(name, None)
            args = [] if last else args
            if default is not None and value is not None and str(value) != default:
                raise NoOption(f"{name} = {value}")
            values[name] = self.lua(value, kind)
        if args or given:
            raise NoOption(", ".join(map(str, given)) or "more arguments")
        self.x = self.lua(sample.input)
        self.code = call.format(**values)

    def lua(self, value, kind=""):
        """A value in Lua."""
        if isinstance(value, torch.Tensor):
            if value.dtype.is_complex or value.numel() > MOST:
                raise NoOption("a large or complex tensor")
            for i, tensor in enumerate(self.tensors, 1):
                if tensor is value:
                    return f"t({i})"
            self.tensors.append(value)
            return f"t({len(self.tensors)})"
        if isinstance(value, (list, tuple)):
            return "{" + ", ".join(self.lua(v, kind) for v in value) + "}"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (int, float)):
            if value != value or abs(value) == float("inf"):
                return "0 / 0" if value != value else "math.huge" if value > 0 else "-math.huge"
            return repr(value + 1 if kind and value >= 0 else value)
        if value is None:
            return "nil"
        if isinstance(value, str):
            return json.dumps(value)
        if value in (torch.nn.functional.relu, torch.nn.functional.gelu):
            return json.dumps(value.__name__)
        raise NoOption(type(value).__name__)

    def theirs(self):
        """PyTorch's result and gradients, or None where it refuses."""
        y = self.op(self.sample.input, *self.sample.args, **self.sample.kwargs)
        y = y[0] if isinstance(y, (list, tuple)) else y
        out = [y]
        leaves = [t for t in self.tensors if t.requires_grad]
        if y.requires_grad and leaves and y.numel():
            weights = torch.arange(y.numel(), dtype=torch.float32).cos().reshape(y.shape)
            out += torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True)
        return [None if v is None else v.detach().double().reshape(-1).tolist() for v in out]


class ModuleSample(Sample):
    """One call of a module: constructor, state, inputs."""

    def __init__(self, info, sample, training):  # pylint: disable=super-init-not-called
        self.op, self.tensors, self.x = info, [], "nil"
        built, given = sample.constructor_input, sample.forward_input
        self.module = info.module_cls(*built.args, **built.kwargs).train(training)
        self.given = given
        options = ", ".join(f"{k} = {self.lua(v)}" for k, v in given.kwargs.items() if k != "input" and v is not None)
        inputs = ", ".join([self.lua(v) for v in [*given.args, *(v for k, v in given.kwargs.items() if k == "input")]] + ([f"{{{options}}}"] if options else []))
        self.leaves = [t for t in self.tensors if t.requires_grad]
        state = ", ".join(f"{json.dumps(k)}, {self.lua(v.detach())}" for k, v in self.module.state_dict().items() if k not in self.arguments(built))
        names = ", ".join(json.dumps(k) for k, _ in self.module.named_parameters())
        self.code = f"module({self.constructor(built)}, {{{state}}}, {{{names}}}, {str(training).lower()}, {inputs})"

    def arguments(self, built):
        """{name: value} of the constructor, also where a class hands them on."""
        known = inspect.signature(self.op.module_cls.__init__)
        out = dict(list(known.bind(None, *built.args, **built.kwargs).arguments.items())[1:])
        return {**dict(zip(["input_size", "hidden_size"], out.pop("args", ()))), **out.pop("kwargs", {}), **out}

    def constructor(self, built):
        name = self.op.module_cls.__name__
        known = inspect.signature(self.op.module_cls.__init__).parameters
        place, options = [], []
        for i, (key, value) in enumerate(self.arguments(built).items()):
            default = known[key].default if key in known else None
            if i < MODULES[name]:
                place.append(self.lua(value, "d" if key in DIMS else ""))
            elif key == "momentum" and value is None:
                options.append("momentum = false")
            elif key not in UNSAID and value is not None and (torch.is_tensor(value) or value != default):
                options.append(f"{key} = {self.lua(value, 'd' if key in DIMS else '')}")
        return f"nn.{name}({', '.join(place + (['{' + ', '.join(options) + '}'] if options else []))})"

    def theirs(self):
        y = self.module(*self.given.args, **self.given.kwargs)
        while isinstance(y, (list, tuple)):
            y = y[0]
        out, leaves = [y], self.leaves + list(self.module.parameters())
        if y.requires_grad and y.numel():
            weights = torch.arange(y.numel(), dtype=torch.float32).cos().reshape(y.shape)
            out += torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True)
        return [None if v is None else v.detach().double().reshape(-1).tolist() for v in out]


def module_samples(info, most):
    """As samples_of, of a module."""
    out = []
    for training in (True, False) if info.train_and_eval_differ else (True,):
        found = list(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training))
        step = max(1, len(found) // most) if most else 1
        for sample in found[::step][:most or None]:
            try:
                out.append((ModuleSample(info, sample, training), None))
            except (NoOption, RuntimeError) as why_not:
                out.append((None, str(why_not)))
    return out


def label(op):
    if hasattr(op, "module_cls"):
        return "nn." + op.module_cls.__name__
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def samples_of(op, most):
    """Up to so many samples of op, spread over all: (Sample or None, why)."""
    try:
        found = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))
    except Exception as error:  # pylint: disable=broad-except
        return [(None, str(error))]
    step = max(1, len(found) // most) if most else 1
    out = []
    for sample in found[::step][:most or None]:
        try:
            out.append((Sample(op, sample), None))
        except NoOption as why_not:
            out.append((None, str(why_not)))
    return out


DTYPES = {torch.float32: ("F32", "f"), torch.int64: ("I64", "q"), torch.bool: ("BOOL", "?"), torch.int32: ("I32", "i"), torch.uint8: ("U8", "B")}


def write_tensors(path, tensors):
    """A safetensors file, row-major."""
    head, body = {}, b""
    for name, tensor in tensors.items():
        kind, code = DTYPES.get(tensor.dtype, ("F32", "f"))
        values = tensor.detach().to(tensor.dtype if tensor.dtype in DTYPES else torch.float32).reshape(-1).tolist()
        data = struct.pack(f"<{len(values)}{code}", *values)
        head[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


LUA = """--- capl: 1
--- needs: minutes=10
local all = capl.io.load("samples.safetensors")
local function text(v) return v and table.concat(v:detach():float():reshape(-1):tolist(), " ") or "none" end
-- state: name, tensor, name, tensor …; names: of the parameters -> result, parameters
local function module(m, state, names, training, ...)
  local all, of, list = {}, {}, {}
  for i = 1, #state, 2 do all[state[i]] = state[i + 1] end
  if next(all) then m:load_state_dict(all) end
  for name, p in m:named_parameters() do of[name] = p end
  for i, name in ipairs(names) do list[i] = of[name] end
  return m:train(training)(...), list
end
local function case(n, wants, run)
  local made = {}
  local function t(i)
    if not made[i] then made[i] = wants[i] and all[n .. "_" .. i]:requires_grad_() or all[n .. "_" .. i] end
    return made[i]
  end
  local ok, y = pcall(function()
    local y, parameters = run(t)
    if type(y) == "table" and not capl.is_tensor(y) then y = y[1] end
    print("Y", n, y:numel() > 0 and text(y) or "")
    if y.requires_grad and y:numel() > 0 then
      (y * capl.arange(y:numel()):float():cos():reshape(y.shape)):sum():backward()
      for i = 1, #wants do if wants[i] then print("D", n, text(made[i] and made[i].grad)) end end
      for _, p in ipairs(capl.is_tensor(parameters) and {} or parameters or {}) do print("D", n, text(p.grad)) end
    end
  end)
  if not ok then print("E", n, (tostring(y):gsub("%s+", " "))) end
end
"""


def run(samples):
    """{number: (lists of values, message)} of what capl gives."""
    with tempfile.TemporaryDirectory() as folder:
        tensors = {f"{n}_{i}": t for n, s in enumerate(samples) for i, t in enumerate(s.tensors, 1)}
        write_tensors(os.path.join(folder, "samples.safetensors"), tensors)
        with open(os.path.join(folder, "samples.lua"), "w", encoding="utf-8") as file:
            file.write(LUA)
            for n, s in enumerate(samples):
                wants = ", ".join(str(t.requires_grad).lower() for t in s.tensors)
                file.write(f"case({n}, {{{wants}}}, function(t) local x = {s.x} return {s.code} end)\n")
        got = subprocess.run([os.path.abspath(CAPL), "samples.lua"], cwd=folder, capture_output=True, text=True, check=False)
    out = {n: ([], None) for n in range(len(samples))}
    for kind, n, text in re.findall(r"(?m)^([YDE])\t(\d+)\t(.*)$", got.stdout):
        if kind == "E":
            out[int(n)] = (out[int(n)][0], text)
        else:
            out[int(n)][0].append(None if text == "none" else [float(v) for v in text.split()])
    if got.returncode != 0:
        sys.exit(f"capl failed: {got.stderr[-2000:]}")
    return out


def near(a, b):
    return a == b or (a != a and b != b) or abs(a - b) <= NEAR * max(1, abs(b))


def alike(ours, theirs):
    """An empty reason where all is equal."""
    for name, a, b in zip(["y"] + ["gradient"] * 9, ours, theirs):
        a, b = (a or [0] * len(b or [])), (b or [0] * len(a or []))
        if len(a) != len(b):
            return f"{name}: {len(a)} elements, PyTorch has {len(b)}"
        for i, (p, q) in enumerate(zip(a, b)):
            if not near(p, q):
                return f"{name}[{i}] is {p:.9g}, PyTorch has {q:.9g}"
    return ""


def main():
    most = None if "--all" in sys.argv else 6
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    counts, samples = {}, []
    for op in op_db:
        if label(op) not in TABLE or (names and label(op) not in names):
            continue
        counts.setdefault(label(op), {"equal": 0, "differs": 0, "refused": 0, "option": 0})
        for sample, why_not in samples_of(op, most):
            if sample is None:
                counts[label(op)]["option"] += 1
                if "--options" in sys.argv:
                    print(f"option: {label(op)}: {why_not}"[:160])
                continue
            samples.append(sample)
    for info in module_db:
        name = label(info)
        if info.module_cls.__module__.startswith("torch.nn.modules") and name[3:] in MODULES and (not names or name in names):
            counts.setdefault(name, {"equal": 0, "differs": 0, "refused": 0, "option": 0})
            for sample, why_not in module_samples(info, most):
                if sample is None:
                    counts[name]["option"] += 1
                    if "--options" in sys.argv:
                        print(f"option: {name}: {why_not}"[:160])
                    continue
                samples.append(sample)
    results, bad = run(samples), []
    for n, sample in enumerate(samples):
        ours, message = results[n]
        try:
            reason = message or alike(ours, sample.theirs())
        except Exception as error:  # pylint: disable=broad-except
            reason = f"PyTorch refuses: {error}"
        unknown = message and hasattr(sample.op, "module_cls") and re.search(r"unknown \w+ '", message)
        kind = "option" if unknown else "refused" if message else "differs" if reason else "equal"
        if unknown and "--options" in sys.argv:
            print(f"option: {label(sample.op)}: {reason}"[:200])
        counts[label(sample.op)][kind] += 1
        if reason and not unknown:
            shapes = [tuple(t.shape) for t in sample.tensors]
            bad.append((label(sample.op), kind, f"{sample.code} of {shapes}: {reason}"))
    report(counts, bad)


def table(counts):
    """The counts of docs/from-pytorch.md."""
    whole = [f"{name.removeprefix('nn.functional.')} {c['equal']}" for name, c in sorted(counts.items()) if c["equal"] == sum(c.values())]
    print("\n".join(textwrap.wrap("All equal: " + ", ".join(whole) + ".", 120, break_on_hyphens=False)))
    print("\n| op | equal | differs | refused | option missing |\n|---|---|---|---|---|")
    for name, c in sorted(counts.items()):
        if c["equal"] < sum(c.values()):
            print(f"| `{name}` | {c['equal']} | {c['differs']} | {c['refused']} | {c['option']} |")


def report(counts, bad):
    modules = sum(re.match(r"nn\.[A-Z]", name) is not None for name in counts)
    total = {k: sum(c[k] for c in counts.values()) for k in ("equal", "differs", "refused", "option")}
    if "--table" in sys.argv:
        table(counts)
    unknown = [b for b in bad if b[1] == "differs" and b[0] not in KNOWN]
    for name, kind, text in bad:
        print(f"{kind}: {name}: {text[:220]}")
    print(f"{len(counts) - modules} ops, {modules} modules: {total['equal']} samples equal, {total['differs']} differ, {total['refused']} refused, {total['option']} with options "
          "that do not exist")
    missing = sorted((set(TABLE) | {"nn." + name for name in MODULES}) - set(counts)) if len(sys.argv) == 1 else []
    if missing:
        print("not in this PyTorch's op_db or module_db: " + ", ".join(missing))
    tried = total["equal"] + total["differs"] + total["refused"]
    sys.exit(1 if unknown or total["equal"] < 0.9 * tried else 0)


if __name__ == "__main__":
    main()
