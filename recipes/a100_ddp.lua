--- capl: 1
--- needs: ranks=gpus minutes=1440
-- The 7-convolution captcha network on all GPUs of a machine, one process for each: half precision, one launch per step, the
-- data set resident on every GPU, gradients exchanged while they are computed.
--
-- data      50,030 captchas of 4 characters out of 0-9A-Z, 160x60 gray, the same in every epoch, and 19,003 for the last
--           figure: made by the generator, or --data=DIR [--test_data=DIR]: PNG files named TEXT_anything.png; kept on the
--           GPUs as u8 (480 MB), shuffled, warped and brightened there
-- network   captcha_single.lua's: 19,072,400 parameters, 395.8 M multiplications per image
-- training  150 epochs of AdamW 6e-4, weight decay 1e-4, per-step warm-up of 5 epochs and cosine to 1e-6; fp16 with a loss scale
--           that lives on the GPU (bf16, tf32 and fp32 by --precision); convolutions timed before they are chosen; per GPU
--           2048 images a step from 120 GB on, 1024 from 40 GB, 512 from 24 GB, 256 from 12 GB, 128 from 8 GB, else 64
-- ranks     one process per GPU (--ranks=N for fewer); on processors --ranks=2 --preset=try shows that all of it runs. Batch norm
--           sees each GPU's own images, unless --sync_bn
-- expected  96 % of fresh captchas read without a mistake, what the network's authors report of their own data; not yet
--           trained to its end here
-- time      150 epochs are 7.5 million images, 17.8 PFLOP; not yet measured on several GPUs. Without a GPU this recipe prints its
--           plan and ends. On a CPU use captcha.lua
-- hardware  written for three A100 with 40 GB; compute capability 7.0 for fp16, 8.0 for tf32 and bf16
-- run       capl recipes/a100_ddp.lua [--data=DIR] [--ranks=2] [--precision=bf16] [--preset=bench|try]
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  epochs = 150, -- passes over the data set
  steps = 0, -- or a number of steps, which goes before epochs
  data = "generated", -- or a folder of PNG files whose names hold their texts, such as TEXT_17.png
  label = "auto", -- Lua pattern whose capture in a file's name is its text; auto: found among the usual ones
  test_data = "none", -- a folder for the last figure; else a part of data is held out for it
  held_out = 0.1, -- share of a folder's images for val, and for the last figure
  samples = 50030, -- images of the generated set
  val = 2000, -- generated images for the curve, and to choose the weights
  test = 19003, -- generated images for the last figure
  batch = "auto", -- images per step and GPU; auto: by its memory
  accumulate = 1, -- batches whose gradients a step sums
  lr = 6e-4, -- highest learning rate
  warmup = 5, -- epochs until it is reached; at most a fifth of all
  eta_min = 1e-6, -- learning rate of the last step
  weight_decay = 1e-4,
  dropout = 0.5, -- behind the large linear layer
  augment = true, -- warp, contrast and noise, new for each image and epoch
  sync_bn = false, -- batch norm over the images of all GPUs
  precision = {cuda = "fp16", cpu = "auto"}, -- fp32, tf32, fp16, bf16 or auto
  capture = "auto", -- one launch per step, on GPUs: auto, true or false
  autotune = {cuda = true, cpu = "auto"}, -- a GPU's ops take what was fastest when it was timed
  workers = {cuda = 16, cpu = "auto"}, -- threads of a rank that read or make images
  prefetch = 2, -- batches that wait ready
  eval_every = 10, -- epochs between two evaluations
  seed = 42,
  presets = {
    bench = {epochs = 3, val = 500, test = 1000},
    smoke = {epochs = 1, samples = 64, batch = 16, val = 32, test = 32, eval_every = 1},
    try = {steps = 20, samples = 1000, batch = 16, val = 32, test = 64}, -- a minute on two processors
  },
}
capl.manual_seed(p.seed)

-- ---- data ----

local CHARSET, LENGTH = "0-9A-Z", 4

local function generated(count, seed)
  return data.captcha {preset = "lepture", charset = CHARSET, length = LENGTH, count = count, fixed = true, seed = seed}
end

local function folder(path)
  return data.folder(path, {label = p.label, charset = CHARSET, length = LENGTH, resize = true})
end

-- Training, val and test images: of a folder, none that is in another part under any name.
local function sources(samples, val, test)
  if p.data == "generated" then return generated(samples, p.seed), generated(val, p.seed + 2), generated(test, p.seed + 1) end
  local own = p.test_data ~= "none" and folder(p.test_data)
  local train_part, val_part, test_part = data.split(folder(p.data), {val = p.held_out, test = own and 0 or p.held_out})
  return train_part, val_part, own or test_part
end

local function loader(source, role, batch, augment)
  return data.loader {
    source = source, role = role, batch = batch, workers = p.workers, prefetch = p.prefetch, normalize = "unit",
    shuffle = role == "train", drop_last = role == "train", augment = augment,
  }
end

local changes = {
  rotate = 5, scale = 0.1, translate_x = 0.03, translate_y = 0.05, contrast = 0.3, brightness = 0.1, noise = {0, 8},
}
local per_gpu = p.batch == "auto" and train.batch_by_memory {
  {120, 2048}, {40, 1024}, {24, 512}, {12, 256}, {8, 128}, {0, 64},
} or p.batch
local train_source, val_source, test_source = sources(p.samples, p.val, p.test)
local images = loader(train_source, "train", per_gpu, p.augment and changes or nil) -- of this rank
local val, test = loader(val_source, "val", 512), loader(test_source, "test", 512)

-- ---- network ----

local function conv(inputs, outputs, pool)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU(),
    pool and nn.MaxPool2d(2) or nil,
  }
end

local model = nn.Sequential {
  conv(1, 32, true), conv(32, 64), conv(64, 64, true), conv(64, 128), conv(128, 128), conv(128, 128, true), conv(128, 128),
  nn.Flatten(), nn.Linear(128 * 7 * 20, 1024), nn.Dropout(p.dropout), nn.ReLU(), nn.Linear(1024, LENGTH * #images.charset),
}
if p.sync_bn then model = nn.convert_sync_batchnorm(model) end
capl.model(model, {output = "text", charset = images.charset, length = LENGTH})

-- ---- training ----

local epoch = math.ceil(images:batches() / math.max(1, p.accumulate)) -- steps
local steps = p.steps > 0 and p.steps or p.epochs * epoch
local opt = optim.AdamW(model:parameters(), {
  lr = optim.schedule.warmup_cosine {lr = p.lr, warmup = math.min(p.warmup * epoch, steps / 5), total = steps, eta_min = p.eta_min},
  weight_decay = p.weight_decay, betas = {0.9, 0.999}, eps = 1e-8,
})

train.fit {
  model = model, train = images, val = val, test = test,
  loss = function(output, batch) return nn.multilabel_soft_margin(output, batch.onehot) end,
  optimizer = opt, precision = p.precision, capture = p.capture, accumulate = p.accumulate,
  steps = steps, eval_every = p.eval_every * epoch,
}
