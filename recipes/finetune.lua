--- capl: 1
--- needs: minutes=1440
-- Learns to read your captchas from a few hundred labelled ones: drawn captchas come first, then yours.
--
-- data      --data=DIR: PNG or JPEG files whose names hold their text, a list of files or an LMDB database, as for crnn_ctc.lua;
--           and --style=NAME of the generator, the closer to yours the better (`capl generate` writes some to look at)
-- network   that of crnn_ctc.lua
-- stages    1. drawn captchas with your characters, lengths and sizes, a new one every time
--           2. your images at a lower rate, until those of the val part are read no better
-- expected  of 2,000 unseen captchas of gradient-curve, learnt from 100 files: 100.0 % exact after 3 minutes on two cores of a Xeon
-- run       capl recipes/finetune.lua --data=DIR
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- folder, list or database of your captchas; must be given
  label = "auto", -- Lua pattern whose capture in a file's name is its text; auto: found among the usual ones
  case = "keep", -- or upper, lower: texts are read that way, for captchas that take both
  charset = "auto", -- characters; auto: those that occur. More than occur in a few hundred images may be named, such as 0-9A-Z
  style = "mixed", -- of the generator, for the first stage
  channels = "auto", -- 1: gray, 3: colours are looked at; auto: 3 where gray would lose what the texts differ by
  pretrain = 1500, -- steps of the first stage, 0: none
  max_time = "5m", -- when the second stage ends, or before, when the val images are read no better for long
  steps = "none", -- a number: steps of the second stage at the latest
  batch = 32, -- images per step
  lr = 0.02, -- highest learning rate of the matrices and convolutions in the first stage, which Muon trains
  adam_lr = 4e-3, -- of everything else, which AdamW trains
  finetune = 0.3, -- the rates of the second stage are those times this
  warmup = 100, -- steps until they are reached; at most a quarter of a stage
  weight_decay = 0.1, -- of what Muon trains
  dropout = 0.2, -- before the classifier
  patience = 15, -- evaluations without a better one until the last quarter of the second stage begins
  val = 0.2, -- share of your images that says when to stop and which weights are best
  test = 0, -- share for the last figure
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest here
  on_error = "stop", -- or skip: files that cannot be read or have no text are left out; the run's bad_files.txt lists them
  workers = "auto", -- threads that read images
  seed = 42,
}
capl.manual_seed(p.seed)
local world = capl.distributed() -- one rank speaks for all
if p.data == "" then error("--data=DIR is missing: a folder of PNG or JPEG files named by their text, such as A1B2_17.png") end

-- ---- data ----

local found = data.explore(p.data, {label = p.label, case = p.case})
local height, widths = found.suggested.height, {}
local channels = tonumber(p.channels) or found.suggested.channels
for _, size in ipairs(found.sizes) do
  local text = found.source:text(size.id)
  if text then widths[#widths + 1] = size.width * height / size.height / #text end
end
table.sort(widths)
local narrowest = widths[math.ceil(#widths / 20)] -- a stray image decides nothing
local all = data.open(p.data, {
  label = found.label, case = p.case, charset = p.charset, length = "auto", channels = channels,
  height = height, widths = found.suggested.widths,
})
local parts = {}
parts.train, parts.val, parts.test = data.split(all, {val = p.val, test = p.test})

-- Captchas of the generator that look like yours in what is known of them.
local drawn = data.loader {
  source = data.captcha {
    preset = p.style, charset = all.charset, length = {all.length_min, all.length}, channels = channels, height = height,
    width = found.suggested.widths[#found.suggested.widths], seed = p.seed,
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
local K = #images.charset + 1 -- the blank is the last class
local px = narrowest < 10 and 2 or 4 -- of width a time step; a character takes two or more, and equal neighbours one between them
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

-- Pixels left of a side after so many halvings.
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

-- Muon for the matrices and convolutions; AdamW for biases, batch norm and the last layer. times: of all rates; steps: of them.
local function optimizer(times, steps)
  local matrices, last, others = {}, {}, {}
  for name, parameter in model:named_parameters() do
    local list = #parameter.shape == 1 and others or name:find("read", 1, true) and last or matrices
    table.insert(list, parameter)
  end
  local warmup = steps == "run" and p.warmup or math.min(p.warmup, steps / 4)
  local function rate(lr) return optim.schedule.warmup_stable_decay {lr = times * lr, warmup = warmup, total = steps} end
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

-- Drawn captchas first; a loop of its own, because nothing of it is chosen by.
local function pretrain()
  if p.pretrain == 0 then return end
  local opt, step, started = optimizer(1, p.pretrain), 0, capl.clock()
  for batch in drawn:epoch(1) do
    local loss = capl.autocast(p.precision, function() return loss_of(model(batch.image), batch) end)
    opt:backward_step(loss)
    step = step + 1
    if step % 100 == 0 then
      world:print(("drawn captchas: step %d of %d, loss %.4f, %.0f s"):format(step, p.pretrain, loss:item(), capl.clock() - started))
    end
    if step == p.pretrain then break end
  end
  world:print("your val images, before any of yours was learnt from: " .. train.evaluate(model, val, {precision = p.precision}):line())
end

if not p.resume then pretrain() end

train.fit {
  model = model, train = images, val = val, test = test, loss = loss_of, optimizer = optimizer(p.finetune, "run"),
  precision = p.precision, max_time = p.max_time, steps = p.steps ~= "none" and (tonumber(p.steps) or p.steps) or nil,
  ema = 0.99, settle = {patience = p.patience}, eval_every = 25,
}
