#!/usr/bin/env python3
"""How fast PyTorch's NCCL adds up a tensor on all GPUs of this machine: the peer of tests/gpu/nccl.lua.

usage: torch_nccl.py --ranks=N [--mb=64] [--times=20]
Prints one line of JSON: ranks, mb, ms of one all_reduce (the slowest rank), bus_gb_s.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, options, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=options.ranks)
    data = torch.ones(int(options.mb * 1e6 / 4), device="cuda")

    def repeat(times):
        for _ in range(times):
            dist.all_reduce(data, op=dist.ReduceOp.AVG)
        torch.cuda.synchronize()

    repeat(3)
    dist.barrier()
    start = time.perf_counter()
    repeat(options.times)
    slowest = torch.tensor([(time.perf_counter() - start) / options.times], device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        seconds = slowest.item()
        bus = options.mb * 1e6 / seconds * 2 * (options.ranks - 1) / options.ranks / 1e9
        print(f'{{"ranks": {options.ranks}, "mb": {options.mb:g}, "ms": {1e3 * seconds:.4f}, "bus_gb_s": {bus:.2f}}}')
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(rank_main, args=(options, port), nprocs=options.ranks)


if __name__ == "__main__":
    main()
