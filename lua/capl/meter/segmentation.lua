-- segmentation.lua: how well a model finds the class of each pixel: a confusion matrix that is counted on the device.
--
-- Metrics of the whole set come from the sum of all matrices, so that a small last batch counts by its pixels. f_batch
-- is the mean over batches that some papers give; it depends on the batch size and is there to compare with them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local kept = require "meter.kept"
local meters = require "meter"
local pending = require "meter.pending"

local OP = "SegmentationMeter"
local EXACT = 2 ^ 24 -- f32 counts exactly up to here: pixels of a batch
local PART = 2 ^ 18 -- pixels at a time: each takes two rows of K numbers
local WORST = 24

local function worse(a, b)
  if a.accuracy ~= b.accuracy then return a.accuracy < b.accuracy end
  return a.id < b.id
end

local Segmentation = {
  kind = "segmentation", better = "max", ways = {miou = "max", f = "max", f_batch = "max", accuracy = "max"},
}
Segmentation.__index = Segmentation

local mains = {"miou", "f", "f_batch", "accuracy"}

local spec = {
  {"classes", "whole", "table"}, {"ignore", "whole", default = 255}, {"loader", "table"},
  {"main", "string", default = "miou"}, {"merge", "table"}, {"worst", "whole", default = WORST},
}

-- Number of classes and their names, of the options or of what a loader's source says; nil when the output decides.
local function classes_of(o)
  local source = o.loader and o.loader.source or {}
  local given = o.classes or source.mask_classes or source.classes
  if type(given) == "table" then return #given, given end
  return given
end

