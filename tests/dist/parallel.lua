--- capl: 1
-- parallel.lua: what several ranks learn together is what one process would learn from all their images. The other
-- model of each case sees all images on every rank.
-- SPDX-License-Identifier: Apache-2.0
local world = capl.distributed()
local rank, size = world.rank, world.size
local checks = 0

local function same(what, a, b, tolerance)
  local off, scale = (a - b):abs():max():item(), math.max(b:abs():max():item(), 1e-2)
  if not (off <= (tolerance or 1e-6) * scale) then
    error(("%s: rank %d is off by %g of %g"):format(what, rank, off, scale), 2)
  end
  checks = checks + 1
end

local function expect(what, fine)
  if not fine then error(("%s, on rank %d"):format(what, rank), 2) end
  checks = checks + 1
end

-- The same bits on all ranks.
local function alike(what, model)
  for name, p in model:named_parameters() do
    local all = world:all_gather(p:detach():reshape(-1))
    for r = 1, size do expect(what .. ": " .. name, (all[r] - all[1]):abs():max():item() == 0) end
  end
end

local function linear_net()
  return nn.Sequential{nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)}
end

-- Two models with equal weights; those of the first differ from rank to rank until an optimizer is made.
local function twins(build, other)
  capl.manual_seed(11 + rank)
  local a = build()
  capl.manual_seed(11)
  local b = (other or build)()
  return a, b
end

-- n[r] images of each rank, and all of them; the same for the same step.
local function images(n, step, shape)
  local all = 0
  for r = 1, size do all = all + n[r] end
  local x = capl.randn({all, unpack(shape)}, {seed = 5, stream = {step, 0, 0}})
  local at = 1
  for r = 1, rank do at = at + n[r] end
  return x:narrow(1, at, n[rank + 1]), x, all
end

local function equal_parts(n)
  local out = {}
  for r = 1, size do out[r] = n end
  return out
end

-- Trains both for some steps and compares weights. loss(model, x) -> mean over x
local function compare(what, case)
  local a, b = twins(case.build or linear_net, case.other)
  local make = case.optimizer or function(model) return optim.SGD(model:parameters(), {lr = 0.1, momentum = 0.9}) end
  local one, other = make(a), make(b)
  local loss = case.loss or function(model, x) return (model(x) ^ 2):mean() end
  local step = case.step or function(opt, model, x, weight) opt:backward_step(loss(model, x) * weight) end
  local n = case.n or equal_parts(4)
  for k = 1, case.steps or 4 do
    local x, all, total = images(n, k, case.shape or {6})
    step(one, a, x, n[rank + 1] * size / total)
    step(other, b, all, 1)
    if case.between then case.between(k, a, b, one, other) end
  end
  local theirs = b:state_dict()
  for name, p in pairs(a:state_dict()) do
    if p.dtype == "f32" then same(what .. ": " .. name, p, theirs[name], case.tolerance) end
  end
  alike(what, a)
  return a, one
end

-- ---- gradients ----

compare("equal batches", {})
local unequal = {}
for r = 1, size do unequal[r] = r + 1 end
compare("unequal batches", {n = unequal})
compare("AdamW and a norm that is clipped", {tolerance = 1e-5, optimizer = function(model)
  return optim.AdamW(model:parameters(), {lr = 0.01, clip_norm = 0.05}) end})
compare("values that are clipped",
  {optimizer = function(model) return optim.SGD(model:parameters(), {lr = 0.1, clip_value = 0.01}) end})
compare("a loss that is scaled", {optimizer = function(model)
  return optim.SGD(model:parameters(), {lr = 0.1, loss_scale = {init_scale = 1024}}) end})
