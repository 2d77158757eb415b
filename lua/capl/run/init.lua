-- run: the recipe now running: its settings, loaders and model, what it asked for and what was really in force.
--
-- docs/contract.md states when a step and an epoch end. lua/capl/hooks.lua tells; check and bench listen too.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sync = require "dist.sync"
local facts = require "run.facts"
local features = require "run.features"
local hooks = require "hooks"
local output = require "run.output"
local own_kernels = require "run.own_kernels"
local place = require "run.place"
local precision = require "precision"
local process = require "run.process"
local precision_counts = require "run.precision_counts"
local shell = require "shell"
local trees = require "run.trees"

local SHOWN = 200 -- bytes of a setting's value that the header shows

local run = {
  mode = "none", -- "run", "check", "bench"; "none" at the prompt and under -e
  recipe = nil, -- path
  text = nil, -- of the recipe
  args = {}, -- --key=value words for capl.params
  help = false, -- capl.params prints its page and ends
  inspect = nil, -- function(keys, read): capl.params tells it the recipe's settings and ends
  quiet = false, -- no header, progress or report
  settings = {}, -- list of {key=, value=, origin=, why=, read=}
  loaders = {}, -- in order of their making: {loader=, role=, augment=}
  steps = 0,
  epochs = 0,
  optimizers = {}, -- that have made a step, in order
  step_images = 0, -- images of the training batches handed out since the last step
  figures = nil, -- names of what an evaluation on val counts, in a check of a recipe with train.fit
  fixed = false, -- loaders repeat their first training batch
  final_line = nil,
  final_values = nil, -- what it says, for programs
  path = nil, -- of the run's folder, once it is made
  program = "capl", -- as it was called
  ranks_word = nil, -- --ranks=N as it was said
  minutes = 0, -- after which the run is stopped; 0 = never
  kept = nil, -- path of the model file to use
  in_force = nil, -- {loop, optimizers}: what train.fit uses, for settings.json
  before_batch = nil, -- function(): called before the recipe gets its first batches
  ranks = nil, -- figures of each rank of a world, at the end: dist/ranks.lua
  began = 0, -- core.clock() then
  preset = nil, -- name of the one that was chosen
  measured = nil, -- figures that are not in the last line: {loss = on the val images}
  scratch = false, -- the run's folder goes when the run ends: a dry run
}

local listeners = {step = {}, epoch = {}, loader = {}, finish = {}}

--- Calls fn at every end of a step ("step") or epoch ("epoch"), after this file has counted it, with every new loader
-- ("loader"), and when the run has kept all its promises, before its last lines ("finish").
function run.on(event, fn) table.insert(listeners[event], fn) end

local function tell(event, ...)
  for _, fn in ipairs(listeners[event]) do fn(...) end
end

--- Begins a run. opts: mode, recipe, text, args, help, quiet
function run.start(opts)
  for key, value in pairs(opts) do run[key] = value end
  run.began = core.clock()
  features.counting = true
  precision_counts.begin()
  table.insert(hooks.on_gradients, run.gradients_ready)
  table.insert(hooks.on_step, run.step_ended)
  table.insert(hooks.on_epoch, run.epoch_ended)
end

function run.print(text)
  if not run.quiet then output.text(text) end
end

-- ---- features ----

--- Adds something the run asks for, with a counter that proves it: see run/features.lua.
run.add_feature = features.add

local function add_precision()
  local name, origin = run.setting("precision")
  if name ~= "bf16" and name ~= "fp16" and name ~= "tf32" then return end
  features.add{name = "precision = " .. name, what = name .. " products", explicit = origin ~= "auto",
    count = function() return precision_counts.all()[name] end}
end

local function add_augment(entry)
  features.add{name = "augment of the " .. entry.role .. " loader", what = "augmented samples",
    count = function() return entry.loader:stats().augmented end,
    used = function() return entry.loader:stats().samples > 0 end, of_all = true}
end

-- ---- settings ----

--- The words of the command line, for capl.params. They can be taken once.
function run.take_args()
  if run.args_taken and run.mode ~= "none" then
    core.error{code = "state", message = "capl.params was called twice", hint = "put all settings into one table"}
  end
  run.args_taken = true
  return run.args
end

--- A value as the header shows it: a text may be of any length.
local function brief(value)
  local text = tostring(value)
  return #text <= SHOWN and text or ("%s… (%d bytes)"):format(text:sub(1, SHOWN), #text)
end

--- Settings of every recipe (params/every.lua) are told when something was chosen or asked for, not when all is as ever.
local function settings_lines()
  local wide, shown, lines = 0, {}, {}
  for _, s in ipairs(run.settings) do
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

