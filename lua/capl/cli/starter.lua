-- starter.lua: the recipes that `capl new` writes: for drawn captchas, for a folder of captchas, for one of classes.
--
-- Each is a whole experiment that runs as it is, with one network, one optimizer and few settings: to be read and
-- changed. @NAME@ is the recipe's name, @FILE@ its file, @DATA@ the images, @CHECK@ the version of the recipe language.
-- SPDX-License-Identifier: Apache-2.0
local starter = {}

local head = [[
--- capl: @VERSION@
--- needs: minutes=60@READ@
]]

local settings_end = [[
  seed = 42, -- the same seed gives the same run
  presets = { -- capl @FILE@ --preset=try
    try = {max_time = "20s"},
  },
}
capl.manual_seed(p.seed)
]]

-- Of images that somebody has.
local own_settings = [[
  max_time = "5m", -- time limit, such as 90s or 2h
  batch = 32, -- images per step
  lr = 0.02, -- highest learning rate
  weight_decay = 0.1, -- how strongly weights are pulled to 0
  augment = true, -- false: no augmentation
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
]]

local loaders = [[

local function loader(role, batch)
  return data.loader {
    source = parts[role], role = role, batch = batch, normalize = "standardize",
    augment = role == "train" and p.augment and distortions or nil,
  }
end

local images, val, test = loader("train", p.batch), loader("val", 100), loader("test", 100)
]]

local blocks = [[

-- ---- network ----

-- A convolution; stride 2 halves the image.
local function block(inputs, outputs, stride)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, {stride = stride, padding = 1, bias = false}),
    nn.BatchNorm2d(outputs),
    nn.ReLU(),
  }
end
]]

local optimizer = [[

-- ---- optimizer ----

-- Muon for matrices and convolutions, AdamW for biases and batch norm. Rates rise for some steps and fall to 0 along a
-- cosine; total = "run" is however long the run will be.
local matrices, others = {}, {}
for _, parameter in model:named_parameters() do
  table.insert(#parameter.shape == 1 and others or matrices, parameter)
end
local function rate(lr) return optim.schedule.warmup_cosine {lr = lr, warmup = 50, total = "run"} end
local opt = optim.join {
  optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = p.weight_decay}),
  optim.AdamW(others, {lr = rate(p.lr / 4)}),
}

-- ---- training ----

-- Evaluates, keeps the best weights, writes runs/@NAME@ with best.capl, its metrics and report.html. A loop of your
-- own is as good: docs/training.md shows one.
train.fit {
  model = model, train = images, val = val, test = test, optimizer = opt,
  precision = p.precision, max_time = p.max_time,
  loss = function(output, batch)
]]

starter.drawn = head .. [[
-- @NAME@: reads captchas of 4 characters, which the generator draws while it trains.
--
-- data      drawn, never the same image twice; no files needed. Your own captchas: capl new mine --data=DIR
-- network   six convolutions and a large linear layer, one classifier for each position of the text
-- expected  (write here what you have seen, and on which machine)
-- run       capl @FILE@ [--max_time=5m]

-- Each setting is an option: capl @FILE@ --lr=0.01. The comments are what capl @FILE@ --help prints.
local p = capl.params {
  max_time = "2m", -- time limit, such as 90s or 2h
  batch = 64, -- images per step
  lr = 0.02, -- highest learning rate
  weight_decay = 0.1, -- how strongly weights are pulled to 0
  style = "lepture", -- of the generator: capl generate --help lists them
  charset = "0-9A-Z", -- charset
  length = 4, -- characters per captcha
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
]] .. settings_end .. [[

-- ---- data ----

-- count images that are always the same; without a count new ones at every step
local function captchas(seed, count)
  return data.captcha {
    preset = p.style, charset = p.charset, length = p.length, width = 160, height = 60,
    seed = seed, count = count, fixed = count ~= nil,
  }
end

local function loader(role, source, batch)
  return data.loader {source = source, role = role, batch = batch, normalize = "standardize"}
end

local images = loader("train", captchas(p.seed), p.batch)
local val = loader("val", captchas(p.seed + 1, 500), 100) -- draws the curve, chooses the best weights
local test = loader("test", captchas(p.seed + 2, 2000), 100) -- looked at once, for the test metric
local K = images.classes -- 0-9A-Z are 36
]] .. blocks .. [[

local model = nn.Sequential {
  block(1, 16, 2), -- 30x80
  block(16, 32, 2), -- 15x40
  block(32, 32, 1),
  block(32, 64, 2), -- 8x20
  block(64, 64, 1),
  block(64, 128, 2), -- 4x10
  nn.Flatten(),
  nn.Linear(128 * 4 * 10, p.length * K),
  nn.Unflatten(2, {p.length, K}), -- (N, length, K): a row of scores for each character
}
capl.model(model, {output = "text", charset = images.charset, length = p.length})
]] .. optimizer .. [[
    return nn.cross_entropy(output:view(-1, K), batch.target:view(-1))
  end,
}
]]

