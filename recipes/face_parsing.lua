--- capl: 1
--- needs: minutes=1440
-- Finds the class of each pixel of a face: skin, hair, eyes, brows and 15 more, those of CelebAMask-HQ.
--
-- data      drawn faces: 900 an epoch, new ones each time, 100 others to choose by and 500 to test on. They try the
--           network out; what it scores on them says nothing about photographs. Or --data=DIR of images, each with a
--           mask of its size, a PNG whose levels are the classes 0 to 18, or 255 where no class is known: NAME_mask.png
--           beside NAME.jpg, or with --masks=DIR --mask=.png NAME.png in another folder. Or --parts=DIR with one PNG
--           per part, as CelebAMask-HQ has them (00012_hair.png). A tenth of the images is for validation, a tenth for
--           the test
-- network   MicroSegFormer with LMSA, 1,747,923 parameters: a pyramid of four attention stages, whose maps are brought
--           to a quarter of each side and fused; 3.6 G multiplications at 512 px
-- loss      cross entropy, and 1.5 times the Dice loss of all 19 classes in each image
-- augment   minimal: flips; strong: turns, sizes, places, colours and blur, too; progressive: minimal, then strong. A
--           flip swaps left and right eyes, brows and ears. --mix mixes 15 % of the images by MixUp and 15 % by CutMix:
--           a pixel has one class, in MixUp that of the image with the larger share, in CutMix that of what it shows
-- expected  --preset=small, its 10 minutes on two cores of a Zen 4, 1,877 steps: mIoU 85.7 % of 500 unseen faces,
--           F 91.7 %, pixels 98.9 %. In the style drawing, which training never saw: mIoU 25.7 % of 100; strong
--           augmentation gains nothing there. 512 px and photographs: not measured. More in recipes/README.md
-- run       capl recipes/face_parsing.lua --preset=small
--           capl predict runs/face_parsing/best.capl FACE.png --out=masks --overlay=seen
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- folder of images with masks; without it drawn faces
  mask = "_mask.png", -- ending of the masks in place of the images'
  masks = "", -- folder of the masks; empty: beside the images
  parts = "", -- folder of masks with a PNG per part, such as 00012_hair.png, in place of mask and masks
  size = 512, -- side in px, a multiple of 32
  count = 900, -- drawn faces of an epoch
  fresh = true, -- other drawn faces in each epoch; false: always the same
  val = 100, -- drawn faces
  test = 500, -- drawn faces
  unseen = 100, -- faces in the style drawing, which training never sees, as a test of their own; 0: none
  batch = 32, -- images per step
  epochs = "200", -- limit in passes over the training images, a number or none
  max_time = "none", -- time limit, such as 30m; the learning rate decays to 0 over the whole run
  optimizer = capl.choice {"adamw", "muon"}, -- muon: for matrices and convolutions; the others have AdamW
  lr = 8e-4, -- highest learning rate of AdamW
  muon_lr = 0.01, -- highest learning rate of Muon
  warmup = 5, -- warm-up epochs
  weight_decay = 1e-4,
  clip = 1, -- norm of the gradients, at most
  dropout = 0.15, -- of the third stage; the others have 0.5, 0.75 and 1.25 times as much
  dice = 1.5, -- weight of the Dice loss
  augment = capl.choice {"progressive", "minimal", "strong", "none"}, -- augmentation of training images
  progressive = 50, -- epochs of minimal before strong
  mix = false, -- true: MixUp and CutMix, too
  patience = 100, -- epochs without a better val F
  precision = "fp32", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  workers = "auto", -- threads that draw or read images
  seed = 42,
  presets = {
    full = {size = 512}, -- as it is
    small = { -- for a processor
      size = 128, batch = 16, epochs = "none", max_time = "10m", precision = "auto", optimizer = "muon", lr = 3e-3,
      warmup = 2, augment = "minimal", dropout = 0,
    },
  },
}
capl.manual_seed(p.seed)
capl.expect {
  at_least = {miou = 0.75, f = 0.85}, within = "15 min", on = "cpu", hardware = "two cores of a Zen 4",
  given = {preset = "small"},
}
if p.size % 32 ~= 0 or p.size < 64 then error(("--size=%d: a multiple of 32 px from 64 on is needed"):format(p.size)) end

-- ---- data ----

