-- weights.lua: train.load_weights, weights of another model by their names, and the key init_from of train.fit.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local Run = require "run"
local check = require "check"
local classes = require "module_class"
local folder = require "train.folder"

local OP = "train.load_weights"
local SHOWN = 8 -- names of a kind that are printed

-- ---- reading files ----

-- Tensors by name: of a safetensors file, a model folder, a checkpoint (its model), or a run's folder (its best model).
local function read_file(path)
  local kind = core.sys.kind(path)
  if not kind then check.fail(OP, path .. ": there is no such file or folder") end
  if kind == "folder" then
    for _, inner in ipairs{"", "/best.capl", "/last.capl"} do
      local model = path .. inner
      local file = model .. "/weights.safetensors"
      if core.sys.kind(file) == "file" then return core.model_weights(model), file end
    end
    check.fail(OP, path .. " is neither a model nor the folder of a run: it has no weights.safetensors")
  end
  local ok, saved = pcall(folder.load, path)
  if ok then
    if type(saved.objects.model) == "table" then return saved.objects.model, path end
    check.fail(OP, path .. ": this checkpoint has no model")
  end
  local only_tensors = core.is_error(saved) and saved.message:find("is no checkpoint, only tensors", 1, true)
  if only_tensors then return core.safetensors_load(path), path end
  error(saved, 0)
end

-- ---- names ----

-- What other programs put before the names of a model's tensors.
local prefixes = {"", "model.", "module.", "_orig_mod.", "module.model.", "state_dict.", "net.", "ema.", "ema_model."}

