-- judge.lua: which errors are findings: every call may fail, but with a message about what was given.
-- SPDX-License-Identifier: Apache-2.0
local judge = {}

-- Errors that the statement itself made, by functions of its own.
local own = {"mine", "^[^\n]*error%([^\n]*%): an error without a text", "'__tostring' must return a string", "__tostring must return a string"}

local bad = {
  {"bug in capl", "says that it is a bug"}, {"[Aa]ssertion", "text of an assertion"}, {"error without a message", "no message"},
  {"an error without a text", "no message"}, {"error in error handling", "error in error handling"},
}

local function is_own(text)
  for _, pattern in ipairs(own) do
    if text:match(pattern) then return true end
  end
end

-- Where a library's line raised an error of Lua's own: "nn/module.lua:41: attempt to index …".
local function library_line(text)
  local where, what = text:match("capl:([%w_/]+%.lua:%d+): ([^\n]*)")
  if where and not what:match("stack overflow") and not what:match("not enough memory") then return where .. ": " .. what end
end

--- Kind and place of the finding that an error's text and code are, or nil.
function judge.error(text, code)
  if is_own(text) then return nil end
  if code == "internal" then return "internal", text:match("[^\n]*") end
  if text:match("^%s*$") then return "empty", "an error without text" end
  for _, entry in ipairs(bad) do
    if text:match(entry[1]) then return entry[2], text:match("[^\n]*") end
  end
  local line = code == "lua" and library_line(text)
  if line then return "library", line end
end

return judge
