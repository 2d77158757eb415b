-- replay.lua: Lua work of a training step that has to happen beside a captured step, which a GPU replays without its
-- Lua.
-- SPDX-License-Identifier: Apache-2.0
local replay = {
  again = nil, -- while a step is being captured: list of {fn, a, b} that its replays have to do in Lua
  before = nil, -- function(fn, a, b) instead of fn(a, b), in a step that is watched or captured
}

--- Does fn(a, b), which counts something of a step in Lua; in a step that is being captured it is done when the step
-- has
--- really run, and at every replay.
function replay.each_time(fn, a, b)
  if replay.again then table.insert(replay.again, {fn, a, b}) else fn(a, b) end
end

--- Does fn(a, b), which writes numbers that change from step to step into device memory: no part of a step that is
-- watched
--- or captured, but done before each launch of it.
function replay.before_launch(fn, a, b)
  if replay.before then replay.before(fn, a, b) else fn(a, b) end
end

return replay
