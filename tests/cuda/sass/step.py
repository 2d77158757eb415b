"""step.py -- the engine's kernels in a captured bf16 step of recipes/captcha_cnn.lua, beyond those of budgets.BUDGETS.

budgets.py holds WAYS to their machine code; ../ledger.py holds the step to these names, and SMALL to their bytes.
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

# Launches that move less than SMALL_MB at batch 1024: 2 us of an H200's memory, no more than a launch takes to start and end.
SMALL_MB = 10
SMALL = {
    "dropout_row<bf16>": "activations of linear layers; most instructions are the random numbers of 4 elements",
    "widen<bf16>": "gradients of the convolutions' weights, to f32",
    "binary<bf16, 8>": "activations of a linear layer",
    "unary<bf16, 8>": "activations of a linear layer",
    "elements<bf16>": "the loss, which its last block adds up",
    "element_grad<bf16>": "the loss's gradient",
    "numbers_of_step": "one thread: learning rate and bias corrections of the step",
    "decide": "one thread: loss scale, gradient norm and whether the step is taken",
}
