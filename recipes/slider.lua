--- capl: 1
--- needs: minutes=60
-- Finds the gap and the piece of slider captchas: Lite-HRNet-18, LiteFPN and two heads.
--
-- data      drawn during training; backgrounds of validation and test are of other seeds. Or --data=FILE.jsonl, as
--           capl generate --preset=slider writes: points are gap, piece and, if any, decoys, in px of the picture
-- network   four resolutions side by side, merged to a quarter of the picture's size; for gap and piece a heat map and
--           the place in the cell, and the sine and cosine of the gap's rotation. A mask of what is not white padding
--           is the input's fourth channel. --preset=full: 512x256 px, 3,284,846 parameters, 5.4 G multiplications per
--           picture; --preset=small, the default, is for a processor: 256x128 px, 738,846 parameters, 0.25 G
-- loss      focal for the heat maps, the point's place in the cell (full: from its own cell, small: from all cells near
--           it), decoys, rotation, padding, rows of the heat maps
-- expected  small on 2,000 test pictures after its 30 minutes on two cores of a Zen 4, 3,791 steps: within 5 px of a
--           picture 512 px wide the gap 98.0 % [97.2, 98.5] and the piece 99.7 %, within 2 px 94.3 % and 96.7 %. Drawn
--           in the style outline, which training never saw: gap 36.8 % [32.7, 41.1], piece 41.8 %. A picture takes
--           8 ms of one core. full: its steps run, whole runs are not measured. More in recipes/README.md
-- metrics   hit_2 and hit_5 of full are within 2 and 5 px; of small, whose pixels are twice as large, they are called
--           hit_1 and hit_2.5. val is measured on the model as it is saved, which gives no rotation: its loss lacks
--           that term
-- run       capl recipes/slider.lua [--preset=full] [--data=FILE.jsonl]
--           capl predict runs/slider/best.capl PICTURE.png --overlay=DIR
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  data = "", -- JSON lines of pictures and points, or a folder with a labels.jsonl; empty: drawn sliders
  size = "256x128", -- of the network's input in px, multiples of 32; white around pictures of other proportions
  width = 16, -- channels of the first resolution; the others have 2, 4 and 8 times as many
  fpn = 48, -- channels of the merged features
  max_time = "30m", -- time limit, or none
  epochs = "none", -- limit in epochs, a number
  epoch = 4096, -- drawn pictures of an epoch
  batch = 16, -- pictures per step
  schedule = capl.choice {"cosine", "restarts"}, -- to 0 over the run; or restarts after 1, 3, 7, 15, 31 epochs
  optimizer = capl.choice {"muon", "adamw"}, -- of the matrices and convolutions; the others have AdamW
  lr = 0.01, -- highest learning rate of Muon
  adam_lr = 3e-3, -- highest learning rate of AdamW
  warmup = 100, -- warm-up steps of the schedule cosine
  weight_decay = 0.05,
  clip = 1, -- norm that gradients are clipped to
  ema = 0.99, -- decay of the averaged weights, which are evaluated and saved
  ema_compare = false, -- true: the weights without averaging are evaluated, too
  negatives = 0.5, -- weight of the decoys' loss
  margin = 0.2, -- by which the score of the gap must be above that of each decoy
  offset = capl.choice {"near", "centre"}, -- cells that learn where the point is: all near it, or its own alone
  offset_beta = 0.1, -- cells of error from which the loss of the place is linear
  angle = 0.5, -- weight of the rotation's loss; 0: the data has no angle
  padding = 0.3, -- weight of the padding's loss
  rows = 0.8, -- weight of the loss of the heat maps' rows
  val = 512, -- drawn pictures for validation, with backgrounds of another seed
  test = 2000, -- likewise for the test
  unseen = 500, -- drawn pictures in the style outline, which training never sees, as a test of their own; 0: none
  held_out = 0.1, -- fraction of the pictures of data for validation, and as many for the test
  precision = "auto", -- fp32, bf16, on a GPU also fp16 and tf32, or auto: the fastest
  workers = "auto", -- threads that draw or read pictures
  seed = 42,
  presets = {
    small = {size = "256x128", width = 16, fpn = 48},
    full = {
      size = "512x256", width = 32, fpn = 128, max_time = "none", epochs = "40", batch = 128, schedule = "restarts",
      optimizer = "adamw", adam_lr = 3e-4, ema = 0.999, offset = "centre", offset_beta = 1,
    },
  },
}
capl.manual_seed(p.seed)
capl.expect {
  at_least = {["hit_2.5"] = 0.95}, within = "35 min", on = "cpu", hardware = "two cores of a Zen 4",
  given = {size = "256x128", data = ""},
}
local width, height = p.size:match("^(%d+)x(%d+)$")
width, height = tonumber(width), tonumber(height)
if not width or width % 32 ~= 0 or height % 32 ~= 0 then
  error(("--size=%s: two multiples of 32 are wanted, such as 512x256"):format(p.size))
