-- ctc.lua: names the first samples whose text the CTC loss cannot spell in their time steps; they count nothing in
-- training.
--
-- Looks at points of the curve alone, where the losses of the step that just ended are read, and reports each reason
-- once. A step that runs as a CUDA graph does not call the loss again, so nothing is reported of it.
-- SPDX-License-Identifier: Apache-2.0
local _, observer = ...


local NAMES = 5

-- ORDER: what output infeasible of op ctc_loss says, from 1.
local reasons = {
  {"have fewer time steps than characters (and one more between two equal ones)",
  "a wider image or fewer strides along the width"}, {"have a text of probability 0", "are some scores -infinity?"},
  {"have a label or a length that is out of range", "labels are 0 to K - 1 and never the blank"},
}

local Ctc = {}
Ctc.__index = Ctc

local function new(fit) return setmetatable({fit = fit, reported = {}, seen = {}, warnings = {}}, Ctc) end

function Ctc:drop()
  observer.on_ctc = nil
  for _, infeasible in ipairs(self.seen) do infeasible:free() end
  self.seen, self.due = {}, false
end

function Ctc:before_step(batch)
  self:drop()
  if #self.reported == #reasons then return end
  self.batches = batch[1] and batch or {batch}
  observer.on_ctc = function(infeasible) table.insert(self.seen, infeasible:detach():keep()) end
end

function Ctc:point() self.due = true end

-- "12 (a.png), 15 (b.png) and 3 more"; rows: places in the batch, from 1
function Ctc:names(batch, rows)
  local ids, source, names = batch.ids, self.fit.o.train.source, {}
  for i = 1, math.min(#rows, NAMES) do
    local id = ids and ids[rows[i]]
    local name = id and source and source.name and source:name(id)
    names[i] = id and (name and ("%d (%s)"):format(id, name) or tostring(id)) or "place " .. rows[i]
  end
  return table.concat(names, ", ") .. (#rows > NAMES and (" and %d more"):format(#rows - NAMES) or "")
end

function Ctc:report(batch, infeasible)
  local rows = {}
  for place, reason in ipairs(infeasible:tolist()) do
    if reason > 0 and reasons[reason] and not self.reported[reason] then
      rows[reason] = rows[reason] or {}
      table.insert(rows[reason], place)
    end
  end
  for reason, list in pairs(rows) do
    self.reported[reason] = true
    local line = ("warning: %d of %d samples of step %d %s and count nothing: %s; %s"):format(#list,
      #infeasible:tolist(), self.fit.step, reasons[reason][1], self:names(batch, list), reasons[reason][2])
    table.insert(self.warnings, line)
    self.fit.run:print(line)
  end
end

function Ctc:after_step()
  for i, infeasible in ipairs(self.due and self.seen or {}) do
    self:report(self.batches[i] or self.batches[1], infeasible)
  end
  self:drop()
end

function Ctc:finish(result) result.ctc_infeasible = self.warnings[1] and self.warnings or nil end

function Ctc:close() self:drop() end

return {name = "ctc", new = new}
