-- data.lua: `capl data stat|check|pack SOURCE`: looks at images or a time series, and packs images.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local count = require "count"
local data = require "data"
local data_check = require "cli.data_check"
local data_fields = require "cli.data_fields"
local data_series = require "cli.data_series"
local data_stat = require "cli.data_stat"
local files = require "data.files"
local options = require "cli.options"

local spec = {
  {name = "val", type = "text", value = "SOURCE",
  doc = "check: a second set that must have no image in common with the first"},
  {name = "out", type = "text", value = "DIR", doc = "pack: folder of the LMDB database to write"},
  {name = "charset", type = "text", value = "CHARS", doc = "check: the charset, ranges allowed"},
  {name = "length", type = "number", from = 1, to = 32, doc = "check: maximum length of a label (32)"},
  {name = "label", type = "text", value = "RULE",
    doc = "folders: Lua pattern whose capture in the file name is the label, or .txt, .json, .json:KEY (a file beside the image), folder, none, auto (auto)"},
  {name = "several", type = "text", value = "MARK",
    doc = "images of several classes, or of none: what separates their names in a label, such as '|'"},
  {name = "target", type = "text", value = "COLUMNS",
    doc = "stat, check: the source is a time series in a CSV file, and these columns its targets"},
  {name = "key", type = "text", value = "COLUMN", doc = "time series: the column that orders the rows (date)"},
  {name = "features", type = "text", value = "COLUMNS", doc = "time series: columns such as pm25,temp (all)"},
  {name = "show", type = "number", from = 0, default = 5, doc = "check: number of examples per problem"},
  {name = "threads", type = "number", from = 1, to = 256, default = core.sys.workers_most(),
  default_doc = "one per processor",
    doc = "that read files"},
}

-- Where fields are, behind --several.
local place = 6
data_fields.each(true, function(option)
  place = place + 1
  table.insert(spec, place, {name = option.name, type = "text", value = option.value, doc = option.doc})
end)

local function is_folder(path) return core.sys.kind(path) == "folder" and not core.sys.kind(path .. "/data.mdb") end

--- A set with its texts. Labels are held against a charset only where one is given.
local function opened(path, o)
  if o.label and not is_folder(path) then core.fail("--label is a rule for folders; " .. path .. " has its own labels")
    end
  if o.several and o.charset then core.fail("--several is of classes, --charset of texts: give one of them") end
  if o.label == "none" and o.charset then core.fail("--label=none leaves no labels to hold against --charset") end
  -- files may have any size here; nothing is read as a sample
  local size = data_fields.given(o, is_folder(path))
  size.width, size.height = 1, 1
  if o.charset then
    size.charset, size.length, size.variable = o.charset, o.length or 32, true
    size.label = is_folder(path) and (o.label or "auto") or nil
    return data.open(path, size)
  end
  size.label = (o.label == "folder" or o.several) and o.label or nil -- classes
  size.several, size.classes = o.several, o.several and "auto" or nil
  local source = data.open(path, size)
  if source.class_names then return source end
  source.rule = o.label ~= "none" and o.label or nil
  local texts = source.by_name and o.label ~= "none" and files.read_texts(source, o.label or "any")
  local has_fields = #source.box:fields() > 0
  source.unlabelled = texts and texts < source:count() and not (texts == 0 and has_fields and not o.label)
  return source
end

local function open(path, o)
  local source = opened(path, o)
  source.number_names = data_fields.list(o.numbers)
  return source
end

local function scan(source, o, pixels) return source.box:scan{pixels = pixels, threads = o.threads} end

local function print_lines(lines) core.sys.out(table.concat(lines, "\n") .. "\n") end

local jobs = {}

function jobs.stat(path, o)
  if o.target then return print_lines(data_series.stat(path, o)) or 0 end
  local source = open(path, o)
  print_lines(data_stat.lines(source, scan(source, o, false)))
  return 0
end

function jobs.check(path, o)
  if o.target then
    local found, lines = data_check.one(function(r) return data_series.check(r, path, o) end, o.show)
    print_lines(lines)
    return found == 0 and 0 or 1
  end
  local train, val = open(path, o), o.val and open(o.val, o)
  local found, lines = data_check.run(train, val, function(source) return scan(source, o, true) end, o.show)
  print_lines(lines)
  return found == 0 and 0 or 1
end

--- Texts for all images or for none: a database of which some have one is of no use.
local function check_texts(source, o)
  if not source.unlabelled then return end
  local example
  for i = 0, source:count() - 1 do example = example or not source:text(i) and source:name(i) end
  core.fail(("the label rule %s does not fit %s"):format(o.label or "auto", example),
    "--label=PATTERN is another rule, --label=folder the name of the folder, --label=none packs images alone")
end

--- Every image can be read: what goes into a database is not looked at again.
local function check_readable(source, o)
  local found, first, bad = scan(source, o, true), nil, 0
  for i = 0, source:count() - 1 do
    local _, format, why = found:facts(i)
    if not format then first, bad = first or why, bad + 1 end
  end
  if bad == 0 then return end
  core.error{
    code = "format", message = ("%d of %d images cannot be read; the first: %s"):format(bad, source:count(), first),
    hint = "'capl data check' names them all; repair or remove them",
  }
end

--- Its masks fit, its points and boxes lie in their images.
local function check_fields(source, o)
  local first
  data_fields.check({note = function() end, add = function(_, kind, n, example)
    first = first or n > 0 and ("%d %s; the first: %s"):format(n, kind, example(1))
  end}, source, scan(source, o, false))
  if first then
    core.error{code = "format", message = ("%s: %s"):format(source.dir, first),
      hint = "'capl data check' names them all; repair or remove them"}
  end
end

function jobs.pack(path, o)
  if not o.out then core.fail("capl data pack needs --out=DIR: the database to write") end
  local started = core.clock()
  local source = open(path, o)
  check_texts(source, o)
  check_readable(source, o)
  check_fields(source, o)
  source.box:pack(o.out)
  local parts = {source:text(0) and "labels" or nil}
  for _, field in ipairs(source.box:fields()) do parts[#parts + 1] = field.name end
  core.sys.out(("%s: %s%s in %.1f s\n"):format(o.out, count.of(source:count(), "image"), parts[1]
    and " with " .. table.concat(parts, ", ") or "", core.clock() - started))
  return 0
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "data"})
  local run = jobs[words[1] or ""]
  if not run then
    local why = words[1] and ("capl data has no '%s'; it has stat, check and pack"):format(words[1])
    core.fail(why or "capl data needs a subcommand: stat, check or pack", "usage: " .. job.usage)
  end
  if not words[2] then
    core.fail(("capl data %s needs a folder, a list or a database of images"):format(words[1]), "usage: " .. job.usage)
  end
  if not o.target and (o.key or o.features) then core.fail("--key and --features are of time series, which have a --target") end
  if words[3] then core.fail(("'%s' is an extra argument; a second set is --val=SOURCE"):format(words[3])) end
  return run(words[2], o)
end

return {main = main, options = spec, examples = {
  {"capl data stat captchas", "statistics: sizes, lengths, characters, formats"},
  {"capl data check captchas --val=others",
  "finds broken files, invalid names, and duplicates within and between two sets"},
  {"capl data pack captchas --out=captchas.lmdb", "writes one database"},
}}
