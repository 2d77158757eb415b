-- show.lua: what a schedule looks like: a table of its stages, and a picture of how its ranges move.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local show = {}

local TEXT = 76 -- characters of the last column
local ENDLESS = 2 ^ 32 - 1 -- samples of an epoch that does not end

-- ---- words ----

--- "stage 2 (strong)"
function show.title(stage)
  local name = stage.name or stage.augment_name
  return ("stage %d%s"):format(stage.number, name and (" (%s)"):format(name) or "")
end

local function number(x) return ("%.4g"):format(x) end

-- {-5, 5} -> "±5", {4, 4} -> "4", {0, 8, 0.3} -> "0..8 p 0.3"
local function range(r)
  local text = number(r[1])
  if r[1] ~= r[2] then text = r[1] == -r[2] and "±" .. number(r[2]) or text .. ".." .. number(r[2]) end
  return r[3] and r[3] ~= 1 and ("%s p %s"):format(text, number(r[3])) or text
end

function show.from(stage)
  if stage.number == 1 then return "the beginning" end
  if not stage.metric then return stage.from .. " " .. number(stage.at) end
  return ("%s %s %s"):format(stage.metric, stage.above and ">=" or "<=", number(stage.above or stage.below))
end

function show.ramp(stage)
  if stage.ramp == 0 then return "at once" end
  return ("%s %s, %s"):format(number(stage.ramp), stage.ramp_in_epochs and "epochs" or "steps", stage.shape)
end

