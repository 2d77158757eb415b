-- serve_page.lua: the page at / of `capl serve`: a form to try the model, without anything from the network.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local fields = require "fields"
local html = require "report.html"
local style = require "report.style"

local page = {}

local template = [[<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{model}</title><style>{style_html}
#drop { border: 2px dashed var(--rule); border-radius: 10px; padding: 22px; text-align: center; }
#drop.over { border-color: var(--link); }
#said { font-size: 1.9rem; font-weight: 600; overflow-wrap: anywhere; min-height: 1.5em; margin: 14px 0 4px; }
#said[hidden] { display: none; }
#seen, #given img { max-width: 100%; max-height: 300px; image-rendering: pixelated; background: #fff; }
#given img { margin: 0 12px 12px 0; border: 1px solid var(--rule); }
textarea { width: 100%; height: 9em; font: .9em ui-monospace, monospace; color: inherit; background: var(--soft);
  border: 1px solid var(--rule); border-radius: 6px; padding: 8px; }
button, input { font: inherit; } .wrong { color: var(--bad); }
</style></head><body>
<header><h1>{model}</h1><p class="quiet">{about}</p></header>
<main><section><h2>Try it</h2>{form_html}
<div id="said" role="status" aria-live="polite"></div><p class="quiet" id="time"></p><div id="given"></div>
<pre id="json" hidden></pre></section>
<section><h2>From a program</h2><pre id="calls">{calls}</pre>
<p class="quiet"><a href="health">health</a> · <a href="metrics">metrics</a> · capl {version}</p></section></main>
<script>
"use strict";
const byId = (id) => document.getElementById(id);
byId("calls").textContent = byId("calls").textContent.replaceAll("URL/", location.href);
function headline(said) {
  for (const key of ["error", "text", "class"]) if (said[key] !== undefined) return String(said[key]);
  const parts = [];
  for (const [name, one] of Object.entries(said))
    if (one && (one.text !== undefined || one.class !== undefined)) parts.push(name + ": " + (one.text ?? one.class));
  return parts.join(", ");
}
function show(status, said, ms) {
  byId("said").textContent = headline(said);
  byId("said").hidden = !headline(said);
  byId("said").className = status === 200 ? "" : "wrong";
  byId("time").textContent = "HTTP " + status + ", " + ms.toFixed(0) + " ms";
  byId("given").replaceChildren();
  byId("json").hidden = false;
  byId("json").textContent = JSON.stringify(said, (key, value) => {
    if (key !== "png") return value;
    const picture = new Image();
    picture.alt = "picture that the model gives";
    picture.src = "data:image/png;base64," + value;
    byId("given").append(picture);
    return "…";
  }, 1);
}
async function send(body, type) {
  const since = performance.now();
  try {
    const answer = await fetch("predict", {method: "POST", body, headers: type ? {"Content-Type": type} : {}});
    show(answer.status, await answer.json(), performance.now() - since);
  } catch (e) { show(0, {error: "no answer: " + e.message}, performance.now() - since); }
}
function sendImage(file) {
  if (!file) return;
  byId("seen").src = URL.createObjectURL(file);
  byId("seen").hidden = false;
  send(file, file.type || "application/octet-stream");
}
const drop = byId("drop");
if (drop) {
  byId("file").onchange = (e) => sendImage(e.target.files[0]);
  byId("send").hidden = true; // the file is sent when it is chosen
  drop.ondragover = (e) => { e.preventDefault(); drop.classList.add("over"); };
  drop.ondragleave = () => drop.classList.remove("over");
  drop.ondrop = (e) => { e.preventDefault(); drop.classList.remove("over"); sendImage(e.dataTransfer.files[0]); };
  document.onpaste = (e) => sendImage([...e.clipboardData.files][0]);
} else byId("go").onclick = () => send(byId("text").value, "application/json");
</script></body></html>
]]

local image_form = [[<form id="drop" method="post" action="predict" enctype="multipart/form-data">
<p><label>An image, PNG or JPEG: <input type="file" id="file" name="image" accept="image/png,image/jpeg"></label>
<button id="send">Send</button></p>
<p class="quiet">or drop it here, or paste it</p><img id="seen" alt="the image that was sent" hidden></form>]]

local numbers_form = [[<p><label for="text">JSON</label></p><textarea id="text" spellcheck="false">{example}</textarea>
<p><button id="go">Send</button></p>]]

-- What JSON calls an input, as serve.c does.
local function name_of(input)
  if input.name ~= "" then return input.name end
  return fields.kind(input.kind).is_levels and "image" or "values"
end

-- {"image": "…", "series": [0, 0, …]}
local function example_of(info)
  local parts = {}
  for _, input in ipairs(info.inputs) do
    local value = fields.kind(input.kind).is_levels and '"base64…"'
      or "[" .. ("0, "):rep(input.numbers):sub(1, -3) .. "]"
    parts[#parts + 1] = ('"%s": %s'):format(name_of(input), value)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function about(outputs)
  local parts = {}
  for i, d in ipairs(outputs) do
    parts[i] = (d.name == "" and "" or d.name .. ": ") .. (d.kind.reads and d.kind.reads(d) or d.kind.name)
  end
  return "gives " .. table.concat(parts, "; ")
end

-- Commands of a shell; the address is the page's own.
local function calls_of(info)
  local json = "curl --json '" .. example_of(info) .. "' URL/predict"
  if #info.inputs > 1 or info.width == 0 then return json end
  return "curl --data-binary @image.png URL/predict\ncurl -F image=@image.png URL/predict\n" .. json
end

--- The page of a model. info: of model:info(); outputs: of fields.outputs_of
function page.of(path, info, outputs)
  local numbers = #info.inputs > 1 or info.width == 0
  return html.fill(template, {model = path, about = about(outputs), version = core.version(), style_html = style.css,
    calls = calls_of(info):sub(1, 390),
    form_html = numbers and html.fill(numbers_form, {example = example_of(info):sub(1, 390)}) or image_form})
end

return page
