--- capl: 1
--- needs: minutes=10080
-- The 7-convolution captcha network with a plain training setup: full precision, Adam, batch size 128. It is the
-- baseline for a100.lua and a100_ddp.lua.
--
-- data      50,030 captchas of 4 characters out of 0-9A-Z, 160x60 gray, the same in every epoch, and 19,003 test
--           images: generated, or --data=DIR [--test_data=DIR]: PNG files named TEXT_anything.png
-- network   conv 32 64 64 128 128 128 128, batch norm, ReLU, three poolings, 17,920 -> 1024 -> 144: 19,072,400
--           parameters, 395.8 M multiplications per image
-- training  150 epochs of Adam 2e-4 with cosine decay to 1e-6, updated once per epoch; fp32; no augmentation;
--           evaluation on val every 5 epochs, a checkpoint every 100 steps, and a permanent one every 10 epochs
-- expected  96 % exact accuracy on new captchas, as reported by the authors of the network for their data; a full
--           training has not been run here
-- time      150 epochs are 7.5 million images, 17.8 PFLOP: 13 hours at the 168 images/s of two AVX-512 cores; not yet
--           measured on a GPU. On a CPU use captcha.lua
-- hardware  any one GPU; several with --ranks=gpus
-- run       capl recipes/captcha_single.lua [--data=DIR] [--preset=try]
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
  batch = 128, -- images per step, and per GPU where there are several
  accumulate = 1, -- gradient accumulation: batches per step
  lr = 2e-4, -- learning rate of the first epoch
  eta_min = 1e-6, -- learning rate of the last epoch
  dropout = 0.5, -- after the large linear layer
  precision = "fp32", -- tf32, bf16, fp16 or auto
  capture = false, -- CUDA graph per step, on GPUs: auto, true or false
  autotune = false, -- use the algorithms that were timed fastest
  workers = 8, -- threads that read or generate images
  prefetch = 2, -- prefetched batches
  eval_every = 5, -- epochs between evaluations
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

local function loader(source, role, batch)
  return data.loader {
    source = source, role = role, batch = batch, workers = p.workers, prefetch = p.prefetch, normalize = "unit",
    shuffle = role == "train", drop_last = role == "train",
  }
end
local train_source, val_source, test_source = sources(p.samples, p.val, p.test)
local images = loader(train_source, "train", p.batch)
local val, test = loader(val_source, "val", 256), loader(test_source, "test", 256)

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
