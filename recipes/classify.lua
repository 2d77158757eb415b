--- capl: 1
--- needs: minutes=1440
-- Learns classes of images: a folder with a subfolder for each class, a list or a database.
--
-- data      DIR/CLASS/IMAGE.png (or .jpg), a list of files (path TAB class, JSON lines, CSV), or an LMDB database. A
--           tenth of the images is for validation and a tenth for the test, split by contents: copies of an image are
--           in the same part
-- network   ResNet-18 as torchvision has it, with the names of its weights; --preset=small: 713,000 parameters instead
--           of 11 million, for small images on a processor
-- weights   --weights=FILE: safetensors of another run, or of torchvision's ResNet-18 (with --normalize=imagenet);
--           all of it must fit, but for the classifier. --freeze=conv1,bn1,layer1 keeps these layers as they are
-- expected  100 classes of drawn icons, --preset=icons (8 passes of small): accuracy 98.4 % [97.8, 98.9], top-5 99.9 %
--           [99.6, 100.0] of 1,926 unseen ones after 9 min 4 s on two cores of an EPYC, of which other programs took
--           three quarters; with --preset=small 94.9 and 96.2 % after 5 minutes of the same, 1,015 and 1,209 steps
-- run       capl generate --out=icons --preset=icons --format=folders --n=20000
--           capl recipes/classify.lua --data=icons --preset=icons
--           capl recipes/classify.lua --data=DIR
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- folder with a subfolder for each class, list of files or LMDB database; must be given
  test_data = "", -- another such set with the same classes, for the test; empty: a part of data
  size = "auto", -- side in px to which images are resized; auto: the longer side of the first one, at most 224
  width = 64, -- channels of the first stage; later ones have 2, 4 and 8 times as many
  stem = capl.choice {"7x7", "3x3"}, -- first layers, which leave a quarter of each side; 3x3: half, for small images
  weights = "", -- safetensors file of this network, such as torchvision's; fc is loaded if the classes are as many
  freeze = "", -- layers that are not trained, such as conv1,bn1,layer1,layer2
  normalize = capl.choice {"standardize", "imagenet"}, -- per image; imagenet: as torchvision's weights expect
  augment = capl.choice {"default", "none", "strong", "ultra"}, -- augmentation of training images, without flips
  flip = false, -- true: half of the training images are mirrored; for classes that a mirror does not change
  mixup = 0, -- alpha of mixup, such as 0.2: half of the images are mixed with another; 0: none
  cutmix = 0, -- alpha of cutmix, such as 1; 0: none
  label_smoothing = 0.1, -- label smoothing
  max_time = "5m", -- time limit, such as 90s or 2h
  epochs = "none", -- limit in passes over the training images, a number
  batch = 64, -- images per step
  optimizer = capl.choice {"muon", "adamw"}, -- of the convolutions; the others have AdamW
  lr = 0.02, -- highest learning rate of Muon, for convolutions
  adam_lr = 4e-3, -- highest learning rate of AdamW, for all other parameters
  warmup = 100, -- warm-up steps
  weight_decay = 0.1, -- weight decay of Muon
  val = 0.1, -- fraction of validation images
  test = 0.1, -- fraction of test images
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  on_error = "stop", -- or skip: unreadable files are skipped and listed in bad_files.txt of the run
  workers = "auto", -- threads that read images
  seed = 42,
  presets = {
    small = {width = 16, stem = "3x3"}, -- 713,000 parameters, for a processor
    icons = {width = 16, stem = "3x3", epochs = "8", max_time = "30m"}, -- the claim
  },
}
capl.manual_seed(p.seed)
capl.expect {
  at_least = {accuracy = 0.97, top5 = 0.99}, within = "12 min", on = "cpu", given = {preset = "icons"},
  data = "20,000 icons: capl generate --out=icons --preset=icons --format=folders --n=20000",
}
local world = capl.distributed() -- only rank 0 prints
if p.data == "" then error("--data=DIR is missing: a folder with a subfolder for each class") end

-- ---- data ----

local function open(path, classes, side)
  return data.open(path, {
    label = "folder", classes = classes, channels = 3, resize = true, width = side, height = side,
  })
end

local first = open(p.data, "auto")
local side = p.size == "auto" and math.min(224, math.max(first:width(), first:height())) or tonumber(p.size)
local all = open(p.data, "auto", side)
local parts = {}
parts.train, parts.val, parts.test = data.split(all, {val = p.val, test = p.test_data == "" and p.test or 0})
if p.test_data ~= "" then parts.test = open(p.test_data, all.class_names, side) end

local function augmentation()
  local ops = p.augment == "none" and {} or augment.preset(p.augment, {flip = false})
  if p.flip then ops.flip = 0.5 end
  local both = p.mixup > 0 and p.cutmix > 0
  if p.mixup > 0 then ops.mixup = {alpha = p.mixup, p = both and 0.25 or 0.5} end
  if p.cutmix > 0 then ops.cutmix = {alpha = p.cutmix, p = both and 0.25 or 0.5} end
  return next(ops) and ops or nil
end

local imagenet = {mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225}}