--- train.SegmentationMeter{…}: a meter for masks.
-- opts classes = how many, or their names (those of the loader's source, else as many as the output has); ignore = 255:
--      value of pixels in a mask that do not count; loader = names its samples; main = "miou" | "f" | "f_batch" |
--      "accuracy": the metric that says which of two models is better; worst = 24 images to keep
-- errs value: unknown option
local function new(opts)
  local o = check.options(OP, spec, opts)
  if o.merge then check.fail(OP, "merge is for texts") end
  check.one_of(OP, "main", o.main, mains)
  local K, names = classes_of(o)
  if K and K < 1 then check.fail(OP, ("classes is how many there are, from 1 on, or their names; got %d"):format(K)) end
  local self = setmetatable({
    K = K, names = names, ignore = o.ignore, loader = o.loader, main = o.main, n = 0, batches = 0, f_sum = 0,
    kept = kept.ends(o.worst, worse), counted = 0,
  }, Segmentation)
  self.matrices = pending.new(function(columns, _, notes)
    self.K = self.K or notes[1].K
    self:read_matrices(columns[1])
  end)
  self.rights = pending.new(function(columns, ids) self:read_images(columns, ids) end)
  return self
end

-- ---- counting ----

local function check_sizes(self, output, mask)
  self.K = self.K or output:size(2)
  local fits = output.ndim == 4 and output:size(2) == self.K
  for dim = 1, 3 do fits = fits and output:size(dim == 1 and 1 or dim + 1) == mask:size(dim) end
  if fits then return end
  check.fail("train.evaluate", ("the model's output is (%s), and the mask is (%s)"):format(table.concat(output:size(),
    ","), table.concat(mask:size(), ",")),
    ("an output (N,%d,H,W) has scores of each class for each pixel of the mask"):format(self.K))
end

-- (M,K) f32, 1 where a number is the class
local function one_hot(numbers, classes) return numbers:reshape(-1, 1):eq(classes):to("f32") end

-- (K*K) pixels of each class read as each, of images so few that f32 counts exactly
local function matrix_of(self, want, got, classes)
  return one_hot(want, classes):t():matmul(one_hot(got, classes)):reshape(self.K * self.K)
end

-- The same of any number of pixels, a part of them at a time.
local function count_matrices(self, want, got, classes)
  local sum
  local pixels = want:numel()
  want, got = want:reshape(-1), got:reshape(-1)
  if pixels > EXACT then check.fail(OP, "a batch has more than 2^24 pixels", "use a smaller batch for evaluation") end
  for first = 1, pixels, PART do
    local n = math.min(PART, pixels - first + 1)
    local part = matrix_of(self, want:narrow(1, first, n), got:narrow(1, first, n), classes)
    sum = sum and sum + part or part
  end
  return sum
end

local function classes_tensor(K, device)
  local values = {}
  for k = 1, K do values[k] = k - 1 end
  return core.tensor(values, {dtype = "f32", device = device}):reshape(1, -1)
end

local function add(self, output, batch)
  local mask = meters.field(OP, batch, "mask")
  local N = mask:size(1)
  check_sizes(self, output, mask)
  local want, got = mask:to("f32"), output:to("f32"):argmax(2):to("f32")
  local ids = batch.ids or N
  self.matrices:add({count_matrices(self, want, got, classes_tensor(self.K, output.device))}, ids, {K = self.K})
  local counted = want:ne(self.ignore):to("f32")
  local x = output:to("f32")
  local finite = (x - x):reshape(N, -1):sum(2) -- NaN where a score is none, or infinite
  self.rights:add({(want:eq(got):to("f32") * counted):reshape(N, -1):sum(2), counted:reshape(N, -1):sum(2), finite},
    ids)
end

--- Counts a batch; nothing is read from the device until metrics are computed.
-- in   output (N,K,H,W): scores of K classes; batch with mask (N,H,W)
-- errs value: other sizes
function Segmentation:add(output, batch) return core.no_grad(add, self, output, batch) end

-- F1 of the classes that there are in the truth.
local function mean_f(K, at)
  local sum, present = 0, 0
  for k = 1, K do
    local meant, read = 0, 0
    for j = 1, K do meant, read = meant + at(k, j), read + at(j, k) end
    if meant > 0 then sum, present = sum + 2 * at(k, k) / (meant + read), present + 1 end
  end
  return present > 0 and sum / present or 0, present
end

function Segmentation:read_matrices(numbers)
  local K = self.K
  self.counts = self.counts or {}
  for first = 0, #numbers - 1, K * K do
    local f, present = mean_f(K, function(row, column) return numbers[first + (row - 1) * K + column] end)
    if present > 0 then self.f_sum, self.batches = self.f_sum + f, self.batches + 1 end
    for i = 1, K * K do self.counts[i] = (self.counts[i] or 0) + numbers[first + i] end
  end
end

function Segmentation:read_images(columns, ids)
  for i, id in ipairs(ids) do
    self.counted = self.counted + columns[2][i]
    local right, all = columns[1][i], columns[2][i]
    if columns[3][i] ~= 0 then
      core.error{code = "value", op = OP, path = false,
        message = ("the model's output for sample %d is not finite"):format(id)}
    end
    if all > 0 then self.kept:add{id = id, accuracy = right / all} end
  end
  self.n = self.n + #ids
end

function Segmentation:flush()
  self.matrices:flush()
  self.rights:flush()
end

-- ---- metrics ----

-- List of {class, name, pixels, iou, f, recall, precision} of the classes that are in truth or reading.
local function by_class(K, counts, names)
  local out = {}
  for k = 1, K do
    local hit, meant, read = counts[(k - 1) * K + k] or 0, 0, 0
    for j = 1, K do meant, read = meant + (counts[(k - 1) * K + j] or 0), read + (counts[(j - 1) * K + k] or 0) end
    if meant + read > 0 then
      out[#out + 1] = {
        class = k - 1, name = names and names[k], pixels = meant, iou = hit / (meant + read - hit),
        f = 2 * hit / (meant + read), recall = meant > 0 and hit / meant or nil, precision = read > 0 and hit / read
        or nil,
      }
    end
  end
  return out
end

-- Every pixel that is not to be ignored has one of the classes.
local function check_classes(self, rows)
  local pixels = 0
  for _, row in ipairs(rows) do pixels = pixels + row.pixels end
  if pixels == self.counted then return end
  check.fail(OP, ("%d pixels of the masks have none of the %d classes"):format(self.counted - pixels, self.K),
    ("ignore = %d is the value of pixels that do not count"):format(self.ignore))
end

local function mean_of(rows, key, only)
  local sum, n = 0, 0
  for _, row in ipairs(rows) do
    if not only or only(row) then sum, n = sum + row[key], n + 1 end
  end
  return n > 0 and sum / n or 0
end

--- The metrics, of the whole set unless said.
-- out  n: images; pixels that count; accuracy: share of them read right; miou: mean over classes of intersection over
--      union; f: mean of F1 over the classes of the truth; f_batch: the same of each batch, mean over batches; classes:
--      list of {class, name, pixels, iou, f, recall, precision}, of those in truth or reading
function Segmentation:result()
  self:flush()
  local rows, right, pixels = by_class(self.K or 0, self.counts or {}, self.names), 0, 0
  check_classes(self, rows)
  for k = 1, self.counts and self.K or 0 do right = right + self.counts[(k - 1) * self.K + k] end
  for _, row in ipairs(rows) do pixels = pixels + row.pixels end
  return {
    role = self.role, n = self.n, pixels = pixels, accuracy = pixels > 0 and right / pixels or 0,
    miou = mean_of(rows, "iou"), f = mean_of(rows, "f", function(row) return row.pixels > 0 end),
    f_batch = self.batches > 0 and self.f_sum / self.batches or 0, classes = rows,
  }
end

--- "mIoU 71.20 %, F 80.41 %, pixels 95.10 %, n 100"
function Segmentation:line()
  local r = self:result()
  return ("mIoU %.2f %%, F %.2f %%, pixels %.2f %%, n %d"):format(100 * r.miou, 100 * r.f, 100 * r.accuracy, r.n)
end

--- List of {name, text}, class by class the worst ones first.
function Segmentation:lines()
  local r, parts = self:result(), {}
  table.sort(r.classes, function(a, b) return a.iou < b.iou end)
  for i, row in ipairs(r.classes) do parts[i] = ("%s %.1f"):format(row.name or row.class, 100 * row.iou) end
  return {
    {"", self:line()}, {"by batch", ("F %.2f %%"):format(100 * r.f_batch)},
    {"IoU by class", parts[1] and table.concat(parts, ", ") .. " %" or "none"},
  }
end

-- ---- for files ----

--- {wrong = the images with the most wrong pixels: {id, accuracy}, right = those with the fewest}
function Segmentation:samples()
  self:flush()
  return self.kept:samples(function(e) return e.accuracy == 1 end)
end

--- The name of a class, from 0.
function Segmentation:name(class) return tostring(self.names and self.names[class + 1] or class) end

--- The classes that a mask has: {[class] = true}.
-- in   mask (H,W), numbers from 0
function Segmentation:present(mask)
  local counts = core.no_grad(function()
    local sum, flat, classes = nil, mask:to("f32"):reshape(-1), classes_tensor(self.K, mask.device)
    for first = 1, flat:numel(), PART do
      local part = one_hot(flat:narrow(1, first, math.min(PART, flat:numel() - first + 1)), classes):sum(1)
      sum = sum and sum + part or part
    end
    return sum:tolist()
  end)
  local out = {}
  for k, n in ipairs(counts) do out[k - 1] = n > 0 or nil end
  return out
end

--- Mean IoU of one image, over the classes of truth and reading; nil where no pixel counts.
-- in   want, got: classes (1,H,W)
function Segmentation:overlap(want, got)
  local K, counts = self.K, core.no_grad(count_matrices, self, want:to("f32"), got:to("f32"),
    classes_tensor(self.K, got.device)):tolist()
  local rows = by_class(K, counts)
  return rows[1] and mean_of(rows, "iou")
end

--- result() and confusion = {labels, counts}: rows are the true class, columns the prediction, in pixels
function Segmentation:write()
  local out, K = self:result(), self.K or 0
  local labels, counts = {}, {}
  for k = 1, K do
    labels[k] = self:name(k - 1)
    counts[k] = {}
    for j = 1, K do counts[k][j] = self.counts and self.counts[(k - 1) * K + j] or 0 end
  end
  out.confusion = {labels = labels, counts = counts}
  return out
end

return {new = new}