end
local W, H = width / 4, height / 4 -- cells of the heat maps

-- ---- data ----

local function drawn(role, seed, count, style)
  return data.slider {
    width = width, height = height, sizes = "mixed", seed = seed, count = count, fixed = role ~= "train", style = style,
  }
end

local function loader(source, role)
  return data.loader {source = source, role = role, batch = p.batch, workers = p.workers, normalize = "unit"}
end

-- Every picture of the user's has a gap and a piece to learn from.
local function check_points(source)
  for batch in loader(source, "val"):epoch(1) do
    if batch.points:size(2) < 2 then
      error(p.data .. ": a picture has 1 point; the first is to be the gap, the second the piece")
    end
    for i, points in ipairs(batch.points:tolist()) do
      for k, name in ipairs {"gap", "piece"} do
        if points[k][3] == 0 then
          error(("%s: %s has no %s (visible = 0); remove it from the list, as every picture must have both"):format(
            p.data, source:name(batch.ids[i]), name))
        end
      end
    end
  end
end

local parts = {}
if p.data == "" then
  parts.train = drawn("train", p.seed, p.epoch)
  parts.val, parts.test = drawn("val", p.seed + 1, p.val), drawn("test", p.seed + 2, p.test)
else
  local all = data.open(p.data, {
    points = "points", numbers = p.angle > 0 and {angle = "angle"} or nil, channels = 3, resize = "letterbox",
    width = width, height = height,
  })
  check_points(all)
  parts.train, parts.val, parts.test = data.split(all, {val = p.held_out, test = p.held_out})
end
local images, val, test = loader(parts.train, "train"), loader(parts.val, "val"), loader(parts.test, "test")
local unseen
if p.unseen > 0 and p.data == "" then unseen = loader(drawn("test", p.seed + 3, p.unseen, "outline"), "test") end

-- (N,1,height,width): 0 where a whole row or column is white, as the padding around a picture is; else 1
local function inside(image)
  local n = image:size(1)
  local rows = image:amin({2, 4}):lt(0.99):float():view(n, 1, height, 1)
  local columns = image:amin({3}):amin({2}):lt(0.99):float():view(n, 1, 1, width)
  return rows * columns
end

-- (N,H,W): the share of each cell that is in the picture
local function share_inside(image)
  return capl.op.avg_pool2d(inside(image), {kernel = 4, stride = 4}):view(image:size(1), H, W)
end

-- ---- network ----

local function conv(inputs, outputs, kernel, stride, groups)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, kernel, {
      stride = stride or 1, padding = (kernel - 1) / 2, bias = false, groups = groups or 1,
    }),
    nn.BatchNorm2d(outputs), nn.SiLU(),
  }
end

local function linear(inputs, outputs)
  return nn.Sequential {nn.Conv2d(inputs, outputs, 1, {bias = false}), nn.BatchNorm2d(outputs)}
end

-- depthwise with stride 2, then pointwise
local function down(inputs, outputs)
  return nn.Sequential {conv(inputs, inputs, 3, 2, inputs), conv(inputs, outputs, 1)}
end

local LiteBlock = nn.class("LiteBlock")

function LiteBlock:init(c)
  self.layers = nn.Sequential {conv(c, 2 * c, 1), conv(2 * c, 2 * c, 3, 1, 2 * c), linear(2 * c, c)}
end

function LiteBlock:forward(x) return x + self.layers(x) end

local function blocks(c, count)
  local list = {}
  for i = 1, count do list[i] = LiteBlock(c) end
  return nn.Sequential(list)
