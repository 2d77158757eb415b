-- globals.lua: the names that only the prompt has, each with what `?name` and help() say of it.
--
-- One list: name -> {fn, doc}. A recipe does not have them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scope = require "repl.scope"

local globals = {}

local function help(what)
  local own = globals.doc(what)
  for name, entry in pairs(globals) do
    if type(entry) == "table" and entry.fn == what and what ~= nil then own = globals.doc(name) end
  end
  core.sys.out((own or require("repl.help").of(what)) .. "\n")
end

globals.help = {fn = help, doc = [[
help([name or value]): explains a name of the library or a value's, like ?name; without one, how the prompt works.
eg  help("nn.Conv2d")   help(nn.Conv2d)   help()]]}

globals.who = {fn = function() return require("repl.who").print() end, doc = [[
who(): the variables that you have set: names, kinds, shapes and bytes, largest first; and what tensors take in all.
eg  x = capl.zeros(100, 100) who()]]}

globals.show = {fn = function(...) return require("repl.picture").show(...) end, doc = [[
show(image[, {columns, labels, scale, as}]): draws images in the terminal.
in    a tensor (H,W), (C,H,W) or (N,C,H,W), u8 or floating; a batch of a loader; a data source (its first images); the
      path of a PNG or JPEG file
opts  columns: images side by side; labels: list of texts; scale: {black, white}, the values that become black and white
      (u8: 0 and 255; others: 0 and 1 where they fit, else the least and the greatest);
      as = "blocks", "ascii", "kitty" or "sixel" (what the terminal says it can do)
eg    show(data.captcha{count = 8})]]}

globals.plot = {fn = function(...) return require("repl.chart").draw(...) end, doc = [[
plot(series[, {height, width, log, title}]): draws lines in the terminal. plot.lines and so on, of recipes, write PNG
files
files.
in    a list of numbers or a tensor (N); {name = list, …} for several; {x = list, y = list}; the folder of a run, or
      its path and a list of its metrics: plot("runs/a", {"train_loss"}). NaN leaves a gap
opts  log: the height by powers of ten; height, width: rows and columns
eg    plot{1, 4, 9, 16}]]}

--- Lets the prompt see the names, behind those of the user. The library's plot stays what it was, and can be called,
-- too.
function globals.open(environment)
  for name, entry in pairs(globals) do
    if type(entry) == "table" then scope.add(name, entry.fn) end
  end
  local library = rawget(environment, "plot")
  if type(library) == "table" then
    rawset(environment, "plot", setmetatable({}, {__index = library, __metatable = false,
      __call = function(_, ...) return globals.plot.fn(...) end,
      __newindex = function(_, key)
        core.error{code = "value", message = ("library tables are read-only: '%s' cannot be set"):format(tostring(key))}
      end}))
  end
end

--- Page of such a name, nil for others.
function globals.doc(name)
  local entry = name ~= "open" and name ~= "doc" and globals[name]
  return type(entry) == "table" and entry.doc or nil
end

return globals
