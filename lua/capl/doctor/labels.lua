-- labels.lua: labels that are missing, do not fit, or are of other lengths than the model reads.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"
local texts = require "doctor.texts"

local function check(ctx)
  local seen, shorter = 0, 0
  for _, role in ipairs{"train", "val", "test"} do
    local loader = ctx.loaders[role]
    local bad = loader and loader.source.bad or {}
    if #bad > 0 then
      ctx:error(("%d files of the %s set have no usable label, such as %s"):format(#bad, role, bad[1].message),
        {where = ctx:line("label%s*=", "data%.folder"),
        write = "label = a pattern that fits all names, or on_error = \"skip\""})
    end
    for _, text in ipairs(texts.of(loader)) do
      seen = seen + 1
      if loader.length and symbols.length(text) < loader.length then shorter = shorter + 1 end
    end
  end
  if seen == 0 then return ctx:skip("no loader has labels that are texts") end
  if shorter > 0 and (ctx.run.model_options or {}).decoding ~= "ctc" then
    ctx:note(("%d of %d texts are shorter than the %d positions of the model; positions after their end are not " ..
      "trained"):format(
      shorter, seen, ctx.loaders.train.length), {where = ctx:line("length%s*=")})
  end
  return ("%d labels fit"):format(seen)
end

return {name = "labels", check = check}
