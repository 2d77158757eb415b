-- show_module.lua: a network as the prompt prints it: a tree of its layers with their parameters, counted.
-- SPDX-License-Identifier: Apache-2.0
local digit_groups = require "digit_groups"
local term = require "repl.term"

local show_module = {}

local fancy = {fork = "├─ ", last = "└─ ", pass = "│  ", none = "   "}
local plain = {fork = "|- ", last = "`- ", pass = "|  ", none = "   "}

local function frozen_of(module)
  local n = 0
  for _, p in ipairs(module:parameters()) do
    if not p.requires_grad then n = n + p:numel() end
  end
  return n
end

local function add_lines(module, label, prefix, below, signs, lines)
  local children = {}
  for name, child in module:named_children() do children[#children + 1] = {name, child} end
  local text = #children == 0 and tostring(module):gsub("\n.*", "") or (module.__name or "Module")
  lines[#lines + 1] = {prefix .. label, term.plain(text), module:parameter_count()}
  for i, entry in ipairs(children) do
    local last = i == #children
    add_lines(entry[2], entry[1] .. ": ", below .. (last and signs.last or signs.fork),
      below .. (last and signs.none or signs.pass), signs, lines)
  end
end

local function middle_out(lines, rows)
  if not rows or #lines <= math.max(rows - 4, 8) then return lines end
  local out, head = {}, math.floor((rows - 5) / 2)
  for i = 1, head do out[i] = lines[i] end
  out[head + 1] = {"", ("%s %d more"):format(term.dots(), #lines - 2 * head), ""}
  for i = #lines - head + 1, #lines do out[#out + 1] = lines[i] end
  return out
end

-- "training, 128 of 9,514 parameters frozen"
local function state_of(module)
  local frozen = frozen_of(module)
  local mode = module.training == false and "eval()" or "train()"
  local first = module:parameters()[1]
  local parts = {mode}
  if first then parts[2] = first.dtype .. " " .. first.device end
  if frozen > 0 then parts[#parts + 1] = ("%s of them frozen"):format(digit_groups(frozen)) end
  return table.concat(parts, ", ")
end

--- A module's text.
function show_module.text(module)
  local rows, columns = term.size()
  local lines = {}
  add_lines(module, "", "", "", term.has_utf8() and fancy or plain, lines)
  local total = lines[1][3]
  lines = middle_out(lines, rows)
  local widest = 0
  for _, line in ipairs(lines) do widest = math.max(widest, term.width(line[1] .. line[2])) end
  local number = #digit_groups(total)
  widest = math.min(widest, columns - number - 2)
  local out = {}
  for i, line in ipairs(lines) do
    local text = term.cut(line[1] .. line[2], widest)
    local count = line[3] ~= "" and line[3] > 0 and digit_groups(line[3]) or ""
    local gap = (" "):rep(widest - term.width(text) + 2 + number - #count)
    local whole = text:sub(1, #line[1]) == line[1] -- a narrow terminal may have cut its branches
    local painted = whole and term.paint("dim", line[1])
      .. term.paint(i == 1 and "head" or "kind", text:sub(#line[1] + 1)) or text
    out[i] = count == "" and painted or painted .. gap .. term.paint("number", count)
  end
  local count = ("%s parameters, %s"):format(digit_groups(total), state_of(module))
  out[#out + 1] = term.paint("dim", term.cut(count, columns))
  return table.concat(out, "\n")
end

return show_module
