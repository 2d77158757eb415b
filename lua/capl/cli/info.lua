-- info.lua: `capl info`: what this build is and what it finds on this machine; with a model, what that is.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local info_model = require "cli.info_model"
local models = require "cli.models"
local options = require "cli.options"

local spec = {
  {name = "json", type = "flag", default = false, doc = "prints one JSON object"},
}

-- Variables that change what the program does, and what holds without them.
local variables = {
  {"CAPL_DEVICE", "a GPU where there is one that works, else cpu; what device = \"auto\" means"},
  {"CAPL_ASSUME", "the facts of this machine decide what is chosen; else those named here, for tests of capl: " ..
  "isa=avx2,cores=1"},
  {"CAPL_THREADS", "the number of compute threads is that of OMP_NUM_THREADS"},
  {"OMP_NUM_THREADS", "one per processor that this process may use"},
  {"CAPL_MEMORY_LIMIT", "tensors may take all memory; else a number of bytes"},
  {"CAPL_FONTS", "fonts without a path are searched in Debian's font folders; else in this folder first"},
  {"CAPL_FONT", "captchas use Debian's Noto Mono; else the path of a TrueType file"},
  {"CAPL_RUN_FOLDER", "a run makes a folder below runs; else its files go here: what capl sweep sets for its trials"},
  {"CAPL_TEST", "claims about images that the user names are not judged; else they are: what capl test sets for its " ..
  "runs"},
  {"CAPL_SWEEP", "train.fit reads its test images; else it leaves them alone: what capl sweep sets for its trials"},
  {"CAPL_SANDBOX", "recipes run in the sandbox; allow and trust do what --allow and --trust do, for what a script " ..
  "starts"},
  {"CAPL_RECIPES", "the recipes beside the program may be named without a folder; else those of this folder"},
  {"CAPL_MODELS", "models beside the program may be named without a folder; else those of this folder"},
  {"CAPL_PYTHON", "python3 runs ONNX Runtime for capl export and capl verify; else this Python does"},
  {"CAPL_LUA_PATH", "the Lua library inside the program; else the folder of another, for work on capl"},
}

local function device_line(name)
  local info, why = core.device_info(name)
  if not info then return ("  %-8s %s"):format(name, (why:gsub("^device [^ ]+ is ", ""))) end
  local line = ("  %-8s %s"):format(name, info.description or (info.arithmetic and "available" or "shapes only"))
  if not info.description then return line end
  return line .. ("\n           precision auto: %s (%s)"):format(info.precision, info.why)
end

--- What a backend of GPUs finds here, or exactly why it is off.
local function gpu_lines(lines, name)
  local text, why = core.device_report(name)
  local unavailable = "device " .. name .. " is not available: "
  lines[#lines + 1] = name
  for part in (text or "off       " .. why:gsub("^" .. unavailable, "")):gmatch("[^\n]+") do
    lines[#lines + 1] = "  " .. part:gsub(unavailable, "")
  end
end

-- Processors and what stands in for one first: a line each; then what there is of GPUs.
local function device_lines(lines)
  for _, backend in ipairs(core.backends()) do
    if not backend.gpu then lines[#lines + 1] = device_line(backend.name) end
  end
  for _, backend in ipairs(core.backends()) do
    if backend.gpu then gpu_lines(lines, backend.name) end
  end
end

--- What several ranks on processors would talk through.
local function rank_lines(lines)
  local text, why, hint = core.dist.mpi()
  lines[#lines + 1] = "ranks"
  lines[#lines + 1] = "  cpu       " .. (text or "off: " .. why)
  if not text then lines[#lines + 1] = "            " .. hint end
end

-- What keeps a recipe in, and why something is missing.
local function wall_lines(lines)
  local w = core.sys.walls()
  lines[#lines + 1] = "sandbox"
  local files = w.files > 0 and ("guarded by Landlock, version %d"):format(w.files)
    or "not guarded by the system: " .. w.why
  local compiled = w.jit and "compiled, with both sandbox layers"
    or "interpreted, in untrusted recipes: a sandbox layer is missing"
  lines[#lines + 1] = "  files     " .. files
  lines[#lines + 1] = "  calls     " .. (w.calls and "filtered by seccomp" or "not filtered: " .. w.calls_why)
  lines[#lines + 1] = "  Lua       " .. compiled
end

local function json_text()
  local w = core.sys.walls()
  local out = {version = core.version(), processors = core.sys.cpus(), assume = core.assume(),
    sandbox = {landlock = w.files, seccomp = w.calls, jit = w.jit, why = w.why ~= "" and w.why or nil}}
  return core.json_encode(out, true) .. "\n"
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "info"})
  if words[2] then
    core.error{code = "value", message = "capl info takes one model; '" .. words[2] .. "' is another word"}
  end
  if words[1] then return info_model.print(models.path(words[1]), o.json) end
  if o.json then return core.sys.out(json_text()) end
  local lines = {
    ("capl %s"):format(core.version()),
    ("  processors %d"):format(core.sys.cpus()), -- that this process may use
    "devices",
  }
  device_lines(lines)
  rank_lines(lines)
  wall_lines(lines)
  lines[#lines + 1] = "environment"
  for _, one in ipairs(variables) do
    lines[#lines + 1] = ("  %-18s %s"):format(one[1], core.sys.getenv(one[1]) or "not set: " .. one[2])
  end
  core.sys.out(table.concat(lines, "\n") .. "\n")
end

return {main = main, options = spec, examples = {
  {"capl info runs/mine/best.capl", "prints charset, image size and accuracy of a model"},
}}