function run.set_settings(settings)
  run.settings = settings
  if run.mode == "none" then return end
  add_precision()
  run.print(("%s on %s"):format(run.recipe, (core.device())))
  if core.assume() then run.print("  CAPL_ASSUME=" .. core.assume() .. ": what is chosen follows these facts, for tests") end
  local lines = settings_lines()
  if lines ~= "" then run.print(lines) end
end

--- Value and origin of a setting, nil when the recipe has none of that name.
function run.setting(key)
  for _, s in ipairs(run.settings) do
    if s.key == key then return s.value, s.origin end
  end
end

--- The same for a setting of every recipe that is read by whoever uses it.
function run.take_setting(key)
  for _, s in ipairs(run.settings) do
    if s.key == key then
      s.read = true
      return s.value
    end
  end
end

--- In what the run computes: as train.fit was called, else the setting precision (docs/contract.md); nil where neither says it.
function run.precision()
  local given = hooks.fitting and hooks.fitting.precision or run.setting("precision")
  return given and precision.name(given)
end

--- Name of the recipe without folder and ending.
function run.name() return run.recipe and run.recipe:match("([^/]+)$"):gsub("%.lua$", "") or "prompt" end

-- The same for a folder's name, which others will list in a terminal.
local function plain_name()
  local name = run.name():gsub("%c", "_")
  if run.recipe and core.sys.prompt.plain(name) ~= name then name = name:gsub("[\128-\255]", "_") end
  return name
end

--- Before the sandbox closes: makes the run's folder, or takes the one that goes on (place.settle).
function run.settle_folder(resumed) place.settle(plain_name(), resumed) end

--- The run's folder, made at first use: runs/captcha for recipes/captcha.lua, runs/captcha-2 for its next run: files
--- of two runs never mix. In a world of several ranks the first of them makes it, and all have it by their first loader.
--- A command that leaves no run (check, bench …) gives one in the recipe's temporary files.
function run.folder()
  if run.path then return run.path end
  local path, base = place.path(plain_name(), run.mode ~= "run" and run.mode ~= "none")
  run.path = path
  if path ~= base and sync.is_main() then run.print("files of this run: " .. path) end
  return path
end

--- This recipe as a person calls it, on as many ranks, with these further words.
function run.command(words)
  if not run.ranks_word then return shell.command{run.program, run.recipe, unpack(words)} end
  return shell.command{run.program, run.recipe, run.ranks_word, unpack(words)}
end

local function must(done, why)
  if not done then core.error{code = "io", message = why} end
end

-- settings.json: what was asked for, and of what and on what; recipe.lua: the text that ran.
local function save_settings()
  local out = {recipe = run.recipe, started = core.sys.date(), version = core.version(), settings = {},
    command = run.command(run.args),
    loop = run.in_force and run.in_force.loop, optimizers = run.in_force and run.in_force.optimizers,
    expected = require("recipe.expect").said(),
    data = facts.data(run.loaders), model = facts.model(), machine = facts.machine(), process = process.this()}
  for _, s in ipairs(run.settings) do
    out.settings[s.key] = {value = s.value, origin = s.origin, why = s.why}
  end
  must(core.sys.write(run.folder() .. "/settings.json", core.json_encode(out, true) .. "\n"))
  must(core.sys.write(run.folder() .. "/recipe.lua", run.text or ""))
  require("run.attach").describe()
end

-- ---- explicit or auto ----

