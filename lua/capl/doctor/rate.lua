-- rate.lua: the recipe's learning rate beside what the learning rate finder suggests.
--
-- Another rate is named only where steps at both have shown that it is better; else this rule says what it does not
-- know.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local lr_find = require "train.lr_find"

local STEPS = 60 -- of a sweep
local FAR = 6 -- times the suggestions; those of other batches differ by half of that
local TOO_LOW = 1 / 50
local TRIED = 60 -- steps at a rate, the first third of them while it rises
local TAIL = 10 -- last steps of these, whose mean loss counts
local BETTER = 0.1 -- of the first loss, by which a suggested rate has to be better
local IDLE = 0.05 -- of the first loss: a rate whose steps bring less learns next to nothing
local LEARNS = 0.2 -- of the first loss, by which a rate that was only guessed has to be better
local GUESSES = {0.1, 10, 0.01, 100, 0.001, 1000} -- times the rate that learns nothing
local SECONDS = 60 -- after which nothing more is guessed

-- ---- steps at one rate ----

-- First loss, and the mean of the last ones; infinite when the loss ran away.
local function train_at(ctx, peaks, lr)
  local first, sum = nil, 0
  ctx.o.model:train()
  for k = 1, TRIED do
    lr_find.set_rates(ctx.o.optimizer, peaks, lr * math.min(1, 3 * k / TRIED))
    local loss = lr_find.step(ctx.o, ctx:batch())
    first = first or loss
    if loss ~= loss or math.abs(loss) > 1e4 * (1 + math.abs(first)) then return first, math.huge end
    if k > TRIED - TAIL then sum = sum + loss / TAIL end
  end
  return first, sum
end

-- Steps of their own, after which all is as before.
local function try(ctx, lr)
  local saved = ctx:save()
  local ok, first, last = pcall(train_at, ctx, lr_find.peaks_of(ctx.o.optimizer), lr)
  saved:restore()
  if not ok then error(first, 0) end
  return {lr = lr, first = first, last = last, fails = last > first + BETTER * math.abs(first),
    is_idle = last > first - IDLE * math.abs(first)}
end

-- A rate far from the recipe's own, which learns nothing, that does learn; nil when none is found.
local function guess(ctx, own)
  local ended = core.clock() + SECONDS
  for _, factor in ipairs(GUESSES) do
    if core.clock() > ended then return nil end
    local other = try(ctx, own.lr * factor)
    if other.last < math.min(own.last, own.first) - LEARNS * math.abs(own.first) then return other end
  end
end

local function words_of(t)
  if t.last == math.huge then return ("at %.3g the loss runs away"):format(t.lr) end
  return ("%d steps at %.3g bring the loss from %.3g to %.3g"):format(TRIED, t.lr, t.first, t.last)
end

-- ---- what to write ----

-- "lr = 0.002 and adam_lr = 0.0006, or give --lr=0.002 --adam_lr=0.0006"
local function write_for(ctx, peaks, factor)
  local keys, flags = {}, {}
  for i, s in ipairs(lr_find.settings_of(ctx.run.settings, ctx.o.optimizer, peaks, factor)) do
    keys[i] = ("%s = %.2g"):format(s.key or "lr", s.lr)
    if s.key then flags[#flags + 1] = ("--%s=%.2g"):format(s.key, s.lr) end
  end
  local text = table.concat(keys, " and ")
  return #flags == #keys and text .. ", or give " .. table.concat(flags, " ") or text
end

local function line_of(ctx, peaks)
  for _, s in ipairs(lr_find.settings_of(ctx.run.settings, (ctx.o or ctx.seen).optimizer, peaks, 1)) do
    if s.key then return ctx:line("^%s*" .. s.key .. "%s*=") end
  end
  return ctx:line("lr%s*=", "optim%.")
end

local function look_closer(ctx) return ("a lower lr; capl lr %s --steps=200 finds one"):format(ctx.path) end

-- What the finder says; how it could say more is printed where that can be written.
local function found_text(found)
  if not found.why then return ("the highest learning rate is %.3g; suggested: %s"):format(found.peak, found.text) end
  return ("the highest learning rate is %.3g; no other is suggested: %s"):format(found.peak, found.why)
end

-- ---- a recipe with train.fit: suggestions are tried ----

local function is_far(found)
  local high = math.max(found.steepest, found.tenth)
  return found.peak > FAR * high and "above" or found.peak < TOO_LOW * found.suggestion and "below" or nil
end

-- Another rate that was seen to be better: the suggestion, or one that was guessed where the own one learns nothing.
local function better_rate(ctx, found, own)
  if found.suggestion then
    local other = try(ctx, found.suggestion)
    return other.last < own.last - BETTER * math.abs(own.first) and other or nil
  end
  return (own.is_idle or own.fails) and guess(ctx, own) or nil
end

local function check_fit(ctx)
  local o = ctx.o
  local found = lr_find.find{model = o.model, train = o.train, loss = o.loss, optimizer = o.optimizer, input = o.input,
    precision = o.precision, steps = STEPS}
  if found.suggestion and not is_far(found) then return found_text(found) end
  local own = try(ctx, found.peak)
  local other = better_rate(ctx, found, own)
  local text, how = found_text(found) .. "; " .. words_of(own), {where = line_of(ctx, found.peaks)}
  local report = own.fails and ctx.error or ctx.warn
  if other then
    how.write = write_for(ctx, found.peaks, other.lr / found.peak)
    report(ctx, text .. ", " .. words_of(other), how)
  elseif own.fails then
    how.write = look_closer(ctx)
    report(ctx, text, how)
  end
  return text
end

-- ---- a loop of the recipe's own: nothing can be tried, so nothing is advised but to look closer ----

local function check_loop(ctx)
  local found = ctx.seen.rates
  if not found then return ctx:skip("too few steps, or losses without opt:backward_step and opt:backward") end
  local text = found_text(found)
  local how = {where = line_of(ctx, ctx.seen.peaks)}
  if found.runs_away and found.peak >= found.runs_away then
    how.write = look_closer(ctx)
    return ctx:error(("%s; at %.3g the loss runs away"):format(text, found.runs_away), how)
  end
  if not found.suggestion then return ctx:skip(text) end
  local far = is_far(found)
  if not far then return text end
  how.write = ("it as it is if it is intended; capl lr %s --steps=200 measures more precisely"):format(ctx.path)
  ctx:note(("%s; is a learning rate far %s that intended?"):format(text, far), how)
end

local function check(ctx)
  if ctx.o then return check_fit(ctx) end
  return check_loop(ctx)
end

return {name = "learning rate", check = check}
