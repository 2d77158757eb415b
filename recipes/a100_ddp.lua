--- capl: 1
--- needs: ranks=gpus minutes=1440
-- The 7-convolution captcha network at the speed of a data-center GPU: half precision, one launch per step, the whole data
-- set resident on the GPU.
--
-- data      50,030 generated captchas of 4 characters out of 0-9A-Z, 160x60 gray, the same in every epoch (or --data=DIR: PNG
--           files named TEXT_anything.png, a tenth of which is held out for the figures); kept on the GPU as u8 (480 MB),
--           shuffled, warped and brightened there
-- network   captcha_cnn.lua's: 19,072,400 parameters, 395.8 M multiplications per image
-- training  AdamW 6e-4, weight decay 1e-4, per-step warm-up of 5 epochs and cosine to 1e-6; fp16 with a loss scale that lives
--           on the GPU (bf16, tf32 and fp32 by --precision); batch 1024 per GPU
-- ranks     one process per GPU; this version trains on one GPU (a world of one)
-- expected  96 % of fresh captchas read without a mistake, what the network's authors report of their own data
-- time      150 epochs are 7.5 million images; not yet measured on a data-center GPU. On a CPU use captcha.lua
-- run       capl recipes/a100_ddp.lua [--device=cuda:1] [--precision=bf16] [--preset=bench]
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  epochs = 150, -- passes over the data set
  data = "generated", -- or a folder of PNG files named TEXT_anything.png
  samples = 50030, -- images of the generated set
  batch = 1024, -- images per step and GPU
  lr = 6e-4, -- highest learning rate
  warmup = 5, -- epochs until it is reached; at most a fifth of all
  weight_decay = 1e-4,
  dropout = 0.5, -- behind the large linear layer
  augment = true, -- warp, contrast and noise, new for each image and epoch
  precision = {cuda = "fp16", cpu = "auto"}, -- fp32, tf32, fp16, bf16 or auto
  capture = "auto", -- one launch per step, on GPUs
  workers = "auto", -- threads that make images, before they lie on the GPU
  eval_every = 10, -- epochs between two evaluations
  val = 2000, -- fresh images that choose the weights, of generated ones
  test = 19003, -- likewise, for the last figure
  held_out = 0.1, -- share of a folder's images for each of them
  seed = 42,
  presets = {
    bench = {epochs = 3, val = 500, test = 1000},
    smoke = {epochs = 1, samples = 64, batch = 16, val = 32, test = 32, eval_every = 1},
  },
}
capl.manual_seed(p.seed)
local world = capl.distributed()

-- ---- data ----

local CHARSET, LENGTH = "0-9A-Z", 4

local function generated(count, seed)
  return data.captcha {preset = "lepture", charset = CHARSET, length = LENGTH, count = count, fixed = true, seed = seed}
end

-- What is trained on and what is not: of a folder, images that are not in the other part under any name.
local function sources(samples, val, test)
  if p.data == "generated" then return generated(samples, p.seed), generated(val, p.seed + 2), generated(test, p.seed + 1) end
  local all = data.folder(p.data, {label = "^([^_]+)_", charset = CHARSET, length = LENGTH, resize = true})
  return data.split(all, {val = p.held_out, test = p.held_out})
end

local train_source, val_source, test_source = sources(p.samples, p.val, p.test)
local images = data.loader {
  source = train_source, role = "train", batch = p.batch, workers = p.workers, shard = world, shuffle = true,
  drop_last = true, normalize = "unit", cache = "auto",
  augment = p.augment and {
    rotate = 5, scale = 0.1, translate_x = 0.03, translate_y = 0.05, contrast = 0.3, brightness = 0.1, noise = {0, 8},
  } or nil,
}
local function held_out(source, role)
  return data.loader {source = source, role = role, batch = math.min(p.batch, 512), workers = p.workers, normalize = "unit"}
end
local val, test = held_out(val_source, "val"), held_out(test_source, "test")

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
capl.model(model, {output = "text", charset = images.charset, length = LENGTH})

-- ---- training ----

local steps_per_epoch = images:batches()
local opt = optim.AdamW(model:parameters(), {
  lr = optim.schedule.warmup_cosine {
    lr = p.lr, warmup = math.min(p.warmup, p.epochs / 5) * steps_per_epoch, total = p.epochs * steps_per_epoch, eta_min = 1e-6,
  },
  weight_decay = p.weight_decay,
})

local function step(image, onehot)
  local loss = capl.autocast(p.precision, function() return nn.multilabel_soft_margin(model(image), onehot) end)
  opt:backward_step(loss)
  return loss
end
if p.capture then step = capl.capture(step, {strict = false}) end

print(("%s; batch %d x %d = %d images per step"):format(tostring(world), p.batch, world.size, world:batch(p.batch)))
local progress = capl.progress {steps = p.epochs * steps_per_epoch}
local best, weights, every = -1, nil, p.eval_every

local function copy_weights()
  local out = {}
  for name, tensor in pairs(model:state_dict()) do out[name] = tensor:clone():keep() end
  return out
end

for epoch = 1, p.epochs do
  for batch in images:epoch(epoch) do
    progress:step(p.batch, step(batch.image, batch.onehot), opt.lr)
  end
  if epoch % every == 0 or epoch == p.epochs then
    local meter = train.evaluate(model, val, {precision = p.precision})
    print(("epoch %d/%d  %s"):format(epoch, p.epochs, meter:line()))
    if meter:result().exact > best then
      best, weights = meter:result().exact, capl.no_grad(copy_weights)
      capl.save_model(capl.run_folder() .. "/best.capl", model, {
        charset = images.charset, length = LENGTH, normalize = "unit", metrics = meter:result(),
      })
    end
  end
end

-- The test images are read once, with the weights that the others have chosen.
model:load_state_dict(weights)
local meter = train.evaluate(model, test, {precision = p.precision})
capl.final(meter:result(), {images_per_s = progress:rate(), seconds = progress:seconds()})
