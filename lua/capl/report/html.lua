-- html.lua: text that came from anywhere as text of a page, numbers for people, and pictures inside the page.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local digit_groups = require "digit_groups"

local html = {}

local MOST_BYTES = 400 -- of one text, unless said

-- ---- text ----

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;"}
local UNKNOWN = "\239\191\189"

local turning = {"\226\128[\170-\174]", "\226\129[\166-\169]"} -- U+202A..U+202E, U+2066..U+2069

-- What is no UTF-8 becomes the sign for unknown characters, controls too, also those that turn the direction of what
-- stands around them; at most `most` bytes stay, and whole characters.
local function clean(text, most)
  text = core.utf8(text):gsub("\194[\128-\159]", UNKNOWN)
  for _, pattern in ipairs(turning) do text = text:gsub(pattern, UNKNOWN) end
  if #text <= most then return text end
  return text:sub(1, most + 1):gsub("[^\128-\191][\128-\191]*$", "") .. "…"
end

--- Any value as text of a page, at most `most` bytes of it.
function html.text(value, most)
  most = most or MOST_BYTES
  local text = type(value) == "number" and html.number(value) or tostring(value)
  if text:find("[\128-\255]") or #text > most then text = clean(text, most) end
  return (text:gsub("[%z\1-\8\11-\31\127]", UNKNOWN):gsub("[&<>\"']", escapes))
end

--- A JSON text that may stand inside <script>.
function html.script(json) return (json:gsub("<", "\\u003c"):gsub("\226\128[\168\169]", " ")) end

-- ---- elements ----

--- fill("<p>{x}</p>", {x = …}): values become text; those that are HTML already have a name that ends with _html.
function html.fill(template, values)
  return (template:gsub("{([%w_]+)}", function(name)
    local found = values[name]
    if name:match("_html$") then return found or "" end
    return found == nil and "" or html.text(found)
  end))
end

--- A table. columns: {{title, class}, …}; rows: lists of cells, each text or {html = …}. caption: for those who do not
-- see.
function html.table(caption, columns, rows)
  local out = {('<div class="scroll" tabindex="0" role="region" ' ..
    'aria-label="%s"><table><caption>%s</caption><thead><tr>'):format(
    html.text(caption), html.text(caption))}
  for _, column in ipairs(columns) do
    out[#out + 1] = ('<th scope="col"%s>%s</th>'):format(column[2] and (' class="%s"'):format(column[2]) or "",
      html.text(column[1]))
  end
  out[#out + 1] = "</tr></thead><tbody>"
  for _, row in ipairs(rows) do out[#out + 1] = html.row(columns, row) end
  out[#out + 1] = "</tbody></table></div>"
  return table.concat(out)
end

function html.row(columns, row)
  local out = {"<tr>"}
  for i, column in ipairs(columns) do
    local cell = row[i]
    local inner = type(cell) == "table" and cell.html or cell == nil and '<span class="none">–</span>'
      or html.text(cell)
    local tag = i == 1 and 'th scope="row"' or "td"
    out[#out + 1] = ("<%s%s>%s</%s>"):format(tag, column[2] and (' class="%s"'):format(column[2]) or "", inner,
      tag:match("^%a+"))
  end
  out[#out + 1] = "</tr>"
  return table.concat(out)
end

-- ---- numbers ----

--- 12,345; 0.0123; 1.5e-07
function html.number(x)
  if x % 1 == 0 and math.abs(x) < 1e15 then
    return (x < 0 and "−" or "") .. digit_groups(math.abs(x))
  end
  return ("%.4g"):format(x)
end

--- "96.13 %" of 0.9613
function html.percent(x, digits) return (("%%.%df %%%%"):format(digits or 2)):format(100 * x) end

--- "1.2 GB"
function html.bytes(n)
  for _, unit in ipairs{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} do
    if n >= unit[1] then return ("%.3g %s"):format(n / unit[1], unit[2]) end
  end
  return ("%.4g bytes"):format(n)
end

--- "4.2 s", "3 min 12 s", "2 h 05 min", "12 days"
function html.seconds(s)
  if not (s < 8640000) then return ("%.4g days"):format(s / 86400) end
  if s < 0.0995 then return ("%.2g ms"):format(1000 * s) end
  if s < 59.95 then return ("%.3g s"):format(s) end
  if s < 3599.5 then return ("%d min %02d s"):format(math.floor((s + 0.5) / 60), math.floor(s + 0.5) % 60) end
  return ("%d h %02d min"):format(math.floor((s + 30) / 3600), math.floor((s + 30) / 60) % 60)
end

-- ---- pictures ----

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

--- Base64 of bytes.
function html.base64(bytes)
  local out = {}
  for i = 1, #bytes, 3 do
    local a, b, c = bytes:byte(i, i + 2)
    local whole = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 3, 0, -1 do
      local digit = math.floor(whole / 64 ^ k) % 64 + 1
      out[#out + 1] = alphabet:sub(digit, digit)
    end
    if not c then out[#out] = "=" end
    if not b then out[#out - 1] = "=" end
  end
  return table.concat(out)
end

--- An <img> that holds its PNG file.
function html.png(bytes, alt, class)
  if alt == "" then alt = "picture" end
  return ('<img class="%s" alt="%s" src="data:image/png;base64,%s">'):format(class, html.text(alt), html.base64(bytes))
end

return html