local function without(tensors, prefix)
  local out, count = {}, 0
  for name, tensor in pairs(tensors) do
    if name:sub(1, #prefix) == prefix then out[name:sub(#prefix + 1)], count = tensor, count + 1 end
  end
  return out, count
end

local function matches(own, tensors)
  local count = 0
  for name in pairs(own) do
    if tensors[name] then count = count + 1 end
  end
  return count
end

-- The tensors under the names that fit best.
local function stripped(own, tensors)
  local best, most, chosen = tensors, matches(own, tensors), ""
  for _, prefix in ipairs(prefixes) do
    local renamed = without(tensors, prefix)
    local count = matches(own, renamed)
    if count > most then best, most, chosen = renamed, count, prefix end
  end
  return best, chosen
end

-- map: {["name in the file"] = "name in the model" or false}, or function(name) -> name or nil
local function mapped(tensors, map)
  local out = {}
  for name, tensor in pairs(tensors) do
    local new = name
    if type(map) == "function" then new = map(name) end
    if type(map) == "table" and map[name] ~= nil then new = map[name] end
    if new then out[new] = tensor end
  end
  return out
end

-- ---- comparing ----

local function shape_of(tensor) return "(" .. table.concat(tensor.shape, ",") .. ")" end

local function sorted(list)
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Names of the counts of batches that decide something: where batch norm has no momentum.
local function counts_of(model)
  local out = {}
  for path, module in model:named_modules() do
    local name = path .. (path == "" and "" or ".") .. "num_batches_tracked"
    out[name] = rawget(module, "momentum") == false
  end
  return out
end

-- What becomes of every tensor of the model, and which of the file nobody wants. counts: of counts_of.
local function compare(own, given, counts)
  local out = {taken = {}, shape = {}, missing = {}, unused = {}}
  for name, tensor in pairs(own) do
    local other = given[name]
    local entry = {name = name, model = shape_of(tensor), file = other and shape_of(other)}
    local kind = not other and "missing" or entry.model == entry.file and "taken" or "shape"
    local idle = not counts[name] and name:find("num_batches_tracked$")
    if other or not idle then table.insert(out[kind], entry) end
  end
  for name, tensor in pairs(given) do
    if not own[name] then table.insert(out.unused, {name = name, file = shape_of(tensor)}) end
  end
  for _, list in pairs(out) do sorted(list) end
  return out
end

local kinds = {
  {"taken", "taken", function(e) return e.model end},
  {"shape", "of another shape, left as it was", function(e) return ("%s, in the file %s"):format(e.model, e.file) end},
  {"missing", "missing in the file, left as it was", function(e) return e.model end},
  {"unused", "in the file alone, unused", function(e) return e.file end},
}

local function total(report) return #report.taken + #report.shape + #report.missing end

--- Every tensor on a line of its own.
local function full_text(report)
  local lines = {("weights from %s"):format(report.file)}
  if report.prefix ~= "" then lines[2] = ("names without '%s'"):format(report.prefix) end
  for _, kind in ipairs(kinds) do
    local key, what, about = kind[1], kind[2], kind[3]
    lines[#lines + 1] = ("\n%d %s%s"):format(#report[key], what, #report[key] > 0 and ":" or "")
    for _, entry in ipairs(report[key]) do lines[#lines + 1] = ("  %s %s"):format(entry.name, about(entry)) end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- What a person should know at once: all that did not match, in a few lines.
local function short_lines(report)
  local lines = {("weights from %s: %d of %d tensors taken%s"):format(report.file, #report.taken, total(report),
    report.prefix ~= "" and (", names without '%s'"):format(report.prefix) or "")}
  for i = 2, #kinds do
    local key, what, about = kinds[i][1], kinds[i][2], kinds[i][3]
    for k, entry in ipairs(report[key]) do
      if k > SHOWN then
        lines[#lines + 1] = ("  and %d more %s"):format(#report[key] - SHOWN, what)
        break
      end
      lines[#lines + 1] = ("  %s %s: %s"):format(entry.name, about(entry), what)
    end
  end
  return lines
end

local function refuse(report, message, hint)
  local lines = short_lines(report)
  table.remove(lines, 1)
  core.error{code = "shape", op = OP, path = false, message = message, context = table.concat(lines, "\n"), hint = hint}
end

local function check_enough(report, strict)
  if #report.taken == 0 then
    refuse(report, ("no tensor of %s has a name and a shape of this model"):format(report.file),
      'map = {["name in the file"] = "name in the model"} renames')
  end
  if strict and #report.taken < total(report) + #report.unused then
    refuse(report, ("%s does not fit the model"):format(report.file), "without strict what fits is taken")
  end
end

local function take(model, own, given, report)
  local state = {}
  for name, tensor in pairs(own) do state[name] = tensor end
  for _, entry in ipairs(report.taken) do state[entry.name] = given[entry.name] end
  core.no_grad(function() model:load_state_dict(state) end)
end

--- Loads weights and buffers from a file where names and shapes match; the rest is unchanged. For fine-tuning.
-- in   model; path of a safetensors file (of any program), a model folder, a checkpoint or a run's folder; "none":
--      nothing
-- opts strict = false: everything has to fit; map = {["name in the file"] = "name in the model" or false} or
--      function(name) -> name or nil; quiet = false
-- out  {file, prefix, taken, shape, missing, unused}: lists of {name, model = its shape, file = the other's}; nil for
--      "none". It is printed, what did not match by name; all of it goes to weights.txt in the run's folder
-- errs io, format: the file; shape: nothing fits, or not all of it with strict
local function load_weights(model, path, opts)
  if not classes.is_module(model) then check.arg(1, "load_weights", "module", model) end
  if check.arg(2, "load_weights", "string", path) == "none" then return nil end
  local o = check.options(OP, {{"strict", "boolean", default = false}, {"map", "table", "function"},
    {"quiet", "boolean", default = false}}, opts)
  local tensors, file = read_file(path)
  local own, prefix = model:state_dict(), ""
  local given = o.map and mapped(tensors, o.map) or tensors
  if not o.map then given, prefix = stripped(own, tensors) end
  local report = compare(own, given, counts_of(model))
  report.file, report.prefix = file, prefix
  check_enough(report, o.strict)
  take(model, own, given, report)
  local run = Run.of(observer)
  if not o.quiet then
    for _, line in ipairs(short_lines(report)) do run:print(line) end
  end
  if run.mode == "run" then core.sys.write(run:folder() .. "/weights.txt", full_text(report)) end
  return report
end

-- ---- the callback of train.fit ----

local function read(o)
  if type(o.init_from) == "string" then o.init_from = {path = o.init_from} end
  if o.init_from then
    o.init_from = check.options("train.fit: init_from", {{"path", "string", required = true}, {"strict", "boolean"},
      {"map", "table", "function"}}, o.init_from)
  end
end

-- The flag goes before what the recipe says.
local function wanted(run, o)
  for _, s in ipairs(run.settings) do
    if s.key == "init_from" and s.value ~= "none" then
      s.read = true
      return {path = s.value, strict = o.init_from and o.init_from.strict, map = o.init_from and o.init_from.map}
    end
  end
  return o.init_from
end

-- Before any other part is made: averages begin with these weights. A resumed run has its own.
local function new(fit)
  local run = fit.run
  local from = wanted(run, fit.o)
  if not from or from.path == "none" or run.mode == "check" then return nil end
  if run.resume_from then
    run:print("note: init_from has no effect: the run is resumed with its own weights")
    return nil
  end
  local report = load_weights(fit.model, from.path, {strict = from.strict, map = from.map})
  local taken = #report.taken
  run:add_feature{name = "init_from = " .. from.path, what = "tensors taken", count = function() return taken end}
  return nil
end

return {name = "weights", spec = {{"init_from", "string", "table"}},
  read = read, new = new, load_weights = load_weights}
