-- ranks.lua: the section of a page about the ranks of a run: where each was, how fast, and what it waited for.
-- SPDX-License-Identifier: Apache-2.0
local html = require "report.html"
local value = require "report.value"

local ranks = {}

local MOST = 64 -- rows

local columns = {
  {"rank", "n"}, {"host"}, {"device"}, {"images/s", "n"}, {"waits for data", "n"}, {"waits for ranks", "n"},
  {"exchanges hidden", "n"}, {"peak memory", "n"},
}

local function share(r, key)
  local x = value.number(r, key)
  return x and html.percent(x, 1)
end

local function row(r)
  local rank, speed, memory = value.number(r, "rank"), value.number(r, "images_per_s"), value.number(r, "memory")
  return {rank and html.number(rank), value.text(r, "host"), value.text(r, "device"), speed and html.number(speed),
    share(r, "waited_for_data"), share(r, "waited_for_ranks"), share(r, "overlap"), memory and html.bytes(memory)}
end

-- "Rank 1 waits least for the others (0.4 %): they wait for it."
local function slowest_html(list)
  local slow, least, most
  for _, r in ipairs(list) do
    local waited = value.number(r, "waited_for_ranks")
    if waited and (not least or waited < least) then slow, least = value.number(r, "rank"), waited end
    if waited and (not most or waited > most) then most = waited end
  end
  if not slow or most - least < 0.05 then return "" end
  return html.fill("<p>Rank {rank} waits least for the others ({share}): they wait for it.</p>",
    {rank = html.number(slow), share = html.percent(least, 1)})
end

--- The table of the ranks; nil for a run of one process.
function ranks.section(r)
  local list, rows = value.table(r.result, "ranks"), {}
  for i, one in ipairs(list) do rows[i] = i <= MOST and row(one) or nil end
  if #rows == 0 then return nil end
  local more = #list > MOST and html.fill('<p class="quiet">{n} more are left out here.</p>',
    {n = html.number(#list - MOST)}) or ""
  return html.table("the ranks of this run", columns, rows) .. more .. slowest_html(list)
end

return ranks
