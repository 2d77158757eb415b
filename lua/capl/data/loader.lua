-- loader.lua: data.loader: a source in batches of tensors, made ahead by threads.
--
-- The same seed gives the same batches for any number of workers. docs/contract.md: an epoch ends when its iterator
-- does, and the loader's role says what its batches are for.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local augment = require "augment"
local auto = require "auto"
local check = require "check"
local dist = require "dist"
local lock = require "test_lock"
local schedules = require "augment.schedule"
local loader_log = require "data.loader_log"


local Loader = {}
Loader.__index = Loader

local known = {
  "source", "role", "batch", "workers", "prefetch", "shuffle", "drop_last", "augment", "tta", "normalize", "on_error",
  "dtype", "seed", "cache", "shard", "parts", "pin", "max_bad", "cache_dir",
}

--- The options, of which the source is one: it does not stand by itself.
local function read_options(opts)
  local alone = type(opts) == "table" and (opts.box or opts[1] ~= nil)
  if alone then
    check.fail("data.loader", 'the source is given by its name: data.loader{source = …, role = "train"}')
  end
  return check.keys("data.loader", opts, known)
end

local roles = {train = true, val = true, test = true}

--- normalize -> the engine's options: "standardize", "unit", or {mean = {…}, std = {…}}
local function read_normalize(value, into)
  if value == nil or value == "standardize" then
    into.norm = "standardize"
  elseif value == "unit" then
    into.norm = "unit"
  elseif type(value) == "table" and value.mean and value.std then
    check.keys("data.loader: normalize", value, {"mean", "std"})
    into.norm, into.mean, into.std = "mean_std", value.mean, value.std
  else
    check.fail("data.loader", ('normalize is "standardize", "unit" or {mean = {…}, std = {…}}, not %s'):format(tostring(value)))
  end
end

