-- paths.lua: every function that is given a path, given one outside. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- data.folder reads another folder
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(data.folder, path, {label = "^(.-)%."}) then ESCAPED() end end
data.folder(OUTSIDE[1])

--- data.open reads another folder
for _, path in ipairs(OUTSIDE) do if pcall(data.open, path) then ESCAPED() end end

--- data.explore reads another folder
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(data.explore, path) then ESCAPED() end end
data.explore(OUTSIDE[1])

--- data.list reads a list outside
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(data.list, path .. "/list.txt") then ESCAPED() end end
data.list(OUTSIDE[1] .. "/list.txt")

--- a list inside names images outside
-- says: this recipe may not read
local s = data.list(INSIDE .. "/list_out.txt", {charset = "a-z"})
for batch in data.loader{source = s, batch = 1}:epoch() do ESCAPED() end

--- a list inside goes up from its folder
-- says: this recipe may not read
local s = data.list(INSIDE .. "/list_up.txt", {charset = "a-z"})
for batch in data.loader{source = s, batch = 1}:epoch() do ESCAPED() end

--- a list inside names a link inside
-- says: this recipe may not read
local s = data.list(INSIDE .. "/list_link.txt", {charset = "a-z"})
for batch in data.loader{source = s, batch = 1}:epoch() do ESCAPED() end

--- a list of JSON lines names images outside
-- says: this recipe may not read
local s = data.list(INSIDE .. "/list_out.jsonl", {charset = "a-z"})
for batch in data.loader{source = s, batch = 1}:epoch() do ESCAPED() end

--- a list whose root is outside
-- says: this recipe may not read
data.list(INSIDE .. "/list_in.txt", {root = OUTSIDE[1], charset = "a-z"})

--- a folder inside holds links to images outside
-- says: this recipe may not read
local s = data.folder(INSIDE .. "/links", {label = "^(.-)%.", charset = "a-z"})
for batch in data.loader{source = s, batch = 1}:epoch() do ESCAPED() end

--- a folder inside is a link to a folder outside
-- says: this recipe may not read
data.folder(INSIDE .. "/folder_link", {label = "^(.-)%.", charset = "a-z"})

--- data.lmdb reads a database outside, also through a link
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(data.lmdb, path .. "/db") then ESCAPED() end end
if pcall(data.lmdb, INSIDE .. "/db_link") then ESCAPED() end
data.lmdb(INSIDE .. "/db_link")

--- data.image_read reads an image outside
for _, path in ipairs(OUTSIDE) do if pcall(data.image_read, path .. "/word.png") then ESCAPED() end end

--- data.png_read reads an image outside
for _, path in ipairs(OUTSIDE) do if pcall(data.png_read, path .. "/word.png") then ESCAPED() end end

--- data.image_read follows a link
-- says: this recipe may not read
data.image_read(INSIDE .. "/links/word.png")

--- data.read_csv reads a table outside
for _, path in ipairs(OUTSIDE) do if pcall(data.read_csv, path .. "/secret.csv") then ESCAPED() end end

--- data.read_csv reads /etc/passwd, /proc/1/environ and devices
for _, path in ipairs{"/etc/passwd", "/proc/1/environ", "/proc/self/../1/environ", "/dev/stdin", "/dev/tty", "/root/.bashrc"} do
  if pcall(data.read_csv, path) then ESCAPED() end
end

--- the generator's font is any file
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do
  if pcall(data.captcha, {preset = "lepture", font = path .. "/font.ttf"}) then ESCAPED() end
end
data.captcha{preset = "lepture", length = 4, font = OUTSIDE[1] .. "/font.ttf"}

--- the generator's font goes up from the folders of fonts
if pcall(data.captcha, {preset = "lepture", font = "../../../../etc/passwd"}) then ESCAPED() end

--- a charset is any file
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(data.captcha, {charset = "@" .. path .. "/secret.csv"}) then ESCAPED() end end
data.captcha{charset = "@" .. OUTSIDE[1] .. "/secret.csv"}

--- an error shows whether a file outside exists
local function words(path) return (select(2, pcall(data.image_read, path)).message:gsub("/[^ )]*", "FILE")) end
if words(OUTSIDE[1] .. "/word.png") ~= words(OUTSIDE[1] .. "/nowhere.png") then ESCAPED() end

--- data.save_captchas writes outside
-- says: this recipe may not write
for _, path in ipairs(OUTSIDE) do
  if pcall(data.save_captchas, {dir = path .. "/new", count = 2}) then ESCAPED() end
end
data.save_captchas{dir = OUTSIDE[1] .. "/new", count = 2}

