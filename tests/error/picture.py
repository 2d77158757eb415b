"""Writes one file that is not the PNG its name says, for the tests beside it.

usage: picture.py KIND FILE    FILE exists: an image of the generator, which some kinds change
SPDX-License-Identifier: Apache-2.0
"""
import os
import struct
import sys
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rows, depth=8, colour=0):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


KINDS = {
    "huge": lambda old: png(1000000000, 1000000000, b"\0" * 100),
    "bomb": lambda old: png(7000, 7000, b"\0" * 7001 * 7000),  # 49 MB of pixels in 48 kB
    "flat": lambda old: png(0, 60, b""),
    "small": lambda old: png(8, 6, b"\0" * 9 * 6),
    "deep": lambda old: png(160, 60, b"\0" * 321 * 60, depth=16),
    "few_rows": lambda old: png(160, 60, b"\0" * 161 * 30),
    "cut": lambda old: old[: len(old) // 2],
    "flipped": lambda old: old[:-20] + bytes([old[-20] ^ 1]) + old[-19:],
    "empty": lambda old: b"",
    "jpeg": lambda old: b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "gif": lambda old: b"GIF89a\x01\0\x01\0",
    "webp": lambda old: b"RIFF\x20\0\0\0WEBPVP8 ",
    "bmp": lambda old: b"BM\x46\0\0\0\0\0",
    "html": lambda old: b"<!DOCTYPE html>\n<title>404 Not Found</title>\n",
    "lfs": lambda old: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "text": lambda old: b"captcha\n",
}


def main():
    kind, path = sys.argv[1:]
    if kind in ("folder", "pipe", "link"):
        os.remove(path)
        {"folder": os.mkdir, "pipe": os.mkfifo, "link": lambda p: os.symlink("elsewhere.png", p)}[kind](path)
        return
    with open(path, "rb") as file:
        old = file.read()
    with open(path, "wb") as file:
        file.write(KINDS[kind](old))


main()
