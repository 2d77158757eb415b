-- session.lua: what a prompt keeps from line to line: which globals are not the user's, and the last values.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local session = {}

local before

-- Every recipe has these; other globals are somebody's own.
local function note_globals()
  before = {}
  local environment = core.sys.environment()
  for name in ("_G _VERSION assert augment bit capl collectgarbage coroutine data error getmetatable ipairs load " ..
    "loadstring math " ..
    "next nn optim os pairs pcall plot print rawequal rawget rawset require select setmetatable string table " ..
    "tonumber tostring " ..
    "train type unpack xpcall"):gmatch("%S+") do
    before[name] = rawget(environment, name)
  end
end

--- Begins the prompt: its own globals, which open() makes, and the looking at those that are not set.
function session.begin(open)
  if session.begun then return end
  session.begun = true
  note_globals()
  local environment = core.sys.environment()
  open(environment)
  before.plot = rawget(environment, "plot")
  require("repl.strict").begin()
end

--- Whether a global is what every recipe has.
function session.was_there(key, value) return before[key] ~= nil and rawequal(before[key], value) end

local silent = {_ = true, _all = true}

--- Names of the globals that the user has set or changed, sorted.
function session.own_names()
  local out = {}
  for key, value in next, core.sys.environment() do
    if type(key) == "string" and not session.was_there(key, value) and not silent[key] then out[#out + 1] = key end
  end
  table.sort(out)
  return out
end

--- Keeps what a line gave: _ is its first value, _all the list of all.
function session.keep(n, ...)
  local environment = core.sys.environment()
  rawset(environment, "_", (...))
  rawset(environment, "_all", {n = n, ...})
end

return session
