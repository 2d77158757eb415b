-- native.lua: docstrings of what C gives tensors: methods and properties without a definition in Lua.
-- SPDX-License-Identifier: Apache-2.0

--- capl.version: the version of the program, as text.

--- capl.op: all operations by name, as layers and tensors use them: capl.op.conv2d(x, weight, bias, {stride = 2}).
-- eg   capl.op.add(capl.ones(1), capl.ones(1)):item()  --> 2

--- x.shape: list of the sizes, a new one each time.
-- eg   #capl.zeros(2, 3).shape  --> 2

--- x.dtype: type of the values: "f32", "f16", "bf16", "f64", "u8", "i32", "i64" or "bool".
-- eg   capl.arange(3).dtype  --> i64

--- x.device: name of the device that holds the values: "cpu", "cuda:0", "ref", "meta".
-- eg   capl.zeros(1, {device = "ref"}).device  --> ref

--- x.ndim: number of dims.
-- eg   capl.zeros(2, 3).ndim  --> 2

--- x.grad: the gradient that backward() has left, a tensor of x's shape; nil before, and after zero_grad(). Only leaves
-- that require one get it.

--- x.requires_grad: whether gradients are computed for x.
-- eg   nn.Linear(1, 1).weight.requires_grad  --> true

--- x.is_leaf: whether x was made by no op that is part of a graph: parameters and data are leaves.
-- eg   (nn.Linear(1, 1).weight * 2).is_leaf  --> false

--- x:item(): the value of a tensor with one element as a number (bool: 1 or 0). Waits for a GPU to have computed it.
-- errs shape: more than one element
-- eg   capl.tensor{4}:item()  --> 4

--- x:tolist(): all values as nested tables, as capl.tensor takes them; a number for a tensor without dims.
-- eg   capl.tensor{{1, 2}, {3, 4}}:tolist()[2][1]  --> 3

--- x:get(i, …): one value as a number, an index for each dim, from 1 or from the end with -1. For a look: loops over
-- elements are slow.
-- errs value: an index out of range, or not one for each dim
-- eg   capl.tensor{{1, 2}, {3, 4}}:get(2, -1)  --> 4

--- x:set(i, …, value): writes one value, an index for each dim, outside the graph.
-- errs value: an index out of range; state: a value that a gradient still needs

--- x:numel(): number of elements.
-- eg   capl.zeros(2, 3):numel()  --> 6

--- x:stride(): list of the steps in memory between neighbours, in elements, dim by dim; x:stride(dim): one of them.
-- eg   capl.zeros(2, 3):stride(1)  --> 3

--- x:is_contiguous(): whether the values lie in memory row by row, without gaps.
-- eg   capl.zeros(2, 3):t():is_contiguous()  --> false

--- x:backward(): computes the gradients of x, a tensor with one element, for all leaves that require them, and adds
-- them to their x.grad; the graph is let go. In a training loop opt:backward_step(loss) does it, and steps.
-- errs shape: more than one element; state: nothing requires a gradient, or the graph was let go before
-- eg   (function() local w = capl.tensor({3}, {requires_grad = true}); (w * w):sum():backward(); return w.grad:item() end)()  --> 6

--- x:detach(): the same values, outside the graph; shares x's memory.
-- eg   nn.Linear(1, 1).weight:detach().requires_grad  --> false

--- x:requires_grad_([on]): gradients are wanted for x, a leaf, or not; x itself.
-- errs state: x is no leaf; dtype: x is not floating
-- eg   capl.zeros(2):requires_grad_().requires_grad  --> true

--- x:zero_grad(): forgets x.grad; its memory is free at once. (There is no setting to fill it with zeros instead.)

--- x:fill_(value): writes value into all elements, outside the graph; x itself.
-- eg   capl.zeros(2):fill_(7):get(1)  --> 7

--- x:zero_(): writes zeros into all elements, outside the graph; x itself.
-- eg   capl.ones(2):zero_():sum():item()  --> 0

--- x:copy_(y): takes the values of y, a tensor of the same shape or one that broadcasts to it, of any dtype and device,
-- outside the graph; x itself.
-- errs shape: y does not broadcast to x's shape
-- eg   capl.zeros(2):copy_(capl.tensor{3, 4}):get(2)  --> 4

--- x:free(): gives the memory up now, not when Lua's collector finds that nobody uses x. Other tensors that share it
-- keep it.

--- x:keep(): stays when a capl.scope or a step ends in which it was made; x itself.

--- x:is_released(): whether its memory was given up: by free(), or at the end of a scope. Any use of it is then an
-- error.