--- Settings nobody has read; given: those of flags and presets, else those of the recipe itself.
local function unread(given)
  local names = {}
  for _, s in ipairs(run.settings) do
    local is_given = s.origin == "flag" or s.origin:match("^preset") ~= nil
    if not s.read and is_given == given then names[#names + 1] = s.key end
  end
  return names
end

-- ---- events ----

local function check_args()
  if #run.args == 0 or run.args_taken then return end
  core.error{code = "value", message = ("'%s' has no effect: %s has no capl.params"):format(run.args[1], run.recipe)}
end

-- What the first forward and backward pass ran on slow kernels.
local function tell_own_kernels()
  local device, origin = run.setting("device")
  local line = own_kernels.line(device and origin ~= "auto" and origin ~= "default")
  if line then run.print(line) end
end

--- The first gradients are where promises about precision are checked: no weight has changed yet.
function run.gradients_ready()
  local name, origin = run.setting("precision")
  local is_real = run.mode == "run" or run.mode == "bench"
  if run.steps > 0 or not is_real then return end
  tell_own_kernels()
  if name and origin ~= "auto" then precision_counts.check(name) end
end

--- "precision bf16: 22 bf16 products, 2 fp32 products a step"
local function precision_line()
  local name = run.setting("precision")
  local text = precision_counts.text(run.step_products)
  if name and text then return ("precision %s: %s a step"):format(name, text) end
end

-- --init_from is for train.fit, or for a loop that reads it.
local function check_init_from()
  for _, s in ipairs(run.settings) do
    if s.key == "init_from" and not s.read then
      local text = "--init_from=%s: this recipe has a loop of its own, which has not taken these weights"
      core.error{code = "value", message = text:format(s.value), hint = "train.load_weights(model, p.init_from) before its first step does"}
    end
  end
end

--- The first step: nothing long has been wasted yet.
local function first_step()
  check_args()
  run.step_products = precision_counts.of_step()
  if run.mode ~= "run" then return end
  if run.setting("dry_run") and not run.scratch then
    core.error{code = "value", message = "--dry_run is about train.fit, and this recipe has a loop of its own",
      hint = shell.command{run.program, "check", run.recipe} .. " makes its first step without data"}
  end
  check_init_from()
  local line = precision_line()
  if line then run.print(line) end
  save_settings()
end

local function remember(opt)
  for _, known in ipairs(run.optimizers) do
    if known == opt then return end
  end
  run.optimizers[#run.optimizers + 1] = opt
end

function run.step_ended(opt)
  sync.step()
  run.steps = run.steps + 1
  remember(opt)
  if run.steps == 1 and run.mode ~= "none" then first_step() end
  tell("step", opt)
end

function run.epoch_ended(loader, epoch)
  run.epochs = run.epochs + 1
  if run.epochs == 1 and run.mode == "run" then
    local names = unread(true)
    if #names > 0 then run.print("note: given, but not read so far: " .. table.concat(names, ", ")) end
  end
  tell("epoch", loader, epoch)
end

function run.loader_made(loader, role, augment)
  if run.mode == "run" and sync.world() then run.folder() end -- later it may be one rank alone that needs it
  run.loaders[#run.loaders + 1] = {loader = loader, role = role, augment = augment}
  if augment and run.mode ~= "none" then add_augment(run.loaders[#run.loaders]) end
  tell("loader", loader, role)
end

--- Seconds that training has waited for batches so far.
function run.waited()
  local seconds = 0
  for _, entry in ipairs(run.loaders) do
    if entry.role == "train" then seconds = seconds + entry.loader:stats().wait_seconds end
  end
  return seconds
end

--- A loader hands out a batch.
function run.saw_batch(loader, batch)
  if run.before_batch then run.before_batch() end
  run.image_shape = batch.image and batch.image.shape
  run.input_shape = run.image_shape or batch.input and batch.input.shape
  if loader.role ~= "train" then return end
  run.step_images = run.step_images + batch.count
  if run.steps == 0 then precision_counts.begin() end
end

--- Width, height and channels of the images of this run.
function run.image_size()
  local shape = run.image_shape
  if not shape then core.error{code = "state", message = "no loader has given a batch yet, so the image size is unknown"} end
  return shape[4], shape[3], shape[2]
end

-- ---- the end ----

--- Names the model file that the run was for; the last lines tell of it.
function run.keep(path) run.kept = path end

-- The line of a meter that counts no texts: its main figure.
local function final_of(main, value, n, extra)
  run.final_line = ("final %s=%.6g n=%d images_per_s=%.0f seconds=%.1f"):format(main, value, n, extra.images_per_s, extra.seconds)
  run.final_values = {[main] = value, n = n, images_per_s = extra.images_per_s, seconds = extra.seconds}
end

--- The line that sums up the run; printed last. result: of meter:result().
-- extra  images_per_s, seconds of training
-- main   name of the figure that sums up another meter than that of texts
function run.final(result, extra, main)
  if main and main ~= "exact" and result[main] then return final_of(main, result[main], result.n or 0, extra) end
  if type(result) ~= "table" or not result.exact or type(extra) ~= "table" or not extra.images_per_s or not extra.seconds then
    core.error{code = "value", message = "capl.final takes meter:result() and {images_per_s = …, seconds = …}"}
  end
  run.final_line = ("final exact=%.2f [%.2f,%.2f] chars=%.2f n=%d images_per_s=%.0f seconds=%.1f"):format(
    100 * result.exact, 100 * result.low, 100 * result.high, 100 * result.chars, result.n,
    extra.images_per_s, extra.seconds)
  if result.merged then run.final_line = run.final_line .. (" merged=%.2f"):format(100 * result.merged.exact) end
  run.final_values = {exact = result.exact, low = result.low, high = result.high, chars = result.chars, n = result.n,
    images_per_s = extra.images_per_s, seconds = extra.seconds, merged = result.merged and result.merged.exact}
end

local counters = {"fused_ops", "ref_fallbacks"}

-- "loss scale 65536, 3 steps skipped" of each optimiser that scaled its loss or skipped a step.
local function scaling_lines()
  for _, opt in ipairs(run.optimizers) do
    local scale, skipped = opt.loss_scale, opt.skipped or 0
    local what = scale and ("loss scale %.12g (it grew %d times), "):format(scale, opt.growths) or ""
    local count = skipped == 1 and "1 step" or ("%d steps"):format(skipped)
    if scale or skipped > 0 then run.print(("report: %s%s skipped"):format(what, count)) end
  end
end

local function report()
  local parts = {("steps %d"):format(run.steps), precision_counts.text(run.step_products)}
  if parts[2] then parts[2] = parts[2] .. " a step" end
  for _, name in ipairs(counters) do parts[#parts + 1] = ("%s %d"):format(name, core.counters()[name]) end
  for _, entry in ipairs(run.loaders) do
    if entry.augment then parts[#parts + 1] = ("augmented %d"):format(entry.loader:stats().augmented) end
  end
  local captured, m = core.counters().captured_steps, core.memory()
  if captured > 0 then parts[#parts + 1] = ("captured_steps %d"):format(captured) end
  parts[#parts + 1] = ("peak memory %.0f MB"):format(core.sys.peak_rss() / 1e6)
  if m.card_total then parts[#parts + 1] = ("on the GPU %.0f MB"):format((m.peak + m.captured) / 1e6) end
  run.print("report: " .. table.concat(parts, ", "))
  for _, f in ipairs(features.counts()) do
    if f.explicit and not f.name:find("^augment of") and not f.name:find("^precision") then
      run.print(("report: %s: %d %s"):format(f.name, f.count, f.what))
    end
  end
  scaling_lines()
  local own = own_kernels.text()
  if own then run.print("report: " .. own) end
  local exchange = hooks.parallel and hooks.parallel.report_line()
  if exchange then run.print("report: " .. exchange) end
  for _, entry in ipairs(run.loaders) do
    if entry.loader:stats().samples > 0 then run.print("report: " .. entry.loader:report()) end
    if entry.loader.schedule then run.print("report: " .. entry.loader.schedule:report_line()) end
  end
end

-- An image to try the model on: one that the run has written into its folder files, if any.
local function an_image()
  local names = core.sys.list(run.path .. "/files") or {}
  return names[1] and names[1]:match("%.png$") and ("%s/files/%s"):format(run.path, names[1]) or "IMAGE.png"
end

--- What to do with the model of this run; nil when it has none that a command reads.
function run.next_command()
  local output_kind = hooks.model_options and hooks.model_options.output
  local reads_text = output_kind == nil or output_kind == "text"
  if not run.kept or not reads_text then return nil end
  return shell.command{run.program, "predict", run.kept, an_image()}
end

-- The report asks the device for figures after the recipe's last line, so an error of it has no line of its own.
local function report_or_error()
  local ok, err = pcall(report)
  if ok then return end
  if run.kept then run.print("keep: " .. run.kept) end
  if core.is_error(err) then err.where = err.where or run.recipe .. ": at its end" end
  error(err, 0)
end

--- Of a dry run: what it has written goes.
local function end_scratch()
  if run.path then trees.empty(run.path) end -- who has started this process removes what is empty
  run.print("dry run: one step, evaluation, saving and the report went well; nothing is left of them")
end

--- Ends a run that returned: report, promises, last line.
function run.finish()
  check_args()
  features.sum(sync.world())
  if run.steps > 0 and hooks.parallel then hooks.parallel.settle() end
  if run.steps > 0 then report_or_error() end
  if not run.scratch then features.check() end -- one step proves nothing
  local idle, names = unread(false), unread(true)
  if #idle > 0 then run.print("note: never read by the recipe: " .. table.concat(idle, ", ")) end
  if #names > 0 then
    core.error{code = "value", message = "given, but never read by the recipe: " .. table.concat(names, ", ")}
  end
  tell("finish")
  if run.scratch then return end_scratch() end
  if run.kept then
    run.print("keep: " .. run.kept)
    local next_command = run.next_command()
    if next_command then run.print("next: " .. next_command) end
  end
  if run.final_line then output.final(run.final_line, run.final_values) end
end

return run
