-- facts.lua: the parts of a report that are words and tables: metrics, time, switches, settings, data, model, events.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local chart = require "report.chart"
local curves = require "report.curves"
local html = require "report.html"
local symbols = require "fields.symbols"
local value = require "report.value"

local facts = {}

local MOST_ROWS = 300 -- of one table
local MOST_TEXT = 50000 -- bytes of the recipe

-- ---- metrics ----

--- The metrics of the run: those of the test images, else of the best weights, else of the last evaluation.
-- out  metrics, "test", "val" …; nil when the run has none
function facts.metrics(r)
  local evaluated = value.text(r.evaluation, "role")
  if value.has(r.result, "test") then return evaluated == "test" and r.evaluation or r.result.test, "test" end
  if value.number(r.evaluation, "n") then return r.evaluation, value.text(r.evaluation, "role") or "last evaluation" end
  if value.has(r.result, "best") then return r.result.best, "val, best weights" end
  if value.has(r.result, "val") then return r.result.val, "val" end
  if value.has(r.result, "final") then return r.result.final, "final" end
end

-- Whether a metric is that of one point or number, which have a table of their own.
local function is_of_one(metrics, key)
  local output, rest = key:match("^(.+)%.([^.]+)$")
  if output then return is_of_one(value.table(metrics, "outputs", output), rest) end
  for _, list in ipairs{"by_point", "by_number"} do
    for _, row in ipairs(value.table(metrics, list)) do
      local name = value.text(row, "name")
      if name and key:sub(1, #name + 1) == name .. "_" then return true end
    end
  end
  return false
end

local function shown(key, x) return curves.is_share(key) and html.percent(x) or html.number(x) end

-- "[95.73, 96.49] %" around a metric, from the keys beside it.
local function interval(metrics, key)
  local prefix = curves.interval_prefix(key)
  local low, high = value.number(metrics, prefix .. "low"), value.number(metrics, prefix .. "high")
  if not low or not high then return nil end
  if curves.is_share(key) then return ("95 %%: %.2f to %.2f"):format(100 * low, 100 * high) end
  return ("95 %%: %s to %s"):format(html.number(low), html.number(high))
end

local function tile(class, name, metric, small)
  return html.fill('<div class="{class}"><dt>{name}</dt><dd>{metric}<small>{small}</small></dd></div>',
    {class = class, name = name, metric = metric, small = small})
end

-- Names of metrics in the order in which people ask for them.
local order = {"exact", "chars", "cer", "edit_distance", "miou", "f", "hit", "r2", "mae", "rmse", "smape"}
-- What would only say another metric again, or stands elsewhere.
local beside = {
  n = true, points = true, pixels = true, mape_left_out = true, loss = true, step = true, value = true, replaced = true,
  edit_distance_normalized = true, images_per_s = true, seconds = true,
}

--- Names of the metrics of an evaluation, the ones that people ask for first.
function facts.metric_keys(metrics)
  local main = value.text(metrics, "main")
  local out, seen = {}, {}
  local function take(key)
    if value.number(metrics, key) and not seen[key] then seen[key], out[#out + 1] = true, key end
  end
  if main then take(main) end
  for _, key in ipairs(order) do take(key) end
  for _, key in ipairs(value.keys(metrics)) do
    local is_aside = key:match("low$") or key:match("high$") or beside[key:match("[^.]*$")] or is_of_one(metrics, key)
    if not is_aside and #out < 10 then take(key) end
  end
  return out
end

-- What a metric is, where its name may be taken for another one.
local meanings = {confidence = "mean probability that it gives to what it reads, right or wrong"}

local function metric_tiles(metrics, role, out)
  for i, key in ipairs(facts.metric_keys(metrics)) do
    local name = ("%s (%s)"):format(curves.name_of(key), role)
    out[#out + 1] = tile(i == 1 and "first" or "", name, shown(key, metrics[key]), meanings[key]
      or interval(metrics, key))
  end
  local merged = value.number(metrics, "merged", "exact")
  if merged then
    out[#out + 1] = tile("", "with look-alikes merged", html.percent(merged),
      interval(value.table(metrics, "merged"), "exact"))
  end
  local n = value.number(metrics, "n")
  if n then out[#out + 1] = tile("", role .. " samples", html.number(n)) end
end

--- Steps that were made, as far as the files say; nil when they have none.
function facts.steps(r)
  local steps = math.max(value.number(r.result, "steps") or 0, r.step)
  return steps > 0 and steps or nil
end

local function run_tiles(r, out)
  local steps = facts.steps(r)
  if steps then out[#out + 1] = tile("", "steps", html.number(steps), facts.images_words(r)) end
  local seconds = r.seconds or value.number(r.result, "seconds")
  if seconds then out[#out + 1] = tile("", "time", html.seconds(seconds)) end
  local rate = value.number(r.result, "images_per_s") or curves.mean(r.points, "images_per_s")
  if rate then out[#out + 1] = tile("", "images per second", html.number(math.floor(rate + 0.5))) end
  local best = value.number(r.result, "best_step")
  if best then out[#out + 1] = tile("", "best weights", "step " .. html.number(best)) end
end

function facts.images_words(r)
  local images = math.max(value.number(r.result, "images") or 0, value.number(r.points[#r.points], "images") or 0)
  return images > 0 and html.number(images) .. " images"
end

local function error_html(r)
  if not r.error then return "" end
  local where = value.text(r.error, "where")
  return html.fill('<div class="error"><p><strong>It ended with an error:</strong> {where}{message}</p><p ' ..
    'class="quiet">{hint}</p></div>',
    {where = where and where .. ": ", message = value.text(r.error, "message"), hint = value.text(r.error, "hint")})
end

-- What the recipe says it reaches, and whether this run did.
local function expected_html(r)
  local e, lines = value.table(r.result, "expected"), {}
  local text, why = value.text(e, "expected"), value.text(e, "not_judged")
  if not text then return "" end
  lines[1] = html.fill("<p>The recipe expects {text}{why}.</p>",
    {text = text, why = why and "; not verified, as that is " .. why})
  for i, v in ipairs(value.table(e, "verdicts")) do
    local measured = value.number(v, "measured")
    local metric = value.text(v, "metric") or value.text(v, "figure") or "" -- "figure": in older runs
    lines[#lines + 1] = i <= 20 and html.fill('<p class="quiet">{what}: <strong>{verdict}</strong>{measured}</p>',
      {what = value.text(v, "what"), verdict = value.text(v, "verdict"), measured = measured
      and ", " .. (metric == "seconds"
        and html.seconds(measured) or shown(metric, measured))}) or nil
  end
  return table.concat(lines)
end

-- Further test sets, a line each.
local function tests_html(r)
  local tests, out = value.table(r.result, "tests"), {}
  for i, name in ipairs(value.keys(tests)) do
    local metrics, parts = value.table(tests, name), {}
    for k, key in ipairs(facts.metric_keys(metrics)) do
      if k <= 4 then parts[k] = ("%s %s"):format(curves.name_of(key), shown(key, metrics[key])) end
    end
    out[i] = html.fill("<p>Test set {name}, {n} samples: {metrics}</p>",
      {name = name, n = html.number(value.number(metrics, "n") or 0), metrics = table.concat(parts, ", ")})
  end
  return table.concat(out)
end

--- What came out.
function facts.outcome(r)
  local out = {}
  local metrics, role = facts.metrics(r)
  if metrics then metric_tiles(metrics, role, out) end
  run_tiles(r, out)
  if #out == 0 and not r.error then return nil end
  return error_html(r) .. '<dl class="tiles">' .. table.concat(out) .. "</dl>" .. tests_html(r) .. expected_html(r)
    .. facts.next_html(r)
end

--- The first losses beside what they should be.
function facts.first_loss(r)
  local out = {}
  for i, entry in ipairs(value.table(r.result, "initial_loss")) do
    if i <= 8 and value.text(entry, "text") then
      out[#out + 1] = '<p class="quiet">' .. html.text(entry.text) .. "</p>"
    end
  end
  return table.concat(out)
end

--- The file to keep and what to do with it.
function facts.next_html(r)
  local model, command = value.text(r.result, "model"), value.text(r.result, "next")
  local lines = {}
  if model then lines[1] = "keep  " .. r.path .. "/" .. model end
  if command then lines[#lines + 1] = "next  " .. command
  elseif model and value.number(facts.metrics(r) or {}, "exact") then
    lines[#lines + 1] = ("next  capl predict %s/%s IMAGE.png"):format(r.path, model)
  end
  return #lines > 0 and "<h3>What to keep, and the next command</h3><pre>" .. html.text(table.concat(lines, "\n"))
    .. "</pre>" or ""
end

-- ---- time ----

local stages = {
  {"load", "waiting for data"}, {"augment", "augmentation"}, {"forward", "forward"}, {"backward", "backward"},
  {"optimizer", "optimizer"}, {"step", "captured step"}, {"evaluation", "evaluation"}, {"other", "other"},
  {"idle", "idle"},
}

--- Where the time went: of the whole run when result.json says so, else the sum of the intervals.
function facts.time(r)
  local items = {}
  for _, stage in ipairs(stages) do
    local seconds = value.has(r.result, "time") and value.number(r.result, "time", stage[1]) or
      not value.has(r.result, "time") and curves.sum(r.points, "time", stage[1]) or nil
    if seconds and seconds > 0 then items[#items + 1] = {stage[2], seconds, html.seconds(seconds)} end
  end
  local bar = #items > 0 and chart.shares("share of the time of training", items)
  local speed = curves.speed(r)
  if not bar and not speed then return nil end
  return (bar or "") .. (speed and "<h3>Speed</h3>" .. speed or "")
end

-- ---- hardware ----

local function with_unit(unit)
  return function(x) return ("%.4g %s"):format(x, unit) end
end

local readings = {
  {"power_w", "power", with_unit "W"}, {"power_limit_w", "power limit", with_unit "W"},
  {"utilization", "GPU utilization", html.percent}, {"memory_utilization", "utilization of its memory", html.percent},
  {"memory_used", "GPU memory used", html.bytes}, {"memory_total", "GPU memory", html.bytes},
  {"temperature_c", "GPU temperature", with_unit "°C"}, {"sm_mhz", "SM clock", with_unit "MHz"},
  {"memory_mhz", "memory clock", with_unit "MHz"}, {"throttled", "clocks held down", html.percent},
  {"cpu", "processors, by this run", html.percent}, {"cpu_machine", "processors, by all", html.percent},
  {"load", "load", html.number}, {"rss", "memory of the process", html.bytes},
  {"ram_used", "memory used, by all", html.bytes}, {"ram_total", "memory", html.bytes},
  {"cpu_mhz", "processor clock", with_unit "MHz"}, {"cpu_temperature_c", "processor temperature", with_unit "°C"},
  {"cpu_power_w", "power of the processors", with_unit "W"},
}

-- Of the whole run when result.json has it, else of the points that were written.
local function reading_of(r, key)
  local mean = value.number(r.result, "monitor", key)
  if not mean then return curves.mean(r.points, "monitor", key) end
  return mean, value.number(r.result, "monitor", "least", key) or mean, value.number(r.result, "monitor", "most", key)
    or mean
end

function facts.hardware(r)
  local rows = {}
  for _, reading in ipairs(readings) do
    local mean, low, high = reading_of(r, reading[1])
    if mean then rows[#rows + 1] = {reading[2], reading[3](mean), reading[3](low), reading[3](high)} end
  end
  local energy = value.number(r.result, "energy_wh") or value.number(r.result, "monitor", "energy_wh")
  if energy then rows[#rows + 1] = {"energy", ("%.4g Wh"):format(energy)} end
  if #rows == 0 then return nil end
  local columns = {{"reading"}, {"mean", "n"}, {"lowest", "n"}, {"highest", "n"}}
  return html.table("averages over the run", columns, rows) .. (curves.hardware(r) or "")
end

-- ---- tables ----

-- A list that is not longer than a page can hold.
local function limited(rows)
  local left = #rows - MOST_ROWS
  for i = #rows, MOST_ROWS + 1, -1 do rows[i] = nil end
  return left > 0 and ('<p class="quiet">%s more are left out here.</p>'):format(html.number(left)) or ""
end

--- One value as people write it.
function facts.plain(found)
  if type(found) == "string" then return found end
  if type(found) == "number" then return found % 1 == 0 and ("%.0f"):format(found) or ("%.6g"):format(found) end
  if type(found) == "table" then
    local fine, text = pcall(core.json_encode, found)
    return fine and text or "?"
  end
  return tostring(found)
end

--- All settings of a run by name: those of the recipe, of train.fit ("train.fit: keep"), of optimizers ("AdamW: eps").
-- settings: what settings.json holds
function facts.all_settings(settings)
  local out = {}
  local function add(before, from)
    for _, key in ipairs(value.keys(from)) do out[before .. key] = from[key] end
  end
  add("", value.table(settings, "settings"))
  add("train.fit: ", value.table(settings, "loop"))
  for _, opt in ipairs(value.table(settings, "optimizers")) do
    add((value.text(opt, "name") or "optimizer") .. ": ", value.table(opt, "options"))
  end
  return out
end

-- What somebody chose for this run comes first, what nobody asked for last; a switch that is off and was left alone is
-- none.
local ranks = {flag = 1, recipe = 3, auto = 4, default = 5}

local function settings_rows(r)
  local rows, all = {}, facts.all_settings(r.settings)
  for _, key in ipairs(value.keys(all)) do
    local s = all[key]
    local origin, why, now = value.text(s, "origin") or "", value.text(s, "why"), value.at(s, "value")
    local from = origin .. (why and ": " .. why or "")
    local is_idle = origin == "default" and (now == false or now == "none")
    if not is_idle then rows[#rows + 1] = {key, facts.plain(now), from, rank = ranks[origin] or 2, place = #rows} end
  end
  table.sort(rows, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.place < b.place
  end)
  return rows
end

function facts.settings(r)
  local rows = settings_rows(r)
  if #rows == 0 then return nil end
  local note = limited(rows)
  return html.table("effective settings", {{"setting"}, {"value"}, {"from", "wide"}}, rows) .. note
end

local function switch_rows(r)
  local rows = {}
  local list = value.has(r.result, "features") and r.result.features or value.table(r.result, "counters")
  for i, f in ipairs(list) do
    rows[i] = {value.text(f, "name") or "?", facts.plain(value.at(f, "count")), value.text(f, "what") or "",
      value.at(f, "explicit") == true and "asked for" or "automatic"}
  end
  for _, key in ipairs(value.keys(list)) do -- also as {name = count}
    rows[#rows + 1] = {key, facts.plain(list[key]), ""}
  end
  return rows
end

--- What was asked for, and how often it really happened.
function facts.switches(r)
  local rows = switch_rows(r)
  if #rows == 0 then return nil end
  local note = limited(rows)
  return "<p>Each switch of this run counted what it did; one that was asked for and counted nothing would have " ..
    "failed the run.</p>" ..
    html.table("switches and what they counted", {{"switch"}, {"count", "n"}, {"of"}, {"why"}}, rows) .. note
end

-- "160 x 60, 1 channel"
local function size_words(d)
  local width, height, channels = value.number(d, "width"), value.number(d, "height"), value.number(d, "channels")
  if not width or not height or width * height == 0 then return nil end
  return ("%d × %d%s"):format(width, height, channels
    and (channels == 1 and ", gray" or (", %d channels"):format(channels)) or "")
end

local function label_words(d)
  local charset, length = value.text(d, "charset"), value.number(d, "length")
  if not charset then return nil end
  return (length and ("%d of "):format(length) or "") .. symbols.shown(symbols.list(charset))
end

local function data_rows(r)
  local rows = {}
  for _, role in ipairs(value.keys(value.table(r.settings, "data"))) do
    local d = r.settings.data[role]
    local hash = value.text(d, "hash")
    rows[#rows + 1] = {role, value.text(d, "source"), value.number(d, "count"), value.number(d, "batch"), size_words(d),
      label_words(d), hash and {html = '<span class="mono">' .. html.text(hash:sub(1, 16)) .. "</span>"}}
  end
  return rows
end

local data_columns = {{"role"}, {"source"}, {"samples", "n"}, {"batch", "n"}, {"images"}, {"characters"}, {"hash"}}

--- Columns and rows without the columns that no row fills.
function facts.filled(columns, rows)
  local kept, out = {}, {}
  for i, column in ipairs(columns) do
    local has = false
    for _, row in ipairs(rows) do has = has or row[i] ~= nil end
    if has then kept[#kept + 1] = i end
  end
  for k, row in ipairs(rows) do
    out[k] = {}
    for place, i in ipairs(kept) do out[k][place] = row[i] end
  end
  for place, i in ipairs(kept) do kept[place] = columns[i] end
  return kept, out
end

local function fact_text(key, found)
  if type(found) ~= "number" then return facts.plain(found) end
  return key:match("bytes$") and html.bytes(found) or html.number(found)
end

-- {key = value} of an object as rows; what is a table goes in as JSON.
local function object_rows(object, rows)
  for _, key in ipairs(value.keys(value.table(object))) do
    rows[#rows + 1] = {(key:gsub("_bytes$", ""):gsub("_", " ")), fact_text(key, object[key])}
  end
end

function facts.data(r)
  local data, model = data_rows(r), {}
  object_rows(r.settings.model, model)
  if #data + #model == 0 then return nil end
  local notes, columns, rows = {limited(data), limited(model)}, facts.filled(data_columns, data)
  return (#data > 0 and html.table("data", columns, rows) .. notes[1] or "") ..
    (#model > 0 and "<h3>Model</h3>" .. html.table("model", {{"fact"}, {"value"}}, model) .. notes[2] or "")
end

function facts.machine(r)
  local rows = {}
  local machine = value.has(r.settings, "machine") and r.settings.machine or r.result.host
  object_rows(machine, rows)
  local keys = {"precision", "seed", "peak_memory_bytes", "peak_gpu_memory_bytes", "energy_wh"}
  if not value.text(machine, "device") then table.insert(keys, 1, "device") end
  for _, key in ipairs(keys) do
    local found = value.at(r.result, key)
    if found ~= nil and type(found) ~= "table" then object_rows({[key] = found}, rows) end
  end
  local version = value.text(r.settings, "version") or value.text(r.result, "version")
  if version then rows[#rows + 1] = {"capl", version} end
  if #rows == 0 then return nil end
  local note = limited(rows)
  return html.table("machine and version", {{"fact"}, {"value"}}, rows) .. note
end

function facts.events(r)
  local rows = {}
  for i, e in ipairs(r.events) do
    local seconds = value.number(e, "seconds")
    rows[i] = {value.number(e, "step"), seconds and html.seconds(seconds), value.text(e, "event")}
  end
  if #rows == 0 then return nil end
  local note = limited(rows)
  return html.table("events", {{"step", "n"}, {"time", "n"}, {"event", "wide"}}, rows) .. note
end

-- ---- schedule ----

local function stage_rows(r)
  local rows = {}
  for i, stage in ipairs(value.table(r.result, "stages")) do
    local parts = {}
    for _, key in ipairs(value.keys(value.table(stage))) do
      if key ~= "name" and key ~= "step" and key ~= "stage" then
        parts[#parts + 1] = key .. " = " .. facts.plain(stage[key])
      end
    end
    rows[i] = {value.text(stage, "name") or ("stage " .. i), value.number(stage, "step"), parts[1]
      and table.concat(parts, ", ")}
  end
  return rows
end

--- The recipe's text as it ran.
function facts.recipe(r, page)
  local text = page:file("recipe.lua")
  if not text or text == "" then return nil end
  return "<details><summary>the text that ran</summary><pre>" .. html.text(text, MOST_TEXT) .. "</pre></details>"
end

--- The learning rate, and the stages of the curriculum.
function facts.schedule(r, page)
  local out = {curves.rate(r) or ""}
  local rows = stage_rows(r)
  if #rows > 0 then
    local columns, kept = facts.filled({{"stage"}, {"from step", "n"}, {"what", "wide"}}, rows)
    out[#out + 1] = "<h3>Stages of the curriculum</h3>" .. html.table("stages", columns, kept)
  end
  if r.state ~= "finished" then
    out[#out + 1] = page:file_picture("schedule.png", "The schedule as it was planned") or ""
  end
  out[#out + 1] = page:file_picture("curriculum.png", "How the ranges of the augmentation change over the run") or ""
  local text = table.concat(out)
  return text ~= "" and text or nil
end

return facts