end

local channels = {p.width, 2 * p.width, 4 * p.width, 8 * p.width} -- at 1/4, 1/8, 1/16 and 1/32 of the size

local function resized(x, like)
  return nn.interpolate(x, {size = {like:size(3), like:size(4)}, mode = "bilinear"})
end

-- Every resolution gets the sum of all, brought to its size.
local Fusion = nn.class("Fusion")

local function path(from, to)
  if from == to then return nn.Identity() end
  if from > to then return linear(channels[from], channels[to]) end
  local steps = {}
  for step = from + 1, to do
    steps[#steps + 1] = down(channels[from], step == to and channels[to] or channels[from])
  end
  return nn.Sequential(steps)
end

function Fusion:init(count)
  local paths, merge = {}, {}
  for to = 1, count do
    local row = {}
    for from = 1, count do row[from] = path(from, to) end
    paths[to], merge[to] = nn.ModuleList(row), conv(channels[to], channels[to], 3)
  end
  self.count, self.paths, self.merge = count, nn.ModuleList(paths), nn.ModuleList(merge)
end

function Fusion:forward(xs)
  local out = {}
  for to = 1, self.count do
    local sum
    for from = 1, self.count do
      local y = self.paths[to][from](from > to and resized(xs[from], xs[to]) or xs[from])
      sum = sum and sum + y or y
    end
    out[to] = self.merge[to](sum)
  end
  return out
end

-- One resolution more, blocks on each, fusion.
local Stage = nn.class("Stage")

function Stage:init(count, depth)
  self.count = count
  self.first = count == 2 and conv(channels[1], channels[1], 1) or nil
  self.new = down(channels[count - 1], channels[count])
  local branches = {}
  for i = 1, count do branches[i] = blocks(channels[i], depth) end
  self.branches, self.fusion = nn.ModuleList(branches), Fusion(count)
end

function Stage:forward(xs)
  local ys = {}
  for i = 1, self.count do ys[i] = xs[i] or self.new(xs[i - 1]) end
  if self.first then ys[1] = self.first(ys[1]) end
  for i = 1, self.count do ys[i] = self.branches[i](ys[i]) end
  return self.fusion(ys)
end

-- From the coarsest to the finest, with learned weights of the two that are added.
local FPN = nn.class("LiteFPN")

function FPN:init()
  local lateral, smooth = {}, {}
  for i = 1, 4 do lateral[i], smooth[i] = linear(channels[i], p.fpn), conv(p.fpn, p.fpn, 3) end
  self.lateral, self.smooth = nn.ModuleList(lateral), nn.ModuleList(smooth)
  self.weight = nn.Parameter(capl.ones(3, 2))
end

function FPN:forward(xs)
  local top = self.smooth[4](self.lateral[4](xs[4]))
  local weight = self.weight:softplus()
  weight = weight / (weight:sum(2, true) + 1e-4)
  for i = 3, 1, -1 do
    local here, pair = self.lateral[i](xs[i]), weight:select(1, i)
    top = self.smooth[i](here * pair:select(1, 1) + resized(top, here) * pair:select(1, 2))
  end
  return top
end

local function head(outputs)
  local c = p.fpn / 2
  return nn.Sequential {nn.Conv2d(p.fpn, c, 3, {padding = 1}), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, outputs, 1)}
end

local reach = p.offset == "near" and 3 or 0.5 -- cells from a cell's middle to the farthest point that it can name

local SliderNet = nn.class("SliderNet")

function SliderNet:init()
  self.stem = nn.Sequential {conv(4, p.width, 3, 2), conv(p.width, p.width, 3, 2), blocks(p.width, 2)}
  self.stage2, self.stage3, self.stage4 = Stage(2, 2), Stage(3, 3), Stage(4, 2)
  self.fpn = FPN()
  self.gap, self.piece, self.offset, self.angle = head(1), head(1), head(4), head(2)
end

