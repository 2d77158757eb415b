-- settings.lua: what all layers share: whether Sequential fuses, and who watches module calls.
-- SPDX-License-Identifier: Apache-2.0
return {
  fuse = true, -- capl.fuse
  recomputing = nil, -- true while a checkpoint runs its part again: statistics are not to be counted twice
  on_loss = nil, -- function(name, value, x, target, options[, more]) told of each loss that is computed
  on_ctc = nil, -- function(infeasible (N) u8) told of each CTC loss that is computed
  watch = nil, -- function(module, …) called instead of module:forward(…); it must call that itself
}
