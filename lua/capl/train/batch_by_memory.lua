-- batch_by_memory.lua: train.batch_by_memory{…}: images of a step by the memory of the GPU, from a table that the
-- recipe states.
--
-- For recipes whose batch is part of the experiment (learning rates and results were found with it). batch = "auto" of
-- a loader measures.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"

local OP = "train.batch_by_memory"
local GIB = 2 ^ 30
local SLACK = 1.1 -- a card sold as 40 GB reports 39.4 GiB, one of 80 GB of 79.2, and drivers keep some

--- GiB of the GPU in use; where there is none, nil.
local function gigabytes()
  local planned = observer.planned and observer.planned.gigabytes
  if planned then return planned end
  local total = core.memory().card_total
  return total and total / GIB
end

local function check_row(row, i, rows)
  if type(row) ~= "table" or type(row[1]) ~= "number" or type(row[2]) ~= "number" or row[2] < 1 or row[2] % 1 ~= 0 then
    check.fail(OP, ("row %d is {GB, images}: from how much memory on, and how many images a step"):format(i))
  end
  local last = i == #rows
  if (row[1] == 0) ~= last or (i > 1 and row[1] >= rows[i - 1][1]) then
    check.fail(OP, ("row %d, {%g, %g}: rows go from large memory to small, and the last starts with 0"):format(i,
      row[1], row[2]))
  end
end

--- The batch size for this GPU's memory.
-- in   rows: list of {GB from which on, images}, from much to little; the last one, {0, images}, is also for processors
-- out  images, GiB of the GPU or nil
-- errs value: rows in another order, a row that is not {number, whole number from 1 on}
-- eg   return train.batch_by_memory {{40, 512}, {24, 256}, {0, 64}}
local function batch_by_memory(rows)
  check.arg(1, "batch_by_memory", "table", rows)
  if #rows == 0 then check.fail(OP, "the table is empty") end
  for i, row in ipairs(rows) do check_row(row, i, rows) end
  local have = gigabytes()
  for _, row in ipairs(rows) do
    if (have or 0) * SLACK >= row[1] then return row[2], have end
  end
end

return batch_by_memory