-- (N,6,H,W), the maps of output "points": gap and piece as logits, x and y in the cell of the gap and of the piece. In
-- training sine and cosine follow. Else no place in the padding is found.
function SliderNet:forward(image)
  local x = capl.cat({image, inside(image)}, 2)
  local features = self.fpn(self.stage4(self.stage3(self.stage2 {self.stem(x)})))
  local maps = capl.cat({self.gap(features), self.piece(features)}, 2)
  local place = self.offset(features):tanh() * reach + 0.5
  if not self.training then
    local outside = share_inside(image):le(0.5):float():view(image:size(1), 1, H, W)
    return capl.cat({maps - outside * 30, place}, 2) -- below all others
  end
  local angle = self.angle(features)
  return capl.cat({maps, place, angle / (angle:norm(2, 2, true) + 1e-6)}, 2)
end

local model = SliderNet()
for _, layer in model:named_modules() do
  if layer.__name == "Conv2d" then
    nn.init.kaiming_normal_(layer.weight, {mode = "fan_out"})
    if layer.bias then nn.init.zeros_(layer.bias) end
  end
end
-- At first each cell holds the gap with probability 0.1.
for _, name in ipairs {"gap", "piece", "offset", "angle"} do nn.init.normal_(model[name][4].weight, 0, 0.01) end
for _, name in ipairs {"gap", "piece"} do nn.init.constant_(model[name][4].bias, -2.19) end
capl.model(model, {output = "points", names = {"gap", "piece"}, decoding = "heatmap"})

-- ---- loss ----

local columns, rows = capl.arange(W):float():view(1, 1, W), capl.arange(H):float():view(1, H, 1)

-- Of points (N,2) in px: heat (N,H,W), a Gaussian of 1.5 cells; (N,H,W), 1 in the cells that learn the place, else 0;
-- the place as each cell sees it, in cells (N,2,H,W).
local function target(points)
  local n, at = points:size(1), points / 4
  local cell = at:int():float()
  local dx = columns - cell:select(2, 1):view(n, 1, 1)
  local dy = rows - cell:select(2, 2):view(n, 1, 1)
  local near = dx:abs():le(4):float() * dy:abs():le(4):float()
  local heat = ((dx * dx + dy * dy) * (-1 / (2 * 1.5 ^ 2))):exp() * near
  local learn = p.offset == "near" and heat:gt(0.35):float() or dx:eq(0):float() * dy:eq(0):float()
  local inside_cell = (at - cell):view(n, 2, 1, 1)
  local zeros = capl.zeros(n, 1, H, W)
  return heat, learn, inside_cell - capl.stack({dx + zeros:select(2, 1), dy + zeros:select(2, 1)}, 2)
end

local function mean_where(values, mask, per_cell)
  return (values * mask):sum() / (mask:sum() * (per_cell or 1)):clamp(1, nil)
end

-- Few cells are positive: easy cells count little, those near the centre less.
local function focal(logits, heat, weight)
  local score = logits:sigmoid()
  local positive = heat:ge(0.8):float()
  local l = positive * (1 - score) ^ 1.5 * (-logits):softplus()
    + (1 - positive) * (1 - heat) ^ 4 * score ^ 1.5 * logits:softplus()
  return (l * weight):sum() / (positive * weight):sum():clamp(1, nil)
end

-- Places (N,2,H,W), where learn (N,H,W) is 1
local function offset_loss(places, wanted, learn)
  local far = nn.smooth_l1(places, wanted, {reduction = "none", beta = p.offset_beta})
  return mean_where(far, learn:view(-1, 1, H, W), 2)
end

-- The gap's score at its place must be above that at each decoy.
local function decoy_loss(logits, points)
  local n, decoys = points:size(1), points:size(2) - 2
  local places = capl.cat({points:narrow(2, 1, 1), points:narrow(2, 3, decoys)}, 2) -- the gap, then its decoys
  local grid = capl.stack({places:select(3, 1) * (2 / width) - 1, places:select(3, 2) * (2 / height) - 1}, 3)
  local score = nn.grid_sample(logits:sigmoid():view(n, 1, H, W), grid:view(n, 1, decoys + 1, 2)):view(n, decoys + 1)
  local over = (score:narrow(2, 2, decoys) - score:narrow(2, 1, 1) + p.margin):relu()
  return mean_where(over, places:narrow(2, 2, decoys):select(3, 3))
end