compare("a step without backward_step", {step = function(opt, model, x, weight)
  opt:zero_grad();
  ((model(x) ^ 2):mean() * weight):backward()
  opt:step()
end})
compare("clip_grad_norm_ before a step", {step = function(opt, model, x)
  opt:zero_grad();
  (model(x) ^ 2):mean():backward()
  train.clip_grad_norm_(model:parameters(), 0.05)
  opt:step()
end})
compare("a part of the forward pass that is run again", {step = function(opt, model, x)
  opt:backward_step((capl.checkpoint(function(v) return model(v) end, x) ^ 2):mean())
end})
compare("optimizers that step together", {tolerance = 1e-4, optimizer = function(model)
  local matrices, others = {}, {}
  for _, p in ipairs(model:parameters()) do table.insert(p.ndim == 2 and matrices or others, p) end
  return optim.join({optim.Muon(matrices, {lr = 0.01}), optim.AdamW(others, {lr = 0.01})}, {clip_norm = 1})
end})
compare("a layer that is frozen, and trained again", {steps = 6, between = function(k, a, b)
  for _, model in ipairs{a, b} do model[3]:requires_grad_(k ~= 2 and k ~= 3) end
end})

-- ---- one set of messages for a step of several parts ----

do
  local calls, before
  local function accumulate(opt, model, x, weight)
    before = world:traffic().calls
    local n = x:size(1) / 3
    for part = 1, 3 do
      local loss = (model(x:narrow(1, (part - 1) * n + 1, n)) ^ 2):mean() * (weight / 3)
      if part < 3 then opt:backward(loss) else opt:backward_step(loss) end
    end
    calls = world:traffic().calls - before
  end
  compare("three parts of a batch", {n = equal_parts(6), step = accumulate})
  expect("gradients of three parts travel once", calls == (size > 1 and 1 or 0))
end

-- ---- parameters without a gradient ----

do
  local function build()
    return nn.Sequential{nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)}
  end
  local a, b = twins(build)
  local opt = optim.SGD(a:parameters(), {lr = 0.5, weight_decay = 0.1})
  local third = a[3].weight:clone()
  for step = 1, 3 do
    local x = images(equal_parts(3), step, {4})
    local y = a[1](x)
    if rank == size - 1 then y = a[2](y) end -- the second layer is used by the last rank alone, the third by none
    opt:zero_grad();
    (y ^ 2):mean():backward()
    opt:step()
    expect("a layer that another rank has used has a gradient", a[2].weight.grad ~= nil)
    expect("a layer that no rank has used has none", a[3].weight.grad == nil)
  end
  same("a layer that no rank has used is left alone", a[3].weight:detach(), third, 0)
  alike("layers that not all ranks use", a)
  expect("twins", b ~= a)
end

-- ---- a gradient that is not finite on one rank ----

do
  local model = twins(linear_net)
  local opt = optim.SGD(model:parameters(), {lr = 0.1, loss_scale = {init_scale = 8}})
  for step = 1, 3 do
    local x = images(equal_parts(2), step, {6})
    opt:backward_step((model(x) ^ 2):mean() * (step == 2 and rank == size - 1 and math.huge or 1))
  end
  expect("all ranks leave out a step that is not finite on one", opt.skipped == 1 and opt.loss_scale == 4)
  alike("a step that was left out", model)
end

-- ---- two optimizers in turn, as adversaries have them ----

do
  local function build() return nn.Sequential{nn.Linear(4, 8), nn.Linear(8, 1)} end
  local a, b = twins(build)
  local pairs_of = {}
  for i, model in ipairs{a, b} do
    pairs_of[i] = {optim.SGD(model[1]:parameters(), {lr = 0.1}), optim.SGD(model[2]:parameters(), {lr = 0.1})}
  end
  for step = 1, 3 do
    local x, all = images(equal_parts(4), step, {4})
    for i, model in ipairs{a, b} do
      local input = i == 1 and x or all
      pairs_of[i][1]:backward_step((model(input) ^ 2):mean())
      pairs_of[i][2]:zero_grad()
      pairs_of[i][2]:backward_step(model(input):mean())
      pairs_of[i][1]:zero_grad()
    end
  end
  for i = 1, 4 do same("two optimizers in turn", a:parameters()[i]:detach(), b:parameters()[i]:detach()) end
end

-- ---- batch norm over all ranks ----

local function conv_net(norm)
  return function()
    return nn.Sequential{nn.Conv2d(2, 5, 3), norm(5), nn.ReLU(), nn.Conv2d(5, 4, 3), norm(4), nn.Flatten(),
      nn.Linear(16, 3)}
  end
