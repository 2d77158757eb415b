-- determinism.lua: how a device chooses what it runs: the same bits every time, or whatever is fastest.
--
-- Only GPUs have a choice: cpu and ref keep the order of their sums.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local determinism = {}
local deterministic, autotune = false, "auto"

local function on_gpu() return core.device():match("^cuda") ~= nil end

-- Passes the active mode to the device.
local function apply()
  if not on_gpu() then return end
  local tune = autotune
  if tune == "auto" then tune = not deterministic end
  core.device_switch("deterministic", deterministic)
  core.device_switch("autotune", tune)
end

local function check_both(same, tune)
  if same and tune == true then
    core.error{code = "value", message = "deterministic = true and autotune = true contradict each other",
      hint = "autotune takes what was fastest when it was timed, which may differ from run to run; give one of them"}
  end
end

--- Same seed, same bits, on the same device and build: kernels that keep the order of their sums, and choices that do
-- not
--- depend on timing. -> whether it is on; set if given
function determinism.deterministic(on)
  if on ~= nil then
    check_both(on, autotune)
    deterministic = on
    apply()
  end
  return deterministic
end

--- Whether the first call of a shape times its candidates: true, false, "auto" (on a GPU unless deterministic).
-- -> value in effect, why; set if given
function determinism.autotune(value)
  if value ~= nil then
    check_both(deterministic, value)
    if value == true and not on_gpu() then
      core.error{code = "unsupported",
        message = ("autotune = true is not supported on %s: only cuda has algorithms to time"):format(
        (core.device())), hint = 'write autotune = {cuda = true, cpu = "auto"}'}
    end
    autotune = value
    apply()
  end
  if not on_gpu() then return false, "only a GPU has candidates to time" end
  if autotune ~= "auto" then return autotune, "asked for" end
  return not deterministic, deterministic and "deterministic = true" or "engines are timed at the first call of a shape"
end

--- Says it again: the device was chosen.
function determinism.apply() apply() end

return determinism
