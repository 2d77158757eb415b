"""step.py -- the engine's kernels in a captured bf16 step of recipes/captcha_cnn.lua, beyond those of budgets.BUDGETS.

budgets.py holds WAYS and SMALL to their machine code; ../ledger.py holds the step to these names, and SMALL to their bytes.
SPDX-License-Identifier: Apache-2.0
"""
import collections

# One turn of a kernel's loop: bytes in accesses of `least` bytes or more, and bytes that device memory moves (a cache has what a
# neighbour has read). The shortest way with these accesses counts: operands are dense, so nothing is divided.
Way = collections.namedtuple("Way", "file bytes least moved")
WAYS = {
    # 4 elements: parameter, gradient and both moments in; all but the gradient out, and the parameter in 16 bits.
    "step<adam>": Way("optim.cu.o", 120, 8, 120),
    # 4 elements of the images.
    "cast<bf16, f32>": Way("elementwise.cu.o", 24, 8, 24),
    # 16 elements of a tile.
    "transpose<unsigned short>": Way("shape.cu.o", 64, 2, 64),
    # A row of 4 pixels, 8 channels of each; of x 4 pixels are new, read for 4 threads.
    "conv_thin<bf16, 1, true>": Way("conv_thin.cu.o", 64, 16, 66),
    # Likewise, without the gradient of the bias, which is not wanted where a batch norm follows.
    "conv_thin_grad_w<bf16, 1, true>": Way("conv_thin.cu.o", 64, 16, 66),
}

# A launch that has nothing to do takes about that long on an H200, as a node of a graph.
LAUNCH_US = 2.5
# Launches at batch 1024 that are over by then, also if every instruction of their loop counts: mb is what one moves at most (the
# ledger says so), moved what a turn of the loop moves. way: accesses of the way that counts; None: the longest of all ways through
# the loop, or the whole of a kernel without loops. One thread: every instruction waits for the one before, THREAD_CYCLES.
Small = collections.namedtuple("Small", "file mb moved way what")
THREAD_CYCLES = 6
SMALL = {
    "dropout_row<bf16>": Small("elementwise.cu.o", 3.2, 16, None, "a linear layer's activations, most of it random numbers"),
    "widen<bf16>": Small("optim.cu.o", 5, 48, None, "the convolutions' weight gradients, to f32"),
    "binary<bf16, 8>": Small("elementwise.cu.o", 4.3, 48, (48, 16), "a linear layer's activations"),
    "unary<bf16, 8>": Small("elementwise.cu.o", 3.2, 32, (32, 16), "a linear layer's activations"),
    "elements<bf16>": Small("loss.cu.o", 0.9, 6, None, "the loss, which its last block adds up"),
    "element_grad<bf16>": Small("loss.cu.o", 1.2, 8, None, "the loss's gradient"),
    "numbers_of_step": Small("optim.cu.o", 0.1, 0, None, "one thread: learning rate, bias corrections"),
    "decide": Small("optim.cu.o", 0.1, 0, None, "one thread: loss scale, whether the step is taken"),
}
