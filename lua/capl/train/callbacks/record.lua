-- record.lua: what train.fit leaves in the run's folder: metrics.jsonl while it runs, then result.json and pictures.
--
-- Only real runs (`capl RECIPE`) write; check, bench and the prompt leave nothing behind.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local log = require "run.log"

local LABEL, MOMENTS = 32, 9 -- characters of an event in curves.png, and how many find room there

local Record = {}
Record.__index = Record

function Record.new(run, opts)
  return setmetatable({run = run, on = run.mode == "run", tensorboard = opts and opts.tensorboard, moments = {},
    train = {x = {}, loss = {}}}, Record)
end

function Record:path(name) return self.run:folder() .. "/" .. name end

local function must(done, why)
  if not done then core.error{code = "io", message = why, path = false} end
end

-- The settings of the run as a table for TensorBoard.
local function settings_text(run)
  local rows = {"| setting | value | from |", "|---|---|---|"}
  for _, s in ipairs(run.settings) do
    rows[#rows + 1] = ("| %s | %s | %s |"):format(s.key, (tostring(s.value):gsub("[|\n]", " ")), s.why
      and "auto: " .. s.why or s.origin)
  end
  return table.concat(rows, "\n")
end

--- The files of lines, made at first use; nil where a run writes nothing.
function Record:log()
  local run = self.run
  if self.on and not self.lines then
    self.lines = log.new{folder = run:folder(), tensorboard = self.tensorboard}
    if self.lines.without then run:print("note: " .. self.lines.without) end
    if #run.settings > 0 then self.lines:add(0, {{tag = "settings", text = settings_text(run)}}) end
  end
  return self.lines
end

-- One line of metrics.jsonl.
function Record:line(values)
  if self.on then self:log():line(values) end
end

-- Images per second since the point before; evaluations do not count.
function Record:rate(at, time)
  local last = self.last or {images = 0, seconds = 0}
  local seconds = at.seconds - last.seconds - (time and time.evaluation or 0)
  self.last = {images = at.images, seconds = at.seconds}
  if seconds > 1e-5 then return (at.images - last.images) / seconds end
end

-- The share of the time in which training waited for data.
local function waited(time)
  local sum = 0
  for _, seconds in pairs(time) do sum = sum + seconds end
  return sum > 0 and (time.load + time.augment) / sum or nil
end

local function add_train(self, line)
  table.insert(self.train.x, line.images)
  table.insert(self.train.loss, line.loss)
end

--- A step whose loss was read. at: {step, images, seconds, images_per_s} and what parts have added
function Record:step(at, loss, lr)
  at.loss, at.lr = loss, lr
  at.wait = at.time and waited(at.time)
  at.images_per_s = self:rate(at, at.time)
  add_train(self, at)
  self:line(at)
end

local function add_val(self, line)
  self.val = self.val or {x = {}, loss = {}, chars = {}, main = {}}
  local val, none = self.val, 0 / 0
  table.insert(val.x, line.images)
  table.insert(val.loss, line.val_loss or none)
  table.insert(val.main, line["val_" .. (self.main or "exact")] or none)
  table.insert(val.chars, line.val_chars or none)
end

--- An evaluation on the val loader: every metric that is a number. at: {step, images, seconds}, and meter, which names
-- the metric that chooses between models.
function Record:evaluation(at, metrics, loss)
  local line = {step = at.step, images = at.images, seconds = at.seconds, val_loss = loss}
  for name, value in pairs(metrics) do
    if type(value) == "number" then line["val_" .. name] = value end
  end
  self.main = at.meter and at.meter.main or self.main
  add_val(self, line)
  self:line(line)
  if self.on then self:log():flush() end
end

local function add_moment(self, line)
  local label = line.event:gsub("%c", " ")
  if #label > LABEL then label = label:sub(1, LABEL):gsub("[\194-\244][\128-\191]*$", "") .. "…" end
  if line.images then table.insert(self.moments, {x = line.images, label = label}) end
end

--- Something that happened at a step: a stage, an override, a resume, an early stop. at: {step, images, seconds}
function Record:event(at, text)
  local line = {step = at.step, images = at.images, seconds = at.seconds, event = text}
  add_moment(self, line)
  self:line(line)
end

--- Writes the lines that wait; after it more may follow.
function Record:close()
  if self.lines then self.lines:close() end
end

-- ---- resume ----

--- What the files hold, for a checkpoint.
function Record:state() return {log = self.on and self:log():state() or nil, last = self.last, main = self.main} end

function Record:state_shape()
  local lines = self.on and self:log():state_shape() or nil
  return {log = lines, last = {images = "number", seconds = "number", ["?"] = true}, main = "text?"}
end

