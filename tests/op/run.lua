--- run.lua -- the cases of this folder without a test framework: for machines that have nothing but capl and LuaJIT.
-- usage: CAPL_TEST_BACKENDS="cuda" luajit run.lua [FAMILY...]      (LUA_CPATH names the module capl.so)
-- Prints failures, then one line with the numbers; exits with 1 if anything failed.
-- SPDX-License-Identifier: Apache-2.0
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path

local harness = require("harness")

local NOT_CASES = {harness = true, gen = true, op_spec = true, run = true}

local function case_files()
  local names = {}
  local list = assert(io.popen(("ls '%s'"):format((folder:gsub("'", "'\\''")))))
  for file in list:lines() do
    local name = file:match("^([%w_]+)%.lua$")
    if name and not NOT_CASES[name] then names[#names + 1] = name end
  end
  list:close()
  return names
end

local passed, failures = 0, {}

local function fail_in(case, title)
  return function(...) error(("%s: %s: %s"):format(case.name, title, string.format(...)), 0) end
end

local function text_of(err) return type(err) == "table" and (err.message or tostring(err)) or tostring(err) end

local function run_case(case)
  harness.tests(case, function(title, check)
    local ok, err = pcall(check, fail_in(case, title))
    if ok then passed = passed + 1
    else
      failures[#failures + 1] = text_of(err)
      print(text_of(err))
    end
  end)
end

local list, missing = harness.backends()
for _, why in ipairs(missing) do print(text_of(why)) end
if #list == 0 then os.exit(1) end
local only = os.getenv("CAPL_OP")
for _, family in ipairs(#arg > 0 and arg or case_files()) do
  for index, given in ipairs(dofile(folder .. "/" .. family .. ".lua")) do
    local case = harness.prepare(given, family, index)
    if not only or only == case.op then run_case(case) end
  end
end
print(("%d checks passed, %d failed, on %s"):format(passed, #failures, table.concat(list, ", ")))
os.exit(#failures == 0 and passed > 0 and 0 or 1)
