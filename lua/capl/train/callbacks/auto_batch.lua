-- auto_batch.lua: a train loader with batch = "auto" gets its batch before anything is counted in batches.
--
-- auto.json in the run's folder keeps the choice: a run that goes on takes the same.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local auto_batch = require "train.auto_batch"
local resume = require "run.resume"
local run = require "run"

local FILE = "auto.json"

local Auto = {}
Auto.__index = Auto

-- The choice of the run that goes on.
local function kept()
  local text = resume.from and core.sys.read(resume.from.folder .. "/" .. FILE)
  local ok, value = pcall(core.json_decode, text or "")
  return ok and type(value) == "table" and tonumber(value.batch) or nil
end

local function prepare(o)
  if not o.train.auto_batch or run.mode == "check" then return end
  local batch = kept()
  if batch then
    o.train:set_batch(batch)
    o.batch_text = ("%d images, as the run had it"):format(batch)
    return
  end
  local found = auto_batch{model = o.model, train = o.train, loss = o.loss, optimizer = o.optimizer, input = o.input,
    precision = o.precision}
  o.batch_text = found.text
end

local function new(fit)
  if not fit.o.batch_text then return nil end
  return setmetatable({fit = fit, text = fit.o.batch_text}, Auto)
end

function Auto:begin()
  if run.mode ~= "run" then return end
  local path = self.fit:path(FILE)
  local saved, why = core.sys.write(path, core.json_encode({batch = self.fit.o.train.batch, why = self.text}, true) .. "\n")
  if not saved then core.error{code = "io", message = why} end
end

function Auto:lines() return {"batch: auto: " .. self.text} end

function Auto:finish(result) result.batch = self.fit.o.train.batch end

return {name = "auto_batch", prepare = prepare, new = new}
