-- mistakes.lua: what a model gets wrong: by position and length, the confusion matrix, the pairs behind it, the worst
-- samples.
-- SPDX-License-Identifier: Apache-2.0
local align = require "meter.align"
local chart = require "report.chart"
local facts = require "report.facts"
local html = require "report.html"
local kinds = require("fields").kinds
local symbols = require "fields.symbols"
local term = require "repl.term"
local value = require "report.value"

local mistakes = {}

local MOST_WORST, MOST_PAIRS, MOST_THUMBS, MOST_LABELS = 24, 12, 4, 128
local MOST_BARS = 40

-- ---- bars ----

local function bar(name, row)
  local share = value.number(row, "right")
  if not share then return nil end
  local n, low, high = value.number(row, "n"), value.number(row, "low"), value.number(row, "high")
  local words = html.percent(share)
  if low and high then words = words .. (" (%.1f to %.1f)"):format(100 * low, 100 * high) end
  return {name, share, words .. (n and (", n %s"):format(html.number(n)) or "")}
end

local function bars(title, rows, name)
  local items = {}
  for i = 1, math.min(#rows, MOST_BARS) do items[#items + 1] = bar(name(rows[i], i), rows[i]) end
  return #items > 0 and chart.bars(title, items) or nil
end

local function position_bars(metrics)
  local rows = value.table(metrics, "by_position")
  if #rows == 0 then -- only the shares
    for i, share in ipairs(value.table(metrics, "positions")) do rows[i] = {right = share} end
  end
  return bars("characters read right, by place", rows, function(row, i)
    return ("place %s"):format(facts.plain(value.number(row, "position") or i))
  end)
end

-- One length says nothing that the first metric does not.
local function length_bars(metrics)
  local rows = value.table(metrics, "by_length")
  return #rows > 1 and bars("whole texts read right, by length", rows, function(row)
    return ("%s characters"):format(facts.plain(value.number(row, "length") or "?"))
  end) or nil
end

-- A sound confidence is right as often as it says.
local function confidence_bars(metrics)
  return bars("whole texts read right, by how sure the model was", value.table(metrics, "by_confidence"), function(row)
    local from, to = value.number(row, "from"), value.number(row, "to")
    return from and to and ("%.0f to %.0f %%"):format(100 * from, 100 * to) or "?"
  end)
end

-- ---- confusion matrix ----

local CELL = 18
local LETTER, LONGEST = 6.7, 16 -- width of a letter; letters of a name that are shown

local function shown(label) return label == "" and "nothing" or label end

-- Rows of numbers as wide as the list of labels, or nil.
local function read_matrix(metrics)
  local labels, counts = value.table(metrics, "confusion", "labels"), value.table(metrics, "confusion", "counts")
  if #labels < 2 or #labels > MOST_LABELS then return nil end
  local m = {labels = {}, counts = {}, most = 0, wrong = 0}
  m.of = "classes"
  for _, kind in ipairs(kinds) do
    if kind.confused and kind.meter == value.text(metrics, "kind") then m.of = kind.confused[3] end
  end
  for i = 1, #labels do
    m.labels[i], m.counts[i] = facts.plain(labels[i]), {}
    for k = 1, #labels do
      local n = value.number(counts, i, k) or 0
      m.counts[i][k] = n
      if i ~= k then m.most, m.wrong = math.max(m.most, n), m.wrong + n end
    end
  end
  return m
end

-- A name as long as there is room for; how many letters wide it is.
local function short(label)
  if label == "" then return "∅" end
  local list = symbols.of(label)
  if #list > LONGEST then label = table.concat(list, "", 1, LONGEST - 1) .. "…" end
  return label, term.width(label)
end

-- Room before the cells: as much as the longest name takes. Names of several letters stand upright over their columns.
local function measure(m, used)
  local longest = 1
  for _, i in ipairs(used) do longest = math.max(longest, select(2, short(m.labels[i])) or 1) end
  m.edge, m.upright = math.floor(36 + longest * LETTER + 0.5), longest > 2
end

local function sum(row)
  local total = 0
  for _, n in ipairs(row) do total = total + n end
  return total
