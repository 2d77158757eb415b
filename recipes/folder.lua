--- capl: 1
--- needs: minutes=1440
-- Trains on your own captchas: PNG or JPEG files whose names contain the label, all of one length and one size.
--
-- data      DIR/TEXT_17.png, 17_TEXT.jpg, TEXT (2).png and similar names, with subfolders. The detected labels are
--           printed; --label='_(%w+)%.png$' sets another pattern. Or a list of files (path TAB label, JSON lines, CSV),
--           or an LMDB database, such as `capl data pack` writes. A tenth of the images is for validation and a tenth
--           for the test, split by contents: copies of an image are in the same part
-- network   that of captcha.lua for images of any size: six convolutions, then one attention map over the columns per
--           character and one classifier for all
-- expected  depends on the data. 8,000 captchas in the style of captcha.lua: 95.4 % [93.7, 96.6] of
--           818 unseen ones after 458 steps, 98.2 % with 0=O
-- run       capl recipes/folder.lua --data=DIR
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- folder of PNG or JPEG files, list or LMDB database; must be given
  label = "auto", -- Lua pattern whose capture in the file name is the label; auto: detected
  charset = "auto", -- such as 0-9A-Z; auto: the characters in the data
  length = "auto", -- characters per captcha; auto: those of the first file
  resize = false, -- true: images of other sizes are resized to the size of the first; false: they are errors
  on_error = "stop", -- or skip: unreadable and unlabelled files are skipped and listed in bad_files.txt of the run
  max_time = "5m", -- time limit, such as 90s or 2h
  batch = 64, -- images per step
  lr = 0.02, -- highest learning rate of Muon, for matrices and convolutions
  adam_lr = 6e-3, -- highest learning rate of AdamW, for all other parameters
  warmup = 100, -- warm-up steps; at most a quarter of the run
  weight_decay = 0.3, -- weight decay of Muon
  dropout = 0.1, -- before the classifier
  label_smoothing = 0.05, -- label smoothing
  rotate = 3, -- maximum rotation of training images in degrees; other augmentations scale with it; 0: none
  val = 0.1, -- fraction of validation images
  test = 0.1, -- fraction of test images
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  workers = "auto", -- threads that read images
  seed = 42,
}
capl.manual_seed(p.seed)
capl.expect {exact = 0.95, within = "8 min", on = "cpu", data = "8,000 captchas: capl generate --out=captchas --n=8000"}
local world = capl.distributed() -- only rank 0 prints
if p.data == "" then error("--data=DIR is missing: a folder of PNG files named by their text, such as A1B2_17.png") end

-- ---- data ----

-- All labels, to find the charset.
local function read_texts(source)
  local texts, seen, characters = {}, {}, {}
  for i = 0, source:count() - 1 do
    local text = source:text(i)
    texts[#texts + 1] = text
    for _, character in ipairs(capl.text.characters(text or "")) do
      if not seen[character] then table.insert(characters, character) end
      seen[character] = true
    end
  end
  table.sort(characters)
  return texts, table.concat(characters)
end

-- A '-' between two characters would be a range.
local function as_charset(characters)
  local rest, dashes = characters:gsub("%-", "")
  return rest .. (dashes > 0 and "-" or "")
end

local named = data.open(p.data, {label = p.label, charset = "!-~", length = {1, 32}, resize = true}) -- any label
local texts, characters = read_texts(named)
local length = p.length == "auto" and #capl.text.characters(texts[1] or "....") or tonumber(p.length)
local charset = p.charset == "auto" and as_charset(characters) or p.charset
if charset == "" then charset = "0-9A-Z" end -- no label matches: the next line raises the error
local all = data.open(p.data, {label = named.label, charset = charset, length = length, resize = p.resize})
local parts = {}
parts.train, parts.val, parts.test = data.split(all, {val = p.val, test = p.test})

local distortions = p.rotate > 0 and {
  rotate = p.rotate, scale = {0.93, 1.07}, translate_x = 0.03, translate_y = 0.05, shear = p.rotate,
  contrast = {0.8, 1.2}, brightness = {0.9, 1.1},
} or nil

local function loader(role, batch, augment)
  return data.loader {
    source = parts[role], role = role, batch = batch, workers = p.workers, normalize = "standardize", augment = augment,
    drop_last = role == "train" and parts.train:count() > batch, on_error = p.on_error,
  }
end

local images, val, test = loader("train", p.batch, distortions), loader("val", 100), loader("test", 100)
charset = images.charset
local height, width = all:height(), all:width()
world:print(("%d images of %dx%d px to train on, %d to choose the best weights, %d to test on"):format(
  parts.train:count(), width, height, parts.val:count(), parts.test:count()))
world:print(("%d characters each, out of %s"):format(length, charset))

-- ---- network ----

local function block(inputs, outputs, stride)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, {stride = stride, padding = 1, bias = false}),
    nn.BatchNorm2d(outputs),
    nn.ReLU(),
  }
