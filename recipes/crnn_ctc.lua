--- capl: 1
--- needs: minutes=1440
-- Trains on any folder of captchas: texts of any length, images of any width.
--
-- data      --data=DIR: PNG or JPEG files whose names contain the label (TEXT.png, TEXT_17.png …), a list of files
--           (path TAB label, JSON lines, CSV) or an LMDB database. The label pattern, charset, lengths, sizes and
--           widths are detected and printed. Or --preset=NAME: generated captchas, new ones at every step
-- network   up to 100 characters: six convolutions, one feature column per 4 px, a bidirectional LSTM, CTC: 0.7 M
--           parameters; images wider than 400 px: a column per 8 px, of which two steps are read. More characters:
--           wider, without the LSTM, one column per 8 px if characters are wide: 1.2 M
-- expected  on unseen captchas, two cores of a Xeon: gradient-curve, trained on 936 files, 100.0 % exact after 1,600
--           steps in 2 minutes; generated lepture of 4 to 8 characters, 93.8 % [92.7, 94.8] after 6 minutes; 500
--           Chinese characters, trained on 2,000 files of 4, 90.8 % [88.9, 92.4] after 10 minutes of a Zen 4; on drawn
--           ones without end, 96.9 % [95.6, 97.8], other programs busy beside it; 3,500 characters likewise, too short
--           a time: 2.0 % [1.3, 3.1]; generated varied of 4 to 20 characters, 88.8 % [88.2, 89.4] of 10,000 after
--           9.5 minutes of a Zen 4. More in recipes/README.md
-- run       capl recipes/crnn_ctc.lua --data=DIR
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- folder, list or database of your captchas
  label = "auto", -- Lua pattern whose capture in the file name is the label; auto: detected
  case = "keep", -- or upper, lower: converts labels, for captchas that accept both
  preset = "", -- instead of data: a style of the generator, such as lepture (capl generate --help lists them)
  charset = "auto", -- charset; auto: the characters in the data, or 0-9A-Z with preset
  length = "auto", -- text length, such as 4 or 4..8; auto: the lengths in the data; with preset 4..8, varied 4..20
  height = "auto", -- image height in px, with constant aspect ratio; auto: that of the data, 32 to 64
  channels = "auto", -- 1: gray, 3: color; auto: 3 if gray loses contrast
  max_time = "9m", -- time limit; training ends earlier if the val metric stops improving
  steps = "none", -- step limit, a number; with it, the same seed gives the same run
  batch = 32, -- images per step
  lr = 0.02, -- highest learning rate of Muon, for matrices and convolutions
  adam_lr = 4e-3, -- highest learning rate of AdamW, for all other parameters
  warmup = 100, -- warm-up steps; at most a quarter of the run
  weight_decay = 0.1, -- weight decay of Muon
  dropout = 0.2, -- before the classifier
  guide = 1, -- initial weight of the loss that expects the characters at equal distances; 0: CTC alone
  augment = "auto", -- a preset, or false; auto: captcha_strong for more than 100 characters, else captcha
  contrast = "auto", -- log: of the distance from the background, in any color; linear; auto: log if gray loses letters
  network = "auto", -- lstm, long or wide; auto: wide for more than 100 characters, long for images wider than 400 px
  patience = 20, -- evaluations without improvement before the final learning-rate decay
  val = 0.1, -- fraction of validation images
  test = "auto", -- fraction of test images; auto: a tenth if at least 2,000 training images remain, else 0
  val_images = 1000, -- number of validation images with preset
  test_images = 2000,
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  on_error = "stop", -- or skip: unreadable and unlabelled files are skipped and listed in bad_files.txt of the run
  workers = "auto", -- threads that read images
  seed = 42,
}
capl.manual_seed(p.seed)
capl.expect {exact = 0.938, within = "12 min", on = "cpu", hardware = "two cores of a Xeon",
  given = {preset = "lepture"}}
local world = capl.distributed() -- only rank 0 prints

-- ---- data ----

if (p.data == "") == (p.preset == "") then
  error("either --data=DIR, your captchas, or --preset=NAME, a style of the generator, must be given")
end

-- "4..8" -> {4, 8}; "5" -> 5; "auto" is returned unchanged
local function read_length(text)
  local lo, hi = tostring(text):match("^(%d+)%.%.(%d+)$")
  if lo then return {tonumber(lo), tonumber(hi)} end
  return tonumber(text) or text
end

-- "auto" and "none" are nil; other strings are errors where the value is used
local function read_number(text)
  if text == "auto" or text == "none" then return nil end
  return tonumber(text) or text
end

