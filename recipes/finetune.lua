--- capl: 1
--- needs: minutes=1440
-- Trains on a few hundred labelled captchas of yours, after pretraining on generated captchas.
--
-- data      --data=DIR: PNG or JPEG files whose names contain the label, a list of files or an LMDB database, as for
--           crnn_ctc.lua; and --style=NAME of the generator, as similar to yours as possible (`capl generate` writes
--           samples)
-- network   that of crnn_ctc.lua for up to 100 characters
-- stages    1. generated captchas with your charset, lengths and sizes, new ones at every step
--           2. your images at a lower learning rate, until the val metric stops improving
-- expected  on 2,000 unseen captchas of gradient-curve, trained on 100 files: 100.0 % exact after 3 minutes on two
--           cores of a Xeon
-- run       capl recipes/finetune.lua --data=DIR
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- folder, list or database of your captchas; must be given
  label = "auto", -- Lua pattern whose capture in the file name is the label; auto: detected
  case = "keep", -- or upper, lower: converts labels, for captchas that accept both
  charset = "auto", -- such as 0-9A-Z, if a few hundred images do not contain all; auto: the characters in the data
  style = "mixed", -- preset of the generator, for the first stage
  channels = "auto", -- 1: gray, 3: color; auto: 3 if gray loses contrast
  pretrain = 1500, -- steps of the first stage; 0: skip it
  max_time = "5m", -- time limit of the second stage; it ends earlier if the val metric stops improving
  steps = "none", -- step limit of the second stage, a number
  batch = 32, -- images per step
  lr = 0.02, -- highest learning rate of Muon in the first stage, for matrices and convolutions
  adam_lr = 4e-3, -- highest learning rate of AdamW, for all other parameters
  finetune = 0.3, -- factor for the learning rates of the second stage
  warmup = 100, -- warm-up steps; at most a quarter of a stage
  weight_decay = 0.1, -- weight decay of Muon
  dropout = 0.2, -- before the classifier
  patience = 15, -- evaluations without improvement before the final learning-rate decay of the second stage
  val = 0.2, -- fraction of validation images
  test = 0, -- fraction of test images
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  on_error = "stop", -- or skip: unreadable and unlabelled files are skipped and listed in bad_files.txt of the run
  workers = "auto", -- threads that read images
  seed = 42,
}
capl.manual_seed(p.seed)
local world = capl.distributed() -- only rank 0 prints
if p.data == "" then
  error("--data=DIR is missing: a folder of PNG or JPEG files named by their text, such as A1B2_17.png")
end

-- ---- data ----

