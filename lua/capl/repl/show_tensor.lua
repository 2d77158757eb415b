-- show_tensor.lua: a tensor as the prompt prints it: what it is, statistics, the corners of its values.
--
-- Only the corners are copied from a device. Statistics of a large tensor on a GPU are computed there.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local digit_groups = require "digit_groups"
local term = require "repl.term"

local show_tensor = {}

local ROWS, EDGE_ROWS, MOST_COLUMNS, SMALL = 12, 4, 40, 65536

local is_float = {f32 = true, f16 = true, bf16 = true, f64 = true}

local function on_host(x) return x.device == "cpu" or x.device == "ref" end

-- ---- statistics ----

-- Of a tensor on a device, by its ops; only single numbers are copied.
local function statistics_there(x)
  local y = x:detach():float():flatten()
  local n = y:numel()
  local nan = y:ne(y):float():sum():item()
  local least, greatest = -y:neg():amax():item(), y:amax():item()
  if nan > 0 or least == -math.huge or greatest == math.huge then return {n = n - nan, nan = nan} end
  local mean = y:mean():item()
  local d = y - mean
  local std = math.sqrt((d * d):sum():item() / math.max(n - 1, 1))
  return {n = n, nan = 0, infinite = 0, min = least, max = greatest, mean = mean, std = std}
end

local function statistics_of(x)
  if on_host(x) or x:numel() <= SMALL then return core.sys.prompt.tensor_figures(x) end
  local fine, statistics = pcall(core.no_grad, statistics_there, x)
  return fine and statistics or {n = 0}
end

local function short(value)
  if value % 1 == 0 and math.abs(value) < 1e7 then return ("%d"):format(value) end
  local size = math.abs(value)
  return (size >= 1e4 and size < 1e7 and "%.1f" or "%.4g"):format(value)
end

