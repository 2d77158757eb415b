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
in    a tensor (H,W), (C,H,W) or (N,C,H,W), u8 or floating; a batch of a loader; a data source (its first images); the path of a
      PNG or JPEG file
opts  columns: images side by side; labels: list of texts; scale: {black, white}, the values that become black and white
      (u8: 0 and 255; others: 0 and 1 where they fit, else the least and the greatest);
      as = "blocks" or "ascii"
eg    show(data.captcha{count = 8})]]}

--- Lets the prompt see the names, behind those of the user.
function globals.open()
  for name, entry in pairs(globals) do
    if type(entry) == "table" then scope.own[name] = entry.fn end
  end
end

--- Page of such a name, nil for others.
function globals.doc(name)
  local entry = name ~= "open" and name ~= "doc" and globals[name]
  return type(entry) == "table" and entry.doc or nil
end

return globals
