-- shell.lua: what every page has around its sections: head, title, style, script; for pages of runs also links and what
-- is missing.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local html = require "report.html"
local style = require "report.style"

local shell = {}

local frame_template = [[
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="capl {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{css_html}</style>
</head>
<body>
<header><h1>{name} <span class="state {state}">{state}</span></h1>
<p class="quiet">{summary}</p>{under_title_html}</header>
{nav_html}<main>
{main_html}
</main>
<footer><p>Made by capl {version} on {date} from the files in {path}.{again}</p></footer>
<script>
{script_html}</script>
</body>
</html>
]]

local nav_template = '<nav aria-label="sections"><ul>{links_html}</ul></nav>\n'
local section_template = '<section id="{id}" aria-labelledby="h-{id}"><h2 id="h-{id}">{title}</h2>{body_html}</section>'

local function absent_html(absent)
  if #absent == 0 then return "" end
  local out = {}
  for i, text in ipairs(absent) do out[i] = "<li>" .. html.text(text) .. "</li>" end
  return '<section aria-labelledby="h-absent"><h2 id="h-absent">Not in this report</h2><ul class="absent">'
    .. table.concat(out) ..
    "</ul></section>"
end

--- What is around the sections of a page.
-- in   title; name, state (a word), summary, path of the folder; under_title_html, nav_html, main_html; again: how it
--      is made again
function shell.frame(p)
  return html.fill(frame_template, {
    title = p.title, name = p.name, state = p.state, summary = p.summary, version = core.version(),
    date = core.sys.date(), path = p.path, under_title_html = p.under_title_html or "", nav_html = p.nav_html or "",
    main_html = p.main_html, again = p.again or "", css_html = style.css, script_html = style.script,
  })
end

--- A whole page.
-- in   name, state (a word), summary, path of the folder; command = that made it, or nil; sections = list of {id,
--      title, html};
--      absent = list of texts: what could not be shown
function shell.page(p)
  local shown, links = {}, {}
  for i, s in ipairs(p.sections) do
    shown[i] = html.fill(section_template, {id = s.id, title = s.title, body_html = s.html})
    links[i] = html.fill('<li><a href="#{id}">{title}</a></li>', {id = s.id, title = s.title})
  end
  return shell.frame{
    title = ("%s: %s – capl report"):format(p.name, p.state), name = p.name, state = p.state, summary = p.summary,
    path = p.path, under_title_html = p.command and "<pre>" .. html.text(p.command) .. "</pre>" or "",
    nav_html = html.fill(nav_template, {links_html = table.concat(links)}),
    main_html = table.concat(shown, "\n") .. "\n" .. absent_html(p.absent),
    again = " Make it again: capl report " .. p.path,
  }
end

return shell
