"""Reads TensorBoard's event files without TensorBoard: frames, CRC-32C, and the fields of its messages.

SPDX-License-Identifier: Apache-2.0
"""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """[(number, value)]: whole numbers, 8 or 4 bytes, or bytes."""
    at, out = 0, []
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "a field is cut"
        out.append((key >> 3, value))
    return out


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def value_of(data):
    """A Summary.Value -> tag, kind, what it holds."""
    got = dict(fields(data))
    tag = got[1].decode()
    if 2 in got:
        return tag, "scalar", struct.unpack("<f", got[2])[0]
    if 4 in got:
        image = dict(fields(got[4]))
        return tag, "image", (image[2], image[1], image[3], image[4])
    if 5 in got:
        histogram = dict(fields(got[5]))
        return tag, "histogram", {"min": doubles(histogram[1])[0], "max": doubles(histogram[2])[0], "num": doubles(histogram[3])[0],
                                  "limits": doubles(histogram.get(6, b"")), "buckets": doubles(histogram.get(7, b""))}
    text = dict(fields(got[8]))
    plugin = dict(fields(dict(fields(got[9]))[1]))
    assert text[1] == 7 and plugin[1] == b"text", "a tensor that is no text"
    return tag, "text", text[8].decode()


def records(data, check_crc=True):
    at = 0
    while at < len(data):
        head = data[at:at + 8]
        size, = struct.unpack("<Q", head)
        body = data[at + 12:at + 12 + size]
        assert len(body) == size, "the last record is cut"
        if check_crc:
            assert struct.unpack("<I", data[at + 8:at + 12])[0] == masked(head), "CRC of a length"
            assert struct.unpack("<I", data[at + 12 + size:at + 16 + size])[0] == masked(body), "CRC of a message"
        yield body
        at += 16 + size


def read(path, check_crc=True):
    """-> [(step, tag, kind, value)]; the first record has to be the version."""
    with open(path, "rb") as file:
        data = file.read()
    out = []
    for i, body in enumerate(records(data, check_crc)):
        got = fields(body)
        event = dict(got)
        assert struct.unpack("<d", event[1])[0] > 1.7e9, "a time"
        if i == 0:
            assert event[3] == b"brain.Event:2", "the version"
            continue
        for number, value in fields(event.get(5, b"")):
            assert number == 1, "a summary holds values"
            out.append((event.get(2, 0), *value_of(value)))
    return out
