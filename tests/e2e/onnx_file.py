"""Reads what capl writes of an ONNX file, from the bytes, and what a safetensors file holds; shared by the tests of capl export.

SPDX-License-Identifier: Apache-2.0
"""
import json
import struct


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def message(data):
    """Protobuf's wire format -> {field number: [values]}: whole numbers, or bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("a field ends behind the message")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def texts(fields, number):
    return [value.decode() for value in fields.get(number, [])]


def port(data):
    """ValueInfoProto -> name, element type, sizes and names of dims."""
    fields = message(data)
    tensor = message(message(fields[2][0])[1][0])
    dims = [message(dim) for dim in message(tensor[2][0]).get(1, [])]
    return texts(fields, 1)[0], tensor[1][0], [dim[1][0] if 1 in dim else dim[2][0].decode() for dim in dims]


def read(path):
    """ModelProto, by the numbers of the specification (onnx/onnx.proto3)."""
    with open(path, "rb") as file:
        model = message(file.read())
    graph = message(model[7][0])
    nodes = [message(node) for node in graph[1]]
    return {
        "ir": model[1][0], "producer": texts(model, 2)[0], "opset": message(model[8][0])[2][0],
        "metadata": dict(tuple(texts(message(entry), k)[0] for k in (1, 2)) for entry in model[14]),
        "nodes": [{"op": texts(node, 4)[0], "in": texts(node, 1), "out": texts(node, 2)} for node in nodes],
        "weights": {texts(message(t), 8)[0]: message(t) for t in graph.get(5, [])},
        "inputs": [port(data) for data in graph[11]], "outputs": [port(data) for data in graph[12]],
    }


def load_tensors(path):
    """A safetensors file -> {name: (type, shape, bytes)}."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = t["dtype"], t["shape"], data[8 + size + begin:8 + size + end]
    return out