end

-- Size of a side: halved by the first layer and by each block with stride 2.
local function left(side, halvings)
  side = math.floor(side / 2)
  for _ = 1, halvings do side = math.floor((side + 1) / 2) end
  return side
end

-- Attention: each position of the text averages the columns with its own softmax weights.
local Attention = nn.class("Attention")

function Attention:init(channels, rows, columns)
  self.channels, self.columns = channels, columns
  self.query = nn.Sequential {
    nn.Conv2d(channels, channels / 4, 1), nn.ReLU(), nn.Flatten(),
    nn.Linear(channels / 4 * rows * columns, length * columns),
  }
  self.value = nn.Sequential {
    nn.Conv2d(channels, channels, {rows, 1}, {bias = false}), nn.BatchNorm2d(channels), nn.ReLU(),
  }
  self.dropout = nn.Dropout(p.dropout)
  self.read = nn.Linear(channels, images.classes)
end

function Attention:forward(x)
  local n = x:size(1)
  local weights = self.query(x):view(n, length, self.columns):softmax(-1)
  local columns = self.value(x):view(n, self.channels, self.columns)
  local mixed = weights:matmul(columns:transpose(2, 3)) -- (N, length, channels)
  return self.read(self.dropout(mixed)) -- (N, length, K)
end

if height < 16 or width < 16 then
  error(("the images are %dx%d px; this network needs at least 16x16"):format(width, height))
end
local model = nn.Sequential { -- sizes for 60x160
  nn.Conv2d(1, 16, 6, {stride = 2, padding = 2, bias = false}), nn.BatchNorm2d(16), nn.ReLU(), -- 30x80
  block(16, 16, 1),
  block(16, 32, 2), -- 15x40
  block(32, 64, 2), -- 8x20
  block(64, 64, 1),
  block(64, 128, {2, 1}), -- 4x20
  Attention(128, left(height, 3), left(width, 2)),
}
capl.model(model, {output = "text", charset = charset, length = length})

-- ---- optimizer ----

-- Muon for the matrices and convolutions; AdamW for biases, batch norm and the last layer.
local matrices, last, others = {}, {}, {}
for name, parameter in model:named_parameters() do
  local list = #parameter.shape == 1 and others or name:find("read", 1, true) and last or matrices
  table.insert(list, parameter)
end

local function rate(lr) return optim.schedule.warmup_cosine {lr = lr, warmup = p.warmup, total = "run"} end

local opt = optim.join {
  optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = p.weight_decay}),
  optim.AdamW({
    {params = last, weight_decay = 0.02},
    {params = others, weight_decay = 0},
  }, {lr = rate(p.adam_lr), betas = {0.9, 0.99}}),
}

-- ---- training ----

train.fit {
  model = model, train = images, val = val, test = test,
  loss = function(output, batch)
    local scores = output:view(-1, images.classes)
    return nn.cross_entropy(scores, batch.target:view(-1), {label_smoothing = p.label_smoothing})
  end,
  optimizer = opt, precision = p.precision, max_time = p.max_time,
}
