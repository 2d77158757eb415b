-- manual.lua: the same pages for man (roff) and for docs/commands.md (Markdown): all commands, options of capl, exit
-- codes.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local exits = require "cli.exits"
local page = require "cli.page"

local manual = {}

local function sorted_pages()
  local out = {}
  for i, row in ipairs(core.sys.commands()) do out[i] = page.of(row.name) end
  return out
end

local function title_of(p) return p.name == "run" and "RECIPE" or p.name == "repl" and "(nothing)" or p.word end

local words = {
  what = {"capl runs recipes. A recipe is a complete experiment in one Lua file. Without arguments capl is a prompt",
    "for Lua."},
  line = {
    "Options are written --key=value or --key value. Flags are written --flag, --no-flag or --flag=false. A - in a " ..
    "name equals a _.",
    "A value that starts with two dashes needs =. An option that is given twice is an error. Arguments after -- are " ..
    "not options;",
    "if the command runs a recipe, they are settings of the recipe.",
  },
  recipe = {
    "The recipe can be at any position: capl run --lr 0.1 mine.lua. An included recipe can be named",
    "without its folder: capl captcha. If two arguments could be the recipe, this is an error; use --key=value then.",
  },
}

local function text_of(lines) return table.concat(lines, " ") end

-- Variables that users set; `capl info` shows these and others with what they are now.
local variables = {
  {"CAPL_DEVICE", "the device of auto: cpu, cuda, cuda:1"},
  {"CAPL_THREADS", "compute threads; default: OMP_NUM_THREADS, else one per processor"},
  {"CAPL_MEMORY_LIMIT", "limit of tensor memory on the CPU, in bytes"},
  {"CAPL_RECIPES", "folder of the included recipes, instead of the one beside the program"},
  {"CAPL_PYTHON", "Python with onnxruntime, for capl export and capl verify FILE.onnx; default: python3"},
}

local files = {
  {"runs/NAME/", "the files of a run: best.capl, checkpoints, metrics.jsonl, report.html"},
  {"$XDG_CACHE_HOME/capl", "caches: GPU plans, decoded images; default: ~/.cache/capl"},
  {"$XDG_STATE_HOME/capl", "the history of the prompt, and granted permissions; default: ~/.local/state/capl"},
}

-- ---- roff ----

-- A text as roff prints it: backslashes, leading dots and dashes mean something else there.
local function roff(text)
  text = text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("…", "..."):gsub("^([.'])", "\\&%1"):gsub("\n([.'])", "\n\\&%1")
  return text
end

local function roff_pairs(out, rows)
  for _, row in ipairs(rows) do
    out[#out + 1] = ".TP\n.B " .. roff(row[1]) .. "\n" .. roff(row[2])
  end
end

local function roff_command(out, p)
  out[#out + 1] = ".SS " .. roff(title_of(p))
  for i, usage in ipairs(p.usage) do out[#out + 1] = (i > 1 and ".br\n" or "") .. ".B " .. roff(usage) end
  out[#out + 1] = ".PP\n" .. roff(p.help) .. "."
  roff_pairs(out, page.option_rows(p.options))
  for _, example in ipairs(p.examples) do
    out[#out + 1] = (".PP\n%s:\n.PP\n.RS 4\n.EX\n%s\n.EE\n.RE"):format(roff(example[2]), roff(example[1]))
  end
end

--- capl.1
function manual.roff()
  local out = {
    (".\\\" Made by `capl man`.\n.TH CAPL 1 \"\" \"capl %s\" \"User Commands\""):format(core.version()),
    ".SH NAME\ncapl \\- trains captcha recognition models",
    ".SH SYNOPSIS\n.B capl\n[options]\n.I RECIPE\n[\\-\\-key=value ...]\n.br\n.B capl\n[options]\n.I COMMAND\n[words]\n.br\n.B capl",
    ".SH DESCRIPTION\n" .. roff(text_of(words.what)),
    ".PP\n" .. roff(text_of(words.recipe)), ".PP\n" .. roff(text_of(words.line)),
    ".SH OPTIONS\nThey are given before the command.",
  }
  roff_pairs(out, page.globals())
  out[#out + 1] = ".SH COMMANDS"
  for _, p in ipairs(sorted_pages()) do roff_command(out, p) end
  out[#out + 1] = ".SH EXIT STATUS"
  roff_pairs(out, exits)
  out[#out + 1] = ".SH ENVIRONMENT\n" .. roff("capl info lists all of them.")
  roff_pairs(out, variables)
  out[#out + 1] = ".SH FILES"
  roff_pairs(out, files)
  return table.concat(out, "\n") .. "\n"
end

-- ---- Markdown ----

local function cell(text) return (text:gsub("|", "\\|"):gsub("<", "&lt;")) end

local function table_of(out, head, rows)
  out[#out + 1] = ("| %s | |\n|---|---|"):format(head)
  for _, row in ipairs(rows) do out[#out + 1] = ("| `%s` | %s |"):format(row[1]:gsub("|", "\\|"), cell(row[2])) end
end

local function command_md(out, p)
  out[#out + 1] = ("\n### %s\n"):format(title_of(p))
  for _, usage in ipairs(p.usage) do out[#out + 1] = "    " .. usage end
  out[#out + 1] = "\n" .. cell(p.help) .. ".\n"
  if #p.options > 0 then table_of(out, "option", page.option_rows(p.options)) end
  for _, example in ipairs(p.examples) do out[#out + 1] = ("\n%s:\n\n    %s"):format(cell(example[2]), example[1]) end
end

--- docs/commands.md
function manual.markdown()
  local out = {"# Commands\n",
    "Made by `scripts/docs` from `capl man --markdown`: of the list in " ..
    "[engine/program/commands.c](../engine/program/commands.c)",
    "and the options in [lua/capl/cli](../lua/capl/cli). `capl help COMMAND` prints the same. So does `man capl` after an installation.\n",
    "    capl [options] RECIPE [--key=value…]", "    capl [options] COMMAND [words]", "    capl\n", "## Words\n"}
  for _, line in ipairs(words.recipe) do out[#out + 1] = line end
  for _, line in ipairs(words.line) do out[#out + 1] = line end
  out[#out + 1] = "\n## Options of capl itself\n\nThey are given before the command.\n"
  table_of(out, "option", page.globals())
  local group
  for _, p in ipairs(sorted_pages()) do
    if p.group ~= group then out[#out + 1] = ("\n## %s"):format(p.group:gsub("^%l", string.upper)) end
    group = p.group
    command_md(out, p)
  end
  out[#out + 1] = "\n## Exit codes\n"
  table_of(out, "code", exits)
  return table.concat(out, "\n") .. "\n"
end

return manual