--- data.save_scenes writes outside
for _, path in ipairs(OUTSIDE) do
  if pcall(data.save_scenes, {dir = path .. "/new", count = 2, source = data.slider{}}) then ESCAPED() end
end

--- data.png_write writes outside
local image = capl.zeros({3, 4, 4}, {dtype = "u8"})
for _, path in ipairs(OUTSIDE) do if pcall(data.png_write, path .. "/new.png", image) then ESCAPED() end end

--- data.png_write writes beside the recipe
if pcall(data.png_write, INSIDE .. "/new.png", capl.zeros({3, 4, 4}, {dtype = "u8"})) then ESCAPED() end

--- data.png_write writes over the recipe
if pcall(data.png_write, INSIDE .. "/module.lua", capl.zeros({3, 4, 4}, {dtype = "u8"})) then ESCAPED() end

--- data.png_write writes through a link that leads out of runs/
if pcall(data.png_write, "runs/planted/new.png", capl.zeros({3, 4, 4}, {dtype = "u8"})) then ESCAPED() end

--- every function that writes, given the run of another recipe
local model, other = nn.Linear(1, 1), "runs/other"
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local image = capl.zeros({3, 4, 4}, {dtype = "u8"})
for _, folder in ipairs{other, capl.run_folder() .. "/../other", "runs", capl.run_folder() .. "-2"} do
  if pcall(data.png_write, folder .. "/new.png", image) then ESCAPED() end
  if pcall(train.save, folder .. "/state.capl", {a = 1}) then ESCAPED() end
  if pcall(capl.io.save, folder .. "/weights.safetensors", {weight = capl.zeros(1, 1)}) then ESCAPED() end
  if pcall(capl.save_model, folder .. "/best.capl", model, {}) then ESCAPED() end
  if pcall(data.save_captchas, {dir = folder .. "/new", count = 2}) then ESCAPED() end
  if pcall(function() return train.Checkpoint{model = model, optimizer = opt, folder = folder}:save() end) then ESCAPED() end
end

--- data.png_write goes up from runs/
for _, path in ipairs{"runs/../../new.png", "runs/./.././new.png", "runs//..//..//new.png", "./runs/x/../../../new.png"} do
  if pcall(data.png_write, path, capl.zeros({3, 4, 4}, {dtype = "u8"})) then ESCAPED() end
end

--- pictures are written outside
-- says: this recipe may not write
local series = {{series = {{y = {3, 2, 1.5}}}}}
for _, path in ipairs(OUTSIDE) do
  if pcall(plot.lines, {path = path .. "/p.png", panels = series}) then ESCAPED() end
  if pcall(plot.sheet, {path = path .. "/p.png", cells = {{image = capl.zeros({60, 160}, {dtype = "u8"})}}}) then ESCAPED() end
end
plot.lines{path = OUTSIDE[1] .. "/p.png", panels = series}

--- a picture's font is any file
-- says: this recipe may not read
local series = {{series = {{y = {3, 2, 1.5}}}}}
for _, path in ipairs(OUTSIDE) do
  if pcall(plot.lines, {path = capl.run_folder() .. "/p.png", panels = series, font = path .. "/font.ttf"}) then ESCAPED() end
end
plot.lines{path = capl.run_folder() .. "/p.png", panels = series, font = OUTSIDE[1] .. "/font.ttf"}

--- train.save writes outside
for _, path in ipairs(OUTSIDE) do if pcall(train.save, path .. "/state", {a = 1}) then ESCAPED() end end

--- train.load reads outside
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(train.load, path .. "/state") then ESCAPED() end end
train.load(OUTSIDE[1] .. "/state")

--- train.load_weights reads outside
for _, path in ipairs(OUTSIDE) do
  if pcall(train.load_weights, nn.Linear(1, 1), path .. "/weights.safetensors") then ESCAPED() end
end

--- capl.io.load reads outside
-- says: this recipe may not read
for _, path in ipairs(OUTSIDE) do if pcall(capl.io.load, path .. "/weights.safetensors") then ESCAPED() end end
capl.io.load(OUTSIDE[1] .. "/weights.safetensors")

--- capl.io.load_model reads outside
for _, path in ipairs(OUTSIDE) do if pcall(capl.io.load_model, path .. "/best.capl") then ESCAPED() end end

--- a model inside has weights that are a link
if pcall(capl.io.load_model, INSIDE .. "/model_link.capl") then ESCAPED() end

--- capl.io.save writes outside
-- says: this recipe may not write
for _, path in ipairs(OUTSIDE) do if pcall(capl.io.save, path .. "/new", {a = capl.zeros(1)}) then ESCAPED() end end
capl.io.save(OUTSIDE[1] .. "/new", {a = capl.zeros(1)})

