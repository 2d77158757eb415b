-- resize.lua: option resize of sources of files: how images come to the size of the samples.
-- SPDX-License-Identifier: Apache-2.0
local check = require "check"

local resize = {}

local spec = {{"mode", "string", required = true}, {"position", "string", default = "center"},
  {"fill", "whole", "table", default = 255}}

local function check_level(op, level)
  check.value(op, {"a level of fill", "whole", from = 0, to = 255}, level)
end

-- A level, or one for each channel -> three
local function read_fill(op, fill, channels)
  if type(fill) == "number" then fill = channels == 3 and {fill, fill, fill} or {fill} end
  if #fill ~= channels then
    check.fail(op, ("fill of resize has %d levels; the images have %d channels"):format(#fill, channels),
      "one number is a level of gray")
  end
  for _, level in ipairs(fill) do check_level(op, level) end
  return fill
end

--- false, true, "letterbox" or {mode = "letterbox", position, fill} -> for the engine: whether images of other sizes
-- are read, and their letterbox; nil: they are stretched
-- in   channels: of the samples
function resize.read(op, value, channels)
  if value == nil or type(value) == "boolean" then return value, nil end
  check.value(op, {"resize", "boolean", "string", "table"}, value)
  if type(value) == "string" then value = {mode = value} end
  local o = check.options(op .. ": resize", spec, value)
  check.one_of(op, "mode of resize", o.mode, {"letterbox"})
  check.one_of(op, "position of resize", o.position, {"center", "top-left"})
  return true, {top_left = o.position == "top-left", fill = read_fill(op, o.fill, channels or 1)}
end

return resize