-- Your files in three disjoint parts, the width of their narrowest characters, the number of channels, and whether
-- letters of many colors would fade in gray.
local function from_files()
  local found = data.explore(p.data, {label = p.label, case = p.case, height = read_number(p.height)})
  local height, widths = found.suggested.height, {}
  local channels = tonumber(p.channels) or found.suggested.channels
  for _, size in ipairs(found.sizes) do
    local text = found.source:text(size.id)
    if text then widths[#widths + 1] = size.width * height / size.height / #capl.text.characters(text) end
  end
  table.sort(widths)
  local all = data.open(p.data, {
    label = found.label, case = p.case, charset = p.charset, length = read_length(p.length), channels = channels,
    height = height, widths = found.suggested.widths,
  })
  local test = p.test == "auto" and (all:count() < 2000 and 0 or 0.1) or tonumber(p.test) or p.test
  local train, val, last = data.split(all, {val = p.val, test = test})
  local narrowest = widths[math.ceil(#widths / 20)] -- robust against outliers
  return {train = train, val = val, test = test > 0 and last or nil}, narrowest, channels, found.gray_loses > 0.05
end

-- New captchas at every step, and fixed ones for validation.
local function from_generator()
  local varied = p.preset == "varied" -- a fifth of its letters would hardly be seen in gray
  local channels = tonumber(p.channels) or varied and 3 or 1
  local length = p.length ~= "auto" and read_length(p.length) or varied and {4, 20} or {4, 8}
  local function captchas(seed, count, fixed)
    return data.captcha {
      preset = p.preset, charset = p.charset ~= "auto" and p.charset or nil, seed = seed, count = count, fixed = fixed,
      length = length, channels = channels,
      height = p.height ~= "auto" and tonumber(p.height) or nil, widths = "auto",
    }
  end
  return {
    train = captchas(p.seed, 32000, false), val = captchas(p.seed + 1, p.val_images, true),
    test = captchas(p.seed + 2, p.test_images, true),
  }, math.huge, channels, varied
end

local parts, narrowest, channels, colorful = (p.data ~= "" and from_files or from_generator)()

-- Of many characters each is seen in few images.
local many = #capl.text.characters(parts.train.charset) > 100

local function augmentation()
  if not p.augment or p.preset ~= "" then return nil end -- generated images are never seen twice
  if p.augment ~= "auto" and p.augment ~= true then return p.augment end
  return many and "captcha_strong" or "captcha"
end

local function loader(role, batch)
  if not parts[role] then return nil end
  return data.loader {
    source = parts[role], role = role, batch = batch, workers = p.workers, normalize = "standardize",
    augment = role == "train" and augmentation() or nil, on_error = p.on_error,
  }
end

local images, val, test = loader("train", p.batch), loader("val", 100), loader("test", 100)
local charset = images.charset
local K = images.classes + 1 -- the blank is the last class
local height = parts.train:height()
local function check_word(name, ...)
  local words = {...}
  for _, word in ipairs(words) do
    if p[name] == word then return end
  end
  local last = table.remove(words)
  error(("%s is %s or %s, not %s"):format(name, table.concat(words, ", "), last, tostring(p[name])))
end

check_word("network", "auto", "lstm", "long", "wide")
check_word("contrast", "auto", "log", "linear")
local widest = parts.train.widths[#parts.train.widths]
local wide = p.network == "wide" or p.network == "auto" and many
local long = p.network == "long" or p.network == "auto" and not many and widest > 400
local log_contrast = p.contrast == "log" or p.contrast == "auto" and colorful
-- px per time step; a character needs at least two steps, plus one between equal neighbors
local px = narrowest < 10 and 2 or wide and narrowest >= 40 and 8 or 4
local reads = long and 2 or 1 -- time steps of a column
world:print(("%d images to train on, %d to stop by and choose, %d to test on; %d characters; a time step " ..
  "is %d px"):format(
  parts.train:count(), parts.val:count(), parts.test and parts.test:count() or 0, images.classes, px))

-- ---- network ----

local function block(inputs, outputs, kernel, stride)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, kernel, {stride = stride, padding = (kernel - 1) / 2, bias = false}),
    nn.BatchNorm2d(outputs),
    nn.ReLU(),
  }
end

-- Level of the background, (N,C,1,1): the mean of a grid of pixels, of those near it, of those at it.
local function background(x)
  local grid = {size = {math.ceil(x:size(3) / 8), math.ceil(x:size(4) / 8)}, mode = "nearest"}
  local some = nn.interpolate(x, grid):flatten(3)
  local level = some:mean(3, true)
  for _, near in ipairs{1, 0.3, 0.1} do -- in standard deviations of the image
    local weights = (((some - level) / near):square() + 1):reciprocal()
    level = (some * weights):mean(3, true) / weights:mean(3, true)
  end
  return level:unsqueeze(4)
end

-- The logarithm of each pixel's distance from the background, (N,1,H,W): letters of all colours look the same, and one
-- of 25 times the contrast of another has 3 times. Below a tenth of the image's standard deviation it is linear, or
-- noise would grow as well.
local function take_log(x)
  local apart, all = x - nn.interpolate(background(x), {size = {x:size(3), x:size(4)}, mode = "nearest"}), 0
  for c = 1, x:size(2) do all = apart:narrow(2, c, 1):square() + all end
  return (all:sqrt() * 10 + 1):log()
end

-- Size of a side after n halvings.
local function left(side, halvings)
  for _ = 1, halvings do side = math.floor((side + 1) / 2) end
  return side
end

local Crnn = nn.class("Crnn")

-- An LSTM learns few images of many characters by heart: without it a column sees little more than its character.
function Crnn:init()
  local c = wide and {32, 64, 128, 192, 256} or {long and 32 or 24, 48, 96, 128, 160}
  local across = (wide or long) and 3 or 1 -- columns
  self.features = nn.Sequential { -- sizes for 48x200 and 4 px a step
    block(log_contrast and 1 or channels, c[1], 5, 2), -- 24x100
    block(c[1], c[2], 3, {2, px > 2 and 2 or 1}), -- 12x50
    block(c[2], c[2], 3, 1),
    block(c[2], c[3], 3, {2, px > 4 and 2 or 1}), -- 6x50
    block(c[3], c[3], 3, 1),
    block(c[3], c[4], 3, {2, reads}), -- 3x50
  }
  self.columns = nn.Sequential { -- 1x50
    nn.Conv2d(c[4], c[5], {left(height, 4), across}, {padding = {0, (across - 1) / 2}, bias = false}),
    nn.BatchNorm2d(c[5]), nn.ReLU(),
  }
  if not wide then self.sequence = nn.LSTM(c[5], 128, {bidirectional = true, batch_first = true}) end
  self.dropout = nn.Dropout(p.dropout)
  self.read = nn.Linear(256, reads * K)
end

function Crnn:forward(x)
  if log_contrast then x = take_log(x) end
  x = self.columns(self.features(x)):squeeze(3):transpose(2, 3) -- (N,T/reads,C)
  if self.sequence then x = self.sequence(x) end -- (N,T/reads,256)
  x = self.read(self.dropout(x))
  return reads == 1 and x or x:reshape(x:size(1), -1, K) -- (N,T,K)
end

local model = Crnn()
capl.model(model, {output = "text", charset = charset, decoding = "ctc"})

-- ---- optimizer ----

-- Muon for the matrices and convolutions; AdamW for biases, batch norm and the last layer.
local matrices, last, others = {}, {}, {}
for name, parameter in model:named_parameters() do
  local list = #parameter.shape == 1 and others or name:find("read", 1, true) and last or matrices
  table.insert(list, parameter)
end

local function rate(lr) return optim.schedule.warmup_stable_decay {lr = lr, warmup = p.warmup, total = "run"} end

local opt = optim.join {
  optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = p.weight_decay}),
  optim.AdamW({
    {params = last, weight_decay = 0.02},
    {params = others, weight_decay = 0},
  }, {lr = rate(p.adam_lr), betas = {0.9, 0.99}}),
}