-- "min -1.2  max 3.1  mean 0.02  std 0.99  2 nan"; "" where there is nothing to print
local function statistics_text(x)
  if x.dtype == "bool" then
    local f = statistics_of(x)
    return f.mean and ("%s of %s true"):format(digit_groups(math.floor(f.mean * f.n + 0.5)), digit_groups(f.n)) or ""
  end
  local f, parts = statistics_of(x), {}
  for _, key in ipairs{"min", "max", "mean", "std"} do
    if f[key] and f.n > 1 then parts[#parts + 1] = key .. " " .. term.paint("number", short(f[key])) end
  end
  if (f.nan or 0) > 0 then parts[#parts + 1] = term.paint("error", digit_groups(f.nan) .. " nan") end
  if (f.infinite or 0) > 0 then parts[#parts + 1] = term.paint("error", digit_groups(f.infinite) .. " inf") end
  return table.concat(parts, "  ")
end

-- ---- values ----

-- Rows first..first+n-1 and columns likewise of a matrix, as nested lists.
local function block(m, row, rows, column, columns)
  local part = m:narrow(1, row, rows):narrow(2, column, columns)
  if not on_host(part) then part = part:contiguous() end
  return part:tolist()
end

-- The first and last rows and columns: lists of numbers, false where something is left out.
local function corners(m, rows, columns)
  local height, width = m.shape[1], m.shape[2]
  local row_parts = height <= rows and {{1, height}} or {{1, EDGE_ROWS}, {height - EDGE_ROWS + 1, EDGE_ROWS}}
  local half = math.floor(columns / 2)
  local column_parts = width <= columns and {{1, width}} or {{1, columns - half}, {width - half + 1, half}}
  local out = {}
  for r, rp in ipairs(row_parts) do
    if r > 1 then out[#out + 1] = false end
    local base = #out
    for c, cp in ipairs(column_parts) do
      for i, line in ipairs(cp[2] > 0 and block(m, rp[1], rp[2], cp[1], cp[2]) or {}) do
        local row = out[base + i] or {}
        out[base + i] = row
        if c > 1 then row[#row + 1] = false end
        for _, value in ipairs(line) do row[#row + 1] = value end
      end
    end
  end
  return out
end

-- How numbers are written, so that all that are seen can be told apart: "%d", "%.4f" or "%.3e".
local function format_of(lines, dtype)
  if not is_float[dtype] then return "%d" end
  local whole, least, greatest = true, math.huge, 0
  for _, line in ipairs(lines) do
    for _, value in ipairs(line or {}) do
      if value and value == value and math.abs(value) ~= math.huge then
        whole = whole and value % 1 == 0
        if value ~= 0 then least, greatest = math.min(least, math.abs(value)), math.max(greatest, math.abs(value)) end
      end
    end
  end
  if whole and greatest < 1e7 then return "%d" end
  return (greatest >= 1e5 or greatest < 1e-3) and "%.3e" or "%.4f"
end

local function value_text(value, format, dtype)
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return value > 0 and "inf" or "-inf" end
  if dtype == "bool" then return value ~= 0 and "true" or "false" end
  return (format:format(value):gsub("^%-(0%.?0*)$", "%1"))
end

local function value_lines(lines, dtype)
  local format, dots, widest, texts = format_of(lines, dtype), term.dots(), 1, {}
  for i, line in ipairs(lines) do
    texts[i] = {}
    for j, value in ipairs(line or {}) do
      texts[i][j] = value == false and dots or value_text(value, format, dtype)
      widest = math.max(widest, value == false and 1 or #texts[i][j])
    end
  end
  local out = {}
  for i, line in ipairs(lines) do
    local parts = {}
    for j, text in ipairs(texts[i]) do
      local gap = (" "):rep(line[j] == false and 1 or widest - #text + 2)
      local role = line[j] == false and "dim" or (text == "nan" or text:find("inf")) and "error" or "number"
      parts[j] = gap .. term.paint(role, text)
    end
    out[i] = line and table.concat(parts) or (" "):rep(widest + 2 - term.width(dots)) .. dots
  end
  return out
end

-- The matrix of the last two dims that is shown, and how it is written; rows of vectors and scalars.
local function as_matrix(x)
  local shape = x.shape
  if #shape == 0 then return x:reshape(1, 1), "" end
  if #shape == 1 then return x:reshape(1, shape[1]), "" end
  local label = {}
  while x.ndim > 2 do
    x = x:select(1, 1)
    label[#label + 1] = "1"
  end
  return x, #label > 0 and ("[%s, :, :]"):format(table.concat(label, ", ")) or ""
end

-- Columns that fit, by a guess at what one takes; trying again with what they took.
local function lines_that_fit(m, rows, columns, dtype)
  local count = math.min(MOST_COLUMNS, m.shape[2])
  for _ = 1, 4 do
    local lines = value_lines(corners(m, rows, count), dtype)
    local widest = 0
    for _, line in ipairs(lines) do widest = math.max(widest, term.width((line:gsub("\27%[[%d;]*m", "")))) end
    if widest <= columns or count <= 2 then return lines end
    count = math.max(2, math.min(count - 1, math.floor(count * columns / widest)))
  end
  return value_lines(corners(m, rows, 2), dtype)
end

-- ---- the text ----

local function head_of(x)
  local head = term.paint("head", "tensor (" .. table.concat(x.shape, ",") .. ")") .. " " .. x.dtype .. " " .. x.device
  if x.requires_grad then head = head .. (x.is_leaf and "  requires grad" or "  has a graph") end
  if x.grad then head = head .. "  has .grad" end
  return head
end

local function body_of(x)
  local rows, columns = term.size()
  local m, label = as_matrix(x:detach())
  local most = rows and math.max(2 * EDGE_ROWS, math.min(ROWS, rows - 8)) or ROWS
  local lines = lines_that_fit(m, most, columns, x.dtype)
  if label ~= "" then table.insert(lines, 1, term.paint("dim", label)) end
  local statistics = statistics_text(x)
  if statistics ~= "" then table.insert(lines, 1, "  " .. statistics) end
  return lines
end

--- A tensor's text.
function show_tensor.text(x)
  if x:is_released() then return "tensor (released)" end
  local head = head_of(x)
  if x:numel() == 0 then return head .. term.paint("dim", "  empty") end
  if x.device == "meta" then return head .. term.paint("dim", "  shapes only, no values") end
  local lines = core.no_grad(body_of, x)
  if x.ndim == 0 then return head .. " " .. lines[#lines]:gsub("^%s+", " ") end
  return head .. "\n" .. table.concat(lines, "\n")
end

return show_tensor
