-- initial_loss.lua: the first loss of a run beside what it should be, and parameters that were initialized several
-- times.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local expected = require "nn.expected"
local parameter = require "nn.parameter"

local OFF = 2 -- times more or less than expected is reported

local Watch = {}
Watch.__index = Watch

--- Begins to look at losses as they are computed; nothing is read before finish.
local function begin()
  local self = setmetatable({seen = {}, known = {}}, Watch)
  observer.on_loss_value = function(...) self:note(...) end
  return self
end

-- Tensors of a table, kept beyond the step.
local function kept(more)
  local out = {}
  for key, tensor in pairs(more or {}) do out[key] = tensor:detach():keep() end
  return out
end

-- Several batches in parts compute the same loss again: the first one counts.
function Watch:note(name, value, x, target, o, more)
  local key = name .. table.concat(x.shape, ",", 2)
  if not expected[name] or self.known[key] then return end
  self.known[key] = true
  table.insert(self.seen, {name = name, value = value:detach():keep(), x = {shape = x.shape},
    target = target:detach():keep(), options = o, more = kept(more)})
end

-- The mean loss of an element; of CTC's of a text.
local function mean_of(seen)
  local value, how = seen.value, seen.options.reduction
  if how == "none" then return core.no_grad(function() return value:to("f32"):mean():item() end) end
  local count = seen.more.target_lengths or seen.target
  return value:item() / (how == "sum" and math.max(1, count:numel()) or 1)
end

local function warning_of(about, value, ratio)
  if about.negative and value < 0 then return ("warning: a loss below 0: %s"):format(about.negative) end
  if ratio <= OFF and ratio >= 1 / OFF then return nil end
  local times = ratio > 1 and (ratio < 10 and "%.1f times" or "%.0f times"):format(ratio)
    or ("1/%.0f of"):format(1 / ratio)
  return ("warning: that is %s what is expected: %s"):format(times, ratio > 1 and about.high or about.low)
end

local function judge(seen)
  local about = expected[seen.name]
  local want, words = about.of(seen.x, seen.target, seen.options, seen.more)
  local value = mean_of(seen)
  local ratio = want > 0 and value / want or 1
  local out = {loss = seen.name, value = value, expected = want, ratio = ratio,
    text = ("initial loss %.3g: %s starts at about %s"):format(value, seen.name, words)}
  out.warning = warning_of(about, value, ratio)
  seen.value:free()
  return out
end

--- Ends it -> list of {loss = name of the function, value, expected, ratio, text, warning or nil}. Waits for the
-- device.
function Watch:finish()
  observer.on_loss_value = nil
  local out = {}
  for i, seen in ipairs(self.seen) do out[i] = judge(seen) end
  self.seen = {}
  return out
end

--- The lines to print of what finish gave.
local function lines_of(findings)
  local lines = {}
  for _, f in ipairs(findings) do
    lines[#lines + 1] = f.text
    if f.warning then lines[#lines + 1] = f.warning end
  end
  return lines
end

--- train.initial_loss(fn, …) -> what it found, fn's results: calls fn, which computes the loss of a first batch, and
-- prints what its loss functions begin with when nothing was learned beside what they are: ln K for cross_entropy of K
-- classes, ln 2 for bce_with_logits and multilabel_soft_margin, the variance of the targets for mse, for ctc_loss that
-- of time steps whose classes are all as likely. More than twice that, or less than half, is a warning. train.fit does
-- it at its first step.
-- out  list of {loss, value, expected, ratio, text, warning}
local function initial_loss(fn, ...)
  check.arg(1, "initial_loss", "function", fn)
  local watch = begin()
  local function finish(ok, ...)
    local findings = watch:finish()
    if not ok then error((...), 0) end
    for _, line in ipairs(lines_of(findings)) do observer:print(line) end
    return findings, ...
  end
  return finish(pcall(fn, ...))
end

-- ---- the callback of train.fit ----

local Callback = {}
Callback.__index = Callback

local function new(fit) return setmetatable({fit = fit}, Callback) end

-- "note: the init of 0.weight, nn.init.constant at r.lua:9, is replaced by nn.init.uniform at r.lua:12"
function Callback:lines()
  local lines = {}
  if self.fit.o.quiet_init then return lines end
  for name, tensor in self.fit.model:named_parameters() do
    local list = parameter.writers(tensor)
    local before, last = list[#list - 1], list[#list]
    if before and before.where ~= last.where then
      lines[#lines + 1] = ("note: the init of %s, %s at %s, is replaced by %s at %s"):format(name, before.how,
        before.where or "?", last.how, last.where or "?")
    end
  end
  return lines
end

function Callback:before_step()
  if self.fit.step == 0 then self.watch = begin() end
end

function Callback:after_step()
  if not self.watch then return end
  self.findings, self.watch = self.watch:finish(), nil
  for _, line in ipairs(lines_of(self.findings)) do self.fit.run:print(line) end
end

function Callback:finish(result) result.initial_loss = self.findings end

function Callback:close()
  if self.watch then self.watch:finish() end
end

return {name = "initial_loss", spec = {{"quiet_init", "boolean", default = false}},
  new = new, begin = begin, lines_of = lines_of, of = initial_loss}