-- A line of a file that anybody may have changed: numbers and the event's text, nothing else.
local function sound(line)
  local out = {}
  for key, value in pairs(line) do
    if type(value) == (key == "event" and "string" or "number") then out[key] = value end
  end
  return out
end

--- Cuts the lines that came after a state, and takes the curves from those before it.
function Record:set_state(state)
  self.train, self.val, self.moments = {x = {}, loss = {}}, nil, {}
  self.last, self.main = state.last, state.main
  if not self.on or not state.log then return end
  for _, note in ipairs(self:log():set_state(state.log)) do
    self.run:print("note: " .. note .. "; the curves of this run have a gap")
  end
  for _, read in ipairs(self:log():read()) do
    local line = sound(read)
    if line.loss and line.images then add_train(self, line) end
    if line.event then add_moment(self, line) end
    if line.images and (line.val_n or line.val_loss) then add_val(self, line) end
  end
end

-- ---- pictures ----

-- What the evaluations found, as a panel.
local function metrics_panel(self)
  local val, main = self.val, self.main or "exact"
  if main ~= "exact" then return {y_label = main .. " (val)", series = {{name = main, x = val.x, y = val.main}}} end
  return {y_label = "read right (val)", percent = true, series = {
    {name = "texts", x = val.x, y = val.main}, {name = "characters", x = val.x, y = val.chars},
  }}
end

--- curves.png: loss and accuracy over the images seen.
function Record:curves()
  self:close()
  if not self.on or #self.train.x == 0 then return end
  local losses = {{name = "train", x = self.train.x, y = self.train.loss, smooth = 0.5}}
  local panels = {{y_label = "loss", log = true, series = losses}}
  if self.val then
    losses[2] = {name = "val", x = self.val.x, y = self.val.loss}
    panels[2] = metrics_panel(self)
  end
  require("plot").lines{path = self:path("curves.png"), title = self.run:name(), x_label = "images", panels = panels,
    lines = #self.moments <= MOMENTS and self.moments or nil}
end

local function processor()
  local text = core.sys.read("/proc/cpuinfo") or ""
  return text:match("model name%s*:%s*([^\n]+)")
end

--- result.json: the metrics of the run and where they come from. meter: of the last evaluation, or nil
function Record:result(values, meter)
  local run = self.run
  if not self.on then return end
  local seed, memory = core.rng(), core.memory()
  local out = {
    recipe = run.recipe:match("[^/]+$"), ended_at = core.sys.date(), seed = seed, precision = run:precision(),
    peak_memory_bytes = core.sys.peak_rss(), peak_gpu_memory_bytes = memory.card_total
    and memory.peak + memory.captured, version = core.version(), device = core.device(),
    host = {processor = processor(), processors = core.sys.cpus(), threads = core.sys.threads(),
      backend = core.device_info(core.device()).description},
  }
  for key, value in pairs(values) do out[key] = value end
  must(core.sys.write(self:path("result.json"), core.json_encode(out, true) .. "\n"))
  self:show_pictures(values.steps or 0, meter)
  self:close()
end

-- The run's pictures for TensorBoard.
function Record:show_pictures(step, meter)
  local values = {}
  local names = {"samples", "confusion", "schedule"}
  for _, part in ipairs(meter and meter.parts or {}) do
    names[#names + 1], names[#names + 2] = "samples-" .. part.name, "confusion-" .. part.name
  end
  for _, name in ipairs(names) do
    local path = self:path(name .. ".png")
    local png = core.sys.kind(path) == "file" and core.sys.read(path)
    if png then values[#values + 1] = {tag = name, png = png} end
  end
  self:log():add(step, values)
end

-- ---- the callback of train.fit ----

local Callback = {}
Callback.__index = Callback

local function read(o)
  local value = o.tensorboard
  if type(value) == "string" and value ~= "auto" then
    check.unknown("train.fit", "tensorboard", value, {"auto", "true", "false"})
  end
end

local function new(fit)
  fit.record.tensorboard = fit.o.tensorboard
  return setmetatable({fit = fit, record = fit.record}, Callback)
end

-- Files that cannot be written are an error before the first step.
function Callback:begin()
  local fit = self.fit
  self.record:log()
  if fit.step > 0 then fit.progress:resume(fit.step, fit.images, fit.span.position) end
end

-- Points of the curve whose losses a device still has come first: they belong before the state.
function Callback:state()
  self.fit.callbacks:get("curve"):note(true)
  return self.record:state()
end

function Callback:set_state(state) self.record:set_state(state) end
function Callback:state_shape() return self.record:state_shape() end
function Callback:close() self.record:close() end

return {name = "record", spec = {{"tensorboard", "boolean", "string", default = "auto"}},
  read = read, new = new, open = Record.new}
