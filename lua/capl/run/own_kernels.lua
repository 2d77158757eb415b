-- own_kernels.lua: products that cuDNN or cuBLASLt should run and capl's own kernels did: correct, and many times
-- slower.
--
-- Said before the first step changes a weight, as a warning where a GPU was asked for; and in the report.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local own_kernels = {}

--- "conv2d_grad_w: 1 of 7 on own kernels, matmul: …"; nil when there are none.
function own_kernels.text()
  local parts = {}
  for kind, count in pairs(core.own_kernels()) do
    if count.own > 0 then parts[#parts + 1] = ("%s: %d of %d on own kernels"):format(kind, count.own, count.total) end
  end
  table.sort(parts)
  return parts[1] and table.concat(parts, ", ")
end

--- The line before the first step; nil when there is nothing to say.
-- in   asked: a GPU was asked for by name
function own_kernels.line(asked)
  local text = own_kernels.text()
  if not text then return end
  return (asked and "warning: " or "note: ") .. text ..
    ": cuDNN or cuBLASLt has nothing for them on this GPU, so they are slow; capl info names the libraries"
end

return own_kernels
