-- folder.lua: the files of a sweep: sweep.json (the plan), results.jsonl (a line for each trial that ended),
-- results.csv.
--
-- A trial's own files are those of any run, in the folder trial-001 and so on. What is here is all that --resume knows.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local json_file = require "json_file"
local process = require "run.process"
local checkpoints = require "train.folder"

local Folder = {}
Folder.__index = Folder

local function must(done, why)
  if done == nil then core.error{code = "io", message = why} end
  return done
end

--- Makes a folder that nobody had before: path, or path-2 … unless `exactly`.
local function new(path, exactly)
  local parent, number, name = path:match("^(.*)/[^/]*$"), 1, path
  if parent and parent ~= "" then must(core.sys.mkdir(parent)) end
  while not must(core.sys.mkdir_new(name)) do
    if exactly then
      core.error{code = "io", message = name .. " is there already",
        hint = "capl sweep --resume " .. name .. " continues a sweep; --out= names another folder"}
    end
    number = number + 1
    name = ("%s-%d"):format(path, number)
  end
  return setmetatable({path = name, results = {}}, Folder)
end

function Folder:file(name) return self.path .. "/" .. name end

function Folder:write(name, text) must(core.sys.write(self:file(name), text)) end

--- Removes what a sweep that cannot begin has written.
function Folder:remove(names)
  for _, name in ipairs(names) do core.sys.remove(self:file(name)) end
  core.sys.remove(self.path)
end

--- One sweep at a time works in a folder. errs state: another one does
function Folder:take()
  local who = process.take(self.path, json_file.read(self:file("sweep.lock")))
  if who then
    core.error{code = "state", message = ("%s works on the sweep in %s"):format(who, self.path),
      hint = "after it has ended or was stopped, --resume continues it"}
  end
  local this = process.this()
  if this then self:write("sweep.lock", core.json_encode(this) .. "\n") end
end

--- The end of what take began.
function Folder:let_go() core.sys.remove(self:file("sweep.lock")) end

function Folder:save_plan(plan) self:write("sweep.json", core.json_encode(plan, true) .. "\n") end

--- A trial ended: its line is on the disk before the next one begins.
function Folder:add(result)
  self.results[#self.results + 1] = result
  must(core.sys.append(self:file("results.jsonl"), core.json_encode(result) .. "\n"))
end

local plan_types = {recipe = "string", metric = "string", goal = "string", kind = "string", device = "string",
  started = "string", version = "string", args = "table", keys = "table", trials = "table", rungs = "table",
  jobs = "number", threads = "number"}
local result_types = {trial = "number", rung = "number", settings = "table", status = "string", seconds = "number",
  folder = "string", command = "string"}
local result_may_have = {step = "number", steps = "number", n = "number", low = "number", high = "number",
  images = "number", images_per_s = "number", peak_memory_bytes = "number", parameters = "number", error = "string",
  mode = "string", val_hash = "string"}

-- Whether a value is an object that has what others will look for. may_have: what need not be there
local function is_like(value, types, may_have)
  if type(value) ~= "table" then return false end
  for key, kind in pairs(types) do
    if type(value[key]) ~= kind then return false end
  end
  for key, kind in pairs(may_have or {}) do
    if value[key] ~= nil and type(value[key]) ~= kind then return false end
  end
  return true
end

-- A line may have been cut by what ended the sweep; its trial then runs again.
local function read_results(path)
  local out = {}
  for _, result in ipairs(json_file.lines(core.sys.read(path))) do
    local whole = is_like(result, result_types, result_may_have)
    if whole and (result.status ~= "done" or type(result.value) == "number") then out[#out + 1] = result end
  end
  return out
end

--- The sweep in a folder -> Folder, plan. errs io: it holds none
local function open(path)
  path = path:gsub("(.)/+$", "%1")
  local text = core.sys.read(path .. "/sweep.json")
  local plan = json_file.decode(text)
  if not plan or not is_like(plan, plan_types) then
    core.error{code = "io", message = ("%s holds no sweep%s"):format(path, text and ": its sweep.json is damaged"
      or ""), hint = "it is a folder that capl sweep has made, such as runs/sweep-captcha"}
  end
  local self = setmetatable({path = path, results = read_results(path .. "/results.jsonl")}, Folder)
  if #self.results > 0 then -- without lines that were cut
    local lines = {}
    for i, result in ipairs(self.results) do lines[i] = core.json_encode(result) end
    self:write("results.jsonl", table.concat(lines, "\n") .. "\n")
  end
  return self, plan
end

--- A folder for a trial's files: name, or name-2 … when an earlier attempt has left something there.
function Folder:trial_folder(name)
  local path, number = self:file(name), 1
  while core.sys.kind(path) do
    number = number + 1
    path = ("%s-%d"):format(self:file(name), number)
  end
  return path
end

--- The newest folder of a trial, if it holds a checkpoint; else nil.
function Folder:checkpointed(name)
  local path, number, newest = self:file(name), 1, nil
  while core.sys.kind(path) do
    newest, number = path, number + 1
    path = ("%s-%d"):format(self:file(name), number)
  end
  return newest and checkpoints.any(newest) and newest or nil
end

-- ---- results.csv ----

local function cell(value)
  if value == nil then return "" end
  local text = type(value) == "number" and (value % 1 == 0 and ("%.0f"):format(value) or ("%.10g"):format(value))
    or tostring(value)
  if text:find('[",\n\r]') then return '"' .. text:gsub('"', '""') .. '"' end
  return text
end

--- results.csv: a row for each result, best first; columns: trial, keys, the metric, what it took, where it is.
function Folder:save_csv(keys, metric, results)
  local columns = {"trial", "rung"}
  for _, key in ipairs(keys) do columns[#columns + 1] = key end
  for _, name in ipairs{metric, "low", "high", "n", "step", "status", "seconds", "images_per_s", "peak_memory_bytes",
    "parameters", "mode", "folder", "error"} do columns[#columns + 1] = name end
  local lines = {table.concat(columns, ",")}
  for _, r in ipairs(results) do
    local row = {}
    for i, name in ipairs(columns) do
      local value = r[name]
      if name == metric then value = r.value end
      if i > 2 and i <= 2 + #keys then value = r.settings[name] end
      row[i] = cell(value)
    end
    lines[#lines + 1] = table.concat(row, ",")
  end
  self:write("results.csv", table.concat(lines, "\n") .. "\n")
end

return {new = new, open = open}
