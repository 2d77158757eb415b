-- texts.lua: the labels of a source as texts, for the rules that count characters.
-- SPDX-License-Identifier: Apache-2.0
local _, observer = ...

local fields = require "fields"
local symbols = require "fields.symbols"

local texts = {}

local MOST = 200000 -- labels that are looked at
local DRAWN = 512 -- of a generator, which has no end

--- Whether the recipe reads texts, which a loader then has characters for: capl.model says so, else the loader's labels
-- do.
function texts.are_read(loader)
  local output = (observer.model_options or {}).output
  local kind = fields.kind(output)
  return loader ~= nil and loader.charset ~= nil and loader.charset ~= "" and (output == nil or kind and kind.is_spelled
    or false)
end

local function of_batches(loader, most)
  local out = {}
  for batch in loader:epoch(1) do
    local places = batch.target and batch.target.ndim == 2 and batch.target:tolist() or {}
    for _, row in ipairs(places) do out[#out + 1] = symbols.spell(loader.charset, row) end
    if #out >= most then break end
  end
  return out
end

--- List of texts of a loader: those of its files, or of what a generator draws first. {} where no text is read.
function texts.of(loader)
  if not texts.are_read(loader) then return {} end
  if not loader.source.dir then return of_batches(loader, DRAWN) end
  local out, source = {}, loader.source
  for i = 0, math.min(MOST, source:count()) - 1 do out[#out + 1] = source:text(i) end
  return out
end

--- How often each character occurs: {c = n}, and the sum.
function texts.counts(list)
  local out, sum = {}, 0
  for _, text in ipairs(list) do
    for _, c in ipairs(symbols.of(text)) do
      out[c], sum = (out[c] or 0) + 1, sum + 1
    end
  end
  return out, sum
end

return texts