local CLASSES = data.face_classes
local PARTS = { -- the classes but the background, as CelebAMask-HQ names their files
  "skin", "nose", "eye_g", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear", "mouth", "u_lip", "l_lip", "hair",
  "hat", "ear_r", "neck_l", "neck", "cloth",
}
local IGNORED = 255 -- pixels of a mask that do not count

local function drawn(seed, count, fresh, style)
  return data.faces {size = p.size, count = count, seed = seed, fixed = not fresh, style = style}
end

local parts = {}
if p.data == "" then
  parts.train, parts.val = drawn(p.seed, p.count, p.fresh), drawn(p.seed + 1, p.val)
  parts.test = drawn(p.seed + 2, p.test)
else
  local mask = {file = p.mask, root = p.masks ~= "" and p.masks or nil, classes = CLASSES}
  if p.parts ~= "" then mask = {parts = PARTS, root = p.parts, classes = CLASSES} end
  local all = data.folder(p.data, {
    mask = mask, width = p.size, height = p.size, resize = true, channels = 3,
  })
  parts.train, parts.val, parts.test = data.split(all, {val = 0.1, test = 0.1})
end

parts.unseen = p.unseen > 0 and drawn(p.seed + 3, p.unseen, false, "drawing") or nil

local function ops(preset)
  local mixed = augment.preset("cutmix")
  return augment.preset(preset, {
    flip_swaps = data.face_swaps, mixup = p.mix and mixed.mixup or nil, cutmix = p.mix and mixed.cutmix or nil,
  })
end

local function augmentation()
  if p.augment == "none" then return nil end
  if p.augment ~= "progressive" then return ops(p.augment) end
  return augment.schedule {
    {name = "minimal", augment = ops("minimal")},
    {name = "strong", from = {epoch = p.progressive + 1}, augment = ops("strong")},
  }
end

local function loader(part)
  local role = part == "unseen" and "test" or part
  return data.loader {
    source = parts[part], role = role, batch = p.batch, workers = p.workers, normalize = "unit",
    augment = role == "train" and augmentation() or nil,
    drop_last = role == "train" and parts.train:count() >= p.batch,
  }
end
local images, val, test = loader("train"), loader("val"), loader("test")
local unseen = parts.unseen and loader("unseen")

-- ---- network ----

-- (N,C,H,W) to (N,H*W,C) and back
local function tokens(x) return x:flatten(3):transpose(2, 3) end
local function image(x, h, w) return x:transpose(2, 3):reshape(x:size(1), x:size(3), h, w) end

-- Each place attends to the places of a map that is ratio times smaller.
local Attention = nn.class("Attention")

function Attention:init(c, ratio, dropout)
  self.c, self.ratio, self.dropout = c, ratio, dropout
  self.q, self.kv, self.proj = nn.Linear(c, c), nn.Linear(c, 2 * c), nn.Linear(c, c)
  if ratio > 1 then
    self.reduce = nn.Conv2d(c, c, ratio, {stride = ratio})
    self.norm = nn.LayerNorm(c)
  end
  self.drop = nn.Dropout(dropout)
end

function Attention:forward(x, h, w)
  local source = self.ratio > 1 and self.norm(tokens(self.reduce(image(x, h, w)))) or x
  local kv = self.kv(source)
  local k, v = kv:narrow(3, 1, self.c), kv:narrow(3, self.c + 1, self.c)
  local y = nn.scaled_dot_product_attention(self.q(x), k, v, {dropout_p = self.training and self.dropout or 0})
  return self.drop(self.proj(y))
end

local Block = nn.class("Block")

function Block:init(c, ratio, dropout)
  self.norm1, self.attention, self.norm2 = nn.LayerNorm(c), Attention(c, ratio, dropout), nn.LayerNorm(c)
  self.mlp = nn.Sequential {
    nn.Linear(c, 2 * c), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * c, c), nn.Dropout(dropout),
  }
end

function Block:forward(x, h, w)
  x = x + self.attention(self.norm1(x), h, w)
  return x + self.mlp(self.norm2(x))
end

local Stage = nn.class("Stage")

function Stage:init(inputs, outputs, kernel, stride, depth, ratio, dropout)
  self.embed = nn.Conv2d(inputs, outputs, kernel, {stride = stride, padding = (kernel - 1) / 2})
  self.embed_norm = nn.LayerNorm(outputs)
  local blocks = {}
  for k = 1, depth do blocks[k] = Block(outputs, ratio, dropout) end
  self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(outputs)
end