-- ---- training ----

local function ctc(output, batch)
  local log_probs = output:transpose(1, 2):log_softmax(-1) -- (T,N,K)
  return nn.ctc_loss(log_probs, batch.target, output:size(2), batch.target_length, {blank = K - 1})
end

-- 0.5, 1.5, … n - 0.5, computed on the device
local function centers(n) return capl.ones(n):cumsum(1) - 0.5 end

-- Classifies each character at the time steps around its expected center: characters of equal width, and margins of
-- 10 % of the image. CTC alone finds the characters later.
local function guide(output, batch)
  local T, S = output:size(2), batch.target:size(2)
  local length = batch.target_length:float():view(-1, 1, 1)
  local width = batch.width and (batch.width:float() / px):view(-1, 1, 1) or T -- in time steps, without padding
  local center = (centers(S):view(1, S, 1) / length * 0.8 + 0.1) * width -- (N,S,1)
  local distance = (centers(T):view(1, 1, T) - center) * length / width -- in characters
  local weights = (distance * distance * -8):softmax(-1) -- (N,S,T): a normal distribution, deviation 1/4
  local scores = weights:bmm(output:float()):narrow(-1, 1, K - 1):reshape(-1, K - 1) -- without the blank
  return nn.cross_entropy(scores, batch.target:reshape(-1), {ignore_index = -1})
end

-- The guide's weight falls with the CTC loss, which is about ln K per character while nothing is read. It falls further
-- where the guide's own loss is higher: characters of many sizes are not where it expects them.
local function loss(output, batch)
  local own = ctc(output, batch)
  if p.guide == 0 or not model.training then return own end
  local guided = guide(output, batch)
  local read = own:detach()
  return own + guided * (read / math.log(K)):clamp(0, 1) * (read / guided:detach()):clamp(0, 1) * p.guide
end

local epoch = math.ceil(parts.train:count() / p.batch)

train.fit {
  model = model, train = images, val = val, test = test, loss = loss,
  optimizer = opt, precision = p.precision, max_time = p.max_time, steps = read_number(p.steps), ema = 0.99,
  cooldown = {patience = p.patience}, eval_every = math.max(50, math.min(epoch, 500)),
}
