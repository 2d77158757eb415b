-- style.lua: how the report looks in light, in dark and on paper, and the few lines of script behind its charts.
--
-- Colours of text and lines are pairs of which each has enough contrast on its background; lines differ by dashes, too.
-- SPDX-License-Identifier: Apache-2.0

local style = {}

style.css = [[
:root {
  color-scheme: light dark;
  --bg: #f6f6f4; --card: #ffffff; --ink: #1b1c1e; --quiet: #595d63; --rule: #dcdddf; --soft: #eeeeec;
  --good: #14683d; --warn: #7d4a00; --bad: #a8201a; --link: #1b56ad;
  --c1: #1b5fc1; --c2: #b84a05; --c3: #14744a; --c4: #7437ae; --c5: #786000; --c6: #5a5e64; --c7: #a11f63;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --bg: #131416; --card: #1c1e21; --ink: #e8e9eb; --quiet: #a7acb4; --rule: #35383d; --soft: #26292d;
    --good: #6fd6a0; --warn: #f0b95c; --bad: #ff9a92; --link: #8fbcff;
    --c1: #7fb2ff; --c2: #ff9d5c; --c3: #5fd09a; --c4: #cba2ff; --c5: #dcc050; --c6: #a7acb4; --c7: #ff94c4;
  }
  img.paper { background: #fff; padding: 6px; border-radius: 4px; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums;
}
main, header, footer, nav { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 32px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 14px; }
h3 { font-size: 1rem; margin: 20px 0 8px; }
p { margin: 0 0 10px; max-width: 75ch; overflow-wrap: anywhere; }
a { color: var(--link); }
code, pre, .mono { font-family: ui-monospace, "Noto Sans Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .9em; }
pre { background: var(--soft); padding: 10px 14px; border-radius: 6px; margin: 0 0 10px; white-space: pre-wrap; overflow-wrap: anywhere; }
.quiet, .absent { color: var(--quiet); }
.none { color: var(--quiet); }
.state { display: inline-block; font-weight: 600; border: 1.5px solid; border-radius: 99px; padding: 0 .65em; font-size: .85rem;
  vertical-align: .2em; margin-left: .3em; }
.finished { color: var(--good); } .running { color: var(--link); } .stopped { color: var(--warn); }
  .failed, .killed { color: var(--bad); }
.unknown, .unfinished { color: var(--quiet); }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 16px; list-style: none; padding: 0; margin: 14px 0 0; font-size: .92rem; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 20px 22px; margin: 18px 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 165px), 1fr)); gap: 14px 22px; margin: 0; }
.tiles div { min-width: 0; } .tiles dt { color: var(--quiet); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.3rem; font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; }
.tiles dd small { display: block; font-weight: 400; font-size: .85rem; color: var(--quiet); }
.tiles .first dd { font-size: 1.9rem; } .tiles + p { margin-top: 18px; }
.error { border-left: 4px solid var(--bad); padding-left: 14px; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 26px 34px; }
.grid > * { min-width: 0; }
figure { margin: 0 0 18px; } figcaption { font-weight: 600; font-size: .95rem; margin-bottom: 8px; }
.plot { position: relative; height: 210px; margin: 0 14px 24px 58px; border-left: 1px solid var(--rule);
  border-bottom: 1px solid var(--rule); }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.plot path { fill: none; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.plot .grid { stroke: var(--rule); stroke-width: 1; } .plot .mark { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 2 4; }
.plot .line { stroke-width: 2; stroke-linecap: round; } .plot .dot { stroke-width: 6; stroke-linecap: round; }
.plot .band { stroke: none; opacity: .16; }
.ty, .tx { position: absolute; font-size: .78rem; color: var(--quiet); line-height: 1; white-space: nowrap; }
.ty { right: calc(100% + 7px); transform: translateY(50%); } .tx { top: calc(100% + 7px); transform: translateX(-50%); }
.cursor { position: absolute; top: 0; bottom: 0; width: 0; border-left: 1px solid var(--ink); display: none; pointer-events: none; }
figure.chart:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 3px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0; margin: 0; font-size: .88rem; }
.legend .where { color: var(--quiet); }
.legend b { font-weight: 600; } .legend .where b { font-weight: 400; }
.key { display: inline-block; width: 1.6em; border-top: 3px solid; vertical-align: .28em; margin-right: .45em; }
.s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); stroke-dasharray: 7 4; } .s3 { stroke: var(--c3); stroke-dasharray: 1 5; }
.s4 { stroke: var(--c4); stroke-dasharray: 10 4 1 4; } .s5 { stroke: var(--c5); stroke-dasharray: 4 3; } .s6 { stroke: var(--c6); }
.dot { stroke-dasharray: none; }
.band.s1 { fill: var(--c1) !important; } .band.s2 { fill: var(--c2) !important; } .band.s3 { fill: var(--c3) !important; }
.band.s4 { fill: var(--c4) !important; } .band.s5 { fill: var(--c5) !important; } .band.s6 { fill: var(--c6) !important; }
.key.s1 { border-color: var(--c1); } .key.s2 { border-color: var(--c2); border-top-style: dashed; }
.key.s3 { border-color: var(--c3); border-top-style: dotted; } .key.s4 { border-color: var(--c4); border-top-style: double; }
.key.s5 { border-color: var(--c5); border-top-style: dashed; } .key.s6 { border-color: var(--c6); }
.numbers { margin-top: 8px; font-size: .88rem; } summary { color: var(--quiet); cursor: pointer; }
.scroll { overflow-x: auto; margin-bottom: 18px; } table { border-collapse: collapse; font-size: .92rem; min-width: min(100%, 300px); }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { text-align: left; padding: 5px 18px 5px 0; border-bottom: 1px solid var(--rule); vertical-align: top; font-weight: 400;
  overflow-wrap: anywhere; }