function Stage:forward(x)
  local y = self.embed(x)
  local h, w = y:size(3), y:size(4)
  local t = self.embed_norm(tokens(y))
  for _, block in ipairs(self.blocks:children()) do t = block(t, h, w) end
  return image(self.norm(t), h, w)
end

-- A depthwise convolution, weighted per channel by what the whole map shows.
local LMSA = nn.class("LMSA")

function LMSA:init(c)
  self.near = nn.Sequential {
    nn.Conv2d(c, c, 3, {padding = 1, groups = c, bias = false}), nn.Conv2d(c, c, 1, {bias = false}), nn.BatchNorm2d(c),
  }
  self.gate = nn.Sequential {
    nn.Linear(c, c / 4, {bias = false}), nn.ReLU(), nn.Linear(c / 4, c, {bias = false}), nn.Sigmoid(),
  }
end

function LMSA:forward(x)
  local y = self.near(x)
  return y * self.gate(y:mean({3, 4})):view(x:size(1), x:size(2), 1, 1) + x
end

local stages = { -- channels, blocks, how much smaller the map is that is attended to
  {channels = 32, depth = 1, ratio = 8}, {channels = 64, depth = 2, ratio = 4},
  {channels = 128, depth = 2, ratio = 2}, {channels = 192, depth = 2, ratio = 1},
}

local Net = nn.class("MicroSegFormer")

function Net:init()
  local encoder, linears, inputs = {}, {}, 3
  for i, s in ipairs(stages) do
    local kernel, stride = i == 1 and 7 or 3, i == 1 and 4 or 2
    encoder[i] = Stage(inputs, s.channels, kernel, stride, s.depth, s.ratio, p.dropout * (i + 1) / 4)
    linears[i], inputs = nn.Linear(s.channels, 128), s.channels
  end
  self.stages, self.linears = nn.ModuleList(encoder), nn.ModuleList(linears)
  self.fuse = nn.Sequential {nn.Linear(512, 128), nn.GELU(), nn.Linear(128, 128)}
  self.lmsa, self.classify = LMSA(128), nn.Conv2d(128, #CLASSES, 1)
end

function Net:forward(x) -- sizes for 512 px
  local maps, h, w = {}, nil, nil
  for i = 1, #stages do
    x = self.stages[i](x) -- 128x128, 64x64, 32x32, 16x16
    h, w = h or x:size(3), w or x:size(4)
    local y = image(self.linears[i](tokens(x)), x:size(3), x:size(4))
    maps[i] = i == 1 and y or nn.interpolate(y, {size = {h, w}, mode = "bilinear"})
  end
  local y = self.lmsa(image(self.fuse(tokens(capl.cat(maps, 2))), h, w)) -- (N,128,128,128)
  -- To classify before enlarging gives the same, since both are linear, with a 16th of the multiplications.
  return nn.interpolate(self.classify(y), {scale_factor = 4, mode = "bilinear"}) -- (N,19,512,512)
end

local model = Net()
capl.model(model, {output = "mask", names = CLASSES})

-- ---- training ----

local function rate(lr)
  return optim.schedule.warmup_cosine {lr = lr, warmup = p.warmup * images:batches(), total = "run"}
end

local function optimizer()
  if p.optimizer == "adamw" then
    return optim.AdamW(model:parameters(), {lr = rate(p.lr), weight_decay = p.weight_decay})
  end
  local matrices, others = {}, {}
  for name, parameter in model:named_parameters() do
    local vector = #parameter.shape == 1 or name:find("classify", 1, true) or parameter.shape[2] == 1
    table.insert(vector and others or matrices, parameter)
  end
  return optim.join {
    optim.Muon(matrices, {lr = rate(p.muon_lr), momentum = 0.9, weight_decay = p.weight_decay}),
    optim.AdamW(others, {lr = rate(p.lr), weight_decay = 0}),
  }
end

train.fit {
  model = model, train = images, val = val, test = test, tests = {unseen_style = unseen},
  meter = function(of) return train.SegmentationMeter {classes = CLASSES, main = "f", loader = of} end,
  loss = function(output, batch)
    local dice = nn.dice(output, batch.mask, {per_image = true, smooth = 1e-8, ignore_index = IGNORED})
    return nn.cross_entropy(output, batch.mask, {ignore_index = IGNORED}) + dice * p.dice
  end,
  optimizer = optimizer(), clip_norm = p.clip,
  epochs = tonumber(p.epochs), max_time = p.max_time, early_stop = {patience = p.patience, unit = "epochs"},
  precision = p.precision,
}
