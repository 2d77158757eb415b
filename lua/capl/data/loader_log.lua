-- loader_log.lua: what a loader reports during a run: where its batches are made, what share of an epoch
-- the step waited for them, and which samples are bad.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local digit_groups = require "digit_groups"

local loader_log = {}

local EVERY = 5 -- seconds between two lines about epochs, at least: short epochs share one
local MUCH = 10 -- per cent of the time; more waiting than this is worth a remedy
local FILE = "bad_files.txt"

-- ---- where batches are made ----

--- Says once how a loader's batches are made, unless it is the usual way or of little interest.
function loader_log.path(loader)
  if loader.reported_path then return end
  loader.reported_path = true
  local path = loader:path()
  local plain = path == "made on the host" or loader.role ~= "train" and path:match("^made on the host, cached")
  if observer.mode ~= "run" or plain then return end
  observer:print(("%s data: %s"):format(loader.role, path))
end

-- ---- resume ----

--- Reports when a loader resumes with another step size than it was saved with: of another batch or number of ranks.
function loader_log.resumed(loader)
  local at, round, all = loader:state().position, loader.batch * loader:ranks(), loader:all_samples()
  if loader.source.widths or at % round == 0 or at >= all then return end
  local text = "note: the %s loader resumes after %s samples in steps of %d; it was saved with another step size"
  observer:print(text:format(loader.role, digit_groups(at), round))
end

-- ---- waiting ----

--- What would make a loader faster, as far as it is known; nil when it already does all it can.
local function remedy(loader)
  local ways, most = {}, core.sys.workers_most()
  if loader.workers < most then ways[1] = ("workers = %d"):format(most) end
  local path = loader:path()
  local kept = path:find("cached", 1, true) and not path:find("not cached", 1, true) or path:find("resident", 1, true)
  if loader.source.box:fixed() and not kept then ways[#ways + 1] = 'cache = "ram" or "disk"' end
  return #ways > 0 and "try " .. table.concat(ways, ", ") or nil
end

-- "epoch 3" or "epochs 4 to 9"
local function name_of(from, to)
  return from == to and ("epoch %d"):format(to) or ("epochs %d to %d"):format(from, to)
end

--- "epoch 3: 50,030 images in 12.1 s, waited 0.4 % of it for data"
-- since, now: loader:stats(); from, to: numbers of the epochs between them
function loader_log.waiting(loader, since, now, from, to)
  local seconds = now.seconds - since.seconds
  local share = seconds > 0 and 100 * (now.wait_seconds - since.wait_seconds) / seconds or 0
  local what = loader.source.box:width() > 0 and "images" or "samples"
  if loader:ranks() > 1 then what = what .. " on each rank" end
  local text = ("%s: %s %s in %.1f s, waited %.1f %% of it for data"):format(name_of(from, to),
    digit_groups(now.samples - since.samples), what, seconds, share)
  if share <= MUCH then return text end
  local ways = remedy(loader)
  return text .. "; the loader is the bottleneck" .. (ways and ": " .. ways or "")
end

--- At the end of an epoch of a train loader: the line, unless the last one was moments ago.
function loader_log.epoch(loader, number)
  if observer.mode ~= "run" or loader.role ~= "train" then return end
  local line = loader.line
  line.from = line.from or number
  local now = loader:stats()
  if now.seconds - line.stats.seconds < EVERY then return end
  observer:print(loader_log.waiting(loader, line.stats, now, line.from, number))
  loader.line = {stats = now}
end

-- ---- bad samples ----

-- role, number, path, reason of one bad sample, with tabs between.
local function bad_line(loader, bad)
  local name = loader.source:name(bad.id) or ""
  local _, last = bad.message:find(name .. ": ", 1, true)
  local reason = name ~= "" and last and bad.message:sub(last + 1) or bad.message
  return table.concat({loader.role, bad.id, name, (reason:gsub("[\t\n]", " "))}, "\t")
end

--- Keeps the run's list of bad samples up to date: those of every loader, by their numbers.
function loader_log.bad(loader)
  local count = loader:stats().bad
  if observer.mode ~= "run" or count == loader.reported_bad then return end
  local lines = {"# loader\tsample\tpath\twhat is wrong"}
  for _, entry in ipairs(observer.loaders) do
    for _, bad in ipairs(entry.loader:bad()) do lines[#lines + 1] = bad_line(entry.loader, bad) end
  end
  local path = observer:folder() .. "/" .. FILE
  local saved, why = core.sys.write(path, table.concat(lines, "\n") .. "\n")
  if not saved then core.error{code = "io", message = why} end
  if loader.reported_bad == 0 then
    observer:print(("note: bad samples of the %s loader are replaced; %s lists them"):format(loader.role, path))
  end
  loader.reported_bad = count
end

return loader_log
