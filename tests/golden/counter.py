"""Numbers both sides of a golden test can compute: Philox4x32-10 by counter, as in engine/base/rng.c.

Element i (row-major) of tensor number t is word i % 4 of the block with key = the seed's two halves and
counter = (i / 4, t, 0, STREAM); capl_rng_init(&rng, SEED, t, 0, STREAM) opens the same numbers in C.
SPDX-License-Identifier: Apache-2.0
"""
import numpy as np

SEED = 42
STREAM = 0xC0FFEE
MASK = np.uint64(0xFFFFFFFF)


def _mul(factor, x):
    """High and low 32 bits of factor * x."""
    product = np.uint64(factor) * x
    return product >> np.uint64(32), product & MASK


def philox(key, counter):
    """Ten rounds. key: 2 ints; counter: 4 uint64 arrays of 32-bit values; returns 4 such arrays."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        hi0, lo0 = _mul(0xD2511F53, c0)
        hi1, lo1 = _mul(0xCD9E8D57, c2)
        c0, c1, c2, c3 = hi1 ^ c1 ^ np.uint64(k0), lo1, hi0 ^ c3 ^ np.uint64(k1), lo0
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniform(shape, tensor):
    """float32 in [0,1), 24 random bits."""
    count = int(np.prod(shape))
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    fixed = [np.full_like(blocks, value) for value in (tensor, 0, STREAM)]
    words = np.stack(philox((SEED & 0xFFFFFFFF, SEED >> 32), (blocks, *fixed)), axis=1).reshape(-1)[:count]
    return ((words >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -24)).reshape(shape)


def signed(shape, tensor, bound=1.0):
    """float32 in [-bound, bound): (2u - 1) exactly, then one rounding."""
    return (np.float32(2) * uniform(shape, tensor) - np.float32(1)) * np.float32(bound)


def classes(shape, tensor, n):
    """int64 in [0, n): floor(u * n)."""
    return np.floor(uniform(shape, tensor).astype(np.float64) * n).astype(np.int64)


def _known_answers():
    zero, ones = np.zeros(1, np.uint64), np.full(1, 0xFFFFFFFF, np.uint64)
    got = [int(w[0]) for w in philox((0, 0), (zero,) * 4)]
    assert got == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], got
    got = [int(w[0]) for w in philox((0xFFFFFFFF, 0xFFFFFFFF), (ones,) * 4)]
    assert got == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], got


_known_answers()
