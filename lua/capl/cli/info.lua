-- info.lua: `capl info`: what this build is and what it finds on this machine.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local devices = {"cpu", "ref", "meta", "cuda:0"}

local function device_line(name)
  local info, why = core.device_info(name)
  if not info then return ("  %-8s %s"):format(name, (why:gsub("^device [^ ]+ is ", ""))) end
  local line = ("  %-8s %s"):format(name, info.description or (info.arithmetic and "available" or "shapes only"))
  if not info.description then return line end
  return line .. ("\n           precision auto: %s (%s)"):format(info.precision, info.why)
end

local function main(job)
  if job.args[1] then core.error{code = "value", message = "capl info takes no words; '" .. job.args[1] .. "' is one"} end
  local lines = {
    ("capl %s"):format(core.version()),
    ("  processors %d"):format(core.sys.cpus()),
    "devices",
  }
  for _, name in ipairs(devices) do lines[#lines + 1] = device_line(name) end
  lines[#lines + 1] = "environment"
  for _, name in ipairs{"CAPL_ISA", "CAPL_MEMORY_LIMIT", "CAPL_LUA_PATH", "CAPL_FONT", "OMP_NUM_THREADS"} do
    lines[#lines + 1] = ("  %-18s %s"):format(name, core.sys.getenv(name) or "not set")
  end
  core.sys.out(table.concat(lines, "\n") .. "\n")
end

return {main = main}
