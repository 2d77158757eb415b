--- capl: 1
--- needs: minutes=30
-- A few steps of a small network on fixed data, every loss and the sum of all weights printed with all their bits: for
-- scripts/gpu-check, which runs it in several ways and compares what it prints.
-- SPDX-License-Identifier: Apache-2.0

local p = capl.params {
  steps = 12,
  batch = 64,
  channels = 32, -- of the first convolution; a multiple of 8 lets cuDNN's batch norm take part
  precision = "fp32", -- fp32, tf32, fp16 or bf16
  graph = false, -- one launch per step
  seed = 7,
}
capl.manual_seed(p.seed)

local C = p.channels
local model = nn.Sequential {
  nn.Conv2d(1, C, 3, {padding = 1}), nn.BatchNorm2d(C), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(C, 2 * C, 3, {padding = 1}), nn.BatchNorm2d(2 * C), nn.ReLU(), nn.MaxPool2d(2),
  nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * C * 15 * 40, 144),
}
local opt = optim.AdamW(model:parameters(),
  {lr = optim.schedule.warmup_cosine {lr = 1e-3, warmup = 3, total = p.steps}})

local function step(image, target)
  local loss = capl.autocast(p.precision, function() return nn.multilabel_soft_margin(model(image), target) end)
  opt:backward_step(loss)
  return loss
end
if p.graph then step = capl.capture(step) end

local losses, start = {}, nil
local PLAIN = 4 -- steps before the clock starts: two are watched, one is recorded, one is to spare
for k = 1, p.steps do
  if k == PLAIN + 1 then
    losses[PLAIN]:item() -- waits
    start = capl.clock()
  end
  local image = capl.rand(p.batch, 1, 60, 160, {seed = p.seed, stream = {k, 0, 1}})
  local target = capl.rand(p.batch, 144, {seed = p.seed, stream = {k, 0, 2}}):gt(0.9):to("f32")
  losses[k] = step(image, target)
end
if p.graph and step:state().replays == 0 then error("no step was captured: " .. tostring(step:state().eager)) end
losses[p.steps]:item()
if start then print(("ms %.4f"):format(1e3 * (capl.clock() - start) / (p.steps - PLAIN))) end
print(("captured %d"):format(p.graph and step:state().replays or 0))
for k, loss in ipairs(losses) do print(("loss %d %.9g"):format(k, loss:item())) end

local sum, squares = 0, 0
for _, w in ipairs(model:parameters()) do
  sum, squares = sum + w:sum():item(), squares + (w * w):sum():item()
end
print(("weights %.9g %.9g"):format(sum, squares))
