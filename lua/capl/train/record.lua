-- record.lua: what train.fit leaves in the run's folder: metrics.jsonl while it runs, then result.json and pictures.
--
-- Only real runs (`capl RECIPE`) write; check, bench and the prompt leave nothing behind.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json = require "run.json"
local run = require "run"

local Record = {}
Record.__index = Record

local function new()
  return setmetatable({on = run.mode == "run", train = {x = {}, loss = {}}, val = {x = {}, loss = {}, exact = {}, chars = {}}}, Record)
end

function Record:path(name) return run.folder() .. "/" .. name end

local function must(done, why)
  if not done then core.error{code = "io", message = why, path = false} end
end

-- One line of metrics.jsonl.
function Record:line(values)
  if self.on then must(core.sys.append(self:path("metrics.jsonl"), json.encode(values) .. "\n")) end
end

--- A step whose loss was read. at: {step, images, seconds, images_per_s} and what parts have added
function Record:step(at, loss, lr)
  table.insert(self.train.x, at.images)
  table.insert(self.train.loss, loss)
  at.loss, at.lr = loss, lr
  self:line(at)
end

--- An evaluation on the val loader.
function Record:evaluation(at, figures, loss)
  local val = self.val
  table.insert(val.x, at.images)
  table.insert(val.loss, loss)
  table.insert(val.exact, figures.exact)
  table.insert(val.chars, figures.chars)
  self:line{step = at.step, images = at.images, seconds = at.seconds, val_loss = loss, val_exact = figures.exact,
    val_low = figures.low, val_high = figures.high, val_chars = figures.chars, val_n = figures.n}
end

--- curves.png: loss and accuracy over the images seen.
function Record:curves()
  if not self.on or #self.train.x == 0 then return end
  local losses = {{name = "train", x = self.train.x, y = self.train.loss, smooth = 0.5}}
  local panels = {{y_label = "loss", log = true, series = losses}}
  if #self.val.x > 0 then
    losses[2] = {name = "val", x = self.val.x, y = self.val.loss}
    panels[2] = {y_label = "read right (val)", percent = true, series = {
      {name = "texts", x = self.val.x, y = self.val.exact}, {name = "characters", x = self.val.x, y = self.val.chars},
    }}
  end
  require("plot").lines{path = self:path("curves.png"), title = run.name(), x_label = "images", panels = panels}
end

local function processor()
  local text = core.sys.read("/proc/cpuinfo") or ""
  return text:match("model name%s*:%s*([^\n]+)")
end

--- result.json: the figures of the run and where they come from.
function Record:result(values)
  if not self.on then return end
  local precision = run.setting("precision")
  local seed, memory = core.rng(), core.memory()
  local out = {
    recipe = run.recipe:match("[^/]+$"), ended_at = core.sys.date(), seed = run.setting("seed") or seed, precision = precision,
    peak_memory_bytes = core.sys.peak_rss(), peak_gpu_memory_bytes = memory.card_total and memory.peak + memory.captured,
    version = core.version(), device = core.device(),
    host = {processor = processor(), processors = core.sys.cpus(), threads = core.sys.threads(),
      backend = core.device_info(core.device()).description},
  }
  for key, value in pairs(values) do out[key] = value end
  must(core.sys.write(self:path("result.json"), json.encode(out, true) .. "\n"))
end

return {new = new}
