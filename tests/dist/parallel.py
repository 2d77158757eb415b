"""Ranks that train together learn what one process learns from all their images: gradients, norms, optimisers, their weights.

SPDX-License-Identifier: Apache-2.0
"""
import os

from ranks import check, in_empty_folder, need_mpi, succeed

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    need_mpi()
    for n in (1, 2, 3):
        out = succeed(n, os.path.join(HERE, "parallel.lua"), what="ranks learn what one process learns")
        check(f"checks on {n} rank" in out, "rank 0 says that all was checked", out)


in_empty_folder(main)
