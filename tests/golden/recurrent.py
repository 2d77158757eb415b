#!/usr/bin/env python3
"""LSTM, GRU and plain recurrent layers in PyTorch -> recurrent.json: layers, directions, lengths (packed sequences), states, gradients.

usage: recurrent.py [--check]      needs PyTorch and numpy; a second

Tensors of case i are numbered from 50000 + 100 * i on: x, states, gradients of the outputs, then the parameters in
PyTorch's order; all are `signed` (README.md). The loss is the sum of all outputs times their gradients.
SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import counter
import ops
from golden_file import finish

# kind, T, N, I, hidden size, options, lengths, with initial states
CASES = [
    ("LSTM", 5, 3, 4, 3, {"num_layers": 2, "bidirectional": True}, [3, 5, 1], True),
    ("LSTM", 4, 2, 3, 5, {"batch_first": True}, None, False),
    ("LSTM", 3, 2, 2, 2, {"bidirectional": True, "bias": False}, None, True),
    ("GRU", 5, 3, 4, 3, {"num_layers": 2, "bidirectional": True}, [3, 5, 1], True),
    ("GRU", 4, 2, 3, 5, {"batch_first": True}, [2, 4], False),
    ("GRU", 3, 2, 2, 2, {"bidirectional": True, "bias": False}, None, True),
    ("RNN", 5, 3, 4, 3, {"num_layers": 2, "bidirectional": True}, [3, 5, 1], True),
    ("RNN", 4, 2, 3, 5, {"batch_first": True, "nonlinearity": "relu"}, [2, 4], False),
]


def signed(shape, number):
    return torch.from_numpy(counter.signed(tuple(shape), number)).double()


def run_layer(model, x, state, lengths, batch_first):
    if lengths is None:
        return model(x, state)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=batch_first, enforce_sorted=False)
    y, state = model(packed, state)
    return pad_packed_sequence(y, batch_first=batch_first, total_length=x.shape[1 if batch_first else 0])[0], state


def run_case(i, kind, steps, batch, inputs, hidden, options, lengths, stateful):
    first = 50000 + 100 * i
    model = getattr(nn, kind)(inputs, hidden, **options).double()
    for k, parameter in enumerate(model.parameters()):
        parameter.data = signed(parameter.shape, first + 20 + k)
    batch_first = options.get("batch_first", False)
    x = signed((batch, steps, inputs) if batch_first else (steps, batch, inputs), first).requires_grad_()
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    names = ["h", "c"] if kind == "LSTM" else ["h"]
    states = [signed((rows, batch, hidden), first + 1 + k).requires_grad_() for k in range(len(names))]
    given = (tuple(states) if kind == "LSTM" else states[0]) if stateful else None
    y, last = run_layer(model, x, given, lengths, batch_first)
    outputs = [y, *(last if kind == "LSTM" else [last])]
    sum((out * signed(out.shape, first + 10 + k)).sum() for k, out in enumerate(outputs)).backward()
    values = {"y": ops.summary(y), "dx": ops.summary(x.grad)}
    for k, name in enumerate(names):
        values[name] = ops.summary(outputs[k + 1])
        if stateful:
            values["d" + name] = ops.summary(states[k].grad)
    for name, parameter in model.named_parameters():
        values[name] = ops.summary(parameter.grad)
    return {"kind": kind, "sizes": [steps, batch, inputs, hidden], "options": options, "lengths": lengths or [],
            "stateful": stateful, "first": first, "outputs": values}


def main():
    finish(__file__, {
        "about": "nn.LSTM, nn.GRU and nn.RNN in PyTorch float64 on float32 inputs; see README.md",
        "seed": counter.SEED, "stream": counter.STREAM, "cases": [run_case(i, *case) for i, case in enumerate(CASES)],
    })


if __name__ == "__main__":
    main()
