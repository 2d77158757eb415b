-- one_batch.lua: whether the model can learn overfit one batch; what cannot do that learns nothing.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local forward = require "forward"
local lr_find = require "train.lr_find"
local symbols = require "fields.symbols"
local texts = require "doctor.texts"

local SAMPLES, STEPS, SECONDS = 16, 300, 60
local LEARNT = 0.1 -- of the first loss
-- shares of the first loss: a fall that shows learning, one that shows none, whatever the loss's floor
local FALLS, STANDS = 0.5, 0.02

-- The first samples of a batch.
local function small(batch)
  local out, count = {}, math.min(SAMPLES, batch.count)
  for key, value in pairs(batch) do
    local cut = core.is_tensor(value) and value.ndim > 0 and value.shape[1] == batch.count
    out[key] = cut and value:narrow(1, 1, count) or value
  end
  out.count = count
  return setmetatable(out, getmetatable(batch))
end

-- Share of the labels that the output gets right; nil where these are no classes.
local function right(ctx, output, batch)
  local train = ctx.o.train
  if not texts.are_read(train) or not batch.target then return nil end
  local K = symbols.count(train.charset)
  if output:numel() ~= batch.target:numel() * K then return nil end
  local read, meant, hits = output:to("f32"):reshape(-1, K):argmax(-1):tolist(), batch.target:reshape(-1):tolist(), 0
  for i, class in ipairs(meant) do
    if read[i] == class then hits = hits + 1 end
  end
  return hits / #meant
end

-- -> first and last loss, steps, share of right labels
local function learn(ctx, batch)
  local o = ctx.o
  o.model:train()
  local first, last, share
  local ended = core.clock() + SECONDS
  local peaks = lr_find.peaks_of(o.optimizer)
  lr_find.set_rates(o.optimizer, peaks, peaks[1][1])
  for step = 1, STEPS do
    local loss, output = forward.loss(o, batch)
    last = loss:item()
    share = core.no_grad(right, ctx, output, batch)
    first = first or last
    if last ~= last or last < LEARNT / 10 * first or share == 1 or core.clock() > ended then
      return first, last, step, share
    end
    o.optimizer:backward(loss)
    o.optimizer:apply()
    o.optimizer:zero_grad()
    core.step_end()
  end
  return first, last, STEPS, share
end

local REMEDY = "perhaps output and labels in the same order (view of places, then characters), layers that are not " ..
  "frozen, another lr"

local function line_of(ctx) return ctx:line("loss%s*=%s*function", "nn%.cross_entropy", "train%.fit") end

local function check(ctx)
  local o = ctx.o
  if not o then return ctx:skip("the recipe has a custom training loop; train.fit{overfit = 1} does it") end
  local saved = ctx:save()
  local batch = small(ctx:batch())
  local ok, first, last, steps, share = pcall(learn, ctx, batch)
  saved:restore()
  if not ok then error(first, 0) end
  local text = ("%d steps on %d images bring the loss from %.3g to %.3g%s"):format(steps, batch.count, first, last,
    share and (", %.0f %% of the labels read"):format(100 * share) or "")
  if last ~= last then
    return ctx:error(text, {where = line_of(ctx), write = "perhaps a lower lr; see 'first loss' and 'learning rate'"})
  end
  if last <= LEARNT * first or (share or 0) >= 0.98 then return text end
  local fall = (first - last) / math.max(math.abs(first), 1e-12)
  if share or fall < STANDS then
    return ctx:error(text .. ": the model cannot overfit these", {where = line_of(ctx), write = REMEDY})
  end
  if fall < FALLS then
    ctx:note(text .. "; is that near the least that this loss can be?",
      {where = line_of(ctx), write = "if it is not: " .. REMEDY})
  end
  return text
end

return {name = "overfit one batch", check = check}