local function loader(role, batch)
  if not parts[role] then return nil end
  return data.loader {
    source = parts[role], role = role, batch = batch, workers = p.workers,
    normalize = p.normalize == "imagenet" and imagenet or "standardize",
    augment = role == "train" and augmentation() or nil, on_error = p.on_error,
  }
end
local images, val, test = loader("train", p.batch), loader("val", 100), loader("test", 100)
local K = images.classes
world:print(("%d classes, %d images of %dx%d px to train on"):format(K, parts.train:count(), side, side))

-- ---- network ----

local BasicBlock = nn.class("BasicBlock")

function BasicBlock:init(inputs, outputs, stride)
  self.conv1 = nn.Conv2d(inputs, outputs, 3, {stride = stride, padding = 1, bias = false})
  self.bn1, self.relu = nn.BatchNorm2d(outputs), nn.ReLU()
  self.conv2 = nn.Conv2d(outputs, outputs, 3, {padding = 1, bias = false})
  self.bn2 = nn.BatchNorm2d(outputs)
  if stride ~= 1 or inputs ~= outputs then
    self.downsample = nn.Sequential {
      nn.Conv2d(inputs, outputs, 1, {stride = stride, bias = false}), nn.BatchNorm2d(outputs),
    }
  end
end

function BasicBlock:forward(x)
  local y = self.relu(self.bn1(self.conv1(x)))
  y = self.bn2(self.conv2(y))
  return self.relu(y + (self.downsample and self.downsample(x) or x))
end

local ResNet = nn.class("ResNet")

function ResNet:init()
  local w, full = p.width, p.stem == "7x7"
  self.conv1 = nn.Conv2d(3, w, full and 7 or 3, {stride = 2, padding = full and 3 or 1, bias = false})
  self.bn1, self.relu = nn.BatchNorm2d(w), nn.ReLU()
  self.maxpool = full and nn.MaxPool2d(3, 2, 1) or nil
  self.layer1 = nn.Sequential {BasicBlock(w, w, 1), BasicBlock(w, w, 1)}
  self.layer2 = nn.Sequential {BasicBlock(w, 2 * w, 2), BasicBlock(2 * w, 2 * w, 1)}
  self.layer3 = nn.Sequential {BasicBlock(2 * w, 4 * w, 2), BasicBlock(4 * w, 4 * w, 1)}
  self.layer4 = nn.Sequential {BasicBlock(4 * w, 8 * w, 2), BasicBlock(8 * w, 8 * w, 1)}
  self.avgpool = nn.AdaptiveAvgPool2d(1)
  self.fc = nn.Linear(8 * w, K)
end

function ResNet:forward(x) -- sizes for 7x7 and 224 px
  x = self.relu(self.bn1(self.conv1(x))) -- 112x112
  if self.maxpool then x = self.maxpool(x) end -- 56x56
  x = self.layer4(self.layer3(self.layer2(self.layer1(x)))) -- 7x7
  return self.fc(self.avgpool(x):flatten(2)) -- (N,K)
end

local model = ResNet()
for _, layer in model:named_modules() do
  if layer.__name == "Conv2d" then nn.init.kaiming_normal_(layer.weight, {mode = "fan_out"}) end
end

-- Weights of another run or program: all layers must fit, but for the classifier.
if p.weights ~= "" then
  local report, others = train.load_weights(model, p.weights), {}
  for _, list in ipairs {report.shape, report.missing, report.unused} do
    for _, entry in ipairs(list) do
      local here, there = entry.model or "not", entry.file or "not"
      if not entry.name:find("^fc%.") then
        table.insert(others, ("%s is %s here, %s there"):format(entry.name, here, there))
      end
    end
  end
  if others[1] then
    local more = #others > 1 and (" (and %d more)"):format(#others - 1) or ""
    error(("%s is of another network: %s%s; --width and --stem must be those of the ResNet-18 in the file"):format(
      p.weights, others[1], more))
  end
end
capl.model(model, {output = "class"})

-- ---- optimizer ----

-- Muon for the convolutions; AdamW for batch norm and the classifier.
local matrices, others = {}, {}
for name, parameter in model:named_parameters() do
  table.insert(#parameter.shape > 1 and not name:find("^fc") and matrices or others, parameter)
end

local function rate(lr) return optim.schedule.warmup_cosine {lr = lr, warmup = p.warmup, total = "run"} end

local opt = optim.join {
  p.optimizer == "muon" and optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = p.weight_decay})
    or optim.AdamW(matrices, {lr = rate(p.adam_lr), betas = {0.9, 0.99}, weight_decay = 0.05}),
  optim.AdamW(others, {lr = rate(p.adam_lr), betas = {0.9, 0.99}}),
}

-- ---- training ----

-- "conv1,layer1" -> {"conv1", "layer1"}
local function layers(text)
  local names = {}
  for name in text:gmatch("[^,%s]+") do names[#names + 1] = name end
  return names
end

train.fit {
  model = model, train = images, val = val, test = test, optimizer = opt,
  freeze = p.freeze ~= "" and layers(p.freeze) or nil, precision = p.precision,
  max_time = p.max_time, epochs = tonumber(p.epochs),
  loss = function(output, batch)
    return augment.mixed(function(target)
      return nn.cross_entropy(output, target, {reduction = "none", label_smoothing = p.label_smoothing})
    end, batch)
  end,
}
