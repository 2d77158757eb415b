-- capture.lua: capl.capture(step): a training step that a GPU replays as one graph, without its Lua.
--
-- The first calls run as they are and are watched: a step whose ops, shapes or numbers change is refused. Then one call
-- is recorded, with its own memory; later ones copy their arguments into fixed tensors, set what lives in device memory
-- (learning rate, dropout's offset) and launch the recording. Devices without graphs make the same checks and run on.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local classes = require "module_class"
local tensor = require "tensor"

local OP = "capture"
-- kinds of calls: combinations of shapes and modes; 16 widths of images, each with a whole and a last batch
local MOST = 32
local TRIES = 3 -- captures that may lack memory: the plain steps between them leave more of it in the cache
local LOST = 8 -- times that a step may find no memory beside recordings of other kinds until they are given up
local DEPTH = 4 -- of tables among the arguments

local Captured = {}
Captured.__index = Captured

local all = setmetatable({}, {__mode = "k"}) -- every captured step there is

-- ---- arguments ----

local function is_plain_table(value) return type(value) == "table" and not classes.is_module(value) end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- Adds the tensors of a value to the list, in a fixed order, and what distinguishes kinds of calls to parts.
local function scan(value, tensors, parts, level)
  if core.is_tensor(value) then
    tensors[#tensors + 1] = value
    parts[#parts + 1] = core.describe(value)
  elseif is_plain_table(value) and level < DEPTH then
    for _, key in ipairs(sorted_keys(value)) do
      parts[#parts + 1] = tostring(key) .. "="
      scan(value[key], tensors, parts, level + 1)
    end
  else
    parts[#parts + 1] = tostring(value)
  end
end

-- The value with its tensors replaced by those of the list, in the order of scan.
local function with_tensors(value, tensors, next_one, level)
  if core.is_tensor(value) then return tensors[next_one], next_one + 1 end
  if not is_plain_table(value) or level >= DEPTH then return value, next_one end
  local out = {}
  for _, key in ipairs(sorted_keys(value)) do
    out[key], next_one = with_tensors(value[key], tensors, next_one, level + 1)
  end
  return setmetatable(out, getmetatable(value)), next_one
end

-- {tensors = list, key = text of shapes, numbers and modes, n =, …}
local function read_arguments(device, ...)
  local args, parts = {n = select("#", ...), tensors = {}, ...}, {core.modes()}
  for i = 1, args.n do scan(args[i], args.tensors, parts, 0) end
  for i, t in ipairs(args.tensors) do
    if t.device ~= device then
      core.error{code = "value", op = OP, path = false,
        message = ("tensor %d of the arguments is on %s, the step works on %s"):format(i, t.device, device),
        hint = ('move it before the step: x:to("%s")'):format(device)}
    end
  end
  args.key = table.concat(parts, " ")
  return args
end

local function replaced(args, tensors)
  local out, next_one = {n = args.n}, 1
  for i = 1, args.n do out[i], next_one = with_tensors(args[i], tensors, next_one, 0) end
  return out
end

-- ---- kinds of calls ----

-- The settings of a layer or of a group of an optimizer: its fields that are no tables, tensors or functions, nor what
-- the class names in counters.
local function settings_of(object)
  local out, counters = {}, object.counters or {}
  for key, value in pairs(object) do
    local kind = type(value)
    if (kind == "number" or kind == "boolean" or kind == "string") and not counters[key] then out[key] = value end
  end
  return out
end

-- Whether all objects have the settings with which they took part in the step; the setting `except` does not count.
local function settings_match(objects, except)
  for object, known in pairs(objects) do
    for key, value in pairs(known) do
      if rawget(object, key) ~= value and key ~= except then return false end
    end
  end
  return true
end

-- Forgets fields that the step itself changes: they count something.
local function drop_counters(objects)
  for object, known in pairs(objects) do
    for key, value in pairs(known) do
      if rawget(object, key) ~= value then known[key] = nil end
    end
  end
end

function Captured:find_kind(key)
  for _, kind in ipairs(self.kinds) do
    if kind.key == key and settings_match(kind.objects) then return kind end
  end
end

local function note_module(objects, module)
  if objects[module] then return end
  for _, part in module:named_modules() do objects[part] = objects[part] or settings_of(part) end
end

-- The rate may change: it is in device memory.
local function note_groups(objects, opt)
  for _, group in ipairs(opt.groups) do
    objects[group] = objects[group] or settings_of(group)
    objects[group].lr = nil
  end
end

-- A batch norm that is the last op waits for an activation. What it raises is the step's, so it runs before the step
-- ends.
local function settled(...)
  core.settle()
  return ...
end

local function whole(step, ...) return settled(step(...)) end

-- Calls step while the modules and optimizers that take part are noted with their settings. before: of replay.
local function noting(kind, before, step, ...)
  local watch, objects, listeners = observer.watch, kind.objects, observer
  observer.watch = function(module, ...)
    note_module(objects, module)
    if watch then return watch(module, ...) end
    return module:forward(...)
  end
  local noted = listeners:on("gradients", function(opt) note_groups(objects, opt) end)
  observer.put_before_launch = before
  local function ended(ok, ...)
    observer.watch, observer.put_before_launch = watch, nil
    listeners:off("gradients", noted)
    kind.structure = core.structure()
    if not ok then error((...), 0) end
    return {n = select("#", ...), ...}
  end
  return ended(pcall(whole, step, ...))
end

-- Kinds whose layers or optimizers have other settings by now, apart from train/eval, will hardly come again.
function Captured:drop_outdated()
  for i = #self.kinds, 1, -1 do
    local kind = self.kinds[i]
    if not settings_match(kind.objects, "training") then
      if kind.recording then kind.recording:free() end
      table.remove(self.kinds, i)
    end
  end
end

-- ---- giving up ----

--- Frees all recordings and their memory. Later calls begin anew.
function Captured:free()
  for _, kind in ipairs(self.kinds) do
    if kind.recording then kind.recording:free() end
    kind.watch:cancel()
  end
  self.kinds = {}
end

-- From here on every call runs as it is.
function Captured:give_up(why)
  self.eager, observer.capture_refused = why, why
  self:free()
  observer:print("note: the step is not captured: " .. why)
end

function Captured:too_many(args)
  local message = ("a captured step has met %d kinds of calls and this is another one: (%s)"):format(MOST, args.key)
  if self.strict then
    core.error{code = "state", op = OP, message = message, path = false,
      hint = "give it batches of one size (drop_last = true in data.loader), or call the step itself for odd ones"}
  end
  if not self.noted then observer:print("note: " .. message .. "; others run as they are") end
  self.noted = true
end

-- ---- watched calls ----

function Captured:watched(kind, args)
  kind.watch:begin(args.tensors, self.strict)
  local function before(fn, a, b)
    kind.watch:pause(true)
    fn(a, b)
    kind.watch:pause(false)
  end
  local ok, results = pcall(noting, kind, before, self.step, unpack(args, 1, args.n))
  if not ok then
    kind.watch:cancel()
    kind.alike = 0
    error(results, 0)
  end
  local alike, state = kind.watch:finish(), kind.watch:state()
  drop_counters(kind.objects)
  kind.calls, kind.alike = state.steps, alike
  if state.refused or (state.steps > 2 and alike == 1) then self:give_up(state.difference) end
  return results
end

-- ---- capture ----

local function copy_of(x)
  return core.no_grad(function() return tensor.empty_like(x):copy_(x) end)
end

-- Results as they are handed out: the recording's own tensors are written again by the next launch.
local function copies(results)
  local out = {n = results.n}
  for i = 1, results.n do
    local r = results[i]
    out[i] = core.is_tensor(r) and copy_of(r) or r
  end
  return out
end

local function held(results)
  for i = 1, results.n do
    if core.is_tensor(results[i]) then results[i] = results[i]:detach():keep() end
  end
  return results
end

-- Gradients of all parameters that take part; false: none. A recording that fails leaves them as they were.
local function gradients_of(kind)
  local out = {}
  for object in pairs(kind.objects) do
    local list = object.params or object.parameters and object:parameters() or {}
    for _, p in ipairs(list) do out[p] = p.grad or false end
  end
  return out
end

local function restore_gradients(gradients)
  for p, grad in pairs(gradients) do core.set_grad(p, grad or nil) end
end

local function fill_buffers(kind, tensors)
  core.no_grad(function()
    for i, t in ipairs(tensors) do kind.buffers[i]:copy_(t) end
  end)
end

local function run_all(list)
  for _, entry in ipairs(list) do entry[1](entry[2], entry[3]) end
end

-- Runs the step into a recording. -> results, or nil, error of the step or text of the driver
local function record(self, kind, args, recording)
  kind.watch:begin(kind.buffers, self.strict)
  local function before(fn, a, b) table.insert(kind.before, {fn, a, b}) end
  local ok, results = pcall(noting, kind, before, self.step, unpack(args, 1, args.n))
  if not ok then
    local state = kind.watch:state()
    kind.refused = state.refused or state.differs
    kind.watch:cancel()
    return nil, results
  end
  results = held(results)
  local finished, alike = pcall(kind.watch.finish, kind.watch)
  if not finished then return nil, alike end
  if alike < 2 then return nil, kind.watch:state().difference end
  local done, why = recording:finish()
  if not done then return nil, why end
  return results
end

-- One call as a recording that is then launched. -> results, or nil when the call is still to be run
function Captured:capture(kind, args)
  kind.tries = (kind.tries or 0) + 1
  if not kind.buffers then
    kind.buffers = {}
    for i, t in ipairs(args.tensors) do kind.buffers[i] = tensor.empty_like(t):keep() end
  end
  fill_buffers(kind, args.tensors)
  local recording, why = core.capture_begin(self.device)
  if not recording then return self:give_up(why) end
  local seed, streams = core.rng()
  local gradients = gradients_of(kind)
  kind.again, kind.before = {}, {}
  observer.captured_work = kind.again
  local results, err = record(self, kind, replaced(args, kind.buffers), recording)
  observer.captured_work = nil
  local _, after = core.rng()
  if not results then
    recording:free()
    core.rng(seed, streams)
    restore_gradients(gradients)
    return self:not_captured(kind, err)
  end
  kind.recording, kind.results, kind.seed, kind.streams, kind.uses = recording, results, seed, streams, after - streams
  core.rng(seed, streams)
  return self:launch(kind)
end

-- What a failed capture means: the recipe's fault, a lack of memory that plain steps may mend, or the driver's refusal.
function Captured:not_captured(kind, err)
  local code = type(err) == "table" and err.code or nil
  if code == "nomem" and (self:release() or kind.tries < TRIES) then return nil end
  local ours = code == "nomem" or code == "device" or code == "unsupported" or (code == "state" and not kind.refused)
  if type(err) ~= "string" and (not ours or (self.strict and kind.refused)) then error(err, 0) end
  self:give_up(type(err) == "table" and err.message or tostring(err))
end

function Captured:launch(kind)
  local seed, streams = core.rng()
  run_all(kind.before)
  kind.recording:launch(streams - kind.streams)
  core.rng(seed, streams + kind.uses)
  run_all(kind.again)
  self.replays = self.replays + 1
  return copies(kind.results)
end

-- Whether what was watched, and recorded, still means what the step would do now.
local function is_current(kind)
  if kind.recording and kind.uses > 0 and core.rng() ~= kind.seed then return false end
  return kind.structure == core.structure() and not kind.watch:stale()
end

local function forget(kind)
  if kind.recording then kind.recording:free() end
  kind.recording, kind.results, kind.calls, kind.alike, kind.tries = nil, nil, 0, 0, 0
  kind.structure, kind.objects = core.structure(), {}
  kind.watch:cancel()
end

-- Lets recordings go, except of the kind at work -> whether there were any.
function Captured:release()
  local any = false
  for _, kind in ipairs(self.kinds) do
    if kind.recording and kind ~= self.at_work then
      forget(kind)
      any = true
    end
  end
  if any and self.busy then self.lost = self.lost + 1 end
  return any
end

-- Memory runs out: recordings keep blocks that nobody else can use, each its own.
core.on_pressure(function()
  local any = false
  for captured in pairs(all) do any = captured:release() or any end
  return any
end)

-- ---- a call ----

function Captured:call(args)
  local kind = self:find_kind(args.key)
  if not kind then
    self:drop_outdated()
    if #self.kinds == MOST then
      self:too_many(args)
      return self:plain(args)
    end
    kind = {key = args.key, objects = {}, watch = core.watch(self.device), calls = 0, alike = 0,
      structure = core.structure()}
    table.insert(self.kinds, kind)
  end
  self.at_work = kind
  if not is_current(kind) then forget(kind) end
  if kind.recording and not core.profiling() then
    fill_buffers(kind, args.tensors)
    return self:launch(kind)
  end
  -- Where a difference is no error the step must not run twice, so it is seen to be like another first.
  local ready = self.strict and kind.calls >= 2 or kind.alike >= 2
  if ready and self.can and not core.profiling() then
    local results = self:capture(kind, args)
    if results then return results end
    if self.eager then return self:plain(args) end
    kind.calls, kind.alike = 0, 0
    kind.watch:cancel()
  end
  return self:watched(kind, args)
end

function Captured:plain(args)
  local function packed(...) return {n = select("#", ...), ...} end
  return packed(self.step(unpack(args, 1, args.n)))
end

Captured.__call = function(self, ...)
  if self.eager then return self.step(...) end
  if self.lost > LOST then
    self:give_up("memory ran out again and again beside the recordings of its kinds of calls")
    return self.step(...)
  end
  local args = read_arguments(self.device, ...)
  self.busy = true
  local ok, results = pcall(self.call, self, args)
  self.busy, self.at_work = false, nil
  if not ok then error(results, 0) end
  return unpack(results, 1, results.n)
end

--- {kinds = kinds of calls met, captured = how many of them are recordings, replays = launches so far,
--- eager = why nothing is captured, nil otherwise}
function Captured:state()
  local captured = 0
  for _, kind in ipairs(self.kinds) do captured = captured + (kind.recording and 1 or 0) end
  return {kinds = #self.kinds, captured = captured, replays = self.replays, eager = self.eager}
end

Captured.__tostring = function(self)
  local state = self:state()
  return ("captured step (%d kinds of calls, %d recorded, %d replays)"):format(state.kinds, state.captured,
    state.replays)
end

--- A step that a GPU replays as one CUDA graph: no Lua, no launches, no allocations in between.
-- in   step: a function of tensors (also inside tables) that returns tensors, e.g. the loss; it does the whole training
--      step: forward, backward, optimizer
-- opts strict = true: what cannot be captured is an error; false: one line says why, and the step runs as it is
-- out  a function with the same arguments and results; its calls 1 and 2 run plainly and are compared, call 3 is
--      recorded
-- errs state, naming the recipe's line: op list, shapes or numbers that differ between two calls; item(), tolist() and
--      other reads by the host inside; values from the host inside; more than 32 combinations of shapes and train/eval
--      modes
-- A result is a copy: the next call does not change it. Learning rates, loss scale, dropout and counters go on as in
-- plain steps. On the CPU the checks are the same, and every call runs plainly.
-- eg   local step = capl.capture(function(x) return x * 2 end) return step(capl.ones(1)):item()  --> 2
local function capture(step, opts)
  check.arg(1, OP, "function", step)
  local o = check.options(OP, {{"strict", "boolean", default = true}}, opts)
  local device = core.device()
  local self = setmetatable({step = step, strict = o.strict, device = device, can = core.can_capture(device),
    kinds = {}, replays = 0, lost = 0}, Captured)
  all[self] = true
  return self
end

return capture
