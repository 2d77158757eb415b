-- evaluate.lua: reads a whole loader with a model and counts what it got right.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local capl = require "init"
local check = require "check"
local progress = require "run.progress"
local text_meter = require "run.text_meter"

local OP = "train.evaluate"

local spec = {
  {"precision", "string", "table", default = "auto"}, {"merge", "table"}, {"loss", "function"},
  {"examples", "whole", default = 0},
}

-- Most likely character and its probability at each place.
-- output (N,T,K) or (N,T*K) scores -> ids, probabilities, both flat lists of N*T
local function read_scores(output, loader)
  local K = #loader.charset
  local count = output:numel() / (loader.length * K)
  if output:size(1) ~= count then
    check.fail(OP, ("the model's output is (%s); it should hold %d places x %d characters for each image"):format(
      table.concat(output:size(), ","), loader.length, K))
  end
  local probability, place = output:to("f32"):reshape(-1, K):softmax(-1):max(-1)
  return place:tolist(), probability:tolist()
end

-- Gray levels or colours of image i, as a u8 tensor (H,W) or (H,W,C): its darkest value black, its lightest white.
local function picture(images, i)
  local image = images:narrow(1, i, 1):to("f32")
  local low, high = image:amin():item(), image:amax():item()
  local scale = 255 / math.max(high - low, 1e-6)
  local channels, height, width = image:size(2), image:size(3), image:size(4)
  local flat = ((image - low) * scale):permute(1, 3, 4, 2):reshape(-1):tolist()
  for k, level in ipairs(flat) do flat[k] = math.floor(level + 0.5) end
  local size = channels == 1 and {height, width} or {height, width, channels}
  return capl.tensor(flat, {dtype = "u8"}):reshape(size):keep()
end

-- Place of the k-th candidate in a list of at most `most` that shall hold each with the same chance; nil: it is left out.
-- The choice is the same in every run.
local function place_for(k, most)
  if k <= most then return k end
  local place = k * 48271 % 2147483647 % k + 1
  return place <= most and place or nil
end

-- Collects wrong and right readings from all over the set, at most `most` of each.
local function note_examples(meter, batch, ids, truth, confidence, length, most)
  for i = 1, #ids / length do
    local first = (i - 1) * length + 1
    local read, meant = meter:text(ids, first, length), meter:text(truth, first, length)
    local kind = read == meant and "right" or "wrong"
    meter.candidates[kind] = meter.candidates[kind] + 1
    local place = place_for(meter.candidates[kind], most)
    if place then
      meter.examples[kind][place] = {image = picture(batch.image, i), truth = meant, read = read, confidence = confidence[i]}
    end
  end
end

-- Of each image: the probability that all its characters are what was read.
local function products(probability, length)
  local out = {}
  for first = 1, #probability, length do
    local all = 1
    for place = first, first + length - 1 do all = all * probability[place] end
    out[#out + 1] = all
  end
  return out
end

local function add_batch(meter, model, loader, batch, o)
  local output = capl.autocast(o.precision, model, batch.image)
  local ids, probability = read_scores(output, loader)
  local truth = batch.target:reshape(-1):tolist()
  local confidence = products(probability, loader.length)
  meter:add(ids, truth, loader.length, confidence)
  if o.loss then
    local count = batch.image:size(1)
    local loss = capl.autocast(o.precision, o.loss, output, batch)
    meter.loss = ((meter.loss or 0) * (meter.n - count) + loss:item() * count) / meter.n
  end
  if o.examples > 0 then note_examples(meter, batch, ids, truth, confidence, loader.length, o.examples) end
end

-- Every sample once: anything else would be a figure about something else.
local function check_count(meter, loader)
  if meter.n == loader:samples() then return end
  check.fail(OP, ("the %s loader gave %d of its %d samples"):format(loader.role, meter.n, loader:samples()),
    "drop_last = true leaves the last ones out")
end

-- The mode of each module, put back after fn: some may be frozen.
local function in_eval_mode(model, fn)
  local modes = {}
  for _, module in model:named_modules() do modes[module] = module.training end
  model:eval()
  local ok, err = pcall(core.no_grad, fn)
  for module, training in pairs(modes) do module.training = training end
  if not ok then error(err, 0) end
end

--- Reads all samples of a loader once and compares with their labels. The model's mode is put back.
-- in   model; loader with role "val" or "test"
-- opts precision = "auto"; merge = {"0O", …} sets of characters counted as one beside the strict figure (default {"0O"}
--      when the charset has both); loss = function(output, batch) for its mean; examples = how many wrong and right
--      readings to keep, with their images
-- out  meter, see capl.text_meter: meter:result(), meter:line(), meter.loss, meter.examples; meter.replaced = unreadable
--      samples that on_error = "skip" replaced by others
-- errs value: the loader is endless, has no labels, or did not give each of its samples once; the output's size
local function evaluate(model, loader, opts)
  local o = check.options(OP, spec, opts)
  check.arg(1, "evaluate", "table", model)
  check.arg(2, "evaluate", "table", loader)
  if not loader.charset or not loader.length then check.fail(OP, "the loader's images have no labels") end
  if loader:samples() > 1e8 then check.fail(OP, "the loader has no end", "give its source a count") end
  local meter = text_meter.new(loader.charset, {merge = o.merge})
  meter.examples, meter.candidates = {wrong = {}, right = {}}, {wrong = 0, right = 0}
  local replaced, show = loader:stats().substituted, progress.counter(loader.role .. " images", loader:samples())
  in_eval_mode(model, function()
    for batch in loader:epoch(1) do
      core.scope(add_batch, meter, model, loader, batch, o)
      show(meter.n)
    end
  end)
  check_count(meter, loader)
  meter.replaced = loader:stats().substituted - replaced
  return meter
end

return evaluate
