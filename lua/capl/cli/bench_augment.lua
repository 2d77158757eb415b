-- bench_augment.lua: `capl bench --augment RECIPE`: how fast the recipe's training batches are made, by threads and by
-- device.
--
-- Its own train loader, options and all, is made anew for each row; nothing trains. The clock stops when the last batch
-- is there, on a device too. Of a schedule the last stage counts.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local recipe = require "cli.execute"
local show = require "augment.show"

local bench_augment = {}

local THREADS = {16, 8, 4, 1}

-- What every batch of the row is made of.
local function like(loader)
  if loader.schedule then return {loader = loader.box, stage = #loader.schedule.stages} end
  return {loader = loader.box, step = 0}
end

local function remade(loader, changes)
  local options = {}
  for key, value in pairs(loader.low) do options[key] = value end
  options.augment, options.stages, options.like = nil, nil, like(loader)
  for key, value in pairs(changes) do options[key] = value end
  return core.data.loader(loader.source.box, options)
end

-- The next batch, of the next epoch where one ends.
local function taker(box)
  local epoch = 1
  box:epoch(epoch)
  return function()
    local batch = box:next()
    if batch then return batch.count end
    epoch = epoch + 1
    box:epoch(epoch)
    return box:next().count
  end
end

-- Seconds and samples of o.steps batches, after o.warmup others: a whole epoch where that fills a cache.
local function measure(box, o)
  local take, samples = taker(box), 0
  for _ = 1, o.warmup do take() end
  if box:path():match("^cached") then
    for _ = o.warmup + 1, box:batches() do take() end
  end
  core.mark(0)
  for _ = 1, o.steps do samples = samples + take() end
  core.mark(1)
  return core.between(0, 1), samples
end

local ENDLESS = 2 ^ 32 - 1

local function row(loader, name, box, o)
  local seconds, samples = measure(box, o)
  local endless = loader.source.box:count() == ENDLESS
  local each, path = seconds / o.steps, box:path()
  box:free()
  return {name = name, ms_per_batch = 1000 * each, seconds_per_epoch = not endless and each * loader:batches() or nil,
    samples_per_s = samples / seconds, path = path}
end

-- The row of a device, or why there is none.
local function device_row(loader, device, o)
  if not device:match("^cuda") then
    local info, why = core.device_info("cuda")
    return {name = "device", why = info and "the recipe's device is " .. device
      or (why:gsub("^device cuda is not available: ", ""))}
  end
  core.device(device)
  return row(loader, device, remade(loader, {}), o)
end

-- All rows; those of threads make batches on the host.
local function rows(loader, o)
  local device, out = core.device(), {}
  core.device("cpu")
  for _, threads in ipairs(THREADS) do
    out[#out + 1] = row(loader, ("%d thread%s"):format(threads, threads == 1 and "" or "s"),
      remade(loader, {workers = threads}), o)
  end
  out[#out + 1] = device_row(loader, device, o)
  return out
end

local function title(loader)
  local box, values = loader.source.box, loader.box:stage_at(0)
  if loader.schedule then values = loader.box:stage_values(#loader.schedule.stages) end
  return ("%d x %d x %d x %d u8 -> %s, %s"):format(loader.batch, box:channels(), box:height(), box:width(),
    loader.dtype, show.values(values))
end

local function line(r)
  if r.why then return ("  %-11s %9s %9s %11s  %s"):format(r.name, "-", "-", "-", r.why) end
  local epoch = r.seconds_per_epoch and ("%.3g"):format(r.seconds_per_epoch) or "endless"
  return ("  %-11s %9.3f %9s %11.0f  %s"):format(r.name, r.ms_per_batch, epoch, r.samples_per_s, r.path)
end

local function table_of(list, loader, o, path)
  local lines = {path .. ": " .. show.wrapped(title(loader), 100, "  "),
    ("  %-11s %9s %9s %11s"):format("", "ms/batch", "s/epoch", "samples/s")}
  for _, r in ipairs(list) do lines[#lines + 1] = line(r) end
  lines[#lines + 1] = ("  %d batches after %d to warm up; this process may use %d processors"):format(o.steps, o.warmup,
    core.sys.cpus())
  return table.concat(lines, "\n") .. "\n"
end

--- Measures and prints. o: steps, warmup, json; rest: words for the recipe.
function bench_augment.run(job, o, rest)
  local loader = recipe.train_loader(job, {mode = "bench", args = rest, quiet = true})
  local list = rows(loader, o)
  if o.json then
    core.sys.out(core.json_encode({recipe = job.recipe, version = core.version(), what = title(loader), steps = o.steps,
      warmup = o.warmup, processors = core.sys.cpus(), rows = list}, true) .. "\n")
  else
    core.sys.out(table_of(list, loader, o, job.recipe))
  end
end

return bench_augment
