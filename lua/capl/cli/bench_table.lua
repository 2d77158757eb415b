-- bench_table.lua: what `capl bench --ab` prints for people.
-- SPDX-License-Identifier: Apache-2.0
local precision_counts = require "run.precision_counts"

-- Columns: title, text of a variant or nil when it is not known. A column that no variant knows is left out.
local function number(format, key, scale)
  return function(a) return a[key] and format:format(a[key] * (scale or 1)) end
end

local speed = {
  {"variant", function(a) return a.name end, left = true},
  {"images/s", function(a) return ("%.1f"):format(a.images_per_s.median) end},
  {"step ms", function(a) return ("%.2f"):format(a.step_ms.median) end},
  {"quartiles", function(a) return ("%.2f .. %.2f"):format(a.step_ms.low, a.step_ms.high) end},
  {"ratio", function(a) return a.ratio and ("%.3f"):format(a.ratio.median) or "1" end},
  {"interval", function(a) return a.ratio and a.ratio.low and ("%.3f .. %.3f"):format(a.ratio.low, a.ratio.high) end},
  {"", function(a) return a.ratio and a.ratio.verdict or "" end, left = true},
}

local function counts_text(a)
  local whole = {}
  for name, count in pairs(a.precision_counts) do whole[name] = math.floor(count + 0.5) end
  return (precision_counts.text(whole) or "none") .. (a.captured and ", as one launch" or "")
end

local means = {
  {"variant", function(a) return a.name end, left = true},
  {"waits %", number("%.0f", "wait", 100)},
  {"CPU %", number("%.0f", "cpu", 100)},
  {"tensors MB", number("%.0f", "tensor_bytes", 1e-6)},
  {"process MB", number("%.0f", "rss", 1e-6)},
  {"GPU %", number("%.0f", "utilization", 100)},
  {"GPU MB", number("%.0f", "memory_used", 1e-6)},
  {"CPU W", number("%.0f", "cpu_power_w")},
  {"W", number("%.0f", "power_w")},
  {"C", number("%.0f", "temperature_c")},
  {"held down %", number("%.0f", "throttled", 100)},
  {"Wh/1000 images*", number("%.3g", "wh_per_1000_images")},
  {"a step", counts_text, left = true},
}

local function known(columns, variants)
  local out = {}
  for _, column in ipairs(columns) do
    local any = false
    for _, variant in ipairs(variants) do any = any or column[2](variant) ~= nil end
    if any then out[#out + 1] = column end
  end
  return out
end

local function rows_of(columns, variants)
  local rows = {{}}
  for c, column in ipairs(columns) do rows[1][c] = column[1] end
  for _, variant in ipairs(variants) do
    local row = {}
    for c, column in ipairs(columns) do row[c] = column[2](variant) or "-" end
    rows[#rows + 1] = row
  end
  return rows
end

local function layout(columns, variants)
  columns = known(columns, variants)
  local rows, wide, lines = rows_of(columns, variants), {}, {}
  for c in ipairs(columns) do
    wide[c] = 0
    for _, row in ipairs(rows) do wide[c] = math.min(99, math.max(wide[c], #row[c])) end -- what format takes
  end
  for i, row in ipairs(rows) do
    local cells = {}
    for c, column in ipairs(columns) do
      cells[c] = ("%" .. (column.left and "-" or "") .. wide[c] .. "s"):format(row[c])
    end
    lines[i] = ("  " .. table.concat(cells, "  ")):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function plural(n, one) return ("%d %s%s"):format(n, one, n == 1 and "" or "s") end

-- "cuda:0 (NVIDIA H200)", "cpu (2 threads)"
local function place(found) return ("%s (%s)"):format(found.device, found.gpu or plural(found.threads, "thread")) end

--- found: of bench_ab; fewest: rounds for which there are intervals
return function(found, fewest)
  local lines = {
    ("%s on %s: %s of %s, turn by turn, after %s to warm up"):format(found.recipe, place(found),
    plural(found.rounds, "round"),
      plural(found.steps, "step"), plural(found.warmup, "step")),
    layout(speed, found.variants), "", layout(means, found.variants), "",
    ("ratio: images/s over those of the first variant, median of the rounds; with a %.0f %% confidence interval%s"):format(
      100 * found.confidence, #found.variants > 2 and ", all of them together" or ""),
  }
  if found.rounds < fewest then
    lines[#lines + 1] = ("%d rounds and more give intervals: --rounds=%d"):format(fewest, fewest)
  end
  local estimated = false
  for _, variant in ipairs(found.variants) do estimated = estimated or variant.estimated ~= nil end
  lines[#lines + 1] = "everything is measured" .. (estimated and ", but * is estimated: mean power times time" or "")
  for _, note in ipairs(found.notes) do lines[#lines + 1] = "note: " .. note end
  return table.concat(lines, "\n") .. "\n"
end
