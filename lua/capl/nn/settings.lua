-- settings.lua: what all layers share: whether Sequential fuses, and who watches module calls.
-- SPDX-License-Identifier: Apache-2.0
return {
  fuse = true, -- capl.fuse
  watch = nil, -- function(module, …) called instead of module:forward(…); it must call that itself
}
