-- files.lua: data.folder, data.list, data.lmdb: sources made of image files, and the rules that give them labels.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local check = require "check"
local file_fields = require "data.file_fields"
local guess = require "data.guess"
local read_resize = require("data.resize").read
local read_charset = require("fields.charset").read
local named = require "fields.named"
local symbols = require "fields.symbols"

local files = {}

local image_keys = {
  "charset", "length", "width", "height", "channels", "variable", "case", "fold_width", "resize", "widths",
  "several"}

local function with(keys, more)
  local all = {unpack(keys)}
  for _, key in ipairs(more) do all[#all + 1] = key end
  return all
end

local LENGTH_MAX = 32 -- characters of a label
local WIDTH_STEP = 8 -- px: found widths are multiples

--- length = 5, {4, 8} or "auto" -> shortest, longest; nil without one
local function read_length(where, length)
  if length == "auto" then return 1, LENGTH_MAX end
  if type(length) == "number" or length == nil then return nil, length end
  if type(length) ~= "table" then length = {length} end
  local lo, hi = length[1], length[2]
  local whole = type(lo) == "number" and type(hi) == "number" and lo % 1 == 0 and hi % 1 == 0
  if whole and lo >= 1 and lo <= hi and hi <= LENGTH_MAX and #length == 2 then return lo, hi end
  check.fail(where, ("length is a number, {shortest, longest} within 1..%d or \"auto\", got %s"):format(LENGTH_MAX,
    #length == 1 and tostring(length[1]) or ("{%s, %s}"):format(tostring(lo), tostring(hi))))
end

--- Of texts whose characters are looked up; 4 where nothing is said.
local function read_text_length(where, length)
  local lo, hi = read_length(where, length or 4)
  if not lo and (hi < 1 or hi > LENGTH_MAX or hi % 1 ~= 0) then
    check.fail(where, ("length is a whole number in 1..%d, got %s"):format(LENGTH_MAX, tostring(hi)))
  end
  return lo, hi
end

--- widths = {96, 128}, "auto" or {step = 16} -> list, or nil and what found widths are multiples of
local function read_widths(where, widths)
  if widths == "auto" then return nil, WIDTH_STEP end
  if type(widths) ~= "table" and widths ~= nil then
    check.fail(where, ('widths is a list of widths in px, "auto" or {step = px}, not %s'):format(tostring(widths)))
  end
  if not widths or widths.step == nil then return widths end
  if type(widths.step) ~= "number" or widths.step < 1 or #widths > 0 then
    check.fail(where, ("widths = {step = px} finds widths that are multiples of px, got step = %s"):format(tostring(widths.step)))
  end
  return nil, widths.step
end

-- several = true | ";" -> what separates the names in a label; nil: it is one name
local function read_several(where, o)
  local several = o.several == true and "|" or o.several
  if not several then return nil end
  if not o.classes then
    check.fail(where, "several is of classes", 'classes = "auto", or the list of their names')
  end
  if type(several) ~= "string" or not several:match("^%p$") or several:find('["\\]') then
    check.fail(where, ("several is true, or the mark between the names of classes, such as ';'; got %s"):format(
      tostring(several)))
  end
  return several
end

-- What the engine gets to know of the images. labels: {charset, false = none yet; classes = list}; of o unless given
local function image_options(where, o, labels)
  local charset, classes = labels and labels.charset, labels and labels.classes
  local lo, hi = read_length(where, not classes and o.length or nil)
  local widths, step = read_widths(where, o.widths)
  local resize, letterbox = read_resize(where, o.resize, o.channels)
  if charset == nil and o.charset ~= "auto" then charset = o.charset end
  return {
    width = o.width, height = o.height, channels = o.channels, charset = charset or nil, length = hi, length_min = lo,
    classes = classes, variable = o.variable, case = o.case, fold_width = o.fold_width, resize = resize,
    letterbox = letterbox, widths = widths, width_step = step, fields = (file_fields.read(where, o)),
    several = read_several(where, o),
  }
end

-- ---- what is found ----

-- The first label that no charset can hold, named with its file.
local function refuse_character(where, box)
  for i = 0, box:count() - 1 do
    local text = box:text(i)
    local odd = text and symbols.unusable(text)
    if odd then
      check.fail(where, ("charset = \"auto\", but the label \"%s\" of %s has '%s': labels are visible characters " ..
        "without blanks"):format(
        text, box:name(i), odd), "the rule of the labels may be wrong, or the file is one to be left out")
    end
  end
end

--- The characters of all texts that a source has, as a charset; nil: it has no text at all.
local function found_charset(where, box)
  local characters = box:characters()
  if characters:find("-", 1, true) then characters = "-" .. characters:gsub("%-", "") end -- at the front it is no range
  if characters ~= "" and symbols.unusable(characters) then refuse_character(where, box) end
  return characters ~= "" and characters or nil
end

local function must_have_charset(where, charset, place)
  if charset then return charset end
  check.fail(where, ('charset = "auto", but no image of %s has a label'):format(place))
end

-- classes = {"cat", "dog"} or "auto" -> the same, or nil without it
local function read_classes(where, o)
  if o.classes == nil then return nil end
  if o.classes ~= "auto" then check.value(where, {"classes", "table"}, o.classes) end
  if o.charset then check.fail(where, "charset is of texts, classes are names of images: give one of them") end
  return o.classes
end

--- The names that the labels of a list or database hold, sorted.
local function found_classes(box)
  local seen, classes = {}, {}
  for i = 0, box:count() - 1 do
    for _, name in ipairs(named.split(box:text(i), box:several())) do
      if not seen[name] then classes[#classes + 1] = name end
      seen[name] = true
    end
  end
  table.sort(classes)
  return classes
end

--- Of a list or database: finds what was asked to be found.
local function settle_labels(where, box, o, place)
  if o.charset == "auto" then
    local lo, hi = read_text_length(where, o.length)
    box:set_charset(must_have_charset(where, found_charset(where, box), place), lo or o.variable and 1 or hi, hi)
  end
  if o.length == "auto" and o.charset then box:fit_length() end
  local classes = read_classes(where, o)
  if not classes then return end
  if classes == "auto" then classes = found_classes(box) end
  if #classes == 0 then check.fail(where, ('classes = "auto", but no image of %s has a label'):format(place)) end
  box:set_classes(classes)
  if box:several() then box:fit_length() end
end

--- Once per source: the widths that were found, and what none of them holds.
local function print_widths(place, box, asked)
  local widths = box:widths()
  if not widths or observer.mode ~= "run" then return end
  if type(asked) ~= "table" or asked.step then
    observer:print(("%s: widths of batches, in px at height %d: %s"):format(place, box:height(),
      table.concat(widths, ", ")))
  end
  local squeezed, widest, px = box:squeezed()
  if squeezed > 0 then
    local are = squeezed == 1 and "is" or "are"
    local text = "note: %s: %d of %d images %s wider than %d px and %s squeezed; the widest is %s, %d px at height %d"
    observer:print(text:format(place, squeezed, box:count(), are, widths[#widths], are, box:name(widest), px,
      box:height()))
  end
end

-- ---- labels by rule ----

local default_rule = "^(.-)_"

-- The name of the folder that a file lies in.
local function folder_of(_, name) return name:match("([^/]+)/[^/]+$") end

--- The text of a file by a pattern with one capture.
local function label_of(rule, base) return (base:match(rule)) end

--- The same, where a broken pattern is the recipe's mistake.
local function try_label(rule, name)
  local base = name:match("([^/]+)$")
  if type(rule) == "function" then return rule(base, name) end
  local fine, text = pcall(label_of, rule, base)
  if fine then return text end
  check.fail("data.folder", ("label = '%s' is no Lua pattern: %s"):format(rule, (text:gsub("^[^:]*:[^:]*:%d+: ", ""))))
end

local function show_rule(rule)
  return rule == folder_of and '"folder"' or type(rule) == "string" and "'" .. rule .. "'" or "given"
end

-- A rule that would read names like this one, said with its text; nil when none of the usual ones does.
local function better_rule(name)
  for _, rule in ipairs{default_rule, "^(%w+)%.", "([^_]+)%.[^.]*$"} do
    local text = label_of(rule, name)
    if text and text ~= "" then return ("'%s' reads %s"):format(rule, text) end
  end
end

--- Raises when the rule fits no file at all: it is the rule that is wrong, not the files.
local function refuse_rule(box, dir, rule)
  local examples, count = {}, box:count()
  local shown = math.min(3, count)
  for i = 1, shown do examples[i] = box:name(math.floor((i - 1) * count / shown)):match("([^/]+)$") end
  local better = better_rule(examples[1])
  core.error{
    code = "value", message = ("data.folder: the label rule %s fits none of the %d files in %s"):format(show_rule(rule),
    count, dir), context = "such as " .. table.concat(examples, ", "),
    hint = "label is a Lua pattern whose capture in the file's name is the text"
    .. (better and "; for the first, " .. better or ""),
  }
end

--- Gives every file its label.
-- out  list of {id=, name=, message=} of those that have none
local function set_labels(box, dir, rule)
  if type(rule) ~= "function" then check.value("data.folder", {"label", "string"}, rule) end
  local bad, fits = {}, 0
  for i = 0, box:count() - 1 do
    local text = try_label(rule, box:name(i))
    local good, why
    if type(text) == "string" then
      fits = fits + 1
      good, why = box:set_label(i, text)
    else -- no label, so that it is bad for the loader too; an empty one may mean none of several classes
      why = ("%s/%s: the label rule %s does not fit"):format(dir, box:name(i), show_rule(rule))
    end
    if not good then bad[#bad + 1] = {id = i, name = box:name(i), message = why} end
  end
  if fits == 0 then refuse_rule(box, dir, rule) end
  return bad
end

--- Opens the texts of a folder's files to find their characters.
local function find_charset(box, dir, o, rule)
  local fits = 0
  for i = 0, box:count() - 1 do
    local text = try_label(rule, box:name(i))
    if type(text) == "string" then
      fits = fits + 1
      box:set_text(i, text)
    end
  end
  if fits == 0 then refuse_rule(box, dir, rule) end
  local lo, hi = read_text_length("data.folder", o.length)
  box:set_charset(must_have_charset("data.folder", found_charset("data.folder", box), dir), lo or o.variable and 1
    or hi, hi)
end

-- ---- labels in files beside images ----

--- ".txt" -> ".txt"; ".json:kind" -> ".json", "kind"; nil: label is another rule
local function beside_rule(label)
  if type(label) ~= "string" then return nil end
  if label == ".txt" or label == ".json" then return label end
  local key = label:match("^%.json:(.+)$")
  return key and ".json", key
end

--- Gives every file the text that lies beside it.
local function read_beside(box, ending, key)
  for i = 0, box:count() - 1 do box:set_text(i, box:label_beside(i, ending, key)) end
end

-- ---- labels by a rule that is found ----

local function three_names(box)
  local names, count = {}, box:count()
  local shown = math.min(3, count)
  for i = 1, shown do names[i] = box:name(math.floor((i - 1) * count / shown)) end
  return names
end

--- "a_1.png is a, b_2.png is b"; form = "of": "a of a_1.png, b of b_2.png"
local function read_by(rule, names, form)
  local parts = {}
  for i, name in ipairs(names) do
    parts[i] = form == "of" and ("%s of %s"):format(guess.text(rule, name) or "nothing", name)
      or ("%s is %s"):format(name, guess.text(rule, name) or "nothing")
  end
  return table.concat(parts, ", ")
end

-- What none of the rules reads, or what two read differently.
local function refuse_guess(dir, box, rules)
  local names = three_names(box)
  if #rules == 2 then
    local lines = {}
    for i, rule in ipairs(rules) do lines[i] = ("  --label='%s' reads %s"):format(rule, read_by(rule, names, "of")) end
    core.error{code = "value",
      message = ('data.folder: label = "auto" cannot decide which part of the names in %s is the label'):format(dir),
      context = table.concat(lines, "\n"),
      hint = "choose one of them; in a recipe it is label = of data.folder, data.open or data.explore"}
  end
  check.fail("data.folder", ('label = "auto" finds no text in the names of %s, such as %s'):format(dir,
    table.concat(names, ", ")),
    (rules[1] and ("they look like numbers or checksums: --label='%s' would read %s"):format(rules[1],
    read_by(rules[1], {names[1]}, "of"))
    or "label is a Lua pattern whose capture in the file's name is the text")
      .. "; data.list reads texts from a list beside the images")
end

-- Whether a text is of a source's charset and length, as far as they are given; nil where they are to be found.
local function wanted_by(o)
  if type(o.charset) ~= "string" or o.charset == "auto" then return nil end
  local fine, charset = pcall(core.data.charset, o.charset)
  if not fine then return nil end -- opening the source says what is wrong with it
  local class_of = symbols.class_of(charset)
  local case = (o.case == "upper" or o.case == "lower") and o.case or "keep"
  local lo, hi = read_length("data.folder", o.length)
  hi = hi or 4
  lo = lo or (o.variable and 1 or hi)
  return function(text)
    local list = symbols.of(symbols.fold(text, case))
    if #list < lo or #list > hi then return false end
    for _, symbol in ipairs(list) do
      if not class_of[symbol] then return false end
    end
    return true
  end
end

--- The rule for the names below a folder; in a run it is printed, with examples. box: names are enough; or_none = true:
-- no
--- rule where no part of the names looks like a text; wanted: as of guess.rule
-- out  rule; "TEXT_….png: a_1.png is a, …"
function files.guess_rule(dir, box, or_none, wanted)
  local rule, doubts = guess.rule(box, wanted)
  if not rule and or_none and #doubts < 2 then return nil end
  if not rule then refuse_guess(dir, box, doubts) end
  local text = ("%s: %s"):format(guess.name(rule), read_by(rule, three_names(box)))
  if observer.mode == "run" then observer:print(("%s: names are %s"):format(dir, text)) end
  return rule, text
end

--- A list of texts that lies among the images, by the usual names; nil without one.
local function list_within(dir)
  for _, name in ipairs{"labels.txt", "labels.tsv", "labels.csv", "labels.jsonl"} do
    local path = dir .. "/" .. name
    if core.sys.kind(path) == "file" then return path end
  end
end

local function names_below(dir)
  return core.data.folder_source(dir, {width = 1, height = 1}) -- only its names are wanted; no file is opened
end

-- ---- classes ----

--- Raises for folders whose names are no classes: no UTF-8, or one class in two spellings of Unicode.
local function check_class_folders(dir, folders)
  local seen = {}
  for name, folder in pairs(folders) do
    local fine, normal = pcall(core.data.fold, name)
    if not fine then
      core.fail(("%s/%s: the name of the folder is no UTF-8"):format(dir, folder),
        "rename it, for example with 'convmv -f GB18030 -t UTF-8 --notest -r " .. dir .. "'")
    end
    if seen[normal] then
      local both = {folder, seen[normal]}
      table.sort(both)
      core.fail(("%s/%s and %s/%s are one class, %s, in two spellings of Unicode"):format(dir, both[1], dir, both[2],
        normal), "move the images of one folder into the other")
    end
    seen[normal] = folder
  end
end

--- Names of all folders that hold files, sorted.
local function find_classes(dir)
  local box = names_below(dir)
  local seen, classes = {}, {}
  for i = 0, box:count() - 1 do
    local class = folder_of(nil, box:name(i))
    if class and not seen[class] then classes[#classes + 1] = class end
    if class then seen[class] = seen[class] or box:name(i):match("^(.*)/") end
  end
  check_class_folders(dir, seen)
  table.sort(classes)
  return classes
end

-- ---- sources ----

-- What is wrong with a label is looked up when somebody asks.
local function lazy_bad(box)
  local meta = {}
  function meta.__index(entry, key)
    if key == "message" then return box:label_error(entry.id) end
    if key == "name" then return box:name(entry.id) end
  end
  local bad = box:bad_labels()
  for i, id in ipairs(bad) do bad[i] = setmetatable({id = id}, meta) end
  return bad
end

local folder_keys = with(with(image_keys, file_fields.keys), {"label", "classes"})
local list_keys = with(with(image_keys, file_fields.keys), {"classes", "root", "format", "path", "label", "separator"})
local lmdb_keys = with(with(image_keys, file_fields.keys), {"classes"})

-- Gives a source what its fields say of it.
local function with_facts(source, op, o)
  for key, value in pairs((select(2, file_fields.read(op, o)))) do source[key] = value end
  return source
end

local function classes_of(dir, o)
  local given = read_classes("data.folder", o)
  if o.charset or not (given or o.label == "folder") then return nil end
  if given == "auto" and o.several and o.label ~= "folder" then
    check.fail("data.folder", 'classes = "auto" with several finds names beside the images',
      'label = ".txt" or ".json"; for names in the names of files classes is a list')
  end
  local classes = type(given) == "table" and given or find_classes(dir)
  return #classes > 0 and classes or nil
end

--- Gives the files of a folder their texts by a rule, without a charset to hold them against. rule: of data.folder, or
-- "any":
--- as "auto", but names without a text are no error. -> how many have one
function files.read_texts(source, rule)
  local fits = 0
  if rule == "auto" or rule == "any" then rule, source.names = files.guess_rule(source.dir, source, rule == "any") end
  if not rule then return 0 end
  local ending, key = beside_rule(rule)
  if ending then return read_beside(source.box, ending, key) or source:count() end
  if rule == "folder" then rule = folder_of end
  for i = 0, source:count() - 1 do
    local text = try_label(rule, source:name(i))
    if text then source.box:set_text(i, text) end
    if text then fits = fits + 1 end
  end
  return fits
end

--- make(box, bad) makes a source of its box.
function files.new(make)
  local made = {}

  -- A source of a list or a database, whose images are labelled as the options say.
  local function opened(op, path, box, o)
    settle_labels(op, box, o, path)
    print_widths(path, box, o.widths)
    local source = make(box, (o.charset or o.classes) and lazy_bad(box))
    source.dir, source.place = path, "of " .. path
    return with_facts(source, op, o)
  end

  -- A folder whose labels lie beside its images.
  local function folder_beside(dir, o)
    if not o.charset and not o.classes then
      check.fail("data.folder", ("label = \"%s\" needs a charset, or classes"):format(o.label),
        'charset = "auto": labels are texts; classes = "auto": they are names of classes')
    end
    local box = core.data.folder_source(dir, image_options("data.folder", o))
    read_beside(box, beside_rule(o.label))
    local source = opened("data.folder", dir, box, o)
    source.place, source.by_name, source.label, source.classes = "below " .. dir, true, o.label, source.class_names
    return source
  end

  --- All PNG and JPEG files below a folder, sorted by path.
  -- opts  label = "^(.-)_": Lua pattern whose capture in the file's name is the text, a function(name, path) -> text,
  --       "folder": the name of the folder that the file lies in, or "auto": found by the names, and printed;
  --       two readings that are as good as each other are an error that shows both
  --       charset, length: of the texts (no charset = images
  --       without labels); charset = "auto": the characters that occur; length = 5, {4, 8}: from 4 to 8, or "auto": as
  --       found;
  --       variable = true is {1, length}; case = "keep" | "upper" | "lower": letters become these;
  --       fold_width = true: full-width and half-width forms become the usual ones.
  --       label = ".txt": the line of the file a.txt beside a.png; ".json": label, text or class of a.json, or another
  --       key, ".json:kind"; with classes = "auto" or a list of names these are classes, with a charset texts.
  --       several = true: images are of several classes, or of none: the label is "cat|dog", in a .txt also a line for
  --       each name, in JSON a list of names; several = ";" is another mark between them. Batches have onehot (N,K)
  --       then, 1 for each class that the image has.
  --       label = "folder" without a charset makes each folder a class:
  --       the target is its number from 0, source.classes has the names; classes = {"cat", "dog"} sets their order, for
  --       validation that of the training set. width, height (px): what every file must have (those of the first file);
  --       height = 60, widths = {96, 128, 160}: images are brought to that height, keep their proportions and are
  --       filled up on the right with their background (the median of their right edge) to the smallest of these widths
  --       that holds them; one that is wider than all is squeezed. Batches are of one width each. widths = "auto": at
  --       most 6, multiples of 8 px, chosen by the sizes of the files; {step = 16}: of 16.
  --       resize = false: files of another size are errors, true: they are stretched, as predict does; "letterbox":
  --       they keep their proportions, as large as fits, in the middle and white around;
  --       or a table of mode "letterbox", position "center" or "top-left", and fill, 255 or {255, 255, 255}: the level
  --       around them, or one for each channel. predict does the same; points and boxes move along, padding of masks
  --       is 255.
  --       channels = 1 | 3
  --       mask = "_mask.png": a_mask.png is the mask of a.png or a.jpg, a gray or palette PNG of its size, and no image
  --       itself; its levels or numbers of colours are the classes. mask = {file = "_mask.png", root = "masks",
  --       classes = {"sky", "road"}, values = {0, 255}}: masks lie below another folder; names of the classes, or how
  --       many there are; the level of each class. 255 stays 255, for pixels that do not count, unless it is in values.
  --       mask = {parts = {"skin", "hair"}, root = "parts", classes = {"none", "skin", "hair"}}: below root each image
  --       has files IMAGE_PART.png, white where the part is; later parts cover earlier ones, the first class is where
  --       none is. They have one size, maybe another one than the image, and leading zeros of IMAGE do not count.
  --       target_image = "_target.png": a_target.png is what a model shall make of a.png, an image of its size, and no
  --       image of the source. target_image = {file = ".png", root = "clean", channels = 3}: they lie below another
  --       folder; 1 or 3 channels, those of the images unless said. No augmentation may move such images
  --       points = "eyes", boxes = "boxes", numbers = {"pm25", "temp"}: keys of the file a.json beside a.png: a point
  --       is [x, y] or [x, y, visible], a box [left, top, right, bottom] or with its class, in px; one, or a list of
  --       them;
  --       null is a place that is not there. Batches have mask (N,H,W), target_image (N,C,H,W) from 0 to 1, points
  --       (N,P,3), boxes (N,B,5), filled up with what is not there, and numbers (N,n); numbers = {air = {"pm25",
  --       "temp"}, angle = "angle"} names more of them
  -- errs io: the folder cannot be read; value: no image file, a label rule that fits none of them, unknown option
  function made.folder(dir, opts)
    local o = check.keys("data.folder", opts, folder_keys)
    o.charset = read_charset("data.folder", o.charset)
    check.value("data.folder", {"dir", "string"}, dir)
    local found, names = nil, nil
    if o.label == "auto" then found, names = files.guess_rule(dir, names_below(dir), false, wanted_by(o)) end
    if found then
      o = setmetatable({label = found}, {__index = o})
      if o.charset == nil then o.charset = "auto" end
    end
    if beside_rule(o.label) then return folder_beside(dir, o) end
    local classes = classes_of(dir, o)
    local charset = o.charset
    if o.label == "folder" and not charset and not classes then
      check.fail("data.folder", ("%s has no folder with images, whose name would be their class"):format(dir),
        "classes are read from FOLDER/CLASS/IMAGE.png, or from a list of files and classes")
    end
    if o.label and not charset and not classes then
      check.fail("data.folder", "label needs a charset to know the characters")
    end
    local rule = (o.label == "folder" or classes and not o.label) and folder_of or o.label or default_rule
    local find = charset == "auto"
    local box = core.data.folder_source(dir,
      image_options("data.folder", o, {charset = not find and charset, classes = classes}))
    if find then find_charset(box, dir, o, rule) end
    local bad = (charset or classes) and set_labels(box, dir, rule)
    if o.length == "auto" and charset or box:several() then box:fit_length() end
    print_widths(dir, box, o.widths)
    local source = make(box, bad)
    source.dir, source.place, source.classes, source.by_name = dir, "below " .. dir, source.class_names, true
    source.label, source.names = rule == folder_of and "folder" or rule, names
    return with_facts(source, "data.folder", o)
  end

  --- The images that a list names, in its order: lines of path TAB label, JSON objects one per line, CSV with a header.
  -- opts  charset, length, case, variable, width, height, widths, resize, channels, several: as of data.folder; classes
  --       = {"cat", "dog"} or "auto", as found: each label is the name of one; root = folder
  --       that paths begin at (the list's own); format = "auto" | "tsv" | "jsonl" | "csv"; path, label = names of the
  --       columns or keys (path, file, filename or image; label or text); separator = "," of CSV; mask = "column" of
  --       their paths, or {column or file, root, classes, values} as of data.folder; points = {"x1 y1", "x2 y2"} or
  --       with a third column that is 1 where it is visible, boxes = {"left top right bottom"} or with a class,
  --       numbers = {"pm25", "temp"}: columns (lists with tabs have a header then), or keys of JSON lines as of
  --       data.folder; a list {"left eye x", "left eye y"} stands for names with blanks; an empty cell: the point is
  --       not there
  -- errs  io: the list cannot be read; format: a broken line, named; value: an empty list, unknown option
  function made.list(file, opts)
    local o = check.keys("data.list", opts, list_keys)
    o.charset = read_charset("data.list", o.charset)
    check.value("data.list", {"file", "string"}, file)
    local options = image_options("data.list", o)
    for _, key in ipairs{"root", "format", "path", "label", "separator"} do options[key] = o[key] end
    local box = core.data.list_source(file, options)
    return opened("data.list", file, box, o)
  end

  --- The records of an LMDB database in the convention of text recognition: num-samples, image-%09d, label-%09d. All of
  --- it is read into memory, or into a temporary file when it takes more than a quarter of that.
  -- in   path = the database's folder, or its file
  -- opts charset, length, case, variable, width, height, widths, resize, channels, several: as of data.folder; classes:
  --      as of data.list; mask = true or {classes, values}: of mask-%09d, a PNG; points, boxes, numbers: keys of the
  --      JSON object fields-%09d. What 'capl data pack' wrote is read with the options of the files that it packed
  -- errs io: it cannot be read; format: another kind of file, a damaged one, a missing record; value: it is empty
  function made.lmdb(path, opts)
    local o = check.keys("data.lmdb", opts, lmdb_keys)
    o.charset = read_charset("data.lmdb", o.charset)
    check.value("data.lmdb", {"path", "string"}, path)
    local box = core.data.lmdb_source(path, image_options("data.lmdb", o))
    return opened("data.lmdb", path, box, o)
  end

  --- Opens a source by the kind of its path: a folder, a database (a folder with a data.mdb, a *.mdb file), or else a
  -- list.
  -- opts charset, length, case, variable, width, height, widths, resize, channels, several, mask,
  --      target_image, points, boxes, numbers; label, classes: for folders, others have their labels; with label =
  --      "auto", or with points, boxes or numbers, a labels.txt, .tsv, .csv or .jsonl in the folder is the list of
  --      them. The files and folders of mask are those of folders and lists
  -- errs as data.folder, data.list and data.lmdb
  function made.open(path, opts)
    local o = check.keys("data.open", opts, folder_keys)
    o.charset = read_charset("data.open", o.charset)
    check.value("data.open", {"path", "string"}, path)
    local kind = core.sys.kind(path)
    local listed = o.label == "auto" or o.label == nil and file_fields.in_table(o)
    local list = kind == "folder" and listed and list_within(path)
    local folder_of_files = kind == "folder" and not list and not core.sys.kind(path .. "/data.mdb")
    if folder_of_files or not kind then return made.folder(path, o) end -- which says what is not there
    local database = not list and (kind == "folder" or path:match("%.mdb$"))
    local rest = {}
    for _, key in ipairs(lmdb_keys) do rest[key] = o[key] end
    if database or list then file_fields.adapt(rest, database and "of_database" or "of_folder") end
    return (database and made.lmdb or made.list)(list or path, rest)
  end

  return made
end

return files