local function refuse_bad_labels(source, on_error)
  if on_error == "skip" or #source.bad == 0 then return end
  local more = {}
  for i = 2, math.min(3, #source.bad) do more[#more + 1] = source.bad[i].message end
  if #source.bad > 3 then more[#more + 1] = ("and %d more"):format(#source.bad - 3) end
  core.error{
    code = "value", message = ("%d of %d files have no usable label; the first: %s"):format(
      #source.bad, source:count(), source.bad[1].message),
    context = #more > 0 and table.concat(more, "\n") or nil,
    hint = #source.bad < source:count() and 'on_error = "skip" leaves them out' or
      "charset, length and variable of the source define valid labels",
  }
end

-- A schedule given as augment; nil for anything else.
local function read_schedule(o)
  if not schedules.is(o.augment) then return nil end
  if o.role ~= "train" then
    check.fail("data.loader", ("a schedule is for training, and role is \"%s\""):format(o.role),
      "give it to the train loader alone")
  end
  return o.augment
end

local ALONE = {rank = 0, size = 1}

-- The world whose ranks share the source; all of them do unless shard says otherwise.
local function read_shard(shard)
  if shard == false then return ALONE end
  if shard == nil then return dist.world() end
  if not dist.is_world(shard) then
    check.fail("data.loader", "shard is a " .. core.typename(shard)
      .. "; capl.distributed() gives one, false gives all to every rank")
  end
  return shard
end

-- --shards of the run.
local function given_shards()
  local shards = observer:setting("shards")
  return type(shards) == "number" and shards > 0 and shards or nil
end

-- Ops with what the source declares that a flip exchanges, unless they say so themselves.
local function with_swaps(ops, source)
  if type(ops) ~= "table" or ops.flip_swaps ~= nil or not source.swaps then return ops end
  local out = {flip_swaps = source.swaps}
  for key, value in pairs(ops) do out[key] = value end
  return out
end

local function stages_of(schedule, source)
  if not schedule then return nil end
  local stages = schedule:engine()
  for _, stage in ipairs(stages) do stage.augment = with_swaps(stage.augment, source) end
  return stages
end

-- A table of ops given as augment, or a preset's; nil for a schedule.
local function read_augment(o)
  if o.augment == nil or schedules.is(o.augment) then return nil end
  if o.role ~= "train" and not o.tta then
    check.fail("data.loader", ("role is \"%s\", and its images would be augmented, which would bias the metrics")
      :format(o.role), "remove augment, or set tta = true for test-time augmentation")
  end
  return with_swaps(type(o.augment) == "string" and augment.preset(o.augment) or o.augment, o.source)
end

local pins = {[true] = "on", [false] = "off", auto = "auto"}

local function pin_word(pin)
  if pin == nil then return "auto" end
  return pins[pin] or check.fail("data.loader", ('pin is "auto", true or false, not %s'):format(tostring(pin)))
end

--- Loads batches from a source.
-- opts  source: of data.captcha, data.folder …; role = "train" | "val" | "test"; batch = 64 images; workers = "auto" |
--       threads (0 = none); prefetch = 2 batches; shuffle = true for train, else false; drop_last = false;
--       augment = {rotate = degrees, …} (lua/capl/augment lists the ops), the name of a preset, or augment.schedule{…};
--       tta = true: val and test images may be augmented too;
--       normalize = "standardize" | "unit" | {mean = {…}, std = {…}};
--       on_error = "stop" | "skip" for unreadable or unlabelled files: stop hands out all good batches before the bad
--       one first; skip takes other samples in their place, the same ones whatever the threads, and lists the bad ones
--       in the run's bad_files.txt; max_bad = 0.01: an epoch fails that has met more bad samples than this share of its
--       samples (one is always allowed; counted from where the epoch was begun or resumed);
--       dtype = "f32" | "bf16" | "f16" (of the images: half the bytes, for models that are called inside capl.autocast
--       only) | "u8" (their levels, 0 to 255); seed;
--       cache = "auto" | "none" | "ram" | "disk" | "device": where images that are the same in every epoch are kept as
--       u8, so that each is decoded once: on a GPU; in memory; in a file that later runs use too, below cache_dir
--       (default $XDG_CACHE_HOME/capl/data or ~/.cache/capl/data), made anew when names, sizes or times of the images
--       change, or what a generator with fixed = true is asked for and draws. auto: on a GPU when they take at most a
--       quarter of its free memory, else in memory when they take at most half of what is available; loader:path()
--       says; shard: the world whose ranks share the source, capl.distributed() unless given; false = every rank reads
--       all of it. batch is of one rank: batch t of all R ranks together is the next R * batch samples, of which rank r
--       takes block r. For training all ranks get equally many batches, and a smaller last round is shared out; val and
--       test images come once,
--       in the batches of a single process dealt out in turn, so that a rank may get one less, or none; parts = S for
--       train.sharded_step: a smaller last step has parts of nearly one size, too;
--       pin = "auto" | true | false: whether batches wait for a GPU in page-locked memory
-- out   loader: loader.charset and loader.classes: how many classes its targets have, which of texts is the number of
--       characters of the charset; for batch in loader:epoch(n) do … end gives {count = N, image = (N,C,H,W), target =
--       (N,T) i32, -1 past the end of a shorter text (N of classes), target_length = (N) i32, width = (N) i32 px of W
--       that each image takes where the source has several widths (a batch has one of them), onehot = (N,T*K), (N,K)
--       with a 1 for each class of labels of several classes} and the
--       source's fields by their names: batch.mask = (N,H,W) u8, batch.points = (N,P,3) f32 …; what the source has not
--       is nil;
--       batch.ids = list of the samples' numbers in the source, from 0, which source:name(id) names
-- errs  value: unknown option, role or range; what reading the source raises
function Loader.new(opts)
  local o = read_options(opts)
  if type(o.source) ~= "table" or not o.source.box then
    core.fail("data.loader needs source = data.captcha{…} or data.folder(…)")
  end
  if not roles[o.role or ""] then
    check.fail("data.loader", ('role is "train", "val" or "test", not %s'):format(tostring(o.role)))
  end
  local on_error = o.on_error or "stop"
  refuse_bad_labels(o.source, on_error)
  local world = read_shard(o.shard)
  local ops = read_augment(o)
  local schedule = read_schedule(o)
  local shuffle = o.shuffle
  -- generated images have no order
  if shuffle == nil then shuffle = o.role == "train" and (o.source.dir or o.source.ordered) ~= nil end
  local low = {
    batch = o.batch, workers = auto.value("workers", o.workers or "auto"), prefetch = o.prefetch, shuffle = shuffle,
    drop_last = o.drop_last, on_error = on_error, dtype = o.dtype or "f32", seed = o.seed,
    augment = ops, stages = stages_of(schedule, o.source),
    cache = o.cache, cache_dir = o.cache_dir, max_bad = o.max_bad, pin = pin_word(o.pin),
    rank = world.rank, world = world.size, once = o.role ~= "train",
    parts = o.role == "train" and (o.parts or given_shards()) or nil,
  }
  read_normalize(o.normalize, low)
  local self = setmetatable({
    box = core.data.loader(o.source.box, low), source = o.source, role = o.role, charset = o.source.charset,
    classes = o.source.n_classes, class_names = o.source.class_names, several = o.source.several,
    length = o.source.length, length_min = o.source.length_min, widths = o.source.widths, batch = o.batch or 64,
    workers = low.workers, dtype = low.dtype, normalize = o.normalize or "standardize", on_error = on_error,
    schedule = schedule, reported_bad = 0, low = low,
  }, Loader)
  self.line = {stats = self:stats()}
  if schedule then schedule:attach(self) end
  observer:loader_made(self, o.role, schedule and schedule.stages[1].augment or ops)
  return self
end

--- Batches per epoch, of this rank.
function Loader:batches() return self.box:batches() end
--- Batches left in the current epoch.
function Loader:batches_left() return self.box:batches_left() end
--- Samples per epoch, of this rank.
function Loader:samples() return self.box:samples() end
--- Samples per epoch, of all ranks together.
function Loader:all_samples() return self.box:all_samples() end
--- How many ranks share the source.
function Loader:ranks() return self.low.world end
--- {batches, samples, augmented, substituted, bad, wait_seconds, seconds, work_seconds, augment_seconds} since the
-- loader was made: wait_seconds of seconds the caller waited for a batch (a GPU may have had queued work to do
-- meanwhile); work_seconds is the time of all threads that made samples, augment_seconds what augmentation took of it,
-- both estimated.
function Loader:stats()
  local s = self.box:stats()
  for key, value in pairs(self.before or {}) do s[key] = s[key] + value end
  return s
end
-- Begins anew with other options of the engine's loader.
local function exchange(self, key, value)
  local low = {}
  for name, given in pairs(self.low) do low[name] = given end
  low[key] = value
  local box = core.data.loader(self.source.box, low)
  self.before = self:stats()
  self.box:free()
  self.box, self.low, self.resumed = box, low, nil
  if self.schedule then self.schedule.box = box end
end

--- Replaces the batch size from the next epoch on.
function Loader:set_batch(images)
  check.value("loader:set_batch", {"its number of images", "number"}, images)
  exchange(self, "batch", images)
  self.batch = images
end
--- Sets the number of equal parts into which a step splits the global batch. A smaller last batch of an epoch is split
-- into as many, on any number of ranks. train.fit does it for shards = S. The next epoch begins with it.
-- errs value: no multiple of the ranks; batch times ranks is no multiple of it
function Loader:set_parts(parts)
  check.value("loader:set_parts", {"their number", "number"}, parts)
  if self.low.parts ~= parts then exchange(self, "parts", parts) end
end
--- Replaces the augmentation from the next batch on; batches are as if the loader had had it from the start.
-- in   ops: a table as augment of data.loader takes it, or the name of a preset; nil: what the loader was made with
-- errs value: unknown ops; the loader follows a schedule
function Loader:set_augment(ops)
  local box = self:check_augment(ops)
  local resumed = self.resumed
  box:set_state(self.box:state())
  self.before = self:stats()
  self.box:free()
  self.box, self.resumed = box, resumed
end
--- A loader's box with another augmentation, to see whether there can be one.
function Loader:check_augment(ops)
  if self.schedule then
    check.fail("loader:set_augment", "the loader follows a schedule, which defines the augmentation")
  end
  local low = {}
  for key, value in pairs(self.low) do low[key] = value end
  if ops ~= nil then low.augment = read_augment{augment = ops, role = self.role, tta = true, source = self.source} end
  return core.data.loader(self.source.box, low)
end
--- The line a run prints at the end of an epoch of its train loader: "epoch 3: 50,030 images in 12.1 s, waited 0.4 % of
-- it for data", and what would help when that is more than a tenth. Epochs of less than 5 s share a line.
-- in   since: loader:stats() at an earlier time; numbers of the first and the last epoch since then; now =
--      loader:stats()
function Loader:waited(since, from, to, now)
  return loader_log.waiting(self, since, now or self:stats(), from, to or from)
end
--- Where the batches are made: "made on the host", "resident on cuda:0, 458 MB", "streamed to cuda:0, page-locked:
-- why", and behind that ", cached in memory, 458 MB", ", cached in FILE" or ", not cached: why". Known from the first
-- epoch on.
function Loader:path() return self.box:path() end
--- How fast a GPU makes the next batch, in its own time. Takes that batch out of the epoch.
-- in   times = 100: how often it is made
-- out  seconds for once; bytes of levels read and values written, the least that must be moved. nil at the epoch's end
-- errs unsupported: the batches are made on the host
function Loader:measure(times) return self.box:measure(times or 100) end
--- List of {id, message} of the unreadable samples in the batches so far, or in the one that failed.
function Loader:bad() return self.box:bad() end
--- {seed, epoch, position}, with a schedule its state too: where it stands; set_state continues there. position:
-- samples that all ranks have been given, so that another number of ranks with the same batch of all continues with the
-- same steps.
function Loader:state()
  local state = self.box:state()
  state.schedule = self.schedule and self.schedule:state()
  return state
end
--- {seed, epoch, position} as a string of 24 bytes, for a checkpoint; a schedule's own state is schedule:state().
function Loader:state_bytes() return self.box:state_bytes() end
--- Continues where a state was taken, under the same source and options: the next loader:epoch(n), n being the state's
-- epoch, gives the rest of that epoch, with the same bytes; any other n begins its epoch.
-- in   state: of loader:state() or loader:state_bytes()
-- errs value: no such state; its position is past the epoch's end
function Loader:set_state(state)
  if type(state) == "string" then
    self.box:set_state(state)
  else
    check.value("loader:set_state", {"the state", "table"}, state)
    if self.schedule and state.schedule then self.schedule:set_state(state.schedule) end
    self.box:set_state{seed = state.seed, epoch = state.epoch, position = state.position}
  end
  if self.schedule then self.schedule:resumed() end
  self.resumed = self.box:state().epoch
  loader_log.resumed(self)
end
--- What a checkpoint holds of it, as train/saved_state.lua reads it.
function Loader:state_shape()
  return {seed = "count", epoch = "count", position = "count", schedule = self.schedule and self.schedule:state_shape()}
end

-- ---- batches ----

local Batch = {}

-- Of each batch: the numbers of its samples, as bytes. Not in the batch itself: what is in there distinguishes kinds of
-- captured steps apart.
local ids_of = setmetatable({}, {__mode = "k"})

-- A field of earlier versions: an error that names the new one.
local function refuse_removed(field)
  local instead = core.sys.gone and core.sys.gone("batch." .. field)
  core.error{code = "value", message = ("batch.%s: there is no such field"):format(field), hint = instead
    and "removed: " .. instead}
end

-- (N,T*K), or (N,K) where a sample has several classes at once.
local function ones_of(batch, target)
  local made = core.data.one_hot(target, batch.classes)
  return batch.several and made:reshape(target.shape[1], -1, batch.classes):sum(2) or made
end

--- onehot, the lengths of texts of one length, and ids are made when they are asked for; ids are nil in parts and
-- copies of a batch.
function Batch:__index(key)
  -- texts that are all as long as their targets
  if key == "target_length" and rawget(self, "target") and self.target.ndim == 2 then
    rawset(self, "target_length", core.full({self.count}, self.target.shape[2], {dtype = "i32"}))
    return rawget(self, "target_length")
  end
  if key == "together" then refuse_removed(key) end
  if key == "ids" then return ids_of[self] and core.data.loader_ids(ids_of[self]) end
  if key == "onehot" and rawget(self, "target") then
    local made = ones_of(self, self.target)
    if rawget(self, "mix") then
      local share = self.mix:view(self.count, 1)
      made = made * share + ones_of(self, self.target2) * (1 - share)
    end
    rawset(self, "onehot", made)
    return made
  end
end

-- What a failed batch was about is listed before the error is raised.
local function next_of(self)
  if self.on_error ~= "skip" then return self.box:next() end
  local fine, batch, ids = pcall(self.box.next, self.box)
  if fine and batch then return batch, ids end
  loader_log.bad(self)
  if not fine then error(batch, 0) end
end

local function next_batch(self)
  local batch, ids = next_of(self)
  if not batch then return nil end
  ids_of[batch] = ids
  batch.classes, batch.several = self.classes, self.several and true or nil
  if self.schedule then self.schedule:handed_out() end
  observer:batch(self, batch)
  return setmetatable(batch, Batch)
end

--- One batch for ever, for measuring a step without its data.
local function repeat_first(self)
  local first = next_batch(self)
  return function()
    if first then observer:repeated(first) end
    return first
  end
end

--- Line of the final report: where the batches were made, and how long the training waited for them.
function Loader:report()
  local s = self:stats()
  local here = self:ranks() > 1 and " on this rank" or ""
  if self.role ~= "train" then return ("%s data: %s; %d images%s"):format(self.role, self:path(), s.samples, here) end
  local share = s.seconds > 0 and 100 * s.wait_seconds / s.seconds or 0
  return ("%s data: %s; %d images%s, waited for them %.1f %% of the time%s"):format(self.role, self:path(), s.samples,
    here, share, s.substituted > 0 and (", %d replace bad ones"):format(s.substituted) or "")
end

--- Iterates over one epoch. number: 1, 2, …; the same number gives the same batches again. Right after loader:set_state
-- the state's epoch continues at its position.
-- errs value: test images that were read before and training has continued since: they would choose the weights
function Loader:epoch(number)
  check.value("loader:epoch", {"its number", "number"}, number)
  if self.role == "test" then lock.epoch(self) end
  if self.resumed ~= number then self.box:epoch(number) end
  if self.role == "train" and not self.low.parts then core.stream_owner(self.low.rank) end -- other dropout on each rank
  self.resumed = nil
  if self.schedule then self.schedule:announce() end
  loader_log.path(self)
  if observer.fixed and self.role == "train" then return repeat_first(self) end
  return function()
    local batch = next_batch(self)
    if batch then return batch end
    loader_log.epoch(self, number)
    observer:epoch(self, number)
  end
end

return Loader
