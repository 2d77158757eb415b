-- child.lua: runs a program with its output in a file, for so many seconds; SIGTERM and the like are seen, not
-- suffered.
--
-- A program ends with this one, even with SIGKILL (PR_SET_PDEATHSIG), so that no later measurement has it beside it.
-- SPDX-License-Identifier: Apache-2.0
local ffi = require "ffi"

ffi.cdef [[
typedef struct { unsigned long word[16]; } gc_sigset;
typedef struct { long s, ns; } gc_time;
int fork(void); int setpgid(int, int); int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);
int open(const char *, int, ...); int dup2(int, int); int chdir(const char *); int kill(int, int); void _exit(int);
int setenv(const char *, const char *, int); int unsetenv(const char *);
int execvp(const char *, const char *const *); int waitpid(int, int *, int);
int sigemptyset(gc_sigset *); int sigaddset(gc_sigset *, int); int sigprocmask(int, const gc_sigset *, gc_sigset *);
int sigtimedwait(const gc_sigset *, void *, const gc_time *); int clock_gettime(int, gc_time *);
]]
local C = ffi.C
local HUP, INT, KILL, TERM, CHLD = 1, 2, 9, 15, 17
local PDEATHSIG, NOHANG, MONOTONIC, BLOCK, SETMASK = 1, 1, 1, 0, 2
local WRITE_CREATE_TRUNCATE = 1 + 64 + 512

local child = {}
local watched, former = ffi.new("gc_sigset"), ffi.new("gc_sigset")
C.sigemptyset(watched)
for _, signal in ipairs{HUP, INT, TERM, CHLD} do C.sigaddset(watched, signal) end
C.sigprocmask(BLOCK, watched, former)

--- Seconds from some fixed moment.
function child.clock()
  local t = ffi.new("gc_time")
  C.clock_gettime(MONOTONIC, t)
  return tonumber(t.s) + 1e-9 * tonumber(t.ns)
end

-- In the new process: becomes the program.
local function become(words, o)
  C.prctl(PDEATHSIG, KILL, 0, 0, 0)
  C.setpgid(0, 0)
  C.sigprocmask(SETMASK, former, nil)
  C.dup2(C.open(o.out, WRITE_CREATE_TRUNCATE, ffi.cast("int", 420)), 1)
  C.dup2(o.err and C.open(o.err, WRITE_CREATE_TRUNCATE, ffi.cast("int", 420)) or 1, 2)
  for name, value in pairs(o.env or {}) do
    if value then C.setenv(name, value, 1) else C.unsetenv(name) end
  end
  if o.folder then C.chdir(o.folder) end
  local argv = ffi.new("const char *[?]", #words + 1)
  for i, word in ipairs(words) do argv[i - 1] = word end
  C.execvp(words[1], argv)
  C._exit(127)
end

-- Waits for the end of pid until the clock says `ends`. -> status, or nil and why not: "time" or "signal"
local function wait(pid, ends)
  local status, pause = ffi.new("int[1]"), ffi.new("gc_time")
  while true do
    if C.waitpid(pid, status, NOHANG) == pid then
      local low = status[0] % 128
      return low == 0 and math.floor(status[0] / 256) % 256 or 128 + low
    end
    local left = ends - child.clock()
    if left <= 0 then return nil, "time" end
    pause.s, pause.ns = math.floor(left), math.floor(left % 1 * 1e9)
    local signal = C.sigtimedwait(watched, nil, pause)
    if signal == TERM or signal == INT or signal == HUP then return nil, "signal" end
  end
end

--- Runs a program.
-- in   words: program and arguments; o: out = file, err = file (else with out), env = {NAME = text, or false to remove
--      it}, folder, seconds
-- out  {status = number or nil, why = "time" | "signal" without a status, seconds = how long}
function child.run(words, o)
  local start = child.clock()
  local pid = C.fork()
  if pid < 0 then error("no process for " .. words[1]) end
  if pid == 0 then become(words, o) end
  local status, why = wait(pid, start + o.seconds)
  if not status then
    C.kill(-pid, KILL)
    C.waitpid(pid, ffi.new("int[1]"), 0)
  end
  return {status = status, why = why, seconds = child.clock() - start}
end

return child
