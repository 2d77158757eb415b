-- charset.lua: characters that are declared and never come, or come in val and test but not in training.
-- SPDX-License-Identifier: Apache-2.0
local symbols = require "fields.symbols"
local texts = require "doctor.texts"

local function sorted(list)
  table.sort(list)
  return symbols.shown(list, " ")
end

local function check(ctx)
  local train = ctx.loaders.train
  local list = texts.of(train)
  if #list == 0 then return ctx:skip("the train loader has no labels that are texts") end
  local counts = texts.counts(list)
  local never, declared = {}, symbols.list(train.charset)
  for _, c in ipairs(declared) do
    if not counts[c] then never[#never + 1] = c end
  end
  local where = ctx:line("charset%s*=")
  if #never > 0 and train.source.dir then
    ctx:warn(("%d of the %d characters of the charset occur in no training text: %s"):format(#never, #declared,
      sorted(never)), {where = where, write = "a charset without them: each adds a class that is never learned"})
  end
  for _, role in ipairs{"val", "test"} do
    local strange = {}
    for c in pairs(texts.counts(texts.of(ctx.loaders[role]))) do
      if not counts[c] and train.source.dir then strange[#strange + 1] = c end
    end
    if #strange > 0 then
      ctx:error(("%s has characters that no training text has: %s"):format(role, sorted(strange)),
        {where = where, write = "more training images with them, or another split"})
    end
  end
  return ("%d characters, %d of them occur in %d training texts"):format(#declared, #declared - #never, #list)
end

return {name = "charset", check = check}
