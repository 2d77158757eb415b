--- capl: 1
--- needs: minutes=2880
-- The 7-convolution captcha network, tuned for one data-center GPU: half precision, one CUDA graph per step, batch
-- sizes by GPU memory, the dataset resident on the GPU. a100_ddp.lua is for several GPUs.
--
-- data      50,030 captchas of 4 characters out of 0-9A-Z, 160x60 gray, the same in every epoch, and 19,003 test
--           images: generated, or --data=DIR [--test_data=DIR]: PNG files named TEXT_anything.png; kept on
--           the GPU as u8 (480 MB)
-- network   that of captcha_single.lua: 19,072,400 parameters, 395.8 M multiplications per image
-- training  150 epochs of Adam 2e-4 with cosine decay to 1e-6, updated once per epoch; fp16 with the loss scale on
--           the GPU; convolution algorithms selected by timing; 2048 images per step from 120 GB on, 1024 from 80 GB,
--           512 from 40 GB, 256 from 24 GB, 128 from 12 GB, else 64: tensors need 0.36 GB and 3.1 MB per image
--           (fp32 6.2). --accumulate=N accumulates N batches. TF32 has no effect in fp16; --precision=tf32 selects it
-- ranks     --ranks=gpus: each step is divided over all GPUs; batch is the global batch size
-- expected  96 % exact accuracy on new captchas, as reported by the authors of the network for their data; a full
--           training has not been run here
-- time      150 epochs are 7.5 million images, 17.8 PFLOP; not yet measured on a GPU. On a CPU use captcha.lua
-- hardware  one GPU with 8 GB or more; compute capability 7.0 for fp16, 8.0 for tf32 and bf16
-- run       capl recipes/a100.lua [--data=DIR] [--precision=bf16] [--preset=bench|try]
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  epochs = 150, -- passes over the dataset
  steps = 0, -- or a number of steps, which overrides epochs
  data = "generated", -- or a folder of PNG files whose names contain the label, such as TEXT_17.png
  label = "auto", -- Lua pattern whose capture in the file name is the label; auto: detected
  test_data = "none", -- folder of test images; none: a part of data is held out
  held_out = 0.1, -- fraction of a folder's images for val, and for test
  samples = 50030, -- images of the generated set
  val = 2000, -- generated validation images
  test = 19003, -- generated test images
  batch = "auto", -- global batch size; auto: by the memory of a GPU
  accumulate = 1, -- gradient accumulation: batches per step
  lr = 2e-4, -- learning rate of the first epoch
  eta_min = 1e-6, -- learning rate of the last epoch
  dropout = 0.5, -- after the large linear layer
  augment = false, -- random warp, contrast and noise
  precision = {cuda = "fp16", cpu = "auto"}, -- fp32, tf32, fp16, bf16 or auto
  capture = "auto", -- CUDA graph per step, on GPUs: auto, true or false
  autotune = {cuda = true, cpu = "auto"}, -- GPU ops use the algorithm that was timed fastest
  workers = 12, -- threads that read or generate images
  prefetch = 2, -- prefetched batches
  eval_every = 10, -- epochs between evaluations
  save_every = 100, -- steps between checkpoints
  save_epochs = 10, -- epochs between permanent checkpoints
  seed = 42,
  presets = {
    bench = {epochs = 3, val = 500, test = 1000},
    smoke = {epochs = 1, samples = 64, batch = 16, val = 32, test = 32, eval_every = 1, workers = 1},
    try = {steps = 20, samples = 1000, batch = 16, val = 32, test = 64, workers = 1}, -- a minute on a CPU
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

-- Training, val and test images. The split is by contents: copies of an image are in the same part.
local function sources(samples, val, test)
  if p.data == "generated" then
    return generated(samples, p.seed), generated(val, p.seed + 2), generated(test, p.seed + 1)
  end
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
-- The images of a step are divided over the GPUs.
local all = p.batch == "auto" and train.batch_by_memory {
  {120, 2048}, {80, 1024}, {40, 512}, {24, 256}, {12, 128}, {0, 64},
} or p.batch
local per_gpu = math.max(1, math.floor(all / capl.distributed().size))
local train_source, val_source, test_source = sources(p.samples, p.val, p.test)
local images = loader(train_source, "train", per_gpu, p.augment and changes or nil)
local val, test = loader(val_source, "val", 512), loader(test_source, "test", 512)

-- ---- network ----

local function conv(inputs, outputs, pool)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, {padding = 1}), nn.BatchNorm2d(outputs), nn.ReLU(),
    pool and nn.MaxPool2d(2) or nil,
  }
end

local model = nn.Sequential {
  conv(1, 32, true), conv(32, 64), conv(64, 64, true), conv(64, 128), conv(128, 128), conv(128, 128, true),
  conv(128, 128), nn.Flatten(), nn.Linear(128 * 7 * 20, 1024), nn.Dropout(p.dropout), nn.ReLU(),
  nn.Linear(1024, LENGTH * images.classes),
}
capl.model(model, {output = "text", charset = images.charset, length = LENGTH})

-- ---- training ----

local epoch = math.ceil(images:batches() / math.max(1, p.accumulate)) -- steps
local rate = optim.schedule.per_epoch(optim.schedule.cosine {lr = p.lr, T_max = p.epochs, eta_min = p.eta_min},
  {steps = epoch})

train.fit {
  model = model, train = images, val = val, test = test,
  loss = function(output, batch) return nn.multilabel_soft_margin(output, batch.onehot) end,
  optimizer = optim.Adam(model:parameters(), {lr = rate}),
  precision = p.precision, capture = p.capture, accumulate = p.accumulate,
  steps = p.steps > 0 and p.steps or nil, epochs = p.steps == 0 and p.epochs or nil,
  eval_every = p.eval_every * epoch, checkpoint = {every = p.save_every, every_n = p.save_epochs * epoch},
}
