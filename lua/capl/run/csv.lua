-- csv.lua: metrics.csv: a row for each point of a run, a column for each metric from the first point that has it on.
-- SPDX-License-Identifier: Apache-2.0
local core = ...


local Csv = {}
Csv.__index = Csv

-- Columns that come first, in this order, where a row has them.
local first = {"step", "epoch", "images", "seconds", "loss", "lr", "images_per_s", "wait"}
local place = {}
for i, name in ipairs(first) do place[name] = i end

local function before(a, b)
  local pa, pb = place[a] or #first + 1, place[b] or #first + 1
  if pa ~= pb then return pa < pb end
  return a < b
end

-- ---- cells ----

local DIGITS = 10 -- of a number, as in metrics.jsonl

local function cell(value)
  if value == nil then return "" end
  if type(value) == "number" then return core.json_encode(value, false, DIGITS) end
  local text = tostring(value)
  return text:find('[",\r\n]') and '"' .. text:gsub('"', '""') .. '"' or text
end

local function row_text(columns, values)
  local cells = {}
  for i, name in ipairs(columns) do cells[i] = cell(values[name]) end
  return table.concat(cells, ",") .. "\n"
end

-- ---- columns ----

-- Names in values that no column has yet, in order; nil for none.
local function missing(self, values)
  local names
  for name in pairs(values) do
    if not self.known[name] then
      names = names or {}
      names[#names + 1] = name
    end
  end
  if names then table.sort(names, before) end
  return names
end

-- A row's end that is within no quoted cell: where each row of a text ends.
local function each_row(text)
  local at = 1
  return function()
    if at > #text then return nil end
    local from, quoted = at, false
    for i = at, #text do
      local c = text:byte(i)
      if c == 34 then quoted = not quoted end
      if c == 10 and not quoted then
        at = i + 1
        return text:sub(from, i - 1)
      end
    end
    at = #text + 1
    return text:sub(from) -- a torn row, which a full disk may have left
  end
end

-- The cells of a row.
local function split(row)
  local out, at = {}, 1
  while at <= #row + 1 do
    local quoted, after = row:match('^"(.-)"()[,]', at)
    if not quoted then quoted, after = row:match('^"(.*)"()$', at) end
    local text = quoted and quoted:gsub('""', '"') or row:match("^[^,]*", at)
    out[#out + 1] = text
    at = (after or at + #text) + 1
  end
  return out
end

local function must(done, why) return done or core.error{code = "io", message = why, path = false} end

-- The file once more with the columns as they are now: rows of before have empty cells there.
local function rewrite(self, more)
  local text = self.rows > 0 and must(core.sys.read(self.path)) or ""
  local names = {}
  for i, name in ipairs(self.columns) do names[i] = cell(name) end
  local lines, empty, number = {table.concat(names, ",")}, (","):rep(more), 0
  for row in each_row(text) do
    number = number + 1
    if number > 1 and number <= self.rows + 1 then lines[#lines + 1] = row .. empty end
  end
  must(core.sys.write(self.path, table.concat(lines, "\n") .. "\n"))
end

-- ---- writing ----

--- Adds a row {name = text or number}; it waits for flush.
function Csv:row(values)
  local names = missing(self, values)
  if names then
    self:flush()
    for _, name in ipairs(names) do
      self.columns[#self.columns + 1] = name
      self.known[name] = true
    end
    rewrite(self, #names)
  end
  self.waiting[#self.waiting + 1] = row_text(self.columns, values)
end

--- Writes the rows that wait, whole ones only.
function Csv:flush()
  if #self.waiting == 0 then return end
  must(core.sys.append(self.path, table.concat(self.waiting)))
  self.rows, self.waiting = self.rows + #self.waiting, {}
end

--- {rows}, once they are in the file.
function Csv:state()
  self:flush()
  return {rows = self.rows}
end

-- Takes over columns and rows of a file that is there.
local function adopt(self)
  self.columns, self.known, self.rows, self.waiting = {}, {}, 0, {}
  local text = core.sys.kind(self.path) == "file" and must(core.sys.read(self.path)) or ""
  local count = 0
  for row in each_row(text) do
    count = count + 1
    if count == 1 then self.columns = split(row) end
  end
  for _, name in ipairs(self.columns) do self.known[name] = true end
  self.rows = math.max(count - 1, 0)
end

--- Goes on behind the rows of a state: later ones are cut off. A file that is not there begins anew.
function Csv:set_state(state)
  adopt(self)
  if self.rows <= state.rows then return end
  self.rows = state.rows
  rewrite(self, 0)
end

--- A file of rows. path: where it lies or will lie.
local function new(path)
  local self = setmetatable({path = path}, Csv)
  adopt(self)
  return self
end

return {new = new}
