-- determinism.lua: how a device chooses what it runs: the same bits every time, or whatever is fastest.
--
-- On a GPU timing chooses unless autotune = false; on a CPU a fixed table does, and timing only with autotune = true.
-- Then rank 0 times, and its choices take effect on all ranks at the end of a step; a checkpoint keeps them, so that a
-- resumed run gives the same bits. ref and meta have nothing to choose.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local determinism = {}
local deterministic, autotune = false, "auto"

local function on_gpu() return core.device():match("^cuda") ~= nil end

-- Passes the active mode to the device.
local function apply()
  if on_gpu() then
    local tune = autotune
    if tune == "auto" then tune = not deterministic end
    core.device_switch("deterministic", deterministic)
    core.device_switch("autotune", tune)
  elseif core.device() == "cpu" and (autotune ~= true or core.dist.place().rank == 0) then
    core.device_switch("autotune", autotune == true)
  end
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

-- Whether it is on, and why.
local function active()
  if not on_gpu() and autotune ~= true then return false, "the algorithms follow from a fixed table" end
  if autotune ~= "auto" then return autotune, "asked for" end
  return not deterministic, deterministic and "deterministic = true" or "engines are timed at the first call of a shape"
end

--- Whether the first call of a shape times its candidates: true, false, "auto" (on a GPU unless deterministic).
-- -> value in effect, why; set if given
function determinism.autotune(value)
  if value ~= nil then
    check_both(deterministic, value)
    if value == true and not on_gpu() and core.device() ~= "cpu" then
      core.error{code = "unsupported",
        message = ("autotune = true is not supported on %s: only cuda and cpu have algorithms to time"):format(
        (core.device())), hint = "leave autotune out, or choose one of these devices"}
    end
    autotune = value
    apply()
  end
  return active()
end

--- Says it again: the device was chosen.
function determinism.apply() apply() end

-- ---- choices on a CPU ----

--- Whether choices by timing are part of what a checkpoint keeps.
function determinism.keeps_algorithms() return autotune == true and not on_gpu() end

local function timed()
  local out = {}
  for _, a in ipairs(core.algorithms()) do
    if not a.in_use then out[#out + 1] = a end
  end
  return out
end

--- Lets what rank 0 has timed so far take effect; every rank calls it between the same two steps.
-- of_main: of dist/sync.lua. -> the new choices
function determinism.use_timed(of_main)
  if not determinism.keeps_algorithms() then return {} end
  local fresh = of_main(timed)
  for _, a in ipairs(fresh) do core.algorithm_use(a.call, a.algorithm) end
  return fresh
end

--- {{call =, algorithm =}, …} for a checkpoint, nil where none are kept
function determinism.algorithms()
  if not determinism.keeps_algorithms() then return nil end
  local out = {}
  for i, a in ipairs(core.algorithms()) do out[i] = {call = a.call, algorithm = a.algorithm} end
  return out
end

--- Uses those of a checkpoint, where this run keeps choices too.
-- errs value: an algorithm that this build does not know
function determinism.set_algorithms(list)
  if not determinism.keeps_algorithms() then return end
  for _, a in ipairs(list or {}) do core.algorithm_use(a.call, a.algorithm) end
end

--- "autotune: 18 shapes of convolutions: 12 winograd, 6 onednn; 216 calls": for the report, nil where none are kept
function determinism.report_line()
  if not determinism.keeps_algorithms() then return nil end
  local list, count, parts = core.algorithms(), {}, {}
  for _, a in ipairs(list) do count[a.algorithm] = (count[a.algorithm] or 0) + 1 end
  for name, n in pairs(count) do parts[#parts + 1] = ("%d %s"):format(n, name) end
  table.sort(parts)
  return ("autotune: %d shapes of convolutions: %s; %d calls"):format(#list, table.concat(parts, ", "),
    core.counters().autotuned_kernels)
end

return determinism