thead th { color: var(--quiet); font-size: .85rem; white-space: nowrap; } tbody th { font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
tbody td.wide { min-width: min(16em, 60vw); }
.stack { display: flex; height: 26px; border-radius: 5px; overflow: hidden; gap: 2px; margin-bottom: 10px; }
.stack i { min-width: 1px; }
.p1 { background: var(--c1); border-color: var(--c1); } .p2 { background: var(--c2); border-color: var(--c2); }
.p3 { background: var(--c3); border-color: var(--c3); } .p4 { background: var(--c4); border-color: var(--c4); }
.p5 { background: var(--c5); border-color: var(--c5); } .p6 { background: var(--c7); border-color: var(--c7); }
.p7, .p8, .p9 { background: var(--c6); border-color: var(--c6); }
.shares .key { width: .9em; height: .9em; border: 0; border-radius: 3px; vertical-align: -.1em; }
.bars ul { list-style: none; padding: 0; margin: 0; display: grid; grid-template-columns: max-content 1fr max-content; gap: 5px 12px;
  font-size: .92rem; }
.bars li { display: contents; } .track { background: var(--soft); border-radius: 3px; align-self: center; height: 14px; }
.track i { display: block; height: 100%; background: var(--c1); border-radius: 3px; }
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 180px), 1fr)); gap: 16px; list-style: none;
  padding: 0; margin: 0; }
.samples img { display: block; max-width: 100%; min-height: 40px; image-rendering: pixelated; border-radius: 3px;
  border: 1px solid var(--rule); }
.samples .mono { display: block; font-size: 1.05rem; } .samples small { display: block; color: var(--quiet); overflow-wrap: anywhere; }
.miss { color: var(--bad); font-weight: 700; text-decoration: underline; }
img.paper { max-width: 100%; height: auto; display: block; }
img.thumb { height: 30px; max-width: 90px; image-rendering: pixelated; border-radius: 2px; vertical-align: middle; margin-right: 3px; }
.matrix { overflow-x: auto; } .matrix svg { width: 100%; display: block; }
.matrix text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; fill: var(--ink); }
.matrix .wrong { fill: var(--c2); } .matrix .right { fill: var(--c1); } .matrix .frame { fill: none; stroke: var(--rule); }
.matrix .axis { font-family: system-ui, sans-serif; fill: var(--quiet); }
footer { padding-bottom: 40px; font-size: .88rem; color: var(--quiet); }
@media (max-width: 520px) { main, header, footer, nav { padding: 0 12px; } section { padding: 16px 14px; } .plot { margin-left: 50px; } }
@media print {
  body { background: #fff; font-size: 11pt; } nav, .numbers, .cursor { display: none; } section { break-inside: auto; border: 0;
    padding: 0; }
  figure, tr, .samples li { break-inside: avoid; } .stack i, .key, .track i, .matrix rect { print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
}
]]

style.script = [[
"use strict";
document.querySelectorAll("figure.chart").forEach(function (figure) {
  var data = JSON.parse(figure.querySelector("script").textContent), plot = figure.querySelector(".plot");
  var cursor = figure.querySelector(".cursor"), places = {}, xs = [], at = null;
  var out = {};
  figure.querySelectorAll(".readout").forEach(function (b) { out[b.dataset.k] = {b: b, last: b.textContent}; });
  data.series.forEach(function (s) { s.x.forEach(function (x) { places[x] = x; }); });
  xs = Object.values(places).sort(function (a, b) { return a - b; });
  var low = data.low, span = data.high - low;
  function at_axis(x) { return data.log ? Math.log10(x) : x; }
  function words(y) {
    if (y === null || y === undefined) return "–";
    return data.percent ? (100 * y).toFixed(2) + " %" : Math.abs(y) >= 1e5 ? y.toLocaleString("en") : String(Number(y.toPrecision(4)));
  }
  function near(s, x) {
    var best = -1;
    s.x.forEach(function (v, i) {
      if (s.y[i] !== null && (best < 0 || Math.abs(v - x) < Math.abs(s.x[best] - x))) best = i;
    });
    return best < 0 || Math.abs(at_axis(s.x[best]) - at_axis(x)) > span / 20 ? null : s.y[best];
  }
  function show(i) {
    at = i;
    cursor.style.display = "block";
    cursor.style.left = 100 * (at_axis(xs[i]) - low) / span + "%";
    out.x.b.textContent = "at " + xs[i].toLocaleString("en") + " " + out.x.b.dataset.unit;
    data.series.forEach(function (s, k) { if (out[k]) out[k].b.textContent = words(near(s, xs[i])); });
  }
  function hide() {
    at = null;
    cursor.style.display = "none";
    Object.values(out).forEach(function (o) { o.b.textContent = o.last; });
  }
  plot.addEventListener("pointermove", function (e) {
    var box = plot.getBoundingClientRect(), x = low + span * (e.clientX - box.left) / box.width, best = 0;
    xs.forEach(function (v, i) { if (Math.abs(at_axis(v) - x) < Math.abs(at_axis(xs[best]) - x)) best = i; });
    show(best);
  });
  plot.addEventListener("pointerleave", hide);
  figure.addEventListener("blur", hide);
  figure.addEventListener("keydown", function (e) {
    var move = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (move) { e.preventDefault();
      show(Math.max(0, Math.min(xs.length - 1, at === null ? (move > 0 ? 0 : xs.length - 1) : at + move))); }
    if (e.key === "Escape") hide();
  });
});
]]

return style
