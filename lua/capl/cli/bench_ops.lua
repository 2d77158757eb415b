-- bench_ops.lua: the table of `capl bench --ops`.
--
-- The floor of an operation is the time its bytes or its multiplications take at the best rates this machine
-- shows right now: a copy of 64 MiB, and a large matrix product. 100 % = it cannot be faster without doing less.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...


local bench_ops = {}

local function restore(former, ...)
  core.label(former)
  return ...
end

--- Labels every op with the layer that calls it, by its name in the model of capl.model.
function bench_ops.label_layers(run)
  local names = {}
  run:on("model", function(model)
    for name, module in model:named_modules() do names[module] = name == "" and module.__name or name end
  end)
  observer.watch = function(module, ...)
    local former = core.label(names[module] or module.__name)
    return restore(former, module:forward(...))
  end
end

local MARKS = 4090 -- the last slots: bench itself counts from 0

--- Seconds of one call at its best, in the device's own time.
local function best_of(times, repeats, fn)
  local best = math.huge
  core.scope(fn) -- plans are made, memory is there
  for _ = 1, times do
    core.mark(MARKS)
    for _ = 1, repeats do core.scope(fn) end
    core.mark(MARKS + 1)
    best = math.min(best, core.between(MARKS, MARKS + 1) / repeats)
  end
  return best
end

--- Bytes and multiplications per second of this machine: a copy that no cache holds, a product that fills it. Random
-- factors: zeros take less power and so are faster.
local function measure_rates(precision)
  local gpu = core.device():match("^cuda")
  local n, m, repeats = gpu and 2 ^ 28 or 2 ^ 24, gpu and 8192 or 1536, gpu and 10 or 1
  return core.scope(function()
    local x = core.zeros(n)
    local a = core.op.cast(core.rand(m, m), {dtype = (select(2, core.precision(precision)))})
    local copy = best_of(5, repeats, function() core.op.relu(x) end)
    local product = best_of(5, repeats, function() core.op.matmul(a, a) end)
    return {bytes = 2 * 4 * n / copy, macs = m * m * m / product}
  end)
end

--- Rows per step with rates and floors, slowest first; and the rates the floors are taken from.
-- rows of core.sys.profile.stop(); steps they cover
function bench_ops.rows(rows, steps, precision)
  local rates = measure_rates(precision)
  local out = {}
  for i, row in ipairs(rows) do
    local floor = math.max(row.bytes / rates.bytes, row.macs / rates.macs)
    out[i] = {
      op = row.op, layer = row.label, backend = row.backend, calls = row.calls / steps,
      ms = 1000 * row.seconds / steps, mb = row.bytes / steps / 1e6, gb_per_s = row.bytes / row.seconds / 1e9,
      gflop_per_s = 2 * row.macs / row.seconds / 1e9, floor_percent = 100 * floor / row.seconds,
      floor_ms = 1000 * floor / steps,
    }
  end
  table.sort(out, function(a, b)
    if a.ms ~= b.ms then return a.ms > b.ms end
    return a.op .. a.layer < b.op .. b.layer
  end)
  return out, {gb_per_s = rates.bytes / 1e9, gflop_per_s = 2 * rates.macs / 1e9}
end

--- The sum of each operation over all layers, slowest first: {op, calls, ms, mb, floor_ms}.
function bench_ops.by_op(rows)
  local out, of = {}, {}
  for _, r in ipairs(rows) do
    if not of[r.op] then
      of[r.op] = {op = r.op, calls = 0, ms = 0, mb = 0, floor_ms = 0}
      out[#out + 1] = of[r.op]
    end
    for _, key in ipairs{"calls", "ms", "mb", "floor_ms"} do of[r.op][key] = of[r.op][key] + r[key] end
  end
  table.sort(out, function(a, b) return a.ms ~= b.ms and a.ms > b.ms or a.ms == b.ms and a.op < b.op end)
  return out
end

--- The sums as text.
function bench_ops.table_by_op(sums, step_ms)
  local lines = {("%-24s %6s %8s %6s %8s %6s"):format("op, all layers", "calls", "ms", "share", "MB", "floor")}
  for _, s in ipairs(sums) do
    lines[#lines + 1] = ("%-24s %6.1f %8.3f %5.1f%% %8.2f %5.0f%%"):format(s.op, s.calls, s.ms, 100 * s.ms / step_ms,
      s.mb, 100 * s.floor_ms / s.ms)
  end
  return table.concat(lines, "\n") .. "\n"
end

--- The rows as text.
function bench_ops.table(rows, step_ms)
  local lines = {("%-24s %-28s %-5s %6s %8s %6s %8s %7s %8s %6s"):format(
    "op", "layer", "by", "calls", "ms", "share", "MB", "GB/s", "GFLOP/s", "floor")}
  local total, floor = 0, 0
  for _, r in ipairs(rows) do
    total, floor = total + r.ms, floor + r.floor_ms
    lines[#lines + 1] = ("%-24s %-28s %-5s %6.1f %8.3f %5.1f%% %8.2f %7.1f %8.1f %5.0f%%"):format(
      r.op, r.layer:sub(-28), r.backend, r.calls, r.ms, 100 * r.ms / step_ms, r.mb, r.gb_per_s, r.gflop_per_s,
      r.floor_percent)
  end
  lines[#lines + 1] = ("%-59s %6s %8.3f %5.1f%%   the rest is Lua, data and dispatch; all at their floors: %.3f ms"):format(
    "sum", "", total, 100 * total / step_ms, floor)
  return table.concat(lines, "\n") .. "\n"
end

return bench_ops