--- capl.io.save_model writes outside
for _, path in ipairs(OUTSIDE) do
  if pcall(capl.io.save_model, path .. "/new.capl", nn.Linear(1, 1), capl.zeros(1, 1), {}) then ESCAPED() end
end

--- train.Log writes outside
for _, path in ipairs(OUTSIDE) do
  if pcall(function() local log = train.Log{folder = path .. "/log"} log:line{step = 1, loss = 1} log:close() end) then ESCAPED() end
  if pcall(function() local log = train.Log{dir = path .. "/log"} log:line{step = 1} log:close() end) then ESCAPED() end
end

--- train.Checkpoint writes and reads outside
local model = nn.Linear(1, 1)
local opt = optim.SGD(model:parameters(), {lr = 1})
for _, path in ipairs(OUTSIDE) do
  if pcall(function() return train.Checkpoint{model = model, optimizer = opt, folder = path}:save() end) then ESCAPED() end
  if pcall(function() return train.Checkpoint{model = model, optimizer = opt}:resume(path) end) then ESCAPED() end
end

--- a loader's cache is made outside
local s = data.captcha{preset = "lepture", length = 4}
for _, path in ipairs(OUTSIDE) do
  if pcall(function() return data.loader{source = s, batch = 1, cache = "disk", cache_dir = path} end) then ESCAPED() end
end

--- train.fit is asked to write and read outside
local model = nn.Linear(1, 1)
local train_set = data.tensors{x = capl.zeros(4, 1), y = capl.zeros(4, 1)}
for _, key in ipairs{"out", "folder", "init_from", "resume", "checkpoint", "report", "log"} do
  for _, path in ipairs(OUTSIDE) do
    local fine = pcall(train.fit, {model = model, train = train_set, steps = 1, lr = 0.1, loss = function(m, b) return m(b.x):mean() end,
      [key] = path .. "/fit"})
    if fine and key ~= "checkpoint" then ESCAPED() end
  end
end

--- a path that is an object says one thing, then another
local n = 0
local path = setmetatable({}, {__tostring = function() n = n + 1 return n == 1 and INSIDE .. "/word.png" or OUTSIDE[1] .. "/word.png" end})
for _, f in ipairs{data.image_read, data.folder, data.list, train.load, capl.io.load} do
  if pcall(f, path) then ESCAPED() end
end

--- a path with a zero byte is cut short behind the check
for _, f in ipairs{data.image_read, data.folder, data.list, data.lmdb, train.load, capl.io.load, data.read_csv} do
  if pcall(f, OUTSIDE[1] .. "/word.png\0" .. INSIDE) or pcall(f, INSIDE .. "/word.png\0/../../x") then ESCAPED() end
end

--- paths of four thousand bytes and of four million
for _, n in ipairs{4095, 4096, 4097, 8192, 4000000} do
  for _, f in ipairs{data.image_read, data.folder, data.list, data.lmdb, train.load, capl.io.load, data.read_csv} do
    if pcall(f, ("a/"):rep(n / 2)) or pcall(f, ("x"):rep(n)) or pcall(f, ("../"):rep(n / 3)) then ESCAPED() end
  end
end

--- links that lead in a circle
for _, f in ipairs{data.image_read, data.folder, data.list, data.lmdb, train.load} do
  if pcall(f, INSIDE .. "/loop") or pcall(f, INSIDE .. "/loop/x") then ESCAPED() end
end

--- a link without an end is written through
if pcall(data.png_write, "runs/dangling.png", capl.zeros({3, 4, 4}, {dtype = "u8"})) then ESCAPED() end

--- the environment of the process, by /proc
for _, path in ipairs{"/proc/self/environ", "/proc/self/mem", "/proc/self/fd/0", "/proc/self/roo" .. "t/etc/passwd", "/proc/self/cwd/../../secret.csv"} do
  local fine, got = pcall(data.read_csv, path)
  if fine then ESCAPED() end
end

--- a pipe in the folder does not hold anybody up
if pcall(data.read_csv, INSIDE .. "/pipe.lua") or pcall(data.image_read, INSIDE .. "/pipe.lua") then ESCAPED() end

--- a report with a script in it
for _, name in ipairs{"/report.html", "/settings.JSON", "/x.svg", "/Makefile", "/.envrc", "/x.pth", "/.x.png", "/.capl", "/x.capl.sh"} do
  name = capl.run_folder() .. name
  if pcall(train.save, name, {a = "<script>alert(1)</script>"}) then ESCAPED() end
  if pcall(capl.io.save, name, {["<script>"] = capl.zeros(1)}) then ESCAPED() end
  if pcall(data.png_write, name, capl.zeros({3, 20, 60}, {dtype = "u8"})) then ESCAPED() end
end