end

-- Rows and columns that hold anything: a charset with nothing of a character needs no room for it.
local function used_labels(m)
  local used = {}
  for i in ipairs(m.labels) do
    local column = 0
    for k in ipairs(m.labels) do column = column + m.counts[k][i] end
    if sum(m.counts[i]) + column > 0 then used[#used + 1] = i end
  end
  return used
end

local function rectangle(edge, class, opacity, row, column, words)
  return ('<rect class="%s" x="%d" y="%d" width="%d" height="%d" opacity="%.2f"><title>%s</title></rect>'):format(
    class, edge + (column - 1) * CELL + 1, edge + (row - 1) * CELL + 1, CELL - 2, CELL - 2, opacity, html.text(words))
end

-- A right cell is as strong as the share of its row that is right, a wrong one as its count is frequent.
local function cell(m, used, row, column)
  local i, k = used[row], used[column]
  local n = m.counts[i][k]
  if n <= 0 then return nil end
  local total = sum(m.counts[i])
  local share = (" (%.1f %% of %s)"):format(100 * n / total, html.number(total))
  if i == k then
    local words = ("%s read right %s times%s"):format(shown(m.labels[i]), html.number(n), share)
    return rectangle(m.edge, "right", 0.1 + 0.4 * n / total, row, column, words)
  end
  local words = ("%s read as %s %s times%s"):format(shown(m.labels[i]), shown(m.labels[k]), html.number(n), share)
  return rectangle(m.edge, "wrong", 0.1 + 0.9 * (n / m.most) ^ 0.7, row, column, words)
end

local function label_text(place, label, anchor)
  return ('<text %s text-anchor="%s">%s</text>'):format(place, anchor, html.text((short(label))))
end

local function matrix_labels(m, used)
  local out, edge = {}, m.edge
  for place, i in ipairs(used) do
    local middle = edge + (place - 0.5) * CELL
    local over = ('x="%.1f" y="%.1f"'):format(middle, edge - 6)
    if m.upright then over = ('transform="translate(%.1f %.1f) rotate(-90)"'):format(middle + 4, edge - 6) end
    out[#out + 1] = label_text(over, m.labels[i], m.upright and "start" or "middle")
      .. label_text(('x="%.1f" y="%.1f"'):format(edge - 8, middle + 4), m.labels[i], "end")
  end
  out[#out + 1] = ('<text class="axis" x="%d" y="14">read as</text>'):format(edge)
  out[#out + 1] = ('<text class="axis" transform="translate(13 %d) rotate(-90)">meant</text>'):format(edge
    + math.min(#used * CELL, 50))
  return table.concat(out)
end

local matrix_template = [[
<figure><figcaption>what was read as what</figcaption>
<div class="matrix" tabindex="0" role="region" aria-label="confusion matrix">
<svg viewBox="0 0 {size} {size}" style="max-width:{most}px;min-width:{least}px" role="img" aria-label="{words}">
{cells_html}</svg></div>
<p class="quiet">Rows: what was meant; columns: what was read{nothing}. Each cell contains its count.</p></figure>]]

local function matrix_html(metrics)
  local m = read_matrix(metrics)
  if not m or m.wrong == 0 then return nil end
  local used, cells = used_labels(m), {}
  measure(m, used)
  local edge = m.edge
  local size = edge + #used * CELL + 1
  cells[1] = ('<rect class="frame" x="%d" y="%d" width="%d" height="%d"/>'):format(edge, edge, #used * CELL,
    #used * CELL)
  for row = 1, #used do
    for column = 1, #used do cells[#cells + 1] = cell(m, used, row, column) end
  end
  return html.fill(matrix_template, {
    nothing = m.labels[#m.labels] == "" and "; ∅: a character left out or put in" or "",
    size = ("%d"):format(size), most = ("%d"):format(size * 1.25), least = ("%d"):format(size * 0.75),
    cells_html = table.concat(cells) .. matrix_labels(m, used),
    words = ("confusion matrix of %d %s: %s were read wrong"):format(#used, m.of, html.number(m.wrong)),
  })
end

-- ---- pairs ----

local function picture(page, entry, class, alt)
  local name = value.text(entry, "overlay") or value.text(entry, "image")
  local bytes = name and page:file(name)
  return bytes and page:picture(bytes, alt, class) or nil
end

local function thumbs(page, pair, what)
  local out = {}
  for i, sample in ipairs(value.table(pair, "samples")) do
    if i > MOST_THUMBS then break end
    local place = value.number(sample, "place")
    out[i] = picture(page, sample, "thumb", what .. (place and (", place %d"):format(place) or "")) or ""
  end
  return table.concat(out)
end

local function pair_rows(metrics, page)
  local rows = {}
  local list = value.has(metrics, "pairs") and metrics.pairs or value.table(metrics, "confusions")
  for i, pair in ipairs(list) do
    if i > MOST_PAIRS then break end
    local truth, read = shown(value.text(pair, "truth") or "?"), shown(value.text(pair, "read") or "?")
    rows[i] = {{html = ('<span class="mono">%s</span>'):format(html.text(truth))},
      {html = ('<span class="mono">%s</span>'):format(html.text(read))}, value.number(pair, "count"),
      {html = thumbs(page, pair, ("%s read as %s"):format(truth, read))}}
  end
  return rows
end

local function pairs_html(metrics, page)
  local rows = pair_rows(metrics, page)
  if #rows == 0 then return nil end
  return "<h3>Most frequent mistakes</h3>"
    .. html.table("most frequent mistakes", {{"meant"}, {"read as"}, {"times", "n"}, {"in"}}, rows)
end

-- ---- rows ----

local MOST_ROWS = 40

-- All rows, or of many classes those of the lowest recall; more: what the title says of that.
local function some_rows(list)
  if #list <= MOST_ROWS or not value.number(list[1], "recall") then return list, "" end
  local sorted, out, recall = {}, {}, {}
  for i, row in ipairs(list) do sorted[i], recall[row] = row, value.number(row, "recall") or math.huge end
  table.sort(sorted, function(a, b)
    if recall[a] ~= recall[b] then return recall[a] < recall[b] end
    return (value.number(a, "class") or 0) < (value.number(b, "class") or 0)
  end)
  for i = 1, MOST_ROWS do out[i] = sorted[i] end
  return out, (": %d of lowest recall of %s"):format(MOST_ROWS, html.number(#list))
end

-- A table of rows that evaluation.json has under a key; columns: {title, key, how it is written}.
local function rows_html(metrics, key, title, columns)
  local rows, heads = {}, {}
  local list, more = some_rows(value.table(metrics, key))
  for i, c in ipairs(list) do
    rows[i] = {}
    for k, column in ipairs(columns) do
      local found = value.number(c, column[2])
      rows[i][k] = found and column[3](found)
    end
    rows[i][1] = value.text(c, "name") or facts.plain(value.at(c, columns[1][2]))
  end
  if #rows == 0 then return nil end
  for k, column in ipairs(columns) do heads[k] = {column[1], k > 1 and "n" or nil} end
  heads, rows = facts.filled(heads, rows)
  return ("<h3>%s</h3>"):format(title .. more) .. html.table("metrics " .. title:lower(), heads, rows)
end

-- How the cells of a column are written, by the word that a kind has for it.
local written = {share = html.percent, count = html.number}

-- The columns of a kind's table, with those that are there for some of its rows only, such as hit_5.
local function columns_of(metrics, of)
  local columns = {}
  for i, c in ipairs(of.columns) do columns[i] = {c[1], c[2], written[c[3] or "count"]} end
  for _, key in ipairs(of.more and value.keys(value.table(metrics, of.key, 1)) or {}) do
    local title, how = of.more(key)
    if title then columns[#columns + 1] = {title, key, written[how]} end
  end
  return columns
end

-- The tables of all kinds: what several share stands once.
local function tables_html(metrics)
  local out, seen = {}, {}
  for _, kind in ipairs(kinds) do
    local of = kind.rows
    if of and not seen[of.key] then
      seen[of.key], out[#out + 1] = true, rows_html(metrics, of.key, of.title, columns_of(metrics, of))
    end
  end
  return table.concat(out)
end

-- What is looked at as a plot.
local function plots_html(metrics, page, output)
  local plotted = false
  for _, kind in ipairs(kinds) do
    plotted = plotted or kind.sheet and kind.sheet.plots and kind.meter == value.text(metrics, "kind")
  end
  if not plotted then return nil end
  return page:file_picture(output and ("samples-%s.png"):format(output) or "samples.png",
    "what was read over what was meant")
end

-- ---- worst samples ----

local function missed(text) return ('<span class="miss">%s</span>'):format(html.text(text)) end

-- The reading with what differs from the truth marked, and a dot where a character was left out.
local function marked(read, truth)
  if read == "" then return missed "nothing" end
  local want, got = align.side_by_side(truth, read)
  local out = {}
  for i, c in ipairs(got) do out[i] = c == want[i] and html.text(c) or missed(c) end
  return table.concat(out)
end

-- What a sample of a meter without texts says of itself.
local own = {id = true, name = true, image = true, overlay = true, truth = true, read = true, confidence = true,
  edits = true}
local function other_words(entry)
  local parts = {}
  for _, key in ipairs(value.keys(entry)) do
    if not own[key] and #parts < 4 then parts[#parts + 1] = key:gsub("_", " ") .. " " .. facts.plain(entry[key]) end
  end
  return table.concat(parts, ", ")
end

local sample_template = [[
<li>{picture_html}<span class="mono">{read_html}</span><small>{truth}{sure}{other}</small><small>{name}</small></li>]]

local function sample(entry, page)
  local truth, read = value.text(entry, "truth"), value.text(entry, "read")
  local sure, id = value.number(entry, "confidence"), value.number(entry, "id")
  local name = value.text(entry, "name") or id and ("sample %d"):format(id)
  return html.fill(sample_template, {
    picture_html = picture(page, entry, "", truth and ("image of %s"):format(truth) or name or "sample"),
    read_html = read and truth and marked(read, truth) or "", truth = truth and "meant " .. truth,
    sure = sure and (", %.0f %% sure"):format(100 * sure), other = other_words(entry), name = name,
  })
end

local function worst_html(metrics, page)
  local out = {}
  for i, entry in ipairs(value.table(metrics, "worst")) do
    if i > MOST_WORST then break end
    if type(entry) == "table" then out[#out + 1] = sample(entry, page) end
  end
  if #out == 0 then return nil end
  return '<h3>The worst samples</h3><ul class="samples">' .. table.concat(out) .. "</ul>"
end

-- ---- the section ----

local function side_by_side(list)
  return #list > 1 and '<div class="grid">' .. table.concat(list) .. "</div>" or list[1] or ""
end

local function all_bars(metrics)
  local out = {}
  for _, make in ipairs{position_bars, length_bars, confidence_bars} do out[#out + 1] = make(metrics) end
  return side_by_side(out)
end

-- What there is of one meter. output: its name, of several
local function parts_of(metrics, page, output)
  local parts = {all_bars(metrics)}
  local worst = worst_html(metrics, page) -- its pictures before those of the pairs, if there is no room for all
  for _, make in ipairs{plots_html, tables_html, matrix_html, pairs_html} do
    parts[#parts + 1] = make(metrics, page, output) or ""
  end
  parts[#parts + 1] = worst or ""
  local text = table.concat(parts)
  return output and text ~= "" and ("<h3>Output %s</h3>"):format(html.text(output)) .. text or text
end

--- Everything about the readings of the last evaluation.
function mistakes.section(r, page)
  local metrics, role = facts.metrics(r)
  if value.has(r.evaluation) then metrics, role = r.evaluation, value.text(r.evaluation, "role") or role end
  if not metrics then return nil end
  local text = parts_of(metrics, page)
  for _, name in ipairs(value.keys(value.table(metrics, "outputs"))) do
    text = text .. parts_of(value.table(metrics, "outputs", name), page, name)
  end
  return text ~= "" and ("<p>Of the %s images.</p>"):format(html.text(role)) .. text or nil
end

return mistakes
