-- process.lua: which process a run is, so that others can distinguish a running one from a killed one.
--
-- A process number alone is given again; with the time of its start and the boot it belongs to, it is not.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local process = {}

local DYING = 0.4 -- seconds that a process may take to end

-- The 22nd field of /proc/PID/stat, ticks after the boot; names of programs may hold blanks and brackets. One that has
-- ended, and that nobody has asked how, is gone. In the sandbox others cannot be seen: there the lock of a folder alone
-- says.
local function started(pid)
  local seen, stat = pcall(core.sys.read, ("/proc/%s/stat"):format(pid))
  if not seen or not stat then return nil end
  local number, rest = stat:match("^(%d+) .*%) (.*)$")
  if not number or rest:match("^[ZX]") then return nil end
  local field = 0
  for word in rest:gmatch("%S+") do
    field = field + 1
    if field == 20 then return tonumber(word), tonumber(number) end
  end
end

local function boot() return (core.sys.read("/proc/sys/kernel/random/boot_id") or ""):match("%S+") end

--- This process, for settings.json; nil where there is no /proc.
function process.this()
  local ticks, pid = started("self")
  return ticks and {pid = pid, started_ticks = ticks, boot = boot()} or nil
end

--- Whether two of them are one.
function process.same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  return a.pid ~= nil and a.pid == b.pid and a.started_ticks == b.started_ticks and a.boot == b.boot
end

--- Whether it lives on this machine now.
function process.alive(p)
  if type(p) ~= "table" or type(p.pid) ~= "number" or type(p.started_ticks) ~= "number" then return false end
  return p.boot == boot() and started(("%d"):format(p.pid)) == p.started_ticks
end

--- Takes a folder for this process alone, until it ends. other: the process that had it.
-- Two that write the same files would spoil both. One that was killed a moment ago may still be on its way out.
-- in   dying: seconds that it may take, DYING unless given
-- out  nil, or who has it: "process 17", "another process"
function process.take(folder, other, dying)
  local began = core.clock()
  local function is_free()
    return core.sys.lock(folder) and (process.same(other, process.this()) or not process.alive(other))
  end
  while not is_free() do
    if core.clock() - began > (dying or DYING) then
      return process.alive(other) and ("process %d"):format(other.pid) or "another process"
    end
    core.sys.sleep(0.05)
  end
end

return process
