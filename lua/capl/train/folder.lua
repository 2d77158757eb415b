-- folder.lua: the checkpoints of a run: runs/NAME/checkpoints/step-000150.capl: their names, which are kept, which is
-- whole.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local tree = require "train.tree"

local folder = {}

--- The checkpoints of a run's folder.
function folder.of(run_folder) return run_folder .. "/checkpoints" end

function folder.file(path, step) return ("%s/step-%06d.capl"):format(path, step) end

--- Names in a folder; none where it is not there.
-- errs io: it is there, and cannot be listed
function folder.names(path)
  local names, why = core.sys.list(path)
  if not names and core.sys.kind(path) then core.error{code = "io", message = why, path = false} end
  return names or {}
end

local function steps_of(names)
  local out = {}
  for _, name in ipairs(names) do
    local step = name:match("^step%-(%d+)%.capl$")
    if step then out[#out + 1] = tonumber(step) end
  end
  table.sort(out, function(a, b) return a > b end)
  return out
end

--- Steps of the checkpoints that are seen there, the last one first.
function folder.steps(path) return steps_of(core.sys.list(path) or {}) end

--- Whether a run has left a state to resume from.
-- errs io: as folder.names
function folder.any(run_folder) return #steps_of(folder.names(folder.of(run_folder))) > 0 end

--- Makes the folder, and takes away what a run that was killed while it saved has left half-written.
function folder.open(path)
  local made, why = core.sys.mkdir(path)
  if not made then core.error{code = "io", message = why, path = false} end
  for _, name in ipairs(core.sys.list(path) or {}) do
    if name:match("^step%-%d+%.capl%.tmp%d+$") then core.sys.remove(path .. "/" .. name) end
  end
end

--- Removes all checkpoints but the last `count` and those of the steps in `kept` (a set).
function folder.prune(path, count, kept)
  for i, step in ipairs(folder.steps(path)) do
    if i > count and not kept[step] then core.sys.remove(folder.file(path, step)) end
  end
end

--- Removes checkpoints of later steps: of a future that is done again. -> how many
function folder.forget_after(path, step)
  local count = 0
  for _, later in ipairs(folder.steps(path)) do
    if later > step and core.sys.remove(folder.file(path, later)) then count = count + 1 end
  end
  return count
end

-- ---- reading ----

-- A number from 0 on that is no NaN and not infinite.
local function is_count(value) return type(value) == "number" and value >= 0 and value < math.huge end

-- Whether a tree has what all checkpoints have. Its hash says that it is what was saved, not who saved it.
local function is_checkpoint(saved)
  return type(saved) == "table" and saved.checkpoint == 1 and is_count(saved.step) and saved.step % 1 == 0 and
    type(saved.objects) == "table" and type(saved.facts) == "table" and type(saved.rng) == "table"
    and is_count(saved.rng.seed)
end

--- Calls fn, which takes over state from a file: a mistake within means that the state is of another kind. Other
-- errors are said to be about the file.
function folder.taking(file, fn)
  local ok, err = pcall(fn)
  if ok then return end
  local text = core.is_error(err) and err.message or err
  if type(text) ~= "string" then error(err, 0) end
  if text ~= err and not text:find("^bad argument") then
    if not text:find(file, 1, true) then
      err.context = (err.context and err.context .. "\n" or "") .. "in the state of " .. file
    end
    error(err, 0)
  end
  core.error{code = "format", path = false,
    message = ("%s holds other state than that of this run: %s"):format(file, text),
    hint = "another program, or a loop of another kind, has written it"}
end

--- A checkpoint's tree.
-- errs io, format: as tree.load; value: the file is of something else that train.save wrote
function folder.load(file)
  local saved = tree.load(file)
  if is_checkpoint(saved) then return saved end
  core.error{code = "value", path = false, message = file .. " is no checkpoint of a run, but state of another kind"}
end

--- The newest checkpoint that is whole: its tree and its file. Damaged ones are reported and skipped. One that cannot
-- be read now may be whole: going on without it would remove it.
-- errs value: there is none; format: none is whole; io, nomem: the newest cannot be read
function folder.newest(path)
  local steps, last = steps_of(folder.names(path)), nil
  if #steps == 0 then check.fail("resume", path .. " has no checkpoint") end
  for _, step in ipairs(steps) do
    local file = folder.file(path, step)
    local ok, saved = pcall(folder.load, file)
    if ok then
      if last then observer:print(("note: resuming from the previous one, %s"):format(file)) end
      return saved, file
    end
    if not core.is_error(saved) or saved.code ~= "format" then error(saved, 0) end
    observer:print("note: " .. saved.message)
    last = saved
  end
  error(last, 0)
end

return folder