end
compare("SyncBatchNorm", {shape = {2, 6, 6}, n = equal_parts(3), tolerance = 2e-5,
  build = conv_net(nn.SyncBatchNorm), other = conv_net(nn.BatchNorm2d),
  step = function(opt, model, x, weight) opt:backward_step((model(x) ^ 2):mean() * weight) end})
do
  local build = conv_net(function(n) return nn.BatchNorm2d(n, {momentum = false}) end)
  capl.manual_seed(3)
  local whole = build()
  capl.manual_seed(3)
  local synced = nn.convert_sync_batchnorm(build())
  expect("layers are converted", synced[2].__name == (size > 1 and "SyncBatchNorm" or "BatchNorm2d"))
  local one = optim.SGD(synced:parameters(), {lr = 0.05})
  local x, all, total = images(unequal, 9, {2, 6, 6})
  x = x:detach():requires_grad_()
  local y = synced(x);
  ((y ^ 2):mean() * (unequal[rank + 1] * size / total)):backward()
  one:step()
  local input = all:detach():requires_grad_();
  (whole(input) ^ 2):mean():backward()
  for i, p in ipairs(whole:parameters()) do
    same("SyncBatchNorm, unequal batches: gradient " .. i, synced:parameters()[i].grad, p.grad, 2e-5)
  end
  local at = 1
  for r = 1, rank do at = at + unequal[r] end
  same("SyncBatchNorm: gradient of the images", x.grad / size, input.grad:narrow(1, at, unequal[rank + 1]), 2e-5)
  same("SyncBatchNorm: running mean", synced[5].running_mean, whole[5].running_mean, 1e-5)
  same("SyncBatchNorm: running variance", synced[5].running_var, whole[5].running_var, 1e-5)
end

-- ---- watched steps, 16 bits, larger models of many pieces ----

do
  local model = capl.replicate(twins(linear_net), {bucket_mb = 0.001, first_bucket_mb = 0.0001})
  local opt = optim.AdamW(model:parameters(), {lr = 0.01})
  local step = capl.capture(function(x)
    local loss = capl.autocast("auto", function() return (model(x) ^ 2):mean() end)
    opt:backward_step(loss)
    return loss
  end)
  local before = world:traffic().calls
  for k = 1, 20 do step((images(equal_parts(4), k, {6}))) end
  alike("20 captured steps in small pieces", model)
  if size > 1 then expect("pieces", (world:traffic().calls - before) / 20 >= 3) end
  capl.replicate(model, {bucket_mb = 25, first_bucket_mb = 1})
end

-- ---- errors ----

do
  local function fails(pattern, fn)
    local fine, err = pcall(fn)
    expect(("%s: %s"):format(pattern, fine and "no error" or tostring(err)), not fine
      and tostring(err):find(pattern) ~= nil)
  end
  fails("unknown option 'bucket'", function() capl.replicate(linear_net(), {bucket = 1}) end)
  fails("bucket_mb is above 0", function() capl.replicate(linear_net(), {bucket_mb = 0}) end)
  if size > 1 then
    local model = linear_net()
    local opt = optim.SGD(model:parameters(), {lr = 0.1})
    local x = capl.ones(2, 6);
    (model(x) ^ 2):mean():backward()
    train.clip_grad_norm_(model:parameters(), 1);
    (model(x) ^ 2):mean():backward()
    fails("gradients were added after they had been averaged", function() opt:step() end)
    local other = linear_net()
    local second = optim.SGD(other:parameters(), {lr = 0.1})
    other[1]:requires_grad_(rank ~= size - 1)
    local message = rank == size - 1 and "rank 1 trains other" or "trains other parameters than rank 0"
    fails(size == 2 and "rank 1 trains other parameters than rank 0: 4 of them, rank 0 6"
      or message:gsub("rank 1", "rank " .. size - 1), function() second:backward_step((other(x) ^ 2):mean()) end)
  end
end

world:print(("%d checks on %d ranks"):format(checks, size))
