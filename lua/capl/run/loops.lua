-- loops.lua: training loops as an attached client sees them: position, learning rates, saving, stopping.
--
-- A loop has run, line() -> text, loss() -> number or nil, lr(), set_lr(value or "recipe"), save() -> path, stop(),
-- report_held(seconds). That of train.fit is in train/callbacks/attach.lua; here are those of recipes that write their
-- own.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local loops = {}

-- ---- learning rates ----

-- Optimizers of a list, with those of optim.join taken apart.
local function apart(list)
  local out = {}
  for _, opt in ipairs(list) do
    for _, each in ipairs(opt.optimizers or {opt}) do out[#out + 1] = each end
  end
  return out
end

--- The rate of all groups of optimizers: a number where they are one, else a list.
function loops.lr_of(list)
  local rates, differ = {}, false
  for _, opt in ipairs(apart(list)) do
    for _, group in ipairs(opt.groups) do
      rates[#rates + 1] = opt:lr_of(group)
      differ = differ or rates[#rates] ~= rates[1]
    end
  end
  return differ and rates or rates[1]
end

--- A number as progress lines show it.
function loops.rate_text(rate)
  if type(rate) ~= "table" then return ("%.3g"):format(rate or 0) end
  local parts = {}
  for i, each in ipairs(rate) do parts[i] = ("%.3g"):format(each) end
  return table.concat(parts, ", ")
end

local Own = {}
Own.__index = Own

local given = setmetatable({}, {__mode = "k"}) -- learning rates of groups as the recipe has set them

function Own:lr() return loops.lr_of(self.run.optimizers) end

function Own:set_lr(value)
  local run = self.run
  for _, opt in ipairs(apart(run.optimizers)) do
    for k, group in ipairs(opt.groups) do
      if given[group] == nil then given[group] = group.lr end
      opt:set_lr(value == "recipe" and given[group] or value / (opt.lr_factor or 1), k)
    end
  end
  run:print(("override, step %d: lr = %s (attach)"):format(run.steps, value))
end

-- ---- where it is ----

-- A scalar that the recipe calls loss.
function Own:loss() -- luacheck: no self
  local raw = core.sys.frames_live()
  for _, frame in ipairs(raw) do
    local found, value = core.sys.frames_get(raw.thread, frame.depth, "loss")
    if found and type(value) == "number" then return value end
    if found and core.is_tensor(value) and not value:is_released() and value:numel() == 1 then return value:item() end
  end
end

function Own:line()
  local loss = self:loss()
  return ("step %d%s, lr %s"):format(self.run.steps, loss and (", loss %.4f"):format(loss) or "",
    loops.rate_text(self:lr()))
end

function Own:report_held(seconds)
  self.run:print(("held %.0f s by attach, at step %d"):format(seconds, self.run.steps))
end

-- ---- the rest ----

function Own:save()
  if self.run.checkpoint then return self.run.checkpoint:save() end
  core.error{code = "state", path = false, message = "this loop has no train.Checkpoint, so it is unknown what to save",
    hint = 'capl.save("weights.safetensors", model:state_dict()) saves weights'}
end

-- As after Ctrl-C: what saves then saves now.
function Own:stop() core.sys.signal(2) end -- luacheck: no self

--- The loop of a recipe that writes its own.
function loops.own(run) return setmetatable({run = run}, Own) end

return loops
