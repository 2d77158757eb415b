-- remote.lua: a prompt whose lines run in another process: what `capl attach` types into a run.
--
-- The same three questions as repl: each is a frame to the run (engine/program/attach/socket.h) and an answer.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local sys = core.sys

local remote = {}

local goodbye -- what the run has said last

local function receive(...)
  local kind, text = sys.client_receive(...)
  if kind == "g" or kind == "b" then goodbye = text end
  if kind == "gone" then goodbye = "the run is gone" end
  return kind, text
end

--- What the run says when it lets this terminal go; nil: it has not.
function remote.goodbye() return goodbye end

local function nothing() end

--- Runs a statement in the run -> "more" when it is not whole, else a function that does nothing any more.
-- errs what the statement has raised there
function remote.compile(text)
  if not text:match("%S") then return nothing end
  sys.client_send("l", text)
  local kind, said = receive()
  if kind == "m" then return "more" end
  if kind == "d" and said ~= "" then core.error{code = "lua", message = said, path = false} end
  return nothing
end

function remote.run(fn) fn() end

function remote.complete(text)
  sys.client_send("t", text)
  local kind, said = receive()
  if kind ~= "t" then return "" end
  local answer = core.json_decode(said)
  return answer.insert or "", answer.list
end

--- Resumes the run.
function remote.leave()
  if goodbye then return end
  sys.client_send("q", "")
  repeat local kind = receive() until kind == "g" or kind == "gone"
end

--- Asks to be let in: waits for the end of the run's step. wait: called after the first second, when that takes longer.
-- out  the first line of the prompt; nil and why not
function remote.enter(pid, hello, wait)
  local fine, why = sys.client_begin(pid, hello)
  if not fine then return nil, why end
  local kind, text = receive(1)
  if not kind then
    wait()
    repeat kind, text = receive(3600) until kind
  end
  if kind == "h" then return text end
  if kind == "stopped" then return nil, "interrupted" end
  return nil, kind == "b" and text or "the run has ended before it came to the end of a step"
end

return remote
