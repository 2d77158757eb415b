-- chart.lua: line charts, bars and shares as SVG and HTML that need nothing else: they scale with the page, print, take
-- their colours from its scheme, and say in words what they show.
--
-- The lines are SVG stretched over their box; what must not be stretched (numbers, names) is HTML around it.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local html = require "report.html"

local chart = {}

local MOST_POINTS = 300 -- of a line; more would not be seen
local GREATEST = 1e60 -- value that is drawn
local SIZE = 1000 -- of the box of a chart's SVG, both ways

-- ---- thinning ----

-- Index of the extreme value of y[from..to]; nil when all are missing.
local function extreme(y, from, to, better)
  local best
  for i = from, to do
    if y[i] and (not best or better(y[i], y[best])) then best = i end
  end
  return best
end

local function is_less(a, b) return a < b end
local function is_more(a, b) return a > b end

-- Places of a series that stay: the first, the last, and of every bucket the lowest and the highest, so that no peak is lost.
local function kept_places(y, count)
  local out, seen = {}, {}
  local function keep(i)
    if i and not seen[i] then seen[i], out[#out + 1] = true, i end
  end
  if count <= MOST_POINTS then
    for i = 1, count do keep(i) end
    return out
  end
  local buckets = MOST_POINTS / 2
  for b = 1, buckets do
    local from, to = math.floor((b - 1) * count / buckets) + 1, math.floor(b * count / buckets)
    local low, high = extreme(y, from, to, is_less), extreme(y, from, to, is_more)
    if low and high then
      keep(math.min(low, high))
      keep(math.max(low, high))
    else
      keep(from)
    end
  end
  keep(1)
  keep(count)
  table.sort(out)
  return out
end

-- What is too large to be drawn beside anything is a gap; what is too small is 0.
local function drawable(value)
  if not value or math.abs(value) > GREATEST then return false end
  return math.abs(value) < 1 / GREATEST and 0 or value
end

local function thin(series, count)
  local out = {name = series.name, x = {}, y = {}, style = series.style, band = series.band and {low = {}, high = {}}}
  for k, i in ipairs(kept_places(series.y, count)) do
    out.x[k], out.y[k] = series.x[i], drawable(series.y[i])
    if series.band then out.band.low[k], out.band.high[k] = drawable(series.band.low[i]), drawable(series.band.high[i]) end
  end
  return out
end

-- ---- axes ----

local function limits(list_of_series, panel)
  local x0, x1, y0, y1 = panel.x_low or math.huge, panel.x_high or -math.huge, math.huge, -math.huge
  local function see(value)
    if value then y0, y1 = math.min(y0, value), math.max(y1, value) end
  end
  for _, s in ipairs(list_of_series) do
    for i, x in ipairs(s.x) do
      x0, x1 = math.min(x0, x), math.max(x1, x)
      see(s.y[i])
      if s.band and s.y[i] then see(s.band.low[i]) see(s.band.high[i]) end
    end
  end
  return x0, x1, y0, y1
end

-- The round number next to span / count: 1, 2 or 5 times a power of ten.
local function round_step(span, count)
  local raw = span / count
  local power = 10 ^ math.floor(math.log10(raw))
  for _, factor in ipairs{1, 2, 5, 10} do
    if raw <= factor * power * 1.0001 then return factor * power end
  end
end

local function ticks(low, high, count)
  local out, step = {}, round_step(high - low, count)
  for k = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do out[#out + 1] = k == 0 and 0 or k * step end -- never -0
  return out
end

-- Powers of ten; with fewer than two of them inside, 1, 2 and 5 times.
local function log_ticks(low, high)
  local function within(factors)
    local out = {}
    for power = math.floor(math.log10(low)), math.ceil(math.log10(high)) do
      for _, factor in ipairs(factors) do
        local tick = factor * 10 ^ power
        if tick >= low * 0.999 and tick <= high * 1.001 then out[#out + 1] = tick end
      end
    end
    return out
  end
  local out = within{1}
  if #out < 2 then out = within{1, 2, 5} end
  while #out > 6 do
    for i = #out - #out % 2, 2, -2 do table.remove(out, i) end
  end
  return out
end

-- "12k" for ticks of the x axis, which have little room.
local function short(x)
  for _, unit in ipairs{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} do
    if math.abs(x) >= unit[1] then return ("%.4g%s"):format(x / unit[1], unit[2]) end
  end
  return ("%.4g"):format(x)
end

-- Limits that are one number, or nearly, are moved apart.
local function apart(low, high)
  local least = math.max(math.abs(low), math.abs(high)) * 1e-9
  if high - low > math.max(least, 1e-90) then return low, high end
  if low == 0 and high == 0 then return 0, 1 end -- of a count or a share: neither is below 0
  local room = low == 0 and 1 or math.max(math.abs(low) * 0.1, 1e-80)
  return low - room, high + room
end

-- How values of y become places and words. Room is left above and below.
local function y_axis(panel, y0, y1)
  local use_log = panel.log and y0 > 0 and y1 / y0 > 20
  if panel.zero and not use_log then y0 = math.min(0, y0) end
  y0, y1 = apart(y0, y1)
  if use_log then
    local low, high = math.log10(y0), math.log10(y1)
    local room = (high - low) * 0.04
    low, high = low - room, high + room
    return {ticks = log_ticks(10 ^ low, 10 ^ high), log = true,
      place = function(v) return v > 0 and (math.log10(v) - low) / (high - low) or nil end}
  end
  local room = (y1 - y0) * 0.05
  local low, high = panel.zero and y0 == 0 and 0 or y0 - room, y1 + room
  if panel.percent and y0 >= 0 and y1 <= 1 then low, high = math.max(low, -0.02), math.min(high, 1.02) end
  return {ticks = ticks(low, high, 4), place = function(v) return (v - low) / (high - low) end}
end

-- What begins near 0 begins at 0. low and high are in the measure in which places are even.
local function x_axis(x0, x1, wants_log)
  if wants_log and x0 > 0 and x1 / x0 > 20 then
    local low, high = math.log10(x0), math.log10(x1)
    local room = (high - low) * 0.03
    low, high = low - room, high + room
    return {ticks = log_ticks(10 ^ low, 10 ^ high), low = low, high = high, log = true,
      place = function(v) return v > 0 and (math.log10(v) - low) / (high - low) or nil end}
  end
  if wants_log then
    local room = (x1 - x0) * 0.03
    x0, x1 = x0 - room, x1 + room
  elseif x0 > 0 and x0 < x1 / 8 then x0 = 0 end
  x0, x1 = apart(x0, x1)
  return {ticks = ticks(x0, x1, 5), low = x0, high = x1, place = function(v) return (v - x0) / (x1 - x0) end}
end

-- ---- lines ----

local function point(axes, x, y)
  local px, py = axes.x.place(x), y and axes.y.place(y)
  return px and py and ("%.1f %.1f"):format(px * SIZE, (1 - py) * SIZE)
end

-- Pieces between gaps; a lone point is a dot (a line of no length with round ends).
local function line_path(axes, s)
  local out, open, alone = {}, false, nil
  for i, x in ipairs(s.x) do
    local at = point(axes, x, s.y[i])
    if at then
      out[#out + 1] = (open and "L" or "M") .. at
      alone = not open and at or nil
      open = true
    else
      if alone then out[#out + 1] = "h0" end
      open, alone = false, nil
    end
  end
  if alone then out[#out + 1] = "h0" end
  return table.concat(out)
end

local function band_path(axes, s)
  local there, back = {}, {}
  for i, x in ipairs(s.x) do
    local low, high = point(axes, x, s.band.low[i]), point(axes, x, s.band.high[i])
    if low and high then
      there[#there + 1] = (#there == 0 and "M" or "L") .. high
      table.insert(back, 1, "L" .. low)
    end
  end
  return #there > 1 and table.concat(there) .. table.concat(back) .. "Z" or nil
end

local function dots_path(axes, s)
  local out = {}
  for i, x in ipairs(s.x) do
    local at = point(axes, x, s.y[i])
    if at then out[#out + 1] = "M" .. at .. "h0" end
  end
  return table.concat(out)
end

local MOST_DOTS = 60

local function series_svg(axes, s, k)
  local out = {}
  local band = s.band and band_path(axes, s)
  if band then out[1] = ('<path class="band s%d" d="%s"/>'):format(k, band) end
  if s.style ~= "points" then
    out[#out + 1] = ('<path class="line s%d%s" d="%s"/>'):format(k, s.style and " " .. s.style or "", line_path(axes, s))
  end
  if s.style and #s.x <= MOST_DOTS then out[#out + 1] = ('<path class="dot s%d" d="%s"/>'):format(k, dots_path(axes, s)) end
  return table.concat(out)
end

local function grid_svg(axes)
  local out = {}
  for _, tick in ipairs(axes.y.ticks) do
    out[#out + 1] = ("M0 %.1fH%d"):format((1 - axes.y.place(tick)) * SIZE, SIZE)
  end
  return ('<path class="grid" d="%s"/>'):format(table.concat(out))
end

-- Marks of events: thin upright lines.
local function marks_svg(axes, marks)
  local out = {}
  for _, mark in ipairs(marks or {}) do
    local place = axes.x.place(mark.x)
    if place and place >= 0 and place <= 1 then out[#out + 1] = ("M%.1f 0V%d"):format(place * SIZE, SIZE) end
  end
  return #out > 0 and ('<path class="mark" d="%s"/>'):format(table.concat(out)) or ""
end

local function tick_text(panel, value)
  if panel.percent then return ("%.4g %%"):format(100 * value) end
  return panel.format and panel.format(value) or html.number(value)
end

local function axes_html(panel, axes)
  local out = {}
  for _, tick in ipairs(axes.y.ticks) do
    out[#out + 1] = ('<span class="ty" style="bottom:%.2f%%">%s</span>'):format(100 * axes.y.place(tick), html.text(tick_text(panel, tick)))
  end
  for _, tick in ipairs(axes.x.ticks) do
    out[#out + 1] = ('<span class="tx" style="left:%.2f%%">%s</span>'):format(100 * axes.x.place(tick), html.text(short(tick)))
  end
  return table.concat(out)
end

-- ---- words ----

local function first_and_last(s)
  local first, last
  for i = 1, #s.x do
    if s.y[i] then first, last = first or s.y[i], s.y[i] end
  end
  return first, last
end

-- "loss over images; train from 3.2 to 0.01"
local function words(panel, list)
  local parts = {}
  for i, s in ipairs(list) do
    local first, last = first_and_last(s)
    local template = s.style == "points" and "%s, the first %s, the last %s" or "%s from %s to %s"
    parts[i] = template:format(s.name, tick_text(panel, first), tick_text(panel, last))
  end
  return ("%s over %s: %s"):format(panel.title, panel.x_label, table.concat(parts, "; "))
end

local function legend(panel, list)
  local out = {}
  for k, s in ipairs(list) do
    local _, last = first_and_last(s)
    local words_of_last = s.style ~= "points" and tick_text(panel, last) or ""
    out[k] = ('<li><i class="key s%d%s"></i>%s <b class="readout" data-k="%d">%s</b></li>'):format(
      k, s.style and " " .. s.style or "", html.text(s.name), k - 1, html.text(words_of_last))
  end
  local last = 0
  for _, s in ipairs(list) do last = math.max(last, s.x[#s.x] or 0) end
  local where = list[1].style ~= "points" and ("at the end (%s %s)"):format(html.number(last), panel.x_label) or panel.x_label
  return ('<ul class="legend">%s<li class="where"><b class="readout" data-k="x" data-unit="%s">%s</b></li></ul>'):format(
    table.concat(out), html.text(panel.x_label), html.text(where))
end

-- What the readout under the pointer looks up; without script it is not missed.
local function data_script(panel, list, axes)
  local out = {percent = panel.percent or false, series = {}, low = axes.x.low, high = axes.x.high, log = axes.x.log or false}
  for i, s in ipairs(list) do
    local ys = {}
    for k = 1, #s.x do ys[k] = s.y[k] or 0 / 0 end
    out.series[i] = {x = s.x, y = ys}
  end
  return ('<script type="application/json">%s</script>'):format(html.script(core.json_encode(out)))
end

-- The same numbers as a table, for those who do not see the lines: some rows of the longest series.
local function numbers_html(panel, list)
  local longest = list[1]
  for _, s in ipairs(list) do if #s.x > #longest.x then longest = s end end
  local columns, rows, n = {{panel.x_label, "n"}}, {}, math.min(#longest.x, 12)
  for k, s in ipairs(list) do columns[k + 1] = {s.name, "n"} end
  for i = 1, n do
    local x = longest.x[n == 1 and 1 or math.floor(1 + (i - 1) * (#longest.x - 1) / (n - 1) + 0.5)]
    rows[i] = {x}
    for k, s in ipairs(list) do
      local found = chart.value_at(s, x)
      rows[i][k + 1] = found and tick_text(panel, found)
    end
  end
  return ('<details class="numbers"><summary>numbers</summary>%s</details>'):format(html.table(panel.title, columns, rows))
end

--- The value of a series at x, on the straight line between its neighbours; nil outside and in gaps.
function chart.value_at(s, x)
  local before
  for i = 1, #s.x do
    if s.y[i] then
      if s.x[i] == x then return s.y[i] end
      if s.x[i] > x then
        if not before then return nil end
        local share = (x - s.x[before]) / (s.x[i] - s.x[before])
        return s.y[before] + share * (s.y[i] - s.y[before])
      end
      before = i
    end
  end
end

-- ---- the chart ----

--- Whether a series has anything to draw.
function chart.has_value(s)
  for i = 1, #s.x do
    if drawable(s.y[i]) then return true end
  end
  return false
end

local template = [[
<figure class="chart" tabindex="0"><figcaption>{title}</figcaption>
<div class="plot"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label="{words}">{svg_html}</svg>
{axes_html}<i class="cursor"></i></div>
{legend_html}{data_html}{numbers_html}</figure>]]

--- A line chart as HTML; nil when no series has a value.
-- panel  title, x_label, x_low, x_high = what the x axis spans at least, x_log = it may be logarithmic, log,
--        percent (values are shares of 1), zero = the axis begins at 0, format = function(value) -> text,
--        marks = {{x =}, …}, series = {{name =, x = {…}, y = {…, false where missing}, style = "dots", "points" (no line) or nil,
--        band = {low = {…}, high = {…}}}, …}
function chart.lines(panel)
  local list = {}
  for _, s in ipairs(panel.series) do
    if #s.x > 0 and chart.has_value(s) then list[#list + 1] = thin(s, #s.x) end
  end
  if #list == 0 then return nil end
  local x0, x1, y0, y1 = limits(list, panel)
  local axes = {x = x_axis(x0, x1, panel.x_log), y = y_axis(panel, y0, y1)}
  local svg = {grid_svg(axes), marks_svg(axes, panel.marks)}
  for k, s in ipairs(list) do svg[#svg + 1] = series_svg(axes, s, k) end
  return html.fill(template, {
    title = panel.title, words = words(panel, list), svg_html = table.concat(svg), axes_html = axes_html(panel, axes),
    legend_html = legend(panel, list), data_html = data_script(panel, list, axes), numbers_html = numbers_html(panel, list),
  })
end

-- ---- bars and shares ----

--- Bars that lie: items = {{name, share of 1, words}, …}.
function chart.bars(title, items)
  local out = {}
  for i, item in ipairs(items) do
    out[i] = ('<li><span>%s</span><span class="track"><i style="width:%.2f%%"></i></span><span class="n">%s</span></li>'):format(
      html.text(item[1]), 100 * math.max(0, math.min(1, item[2])), html.text(item[3]))
  end
  return ('<figure class="bars"><figcaption>%s</figcaption><ul>%s</ul></figure>'):format(html.text(title), table.concat(out))
end

--- One bar of parts: items = {{name, amount, words}, …}; the list below it says the same in words.
function chart.shares(title, items)
  local total, bar, list = 0, {}, {}
  for _, item in ipairs(items) do total = total + item[2] end
  if not (total > 0 and total < GREATEST) then return nil end
  for i, item in ipairs(items) do
    local share = 100 * item[2] / total
    bar[i] = ('<i class="p%d" style="width:%.3f%%"></i>'):format(i, share)
    list[i] = ('<li><i class="key p%d"></i>%s <b>%.1f %%</b> <span class="quiet">%s</span></li>'):format(
      i, html.text(item[1]), share, html.text(item[3]))
  end
  local page_part = '<figure class="shares"><figcaption>{title}</figcaption><div class="stack" aria-hidden="true">{bar_html}</div>' ..
    '<ul class="legend">{list_html}</ul></figure>'
  return html.fill(page_part, {title = title, bar_html = table.concat(bar), list_html = table.concat(list)})
end

return chart
