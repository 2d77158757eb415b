-- classes.lua: several classes at once: those whose probability is at least threshold.
-- SPDX-License-Identifier: Apache-2.0
local named = require "fields.named"
local symbols = require "fields.symbols"

local classes = {name = "classes", meter = "multilabel", metric = "map", is_share = true, answers = "sets of classes",
  rows = named.by_class}

classes.options = {{"names", "table"}, {"threshold", "number"}}

local MOST = 65536

function classes.check(op, given)
  if given.names then named.check(op, given, "classes", "classes that an image may have", MOST) end -- else the source's
  named.check_share(op, given, "threshold")
end

function classes.labels(x) return x.class_names ~= nil and x.several ~= nil end

function classes.default() return {output = "classes"} end

function classes.facts(given, loader)
  local names = given.names or loader and loader.several and loader.class_names
  return names and {classes = names, threshold = given.threshold} or nil
end

function classes.spell(x, ids)
  local list = {}
  for _, id in ipairs(ids) do list[#list + 1] = x.class_names[id + 1] end
  return table.concat(list, ", ")
end

function classes.reads(d)
  return ("any of %d classes from %g on: %s"):format(#d.classes, d.threshold or 0.5, symbols.shown(d.classes, ", "))
end

function classes.columns(out)
  local list = {}
  for _, one in ipairs(out.top) do
    list[#list + 1] = one.name
    list[#list + 1] = ("%.4f"):format(one.probability)
  end
  return list
end

function classes.json(out)
  local list = {}
  for i, one in ipairs(out.top) do list[i] = {class = one.name, confidence = one.probability} end
  return {classes = list, confidence = out.confidence}
end

function classes.source(d, o) return {label = o.label or ".txt", classes = d.classes, several = o.several or true} end

function classes.expects(d)
  return ("the model knows %d classes: %s"):format(#d.classes, symbols.shown(d.classes, ", "))
end

local LEAST = 20 -- samples that show anything
local ALWAYS, TIMES = 0.9, 3 -- share of the samples in which a class is predicted; what it is meant

-- Faults of classes by name: those that are always predicted, and those that never are.
local function faults_by_name(rows, n, value)
  local out, never = {}, {}
  for _, row in ipairs(rows) do
    local name, meant, found = value.text(row, "name"), value.number(row, "n") or 0, value.number(row, "found") or 0
    if found > ALWAYS * n and found > TIMES * meant then
      out[#out + 1] = {severity = "error", text = ("'%s' is predicted for %.0f %% of the samples and meant for %.0f %%")
        :format(name, 100 * found / n, 100 * meant / n),
        write = "perhaps a lower lr; check labels against images (capl preview)"}
    elseif found == 0 and meant > 0 then never[#never + 1] = ("%s (%d)"):format(name, meant) end
  end
  if never[1] then
    out[#out + 1] = {severity = "warn", text = ("%d of %d classes are never predicted: %s"):format(#never, #rows,
      symbols.shown(never, ", ")), write = "more samples of them, or pos_weight in nn.bce_with_logits"}
  end
  return out
end

--- What is wrong with the readings of an evaluation, for capl doctor.
function classes.faults(e, value)
  local rows, n, meant, found = value.table(e, "classes"), value.number(e, "n") or 0, 0, nil
  for _, row in ipairs(rows) do
    local of_row = value.number(row, "found")
    meant, found = meant + (value.number(row, "n") or 0), of_row and (found or 0) + of_row or found
  end
  if n < LEAST or not found then return nil, "too few samples" end
  local said = ("%d classes predicted for %d samples, %d meant"):format(found, n, meant)
  if found > 0 or meant == 0 then return faults_by_name(rows, n, value), said end
  return {{severity = "error", text = ("no class is predicted for any of %d samples; %d are meant"):format(n, meant),
    write = "pos_weight in nn.bce_with_logits for rare classes, or a lower threshold of capl.model"}}, said
end

--- exp(-the loss of a class * classes) is how likely the model finds a sample's classes.
function classes.whole(set) return "exact_match", set.classes, "bce_with_logits" end

function classes.measures(given) return {threshold = given.threshold} end

function classes.counted(d) return {classes = d.classes, threshold = d.threshold} end

function classes.count(meter, out, truth, id, several)
  local has, logits = {}, {}
  for _, name in ipairs(named.split(truth, several)) do has[name] = true end
  for k, p in ipairs(out.values) do logits[k] = math.log(p / (1 - p)) end
  return meter:count(logits, function(k) return has[meter:name(k - 1)] or false end, id)
end

return classes