starter.folder = head .. [[
-- @NAME@: learns to read the captchas in @DATA@.
--
-- data      images whose names hold their text (A1B2_17.png), a list of files or a database. How names hold texts, the
--           characters, lengths and sizes are found and printed: capl data stat @WORD@ shows them, too
-- network   five convolutions, one column of features per 4 px, a bidirectional LSTM, CTC: texts of any length
-- expected  (write here what you have seen, and on which machine)
-- run       capl @FILE@ [--max_time=9m]

-- Each setting is an option: capl @FILE@ --lr=0.01. The comments are what capl @FILE@ --help prints.
local p = capl.params {
  data = @DATA_TEXT@, -- folder, list or database of captchas
  label = "auto", -- Lua pattern whose capture in the file name is the label; auto: detected
]] .. own_settings .. settings_end .. [[

-- ---- data ----

local found = data.explore(p.data, {label = p.label}) -- prints what there is
local all = data.open(p.data, {
  label = found.label, charset = "auto", length = "auto", channels = found.suggested.channels,
  height = found.suggested.height, widths = found.suggested.widths,
})
local parts = {}
parts.train, parts.val, parts.test = data.split(all, {val = 0.1, test = 0.1}) -- which share no image

-- What makes each image a little different every time: degrees, and shares of its size. capl preview @FILE@ draws it.
local distortions = {rotate = 2, scale = {0.95, 1.05}, translate_x = 0.02, translate_y = 0.03}
]] .. loaders .. [[
local K = images.classes + 1 -- the last one is CTC's blank
]] .. blocks .. [[

local Crnn = nn.class("Crnn")

function Crnn:init(channels, height)
  self.features = nn.Sequential {
    block(channels, 32, 2), -- half the height, half the width
    block(32, 48, 2), -- a quarter
    block(48, 96, {2, 1}), -- from here on only the height
    block(96, 128, {2, 1}),
  }
  for _ = 1, 4 do height = math.floor((height + 1) / 2) end
  self.columns = nn.Sequential { -- one row: what a column holds
    nn.Conv2d(128, 160, {height, 1}, {bias = false}), nn.BatchNorm2d(160), nn.ReLU(),
  }
  self.sequence = nn.LSTM(160, 128, {bidirectional = true, batch_first = true})
  self.read = nn.Linear(256, K)
end

function Crnn:forward(x)
  x = self.columns(self.features(x)) -- (N,C,1,T)
  x = self.sequence(x:squeeze(3):transpose(2, 3)) -- (N,T,256)
  return self.read(x) -- (N,T,K)
end

local model = Crnn(found.suggested.channels, all:height())
capl.model(model, {output = "text", charset = images.charset, decoding = "ctc"})
]] .. optimizer .. [[
    local log_probs = output:transpose(1, 2):log_softmax(-1) -- (T,N,K)
    return nn.ctc_loss(log_probs, batch.target, output:size(2), batch.target_length, {blank = K - 1})
  end,
}
]]

starter.classes = head .. [[
-- @NAME@: learns the classes of the images in @DATA@.
--
-- data      images in folders named by their class: capl data stat @WORD@ --label=folder counts them
-- network   six convolutions, the mean over the image, a linear layer; recipes/classify.lua has a ResNet-18
-- expected  (write here what you have seen, and on which machine)
-- run       capl @FILE@ [--max_time=9m]

-- Each setting is an option: capl @FILE@ --lr=0.01. The comments are what capl @FILE@ --help prints.
local p = capl.params {
  data = @DATA_TEXT@, -- folder with a folder of images for each class
  size = 64, -- px: images are resized to squares of it
]] .. own_settings .. settings_end .. [[

-- ---- data ----

local all = data.folder(p.data, {label = "folder", channels = 3, width = p.size, height = p.size, resize = true})
local parts = {}
parts.train, parts.val, parts.test = data.split(all, {val = 0.1, test = 0.1}) -- which share no image

-- What makes each image a little different every time: capl preview @FILE@ draws it. flip = 0.5 mirrors half of them.
local distortions = augment.preset("default", {flip = false})
]] .. loaders .. [[
]] .. blocks .. [[

local model = nn.Sequential { -- sizes for 64x64
  block(3, 24, 2), -- 32x32
  block(24, 48, 2), -- 16x16
  block(48, 48, 1),
  block(48, 96, 2), -- 8x8
  block(96, 96, 1),
  block(96, 192, 2), -- 4x4
  nn.AdaptiveAvgPool2d(1), nn.Flatten(),
  nn.Linear(192, images.classes), -- (N,K): a score of each class
}
capl.model(model, {output = "class"})
]] .. optimizer .. [[
    return nn.cross_entropy(output, batch.target, {label_smoothing = 0.1})
  end,
}
]]

--- The text of a starter. words: {NAME, FILE, VERSION, DATA, …} for @NAME@ and its like
function starter.text(kind, words)
  return (starter[kind]:gsub("@(%u[%u_]*)@", function(key) return words[key] or "" end))
end

return starter
