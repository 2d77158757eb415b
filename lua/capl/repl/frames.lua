-- frames.lua: where() and frame(n): the functions of a recipe and their local names, at the prompt.
--
-- After the end of a recipe its main chunk's names are there; after an error those of every function that was at work,
-- the innermost first. They are copies. Where a run only waits (attach), they are the names themselves.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = require "repl.scope"

local frames = {}

-- ---- two kinds of frames ----

local Kept = {}
Kept.__index = Kept

-- The last of that name is the one in effect.
local function place(self, name)
  for i = self.n, 1, -1 do
    if self.list[i] == name then return i end
  end
end

function Kept:get(name)
  local i = place(self, name)
  if i then return true, self.values[i] end
  return false
end

function Kept:set(name, value)
  local i = place(self, name)
  if i then self.values[i] = value end
  return i ~= nil
end

function Kept:names() return self.list end

--- Copies as core.sys.frames_kept gives them.
local function kept(raw)
  return setmetatable({where = raw.where, name = raw.name, list = raw.names, values = raw.values, n = raw.n}, Kept)
end

local Live = {}
Live.__index = Live

function Live:get(name) return core.sys.frames_get(self.thread, self.depth, name) end
function Live:set(name, value) return core.sys.frames_set(self.thread, self.depth, name, value) end
function Live:names() return core.sys.frames_names(self.thread, self.depth) end

-- ---- the list ----

local list, current, failed = {}, 0, false

-- Names that a person may want to see, in their order, each once: no functions and library tables.
local function names_of(frame)
  local out, seen = {}, {}
  for _, name in ipairs(frame:names()) do
    local found, value = frame:get(name)
    if found and value ~= nil and not seen[name] and type(value) ~= "function" then
      seen[name] = true
      out[#out + 1] = name
    end
  end
  return out
end

local function line(i, frame)
  local text = table.concat(names_of(frame), ", ")
  if #text > 60 then text = text:sub(1, 60):gsub(",?[^,]*$", "") .. ", …" end
  return ("%s %d  %s  %s%s"):format(i == current and "*" or " ", i, frame.where, frame.name, text ~= "" and ": " .. text
    or "")
end

--- Shows the functions of the recipe that were at work, innermost first, with their line and names; * is the one whose
-- names the prompt sees.
local function where()
  if #list == 0 then core.sys.out("no function of a recipe is at work\n") end
  for i, frame in ipairs(list) do core.sys.out(line(i, frame) .. "\n") end
end

--- Lets the prompt see the names of another function of the recipe: frame(2) is the caller of frame(1).
local function frame(n)
  if type(n) ~= "number" or not list[n] then
    core.error{code = "value", message = #list == 0 and "there are no frames"
      or ("frame takes a number from 1 to %d"):format(#list), hint = "where() lists them", path = false}
  end
  current = n
  scope.use(list[n])
  core.sys.out(line(n, list[n]) .. "\n")
end

scope.add("where", where)
scope.add("frame", frame)

local function take(new, at)
  list, current = new, at
  scope.use(new[at] or nil)
end

-- ---- where they come from ----

--- Takes what a run that has ended has left. -> the first line of the prompt
function frames.of_ended()
  local raw = core.sys.frames_kept() or {}
  local new = {}
  for i, each in ipairs(raw) do new[i] = kept(each) end
  failed = raw.error ~= nil
  take(new, 1)
  if #new == 0 then return "capl: no name of the recipe is left; globals are there. Ctrl-D leaves" end
  if failed then return "capl: where() shows what was at work, frame(n) takes its names; Ctrl-D leaves" end
  local names = names_of(new[1])
  local first = table.concat(names, ", ", 1, math.min(#names, 6)) .. (#names > 6 and ", …" or "")
  return ("capl: the names of %s are there%s; ?name explains, Ctrl-D leaves"):format(new[1].where:match("^(.*):%d+$")
    or new[1].where, first ~= "" and ": " .. first or "")
end

--- Takes the functions that wait while this is called; the outermost, a recipe's main chunk, first.
function frames.of_waiting()
  local raw, new = core.sys.frames_live(), {}
  for i, each in ipairs(raw) do
    new[i] = setmetatable({where = each.where, name = each.name, depth = each.depth, thread = raw.thread}, Live)
  end
  take(new, #new)
end

--- Lets them go.
function frames.leave() take({}, 0) end

return frames
