-- main.lua: scripts/gpu-check: its sections one by one, within the time there is, each row written down as it is
-- measured.
-- SPDX-License-Identifier: Apache-2.0
local root = os.getenv("CAPL_CHECK_ROOT")
package.path = root .. "/bench/gpu/check/?.lua;" .. package.path

local options = require "options"
local record = require "record"

local function main(arguments)
  for _, word in ipairs(arguments) do
    if word == "-h" or word == "--help" then print(options.usage) return 0 end
  end
  local o = options.read(arguments)
  if o.report then return record.report(o.report) end
  if o.compare then return require("compare")(o.compare[1], o.compare[2]) end
  local run = require "run"
  run.open(o)
  local sections = {}
  for _, file in ipairs{"right", "speed", "peer"} do
    for name, fn in pairs(require("sections_" .. file)) do sections[name] = sections[name] or fn end
  end
  for i, name in ipairs(o.sections) do
    print("--- " .. name)
    local fine, why = pcall(sections[name])
    if run.stopped or (not fine and why == run.NO_GPU) then
      for k = i + (fine and 1 or 0), #o.sections do
        if not record.any(o.sections[k]) then
          record.row(o.sections[k], "all", "not run", run.stopped or "no GPU works here")
        end
      end
      break
    end
    if not fine then record.row(name, "section", "failed", "gpu-check: " .. tostring(why)) end
  end
  return run.close()
end

local fine, status = pcall(main, arg)
if not fine then
  io.stderr:write("scripts/gpu-check: ", tostring(status), "\n")
  os.exit(2)
end
os.exit(status)
