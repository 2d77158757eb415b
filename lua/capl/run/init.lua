-- run: a run of a recipe: its settings, loaders and model, what it asked for and what was really active.
--
-- The program makes it (cli/init.lua) and hands it to the commands and to train; optimizers and loaders report to it
-- what they do by the methods of observer.lua. docs/contract.md states when a step and an epoch end.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Features = require "run.features"
local determinism = require "determinism"
local dist = require "dist"
local facts = require "run.facts"
local model_input = require "run.model_input"
local output = require "output"
local own_kernels = require "run.own_kernels"
local run_folder = require "run.folder"
local precision = require "precision"
local precision_counts = require "run.precision_counts"
local process = require "run.process"
local shell = require "shell"
local sync = require "dist.sync"
local trees = require "run.trees"

local SHOWN = 200 -- bytes of a setting's value that the header shows

local Observer = getmetatable(observer)

-- Fields besides those of an observer. Unset: recipe (its path), text (of it), final_line and final_values (the last
-- line, for people and for programs), path (of the folder, once it is made), ranks_word (--ranks=N as it was said),
-- kept (the model file to use), active_settings ({loop, optimizers}: what train.fit uses, for settings.json),
-- before_batch (function(): called before the recipe gets its first batches), ranks (metrics of each rank, at the end),
-- preset (its name), measured (metrics that are not in the last line), inspect (function(keys, read): capl.params
-- passes it the settings and ends), metrics (names of what an evaluation on val counts, in a check), fitting (options
-- of train.fit), checkpoint (the train.Checkpoint of a custom loop).
local defaults = {
  help = false, -- capl.params prints its page and ends
  quiet = false, -- no header, progress or report
  steps = 0,
  epochs = 0,
  step_images = 0, -- images of the training batches handed out since the last step
  program = "capl", -- as it was called
  minutes = 0, -- after which the run is stopped; 0 = never
  began = 0, -- core.clock() then
  scratch = false, -- the run's folder goes when the run ends: a dry run
  started = false, -- a recipe runs: its steps are counted
  fits = 0, -- train.fit at work
}

local Run = setmetatable({}, {__index = Observer})
for key, value in pairs(defaults) do Run[key] = value end
Run.__index = Run

-- Makes an observer a run; its listeners stay.
local function become_run(self)
  self.args = {} -- --key=value words for capl.params
  self.settings = {} -- list of {key =, value =, origin =, why =, read =}
  self.optimizers = {} -- that have made a step, in order
  self.claims = {} -- of capl.expect
  self.features = Features.new()
  return setmetatable(self, Run)
end

--- A run that has not begun.
function Run.new() return become_run(Observer.new()) end

--- Begins it. opts: mode, recipe, text, args, help, quiet …
function Run:start(opts)
  for key, value in pairs(opts) do self[key] = value end
  self.began, self.started = core.clock(), true
  self.features.counting = true
  self.counts_before = precision_counts.all()
end

function Run:print(text)
  if not self.quiet then output.text(text) end
end

-- ---- features ----

--- Adds something the run asks for, with a counter that proves it: see run/features.lua.
function Run:add_feature(opts) self.features:add(opts) end

local function add_precision(self)
  local name, origin = self:setting("precision")
  if name ~= "bf16" and name ~= "fp16" and name ~= "tf32" then return end
  self:add_feature{name = "precision = " .. name, what = name .. " matmul/conv calls", explicit = origin ~= "auto",
    count = function() return precision_counts.all()[name] end}
end

