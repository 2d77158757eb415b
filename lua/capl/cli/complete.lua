-- complete.lua: what may stand at a place of a command line: for the completion of shells.
--
-- The answer is a list of {word, meaning}, and which files the shell may add: {".lua"}, {} = any file, {"/"} = folders alone.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local list = require "cli.list"
local options = require "cli.options"
local page = require "cli.page"
local text_of = require "params.text"

local complete = {}

local images = {".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"}

-- ---- kinds of words: each adds to the answer ----

local function add(answer, word, meaning)
  answer[#answer + 1] = {word, meaning}
end

local function add_files(answer, suffixes)
  answer.files = suffixes
end

local function add_shipped(answer)
  if not core.sys.recipes() then return end
  for _, recipe in ipairs(list.all()) do add(answer, recipe.name, "a recipe that comes with capl") end
end

-- Folders of runs in runs/, those with `file` in them.
local function add_runs(answer, file)
  for _, name in ipairs(core.sys.kind("runs") == "folder" and core.sys.list("runs") or {}) do
    local path = "runs/" .. name .. (file and "/" .. file or "")
    if core.sys.kind(path) then add(answer, path, file and "a trained model" or "a run") end
  end
end

local function add_presets_of_generator(answer)
  for _, preset in ipairs(core.data.presets()) do add(answer, preset, "a style of the generator") end
end

local kinds = {
  recipe = function(answer) add_shipped(answer) add_files(answer, {".lua"}) end,
  shipped = add_shipped,
  model = function(answer) add_runs(answer, "best.capl") add_files(answer, {"/"}) end,
  run = function(answer) add_runs(answer) add_files(answer, {"/"}) end,
  source = function(answer) add_files(answer, {}) end,
  image = function(answer) add_files(answer, images) end,
  folder = function(answer) add_files(answer, {"/"}) end,
  file = function(answer) add_files(answer, {}) end,
  style = add_presets_of_generator,
  op = function(answer)
    for _, op in ipairs(core.ops()) do add(answer, op.name) end
  end,
  command = function(answer)
    for _, row in ipairs(core.sys.commands()) do
      if page.word(row.name) == row.name then add(answer, row.name, row.help) end
    end
    add(answer, "exit", "what exit codes mean")
  end,
  name = function() end,
}

-- "stat|check|pack", "recipe|run": words of their own, or kinds.
local function add_kind(answer, text)
  for one in text:gmatch("[^|]+") do
    if kinds[one] then kinds[one](answer) else add(answer, one) end
  end
end

-- ---- options: {name, meaning, flag, choices, kind} ----

local kind_of_value = {FILE = "file", DIR = "folder", FOLDER = "folder", RUN = "run", SOURCE = "source", MODEL = "model", RECIPE = "recipe",
  STYLE = "style"}

local function of_spec(spec)
  local out = {}
  for i, option in ipairs(spec) do
    out[i] = {name = option.name, meaning = page.option_doc(option), flag = option.type == "flag", choices = option.choices,
      many = option.many, kind = kind_of_value[option.value]}
  end
  return out
end

-- What is known of settings by their names alone.
local known = {
  precision = {choices = {"auto", "fp32", "bf16", "fp16", "tf32"}}, device = {choices = {"auto", "cpu", "cuda"}}, style = {kind = "style"},
  data = {kind = "source"}, test_data = {kind = "source"}, init_from = {kind = "file"}, resume = {kind = "run", flag = true},
}

local function of_setting(key, flag, doc, choices)
  local more = known[key] or {}
  return {name = key, meaning = doc, flag = flag or more.flag, choices = choices or more.choices, kind = more.kind}
end

-- The settings of a recipe's text, and those of every recipe.
local function of_recipe(text)
  local out, seen = {}, {}
  local settings, presets = text_of.settings(text)
  for _, setting in ipairs(settings) do
    seen[setting.key] = true
    out[#out + 1] = of_setting(setting.key, setting.flag, setting.doc or "default " .. setting.default, setting.choices)
  end
  for _, setting in ipairs(require "params.every") do
    if not seen[setting.key] then out[#out + 1] = of_setting(setting.key, setting.default == false, setting.doc) end
  end
  if #presets > 0 and not seen.preset then out[#out + 1] = {name = "preset", meaning = "several settings at once", choices = presets} end
  out[#out + 1] = {name = "ranks", meaning = "processes that train together", choices = {"gpus"}}
  return out
end

local function recipe_text(word)
  if core.sys.kind(word) == "file" then return (core.sys.read(word, 16777216)) end
  local shipped = core.sys.recipes() and word:match("^[%w_./-]+$") and list.find(word)
  return shipped and shipped.text
end

-- ---- the words before ----

-- The option of a word such as --lr or --lr=0.1; and what stands behind its "=".
local function option_at(word, known_options)
  local key, value = options.split(word or "")
  if not key then return nil end
  key = key:gsub("-", "_")
  for _, option in ipairs(known_options) do
    if option.name:gsub("-", "_") == key then return option, value end
  end
end

-- The plain words among the first `n`, with the options known so far; marks options that are there.
local function plain_words(words, n, known_options)
  local plain, i = {}, 1
  while i <= n do
    local option, value = option_at(words[i], known_options)
    if option then option.given = not option.many end
    if option and value == true and not option.flag and i < n then i = i + 1
    elseif words[i]:sub(1, 1) ~= "-" or words[i] == "-" then plain[#plain + 1] = words[i] end
    i = i + 1
  end
  return plain
end

-- Whether an option of capl itself has a value, which may be the next word.
local function takes_value(word)
  for _, global in ipairs(core.sys.globals()) do
    if global.name == word then return global.value ~= nil end
  end
  return false
end

-- Behind the options of capl itself: the command's row and the place of its first word.
local function find_command(words, at)
  local i = 1
  while i < at and words[i]:sub(1, 1) == "-" do
    if words[i] == "-e" then return page.find("eval-code"), i + 1 end
    i = i + (takes_value(words[i]) and 2 or 1)
  end
  if i >= at then return nil, i end
  local row = page.find(words[i])
  if row and page.word(row.name) == row.name then return row, i + 1 end
  return page.find("run"), i
end

-- ---- answers ----

-- Values of an option. before: what of the word stands in front of them, "--lr=" or nothing.
local function values(answer, option, before)
  if option.flag and not option.kind then
    add(answer, "true")
    add(answer, "false")
  end
  for _, choice in ipairs(option.choices or {}) do add(answer, choice) end
  if option.kind then kinds[option.kind](answer) end
  for _, candidate in ipairs(answer) do candidate[1] = before .. candidate[1] end
  answer.before = before
  return answer
end

local function add_options(answer, current, known_options)
  for _, option in ipairs(known_options) do
    if not option.given then
      add(answer, "--" .. option.name .. (option.flag and "" or "="), option.meaning)
      if option.flag and current:find("^%-%-no") then add(answer, "--no-" .. option.name, option.meaning) end
    end
  end
  add(answer, "--help", "lists the options")
end

local function globals(answer)
  for _, global in ipairs(core.sys.globals()) do add(answer, global.name .. (global.value and "=" or ""), global.help) end
end

-- The first word: a command, a recipe or an option of capl.
local function first_word(answer, current, before)
  if before == "--ranks" then return add(answer, "gpus", "one for each GPU here") end
  if before == "--minutes" then return end
  if current:sub(1, 1) == "-" then return globals(answer) end
  for _, row in ipairs(core.sys.commands()) do
    if page.word(row.name) == row.name then add(answer, row.name, row.help) end
  end
  kinds.recipe(answer)
end

-- What a command's plain word number n is.
local function plain_word(answer, row, n)
  local place, last = 0, nil
  for kind in (row.takes or ""):gmatch("%S+") do
    place, last = place + 1, kind
    if place == n then return add_kind(answer, kind) end
  end
  if last and n > place and (last == "image" or last == "run") then add_kind(answer, last) end
end

-- What the command at hand knows: its options, and the settings of the recipe that stands among the words.
local function options_of(row, words, from, n)
  local module = require("cli." .. row.name:gsub("-", "_"))
  local rest = {unpack(words, from, n)}
  local known_options = of_spec(module.options_of and module.options_of{args = rest} or module.options or {})
  if not row.recipe then return known_options, plain_words(rest, #rest, known_options) end
  for _, word in ipairs(rest) do
    local text = word:sub(1, 1) ~= "-" and recipe_text(word)
    if text then
      for _, option in ipairs(of_recipe(text)) do known_options[#known_options + 1] = option end
      break
    end
  end
  return known_options, plain_words(rest, #rest, known_options)
end

local function fitting(answer, current)
  local out = {files = answer.files, before = answer.before}
  for _, candidate in ipairs(answer) do
    if candidate[1]:sub(1, #current) == current then out[#out + 1] = candidate end
  end
  return out
end

--- What may stand at place `at` of the words behind "capl"; words[at] is what is there so far.
function complete.at(words, at)
  local answer, current = {}, words[at] or ""
  local row, from = find_command(words, at)
  if not row then
    first_word(answer, current, words[at - 1])
    return fitting(answer, current)
  end
  if row.name == "eval-code" then return answer end
  local known_options, plain = options_of(row, words, from, at - 1)
  local option, value = option_at(current, known_options)
  local former, former_value = option_at(words[at - 1], known_options)
  if option and value ~= true then
    values(answer, option, current:match("^[^=]*="))
  elseif former and former_value == true and not former.flag and at > from and current:sub(1, 2) ~= "--" then
    values(answer, former, "")
  elseif current:sub(1, 1) == "-" then
    add_options(answer, current, known_options)
  else
    plain_word(answer, row, #plain + 1)
  end
  return fitting(answer, current)
end

return complete