local found = data.explore(p.data, {label = p.label, case = p.case})
local height, widths = found.suggested.height, {}
local channels = tonumber(p.channels) or found.suggested.channels
for _, size in ipairs(found.sizes) do
  local text = found.source:text(size.id)
  if text then widths[#widths + 1] = size.width * height / size.height / #capl.text.characters(text) end
end
table.sort(widths)
local narrowest = widths[math.ceil(#widths / 20)] -- robust against outliers
local all = data.open(p.data, {
  label = found.label, case = p.case, charset = p.charset, length = "auto", channels = channels,
  height = height, widths = found.suggested.widths,
})
local parts = {}
parts.train, parts.val, parts.test = data.split(all, {val = p.val, test = p.test})

-- Generated captchas with the charset, lengths and size of yours.
local drawn = data.loader {
  source = data.captcha {
    preset = p.style, charset = all.charset, length = {all.length_min, all.length}, channels = channels,
    height = height, width = found.suggested.widths[#found.suggested.widths], seed = p.seed,
  },
  role = "train", batch = p.batch, workers = p.workers, normalize = "standardize", augment = "captcha",
}

local function loader(role, batch)
  if role == "test" and p.test == 0 then return nil end
  return data.loader {
    source = parts[role], role = role, batch = batch, workers = p.workers, normalize = "standardize",
    augment = role == "train" and "captcha" or nil, on_error = p.on_error,
  }
end

local images, val, test = loader("train", p.batch), loader("val", 100), loader("test", 100)
local K = images.classes + 1 -- the blank is the last class
-- px per time step; a character needs at least two steps, plus one between equal neighbors
local px = narrowest < 10 and 2 or 4
world:print(("%d images to train on, %d to stop by and choose; %d characters; a time step is %d px"):format(
  parts.train:count(), parts.val:count(), K - 1, px))

-- ---- network ----

local function block(inputs, outputs, kernel, stride)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, kernel, {stride = stride, padding = (kernel - 1) / 2, bias = false}),
    nn.BatchNorm2d(outputs),
    nn.ReLU(),
  }
end

-- Size of a side after n halvings.
local function left(side, halvings)
  for _ = 1, halvings do side = math.floor((side + 1) / 2) end
  return side
end

local Crnn = nn.class("Crnn")

function Crnn:init()
  self.features = nn.Sequential { -- sizes for 48x200 and 4 px a step
    block(channels, 24, 5, 2), -- 24x100
    block(24, 48, 3, {2, px / 2}), -- 12x50
    block(48, 48, 3, 1),
    block(48, 96, 3, {2, 1}), -- 6x50
    block(96, 96, 3, 1),
    block(96, 128, 3, {2, 1}), -- 3x50
  }
  self.columns = nn.Sequential { -- 1x50
    nn.Conv2d(128, 160, {left(height, 4), 1}, {bias = false}), nn.BatchNorm2d(160), nn.ReLU(),
  }
  self.sequence = nn.LSTM(160, 128, {bidirectional = true, batch_first = true})
  self.dropout = nn.Dropout(p.dropout)
  self.read = nn.Linear(256, K)
end

function Crnn:forward(x)
  x = self.columns(self.features(x)) -- (N,C,1,T)
  x = self.sequence(x:squeeze(3):transpose(2, 3)) -- (N,T,256)
  return self.read(self.dropout(x)) -- (N,T,K)
end

local model = Crnn()
capl.model(model, {output = "text", charset = images.charset, decoding = "ctc"})

-- ---- training ----

-- Muon for the matrices and convolutions; AdamW for biases, batch norm and the last layer.
-- times: factor for all learning rates; steps: length of the schedule.
local function optimizer(times, steps)
  local matrices, last, others = {}, {}, {}
  for name, parameter in model:named_parameters() do
    local list = #parameter.shape == 1 and others or name:find("read", 1, true) and last or matrices
    table.insert(list, parameter)
  end
  local warmup = steps == "run" and p.warmup or math.min(p.warmup, steps / 4)
  local function rate(lr)
    return optim.schedule.warmup_stable_decay {lr = times * lr, warmup = warmup, total = steps}
  end
  return optim.join {
    optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = p.weight_decay}),
    optim.AdamW({
      {params = last, weight_decay = 0.02},
      {params = others, weight_decay = 0},
    }, {lr = rate(p.adam_lr), betas = {0.9, 0.99}}),
  }
end

local function loss_of(output, batch)
  local log_probs = output:transpose(1, 2):log_softmax(-1) -- (T,N,K)
  return (nn.ctc_loss(log_probs, batch.target, output:size(2), batch.target_length, {blank = K - 1}))
end

-- Pretraining on generated captchas: a custom loop, because nothing is selected on them.
local function pretrain()
  if p.pretrain == 0 then return end
  local opt, step, started = optimizer(1, p.pretrain), 0, capl.clock()
  for batch in drawn:epoch(1) do
    local loss = capl.autocast(p.precision, function() return loss_of(model(batch.image), batch) end)
    opt:backward_step(loss)
    step = step + 1
    if step % 100 == 0 then
      world:print(("drawn captchas: step %d of %d, loss %.4f, %.0f s"):format(step, p.pretrain, loss:item(),
        capl.clock() - started))
    end
    if step == p.pretrain then break end
  end
  world:print("your val images, before any of yours was learned from: "
    .. train.evaluate(model, val, {precision = p.precision}):line())
end

if not p.resume then pretrain() end

train.fit {
  model = model, train = images, val = val, test = test, loss = loss_of, optimizer = optimizer(p.finetune, "run"),
  precision = p.precision, max_time = p.max_time, steps = p.steps ~= "none" and (tonumber(p.steps) or p.steps) or nil,
  ema = 0.99, cooldown = {patience = p.patience}, eval_every = 25,
}