local function add_autotune(self)
  if not determinism.keeps_algorithms() then return end
  self:add_feature{name = "autotune = true", what = "shapes of convolutions",
    count = function() return #core.algorithms() end}
end

local function add_augment(self, entry)
  self:add_feature{name = "augment of the " .. entry.role .. " loader", what = "augmented samples",
    count = function() return entry.loader:stats().augmented end,
    used = function() return entry.loader:stats().samples > 0 end, of_all = true}
end

-- ---- settings ----

--- The words of the command line, for capl.params. They can be taken once.
function Run:take_args()
  if self.args_taken and self.mode ~= "none" then
    core.error{code = "state", message = "capl.params was called twice", hint = "put all settings into one table"}
  end
  self.args_taken = true
  return self.args
end

--- A value as the header shows it: a text may be of any length.
local function brief(value)
  local text = tostring(value)
  return #text <= SHOWN and text or ("%s… (%d bytes)"):format(text:sub(1, SHOWN), #text)
end

--- Settings of every recipe (params/every.lua) are printed when something was chosen or asked for, not when all is as
-- ever.
local function settings_lines(self)
  local wide, shown, lines = 0, {}, {}
  for _, s in ipairs(self.settings) do
    if not s.usual then
      wide = math.max(wide, #s.key)
      shown[#shown + 1] = s
    end
  end
  for i, s in ipairs(shown) do
    lines[i] = ("  %-" .. wide .. "s  %-12s  %s"):format(s.key, brief(s.value), s.why and "auto: " .. s.why or s.origin)
  end
  return table.concat(lines, "\n")
end

function Run:set_settings(settings)
  self.settings = settings
  if self.mode == "none" then return end
  add_precision(self)
  add_autotune(self)
  self:print(("%s on %s"):format(self.recipe, (core.device())))
  if core.assume() then self:print("  CAPL_ASSUME=" .. core.assume()
    .. ": what is chosen follows these facts, for tests") end
  local lines = settings_lines(self)
  if lines ~= "" then self:print(lines) end
end

--- Value and origin of a setting, nil when the recipe has none of that name.
function Run:setting(key)
  for _, s in ipairs(self.settings) do
    if s.key == key then return s.value, s.origin end
  end
end

--- The same for a setting of every recipe that is read by whoever uses it.
function Run:take_setting(key)
  for _, s in ipairs(self.settings) do
    if s.key == key then
      s.read = true
      return s.value
    end
  end
end

--- In what the run computes: as train.fit was called, else the setting precision (docs/contract.md); nil where neither
-- says it.
function Run:precision()
  local given = self.fitting and self.fitting.precision or self:setting("precision")
  return given and precision.name(given)
end

--- Name of the recipe without folder and ending.
function Run:name() return self.recipe and self.recipe:match("([^/]+)$"):gsub("%.lua$", "") or "prompt" end

-- The same for a folder's name, which others will list in a terminal.
local function plain_name(self)
  local name = self:name():gsub("%c", "_")
  if self.recipe and core.sys.prompt.plain(name) ~= name then name = name:gsub("[\128-\255]", "_") end
  return name
end

--- Before the sandbox closes: makes the run's folder, or takes the resumed one (run_folder.choose).
function Run:choose_folder(resumed) run_folder.choose(self, plain_name(self), resumed) end

--- Its folder, made at first use: see capl.run_folder.
function Run:folder()
  if self.path then return self.path end
  local path, base = run_folder.path(self, plain_name(self), self.mode ~= "run" and self.mode ~= "none")
  self.path = path
  if path ~= base and sync.is_main() then self:print("files of this run: " .. path) end
  return path
end

--- This recipe as a person calls it, on as many ranks, with these further words.
function Run:command(words)
  if not self.ranks_word then return shell.command{self.program, self.recipe, unpack(words)} end
  return shell.command{self.program, self.recipe, self.ranks_word, unpack(words)}
end

local function must(done, why)
  if not done then core.error{code = "io", message = why} end
end

-- settings.json: what was asked for, and of what and on what; recipe.lua: the text that ran.
local function save_settings(self)
  local folder = self:folder()
  local out = {recipe = self.recipe, started = core.sys.date(), version = core.version(), settings = {},
    command = self:command(self.args),
    loop = (self.active_settings or {}).loop, optimizers = (self.active_settings or {}).optimizers,
    data = facts.data(self.loaders), model = facts.model(self.model), machine = facts.machine(),
    process = process.this()}
  for _, s in ipairs(self.settings) do
    out.settings[s.key] = {value = s.value, origin = s.origin, why = s.why}
  end
  self:notify("settings", out)
  must(core.sys.write(folder .. "/settings.json", core.json_encode(out, true) .. "\n"))
  must(core.sys.write(folder .. "/recipe.lua", self.text or ""))
end

-- ---- explicit or auto ----

--- Settings nobody has read; given: those of flags and presets, else those of the recipe itself.
local function unread(self, given)
  local names = {}
  for _, s in ipairs(self.settings) do
    local is_given = s.origin == "flag" or s.origin:match("^preset") ~= nil
    if not s.read and is_given == given then names[#names + 1] = s.key end
  end
  return names
end

-- ---- events ----

local function check_args(self)
  if #self.args == 0 or self.args_taken then return end
  core.error{code = "value", message = ("'%s' has no effect: %s has no capl.params"):format(self.args[1], self.recipe)}
end

-- What the first forward and backward pass ran on slow kernels.
local function print_own_kernels(self)
  local device, origin = self:setting("device")
  local line = own_kernels.line(device and origin ~= "auto" and origin ~= "default")
  if line then self:print(line) end
end

--- The first gradients are where promises about precision are checked: no weight has changed yet.
function Run:check_precision()
  local name, origin = self:setting("precision")
  local is_real = self.mode == "run" or self.mode == "bench"
  if self.steps > 0 or not is_real then return end
  print_own_kernels(self)
  if name and origin ~= "auto" then precision_counts.check(name, self.counts_before) end
end

--- "precision bf16: 22 bf16 matmul/conv calls, 2 fp32 matmul/conv calls a step"
local function precision_line(self)
  local name = self:setting("precision")
  local text = precision_counts.text(self.step_precision_counts)
  if name and text then return ("precision %s: %s a step"):format(name, text) end
end

-- --init_from is for train.fit, or for a loop that reads it.
local function check_init_from(self)
  for _, s in ipairs(self.settings) do
    if s.key == "init_from" and not s.read then
      local text = "--init_from=%s: this recipe has a custom training loop, which has not loaded these weights"
      core.error{code = "value", message = text:format(s.value),
        hint = "train.load_weights(model, p.init_from) before its first step does"}
    end
  end
end

--- The first step: nothing long has been wasted yet.
local function first_step(self)
  check_args(self)
  self.step_precision_counts = precision_counts.since(self.counts_before)
  if self.mode ~= "run" then return end
  if self:setting("dry_run") and not self.scratch then
    core.error{code = "value", message = "--dry_run is for train.fit, and this recipe has a custom training loop",
      hint = shell.command{self.program, "check", self.recipe} .. " makes its first step without data"}
  end
  check_init_from(self)
  local line = precision_line(self)
  if line then self:print(line) end
  save_settings(self)
end

local function remember(self, opt)
  for _, known in ipairs(self.optimizers) do
    if known == opt then return end
  end
  self.optimizers[#self.optimizers + 1] = opt
end

-- What rank 0 has timed since the last exchange of the ranks takes effect; said where the table had chosen otherwise.
local function take_algorithms(self)
  if sync.world() and not sync.met() then return end
  for _, a in ipairs(determinism.use_timed(sync.of_main)) do
    if a.algorithm ~= a.usual then self:print(("autotune: %s: %s (%s)"):format(a.call, a.algorithm, a.times)) end
  end
end

function Run:gradients(opt)
  if self.started then self:check_precision() end
  Observer.gradients(self, opt)
end

function Run:step(opt)
  if self.started then
    sync.step()
    self.steps = self.steps + 1
    remember(self, opt)
    if self.steps == 1 then first_step(self) end
    take_algorithms(self)
  end
  Observer.step(self, opt)
end

function Run:epoch(loader, number)
  if self.started then self.epochs = self.epochs + 1 end
  if self.started and self.epochs == 1 and self.mode == "run" then
    local names = unread(self, true)
    if #names > 0 then self:print("note: given, but not read so far: " .. table.concat(names, ", ")) end
  end
  Observer.epoch(self, loader, number)
end

function Run:loader_made(loader, role, augment)
  if self.mode == "run" and sync.world() then self:folder() end -- later it may be one rank alone that needs it
  Observer.loader_made(self, loader, role, augment)
  if augment and self.mode ~= "none" then add_augment(self, self.loaders[#self.loaders]) end
end

--- Seconds that training has waited for batches so far.
function Run:waited()
  local seconds = 0
  for _, entry in ipairs(self.loaders) do
    if entry.role == "train" then seconds = seconds + entry.loader:stats().wait_seconds end
  end
  return seconds
end

--- A loader hands out a batch.
function Run:batch(loader, batch)
  if self.before_batch then self.before_batch() end
  self.image_shape = batch.image and batch.image.shape
  self.input_shape = self.image_shape or batch.input and batch.input.shape
  self.batch_fields = self.batch_fields or model_input.fields(batch)
  if loader.role ~= "train" then return end
  self.step_images = self.step_images + batch.count
  if self.steps == 0 then self.counts_before = precision_counts.all() end
end

function Run:repeated(batch) self.step_images = self.step_images + batch.count end

--- Width, height and channels of the images of this run.
function Run:image_size()
  local shape = self.image_shape
  if not shape then
    core.error{code = "state", message = "no loader has given a batch yet, so the image size is unknown"}
  end
  return shape[4], shape[3], shape[2]
end

-- ---- the end ----

--- Names the model file that the run was for; the last lines name it.
function Run:keep(path) self.kept = path end

-- The line of a meter that counts no texts: its main metric. The values are all numbers that it has.
local function final_of(self, main, result, extra)
  self.final_line = ("final %s=%.6g n=%d images_per_s=%.0f seconds=%.1f"):format(main, result[main], result.n or 0,
    extra.images_per_s, extra.seconds)
  self.final_values = {n = 0}
  for key, value in pairs(result) do
    if type(value) == "number" then self.final_values[key] = value end
  end
  self.final_values.images_per_s, self.final_values.seconds = extra.images_per_s, extra.seconds
end

--- The last line: see capl.final.
function Run:final(result, extra, main)
  if main and main ~= "exact" and result[main] then return final_of(self, main, result, extra) end
  if type(result) ~= "table" or not result.exact or type(extra) ~= "table" or not extra.images_per_s
    or not extra.seconds then
    core.error{code = "value", message = "capl.final takes meter:result() and {images_per_s = …, seconds = …}"}
  end
  self.final_line = ("final exact=%.2f [%.2f,%.2f] chars=%.2f n=%d images_per_s=%.0f seconds=%.1f"):format(
    100 * result.exact, 100 * result.low, 100 * result.high, 100 * result.chars, result.n,
    extra.images_per_s, extra.seconds)
  if result.merged then self.final_line = self.final_line .. (" merged=%.2f"):format(100 * result.merged.exact) end
  self.final_values = {exact = result.exact, low = result.low, high = result.high, chars = result.chars, n = result.n,
    images_per_s = extra.images_per_s, seconds = extra.seconds, merged = result.merged and result.merged.exact}
end

local counters = {"fused_ops", "ref_fallbacks"}

-- "loss scale 65536, 3 steps skipped" of each optimizer that scaled its loss or skipped a step.
local function scaling_lines(self)
  for _, opt in ipairs(self.optimizers) do
    local scale, skipped = opt.loss_scale, opt.skipped or 0
    local what = scale and ("loss scale %.12g (it grew %d times), "):format(scale, opt.growths) or ""
    local count = skipped == 1 and "1 step" or ("%d steps"):format(skipped)
    if scale or skipped > 0 then self:print(("report: %s%s skipped"):format(what, count)) end
  end
end

local function report(self)
  local parts = {("steps %d"):format(self.steps), precision_counts.text(self.step_precision_counts)}
  if parts[2] then parts[2] = parts[2] .. " a step" end
  for _, name in ipairs(counters) do parts[#parts + 1] = ("%s %d"):format(name, core.counters()[name]) end
  for _, entry in ipairs(self.loaders) do
    if entry.augment then parts[#parts + 1] = ("augmented %d"):format(entry.loader:stats().augmented) end
  end
  local captured, m = core.counters().captured_steps, core.memory()
  if captured > 0 then parts[#parts + 1] = ("captured_steps %d"):format(captured) end
  parts[#parts + 1] = ("peak memory %.0f MB"):format(core.sys.peak_rss() / 1e6)
  if m.card_total then parts[#parts + 1] = ("on the GPU %.0f MB"):format((m.peak + m.captured) / 1e6) end
  self:print("report: " .. table.concat(parts, ", "))
  for _, f in ipairs(self.features:counts()) do
    if f.explicit and not f.name:find("^augment of") and not f.name:find("^precision") then
      self:print(("report: %s: %d %s"):format(f.name, f.count, f.what))
    end
  end
  scaling_lines(self)
  local again = self.restart
  if again then self:print(("report: restarts after the loss of a rank: %d of %d"):format(again.number, again.of)) end
  local algorithms = determinism.report_line()
  if algorithms then self:print("report: " .. algorithms) end
  local own = own_kernels.text()
  if own then self:print("report: " .. own) end
  local exchange = dist.parallel and dist.parallel.report_line()
  if exchange then self:print("report: " .. exchange) end
  for _, entry in ipairs(self.loaders) do
    if entry.loader:stats().samples > 0 then self:print("report: " .. entry.loader:report()) end
    if entry.loader.schedule then self:print("report: " .. entry.loader.schedule:report_line()) end
  end
end

-- An image to try the model on: one that the run has written into its folder files, if any.
local function an_image(self)
  local names = core.sys.list(self.path .. "/files") or {}
  return names[1] and names[1]:match("%.png$") and ("%s/files/%s"):format(self.path, names[1]) or "IMAGE.png"
end

--- What to do with the model of this run; nil when it has none that a command reads.
function Run:next_command()
  if not self.kept or self.needs_recipe then return nil end
  return shell.command{self.program, "predict", self.kept, self.image_shape and an_image(self) or "FILE.csv"}
end

-- The report asks the device for numbers after the recipe's last line, so an error of it has no line of its own.
local function report_or_error(self)
  local ok, err = pcall(report, self)
  if ok then return end
  if self.kept then self:print("keep: " .. self.kept) end
  if core.is_error(err) then err.where = err.where or self.recipe .. ": at its end" end
  error(err, 0)
end

--- Of a dry run: what it has written goes.
local function end_scratch(self)
  if self.path then trees.empty(self.path) end -- who has started this process removes what is empty
  self:print("dry run: one step, evaluation, saving and the report went well; nothing is left of them")
end

--- train.fit begins, with its checked options.
function Run:fit(o)
  self.fitting = o
  self:notify("fit", o)
end

--- Ends a run that returned: report, promises, last line.
function Run:finish()
  check_args(self)
  self.features:sum(sync.world())
  if self.steps > 0 and dist.parallel then dist.parallel.settle() end
  if self.steps > 0 then report_or_error(self) end
  if not self.scratch then self.features:check() end -- one step proves nothing
  local idle, names = unread(self, false), unread(self, true)
  if #idle > 0 then self:print("note: never read by the recipe: " .. table.concat(idle, ", ")) end
  if #names > 0 then
    core.error{code = "value", message = "given, but never read by the recipe: " .. table.concat(names, ", ")}
  end
  self:notify("finish")
  if self.scratch then return end_scratch(self) end
  if self.kept then
    self:print("keep: " .. self.kept)
    local next_command = self:next_command()
    if next_command then self:print("next: " .. next_command) end
  end
  if self.final_line then output.final(self.final_line, self.final_values) end
end

--- The run of an observer, which becomes one if it is none yet.
function Run.of(watching) return getmetatable(watching) == Run and watching or become_run(watching) end

return Run