local function angle_loss(sine, cosine, degrees, heat)
  local radians = degrees:view(-1, 1, 1) * (math.pi / 180)
  return mean_where(1 - sine * radians:sin() - cosine * radians:cos(), heat:gt(0.7):float())
end

-- Scores (N,H,W) to shares of the rows (N,H).
local function row_shares(scores)
  local sums = scores:mean(3) + 1e-8
  return sums / sums:sum(2, true)
end

-- Gap and piece are in some rows: cross entropy of the rows, and how far their cumulative shares are apart.
local function row_loss(logits, heat)
  local found, wanted = row_shares(logits:sigmoid()), row_shares(heat)
  local entropy = -(wanted * found:log()):sum(2):mean()
  return entropy + 0.3 * (found:cumsum(2) - wanted:cumsum(2)):abs():mean()
end

local function padding_loss(maps, weight)
  local outside = weight:lt(0.5):float():view(-1, 1, H, W)
  return mean_where(maps:softplus():clamp(nil, 10), outside, 2)
end

local function loss(output, batch)
  local weight = share_inside(batch.image)
  local total = padding_loss(output:narrow(2, 1, 2), weight) * p.padding
  for k = 1, 2 do
    local logits = output:select(2, k)
    local heat, learn, place = target(batch.points:select(2, k):narrow(2, 1, 2))
    total = total + focal(logits, heat, weight) + offset_loss(output:narrow(2, 2 * k + 1, 2), place, learn)
      + row_loss(logits, heat) * (p.rows / 2)
    if k == 1 and p.angle > 0 and output:size(2) == 8 then
      total = total + angle_loss(output:select(2, 7), output:select(2, 8), batch.angle, heat) * p.angle
    end
  end
  if batch.points:size(2) > 2 then
    total = total + decoy_loss(output:select(2, 1), batch.points) * p.negatives
  end
  return total
end

-- ---- evaluation ----

-- (N,2,2): x and y of gap and piece in px, as the model file is read
local function decode(output)
  local n, found = output:size(1), {}
  for k = 1, 2 do
    local best = output:select(2, k):reshape(n, H * W):argmax(2):long():view(n, 1)
    local row = ((best:float() + 0.5) / W):int():float()
    local x = output:select(2, 2 * k + 1):reshape(n, H * W):gather(2, best) + best:float() - row * W
    local y = output:select(2, 2 * k + 2):reshape(n, H * W):gather(2, best) + row
    found[k] = capl.cat({x * 4, y * 4}, 2)
  end
  return capl.stack(found, 2)
end

local scale = width / 512 -- hits are within 2 and 5 px of a picture 512 px wide

local function meter(of)
  return train.LocalizationMeter {
    points = {1, 2}, names = {"gap", "piece"}, hits = {2 * scale, 5 * scale}, main = ("hit_%g"):format(5 * scale),
    decode = decode, loader = of,
  }
end

-- ---- training ----

local function rate(lr)
  if p.schedule == "cosine" then return optim.schedule.warmup_cosine {lr = lr, warmup = p.warmup, total = "run"} end
  return optim.schedule.per_epoch(
    optim.schedule.cosine_restart {lr = lr, T_0 = 1, T_mult = 2, eta_min = lr / 100},
    {steps = math.ceil(parts.train:count() / p.batch)})
end

local function optimizer()
  if p.optimizer == "adamw" then
    return optim.AdamW(model:parameters(), {lr = rate(p.adam_lr), weight_decay = p.weight_decay})
  end
  local matrices, others = {}, {}
  for _, parameter in ipairs(model:parameters()) do
    table.insert(#parameter.shape == 4 and parameter.shape[2] > 1 and matrices or others, parameter)
  end
  return optim.join {
    optim.Muon(matrices, {lr = rate(p.lr), momentum = 0.9, weight_decay = p.weight_decay}),
    optim.AdamW(others, {lr = rate(p.adam_lr), weight_decay = 0}),
  }
end

train.fit {
  model = model, train = images, val = val, test = test, tests = {unseen_style = unseen}, loss = loss,
  meter = meter,
  optimizer = optimizer(),
  clip_norm = p.clip, ema = p.ema, ema_compare = p.ema_compare, precision = p.precision,
  epochs = tonumber(p.epochs), max_time = p.max_time,
}
