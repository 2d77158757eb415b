--- capl: 1
--- needs: minutes=120
-- Trains on long, strongly distorted captchas with a curriculum: 6 characters out of 0-9A-Z in 200x60 pixels. The first
-- stages have short texts of few letters without distortion. The next ones have long texts. The last one adds rotation,
-- warp, low contrast and noise.
--
-- data      generated during training, never twice the same image; no files needed
-- network   that of captcha.lua: 7 convolutions, 6 attention maps over the columns, one classifier for all positions
-- gain      after 9,600 training images, seeds 1, 2 and 3, on 2,000 new images with the distortion of the last stage:
--             character accuracy     65.3, 64.5, 61.9 % with the curriculum (mean 63.9), 58.7, 63.0, 57.3 % without
--             (59.7) exact accuracy         12.0, 12.7, 9.1 % (11.2) against 7.6, 9.8, 6.7 % (8.0)
--           without: --curriculum=false, the last stage from the first image on. The run is short on purpose.
--           On easy images there is no gain: on undistorted ones, with augment = "captcha" as the last
--           stage and 6,400 images, exact accuracy of three seeds is 57.6, 69.8 and 68.8 % with a curriculum, 66.4,
--           69.3 and 63.3 % without. Stages of very short texts were worse than none at 16,000 images (78.9 against
--           85.6 %, one seed)
-- time      about 35 s of CPU time
-- run       capl recipes/curriculum.lua [--curriculum=false] [--seed=N]
-- preview   capl preview recipes/curriculum.lua draws samples of each stage
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  curriculum = true, -- false: the last stage from the first step
  -- what the stages change; the rest has full difficulty from the first step
  of = capl.choice {"both", "texts", "augment"},
  samples = 9600, -- training images
  batch = 32, -- images per step
  lr = 0.02, -- highest learning rate of Muon, for matrices and convolutions
  adam_lr = 6e-3, -- highest learning rate of AdamW, for all other parameters
  warmup = 50, -- warm-up steps; at most a quarter of the run
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  workers = "auto", -- threads that generate images
  charset = "0-9A-Z", -- charset
  length = 6, -- characters of a captcha
  width = 200, -- px
  val = 300, -- validation images
  test = 2000, -- test images
  seed = 42,
}
capl.manual_seed(p.seed)
capl.expect {exact = 0.09, chars = 0.61} -- the lowest of three seeds

-- ---- data ----

-- The final difficulty, also used for val and test.
local strong = {
  rotate = 12, scale = {0.8, 1.1}, translate_x = 0.06, translate_y = 0.08, shear = 20, perspective = 0.25,
  elastic = {1, 4}, noise = {5, 30}, contrast = {0.4, 1.2}, brightness = {0.7, 1.2},
}
local hard = {augment = strong, difficulty = {length = p.length}}
local steps = math.floor(p.samples / p.batch)
local function share(of, least) return math.max(least, math.floor(of * steps)) end -- in steps

local function stages()
  if not p.curriculum then return augment.schedule {hard} end
  local list = {
    {name = "short", augment = {rotate = 2, noise = 4},
      difficulty = {length = {2, math.min(4, p.length)}, charset = 0.5, noise = 0.2, warp = 0.2}},
    {name = "longer", from = {step = share(0.1, 1)}, ramp = {steps = share(0.15, 1)},
      difficulty = {length = p.length, charset = 1, noise = 0.6, warp = 0.6}},
    {name = "hard", from = {step = share(0.25, 2)}, ramp = {steps = share(0.3, 1)},
      augment = hard.augment, difficulty = {noise = 1, warp = 1}},
  }
  for _, stage in ipairs(list) do
    if p.of == "texts" then stage.augment = hard.augment end
    if p.of == "augment" then stage.difficulty = {length = p.length} end
  end
  return augment.schedule(list)
end

local function captchas(opts)
  opts.charset, opts.width = p.charset, p.width
  return data.captcha(opts)
end

local function fixed(role, seed, count)
  return data.loader {
    source = captchas {length = p.length, seed = seed, count = count, fixed = true}, role = role, batch = 100,
    workers = p.workers,
    augment = strong, tta = true, -- the task is to read distorted texts
  }
end

local images = data.loader {
  source = captchas {length = {2, p.length}, seed = p.seed}, role = "train", batch = p.batch, workers = p.workers,
  augment = stages(),
}
local val, test = fixed("val", p.seed + 2, p.val), fixed("test", p.seed, p.test)
local charset = images.charset

-- ---- network ----

local function block(inputs, outputs, stride)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, {stride = stride, padding = 1, bias = false}),
    nn.BatchNorm2d(outputs),
    nn.ReLU(),
  }
end

-- Attention: each position of the text averages the columns with its own softmax weights.
local Attention = nn.class("Attention")

function Attention:init(channels, height, width)
  self.channels, self.width = channels, width
  self.query = nn.Sequential {
    nn.Conv2d(channels, channels / 4, 1), nn.ReLU(), nn.Flatten(),
    nn.Linear(channels / 4 * height * width, p.length * width),
  }
  self.value = nn.Sequential {
    nn.Conv2d(channels, channels, {height, 1}, {bias = false}), nn.BatchNorm2d(channels), nn.ReLU(),
  }
  self.read = nn.Linear(channels, images.classes)
end

function Attention:forward(x)
  local n = x:size(1)
  local weights = self.query(x):view(n, p.length, self.width):softmax(-1)
  local columns = self.value(x):view(n, self.channels, self.width)
  return self.read(weights:matmul(columns:transpose(2, 3))) -- (N, length, K)
end

local model = nn.Sequential {
  block(1, 8, 1),
  block(8, 16, 2), -- 30x100
  block(16, 32, 2), -- 15x50
  block(32, 32, 1),
  block(32, 64, 2), -- 8x25
  block(64, 64, 1),
  block(64, 128, {2, 1}), -- 4x25
  Attention(128, 4, math.ceil(p.width / 8)),
}
capl.model(model, {output = "text", charset = charset, length = p.length})

-- ---- training ----

-- Muon for the matrices and convolutions; AdamW for biases, batch norm and the last layer.
local matrices, others = {}, {}
for name, parameter in model:named_parameters() do
  table.insert((#parameter.shape == 1 or name:find("read", 1, true)) and others or matrices, parameter)
end
local function rate(lr)
  return optim.schedule.warmup_cosine {lr = lr, warmup = math.min(p.warmup, steps / 4), total = steps}
end

train.fit {
  model = model, train = images, val = val, test = test,
  loss = function(output, batch) -- shorter texts are padded with -1
    return nn.cross_entropy(output:view(-1, images.classes), batch.target:view(-1), {ignore_index = -1})
  end,
  optimizer = optim.join {
    optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = 0.1}),
    optim.AdamW(others, {lr = rate(p.adam_lr), betas = {0.9, 0.99}, weight_decay = 0}),
  },
  precision = p.precision, samples = p.samples,
}