-- Everything a schedule can move, in the order in which it is listed: list of {name =, idle =}.
local function knobs()
  local out = core.data.knobs()
  for _, name in ipairs{"length", "charset", "noise", "warp"} do
    out[#out + 1] = {name = "difficulty " .. name, idle = {1, 1}}
  end
  return out
end

-- What an engine's stage_at says as one table {NAME = {lo, hi}}; difficulties get their prefix.
local function flatten(values)
  local out = {}
  for name, r in pairs(values.augment) do out[name] = r end
  for name, r in pairs(values.difficulty or {}) do out["difficulty " .. name] = r end
  return out
end

local function same(a, b) return a == b or (a and b and a[1] == b[1] and a[2] == b[2] and a[3] == b[3]) end

-- Values of each stage when it has come in fully, by what the engine makes of it.
local function targets(schedule)
  local out = {}
  for i in ipairs(schedule.stages) do out[i] = flatten(schedule.box:stage_values(i)) end
  return out
end

-- "rotate ±5 -> ±20" for what differs from the stage before.
local function change(name, now, before)
  local to = now and range(now) or "off"
  return before and ("%s %s -> %s"):format(name, range(before), to) or name .. " " .. to
end

local function changes(now, before)
  local parts, harder = {}, {}
  for _, knob in ipairs(knobs()) do
    local name = knob.name
    local of_difficulty = name:match("^difficulty (.+)")
    if not same(now[name], before[name]) then
      table.insert(of_difficulty and harder or parts, change(of_difficulty or name, now[name], before[name]))
    end
  end
  if #harder > 0 then parts[#parts + 1] = "difficulty: " .. table.concat(harder, ", ") end
  return #parts > 0 and table.concat(parts, ", ") or "nothing"
end

-- When a stage begins; a run that ends before says so.
local function beginning(schedule, i, since)
  local text, steps = show.from(schedule.stages[i]), schedule.run_steps
  if since and steps and since >= steps then text = ("%s (the run ends at step %d)"):format(text, steps) end
  return text
end

--- Whether an engine's stage_at changes images; difficulty is of a generator, which draws other ones.
function show.augments(values)
  for name in pairs(flatten(values)) do
    if not name:match("^difficulty") then return true end
  end
  return false
end

--- What an engine's stage_at says, on one line.
function show.values(values)
  local text = changes(flatten(values), {})
  return text == "nothing" and "no augmentation" or text
end

-- Characters, not bytes: ± is one.
local function width(text) return select(2, text:gsub("[^\128-\191]", "")) end

-- Lines of a list with commas, each at most `most` characters long if that can be.
local function wrap(text, most)
  local lines = {}
  for part in (text .. ", "):gmatch("(.-, )") do
    local last = lines[#lines]
    if last and width(last) + width(part) <= most + 2 then lines[#lines] = last
      .. part else lines[#lines + 1] = part end
  end
  for i, line in ipairs(lines) do lines[i] = line:gsub(i == #lines and ", $" or " $", "") end
  return lines
end

--- The same as one text, its further lines indented.
function show.wrapped(text, most, indent) return table.concat(wrap(text, most), "\n" .. indent) end

-- Columns as wide as their widest cell.
local function columns(rows)
  local wide, lines = {}, {}
  for _, row in ipairs(rows) do
    for k, text in ipairs(row) do wide[k] = math.max(wide[k] or 0, width(text)) end
  end
  for i, row in ipairs(rows) do
    local parts = {}
    for k, text in ipairs(row) do parts[k] = k < #row and text .. (" "):rep(wide[k] - width(text)) or text end
    lines[i] = "  " .. table.concat(parts, "  ")
  end
  return table.concat(lines, "\n")
end

--- The stages of a schedule that a loader has, as text.
function show.table(schedule)
  if not schedule.loader then return ("augment.schedule of %d stages"):format(#schedule.stages) end
  local rows, all, since = {{"stage", "from", "comes in over", "what changes"}}, targets(schedule), schedule.box:since()
  for i, stage in ipairs(schedule.stages) do
    local name = stage.name or stage.augment_name
    local first, when, over = i .. (name and " " .. name or ""), beginning(schedule, i, since[i]), show.ramp(stage)
    for k, text in ipairs(wrap(changes(all[i], all[i - 1] or {}), TEXT)) do
      rows[#rows + 1] = k == 1 and {first, when, over, text} or {"", "", "", text}
    end
  end
  local endless = schedule.loader.source.box:count() == ENDLESS
  local epoch = endless and "an endless epoch" or ("%d batches an epoch"):format(schedule.loader:batches())
  local title = ("curriculum of the %s loader, %s:"):format(schedule.loader.role, epoch)
  return title .. "\n" .. columns(rows)
end

-- ---- picture ----

local POINTS = 240
local DETAILED = 5 -- panels of one range each; where more change, they are shown together
local COLOURS = 7 -- of the lines of a panel
local NAMES = 80 -- characters of a legend

-- Steps that the picture shows: to where the last stage that begins by itself has come in, and a quarter more.
local function extent(schedule, box)
  local batches, last = schedule.loader:batches(), 0
  for i, since in ipairs(box:since()) do
    local stage = schedule.stages[i]
    local ramp = stage.ramp * (stage.ramp_in_epochs and batches or 1)
    if since then last = math.max(last, since + ramp) end
  end
  return math.max(10, math.ceil(last * 1.25))
end

-- Places on the axis, and the steps whose values stand there: evenly; at a beginning also those of the batch before it.
local function places(box, steps)
  local list = {}
  for k = 0, POINTS do
    local step = math.floor(steps * k / POINTS + 0.5)
    list[#list + 1] = {x = step, step = step}
  end
  for _, since in ipairs(box:since()) do
    if since and since > 0 and since <= steps then
      list[#list + 1] = {x = since, step = since - 1}
      list[#list + 1] = {x = since, step = since}
    end
  end
  table.sort(list, function(a, b) return a.x < b.x or a.x == b.x and a.step < b.step end)
  return list
end

-- One number of a range over all places; a range that is off stands where it changes nothing, and always happens.
local function values_of(all, knob, which)
  local list = {}
  for k, values in ipairs(all) do
    local r = values[knob.name] or knob.idle
    list[k] = r[which] or 1
  end
  return list
end

local function varies(list)
  for k = 2, #list do
    if list[k] ~= list[1] then return true end
  end
  return false
end

local function differ(a, b)
  for k in ipairs(a) do
    if a[k] ~= b[k] then return true end
  end
  return false
end

-- Panels of what changes at all: the lower and the upper end of each range, and its probability.
local function detailed(all, x)
  local out = {}
  for _, knob in ipairs(knobs()) do
    local lo, hi, p = values_of(all, knob, 1), values_of(all, knob, 2), values_of(all, knob, 3)
    local split = differ(lo, hi)
    local series = {{name = split and "from" or nil, x = x, y = lo}}
    if split then series[2] = {name = "to", x = x, y = hi} end
    if varies(lo) or varies(hi) then out[#out + 1] = {y_label = knob.name, series = series} end
    if varies(p) then out[#out + 1] = {y_label = knob.name .. ": probability", series = {{x = x, y = p}}} end
  end
  return out
end

-- How far a range goes from where it changes nothing, as shares of the farthest; nil where that never changes.
local function strength(all, knob)
  local lo, hi, far, most = values_of(all, knob, 1), values_of(all, knob, 2), {}, 0
  for k in ipairs(lo) do
    far[k] = math.max(math.abs(lo[k] - knob.idle[1]), math.abs(hi[k] - knob.idle[2]))
    most = math.max(most, far[k])
  end
  if not varies(far) then return nil end
  for k, value in ipairs(far) do far[k] = math.floor(value / most * 1e4 + 0.5) / 1e4 end -- equal ones are one line
  return far
end

-- Lines of shares, at most as many in a panel as there are colours.
local function shared(label, lines)
  local out = {}
  for i, line in ipairs(lines) do
    if line.more then line.name = ("%s and %d more"):format(line.name, line.more) end
    line.more = nil
    if i % COLOURS == 1 then out[#out + 1] = {y_label = label, percent = true, min = 0, max = 1.05, series = {}} end
    table.insert(out[#out].series, line)
  end
  return out
end

-- Adds a line; of equal ones, which would hide each other, there is one with all names.
local function add_line(lines, name, x, y)
  for _, line in ipairs(lines) do
    if not differ(line.y, y) then
      local fits = not line.more and #line.name + #name < NAMES
      if fits then line.name = line.name .. ", " .. name else line.more = (line.more or 0) + 1 end
      return
    end
  end
  lines[#lines + 1] = {name = name, x = x, y = y}
end

-- The same in few panels: all ranges as shares of their widest, all probabilities together.
local function together(all, x)
  local ranges, chances = {}, {}
  for _, knob in ipairs(knobs()) do
    local y, p = strength(all, knob), values_of(all, knob, 3)
    if y then add_line(ranges, knob.name, x, y) end
    if varies(p) then add_line(chances, knob.name, x, p) end
  end
  local out = shared("share of the widest range", ranges)
  for _, panel in ipairs(shared("probability", chances)) do out[#out + 1] = panel end
  return out
end

local function panels(all, x)
  local each = detailed(all, x)
  return #each <= DETAILED and each or together(all, x)
end

--- See augment/schedule.lua.
function show.draw(schedule, box, path, steps)
  steps = steps or extent(schedule, box)
  local x, all, numbers = {}, {}, {}
  for k, place in ipairs(places(box, steps)) do
    local values = box:stage_at(place.step)
    x[k], all[k], numbers[k] = place.x, flatten(values), values.stage
  end
  local list = panels(all, x)
  table.insert(list, 1, {y_label = "stage", min = 0, max = #schedule.stages + 1, series = {{x = x, y = numbers}}})
  require("plot").lines{path = path, title = "curriculum", x_label = "steps", panels = list}
end

return show
