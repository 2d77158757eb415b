-- output.lua: whether the model gives as many scores as the labels have places and characters.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local ctc = require "meter.ctc"
local forward = require "forward"
local symbols = require "fields.symbols"
local texts = require "doctor.texts"

local FAR = 16 -- time steps a character, from which on blanks are all there is to learn

local function check(ctx)
  local o = ctx.o
  if not o then return ctx:skip("the recipe has a custom training loop") end
  local train = o.train
  if not texts.are_read(train) then return ctx:skip("the recipe reads no text") end
  local batch = ctx:batch()
  o.model:train()
  local output = core.no_grad(forward.output, o, batch)
  if not core.is_tensor(output) or not train.length then return "no text to compare with" end
  if (ctx.run.model_options or {}).decoding == "ctc" then
    ctc.scores("train.fit", train.charset, output, batch.count)
    local T, W = output:size(2), batch.image and batch.image:size(4) or 1
    local how = {where = ctx:line("nn%.MaxPool2d", "stride"), write = "less pooling along the width, or wider images"}
    if T < train.length then ctx:error(("%d time steps for texts of up to %d characters"):format(T, train.length), how)
      end
    local fits, why = pcall(train.source.check_steps, train.source, function(px) return math.floor(T * px / W) end)
    if not fits then ctx:error(tostring(why):gsub("\n.*", ""), how) end
    if T > FAR * train.length then
      ctx:note(("%d time steps for texts of up to %d characters: more pooling along the width is faster and learns " ..
        "sooner"):format(T,
        train.length), how)
    end
    return ("%d time steps, texts of up to %d characters and a blank"):format(output:size(2), train.length)
  end
  local K = symbols.count(train.charset)
  local places = output:numel() / (batch.count * K)
  if places == train.length then
    return ("%d places x %d characters, as the labels have"):format(places, K)
  end
  local scores = output:numel() / batch.count
  if places % 1 == 0 and places > train.length then
    return ctx:note(("the model has %d places for %d characters"):format(places, train.length))
  end
  ctx:error(("the model gives %g scores an image; the labels have %d places x %d characters = %d"):format(scores,
    train.length, K, train.length * K),
    {where = ctx:line("nn%.Linear"), write = ("a last layer of %d scores"):format(train.length * K)})
end

return {name = "label length", check = check}
