-- initial_loss.lua: the first loss of a run beside what it should be, and parameters that were initialised several times.
-- SPDX-License-Identifier: Apache-2.0
local initial_loss = require "train.initial_loss"
local parameter = require "nn.parameter"

local First = {}
First.__index = First

local function new(fit) return setmetatable({fit = fit}, First) end

-- "note: the init of 0.weight, nn.init.constant at r.lua:9, is replaced by nn.init.uniform at r.lua:12"
function First:lines()
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

function First:before_step()
  if self.fit.step == 0 then self.watch = initial_loss.begin() end
end

function First:after_step()
  if not self.watch then return end
  self.findings, self.watch = self.watch:finish(), nil
  for _, line in ipairs(initial_loss.lines_of(self.findings)) do self.fit.run:print(line) end
end

function First:finish(result) result.initial_loss = self.findings end

function First:close()
  if self.watch then self.watch:finish() end
end

return {name = "initial_loss", spec = {{"quiet_init", "boolean", default = false}}, new = new}
