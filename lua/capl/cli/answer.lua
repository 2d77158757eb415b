-- answer.lua: what a model says of one sample as a table for JSON, for `capl predict --json` and `capl serve`.
-- SPDX-License-Identifier: Apache-2.0
local answer = {}

--- {error = …}, or the keys of an only output; several outputs are tables by their names.
-- in   reading: one of model:files or model:read; o: options of the command, outputs = those of fields.outputs_of
-- in   each(output, d, keys): adds to the keys of an output; nil: nothing is added
function answer.of(reading, o, each)
  if reading.error then return {error = reading.error} end
  local out = {}
  for i, d in ipairs(o.outputs) do
    local keys = d.kind.json(reading.outputs[i], o, d)
    if each then each(reading.outputs[i], d, keys) end
    if d.name == "" then out = keys else out[d.name] = keys end
  end
  return out
end

return answer
