-- sync_batchnorm.lua: batch normalization whose batch is that of all ranks.
--
-- Forward, ranks exchange mean, variance and number of their values in one small message; backward, the two sums
-- that the gradient needs. Ranks may hold different numbers of images. In a world of one it is plain batch
-- normalization.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...

local BatchNorm2d = require("nn.batchnorm").BatchNorm2d
local classes = require "module_class"
local dist = require "dist"

local op = core.op
local sync = {}

-- The world where ranks have something to exchange, else nil.
local function world_now()
  if not dist.parallel then return nil end
  return require("dist").world()
end

-- Values per channel that this rank has.
local function count_of(x) return x:numel() / x:size(2) end

-- Mean, variance and count of x as one vector (2 C + 1).
local function moments(self, x)
  local n, C = count_of(x), x:size(2)
  local out = core.empty({2 * C + 1}, {dtype = self.running_mean.dtype, device = x.device})
  local mean, var = out:narrow(1, 1, C), out:narrow(1, C + 1, C)
  if n > 1 then
    local y, m, invstd = op.batch_norm(x, self.weight, self.bias, nil, nil, {eps = self.eps, training = true})
    mean:copy_(m)
    var:copy_(1 / (invstd * invstd) - self.eps)
    y:free()
  elseif n == 1 then
    mean:copy_(x:reshape(C))
    var:zero_()
  else
    out:zero_()
  end
  out:narrow(1, 2 * C + 1, 1):fill_(n)
  return out
end

-- Mean and biased variance of the values of all ranks, and their number as a tensor of one.
local function of_all(all, C)
  local mean, var, n = all:narrow(2, 1, C), all:narrow(2, C + 1, C), all:narrow(2, 2 * C + 1, 1)
  local total = n:sum():reshape(1)
  local share = n / total
  local whole = (mean * share):sum(1)
  local off = mean - whole:unsqueeze(1)
  return whole, ((var + off * off) * share):sum(1), total
end

-- Running statistics take their share of the batch's; the variance is the unbiased one.
local function follow(self, mean, var, total)
  local m = self:batch_share()
  self.running_mean:copy_(self.running_mean * (1 - m) + mean * m)
  self.running_var:copy_(self.running_var * (1 - m) + var * (total / (total - 1)) * m)
end

local function normalized(x, weight, bias, mean, var, eps)
  return op.batch_norm(x, weight, bias, mean, var, {eps = eps, training = false})
end

local function check_count(world, n)
  if world:sum{n = n}.n > 1 then return end
  core.error{code = "value", op = "nn.SyncBatchNorm",
    message = "training needs more than 1 value per channel over all ranks",
    hint = "use larger batches, or model:eval()"}
end

-- dx = what it is for fixed statistics, less what passes through them: of all ranks, whose sums of dy and of dy * x^
-- are added.
local function backward(world, held, dy)
  local C = held.x:size(2)
  local dx, dw, db = op.batch_norm_grad(held.x, dy, held.weight, held.mean, held.invstd, {training = false})
  local sums = op.concat({dw, db}, {dim = 1})
  world:all_reduce(sums)
  local slope = held.weight * held.invstd / held.total
  local through = normalized(held.x, slope * sums:narrow(1, 1, C), slope * sums:narrow(1, C + 1, C), held.mean,
    held.var, held.eps)
  return dx - through, dw, db
end

local function forward(self, world, x)
  local weight, bias, again = self.weight, self.bias, observer.recomputing
  local held = {eps = self.eps}
  local y = core.no_grad(function()
    if not self.counted and not observer.captured_work then check_count(world, count_of(x)) end
    self.counted = true
    held.x, held.weight = x:detach():keep(), weight:detach():keep()
    held.mean, held.var, held.total = of_all(world:all_gather(moments(self, x)), x:size(2))
    if not again then follow(self, held.mean, held.var, held.total) end
    local out, _, invstd = normalized(x, weight, bias, held.mean, held.var, self.eps)
    held.invstd = invstd
    for _, name in ipairs{"mean", "var", "total", "invstd"} do held[name]:keep() end
    return out
  end)
  core.with_gradient({x, weight, bias}, {y}, function(dy)
    local dx, dw, db = backward(world, held, dy)
    for _, t in pairs(held) do
      if core.is_tensor(t) then t:free() end
    end
    return dx, dw, db
  end)
  return y
end

local function count_batch(self) self.batches = self.batches + 1 end

--- Batch normalization of images (N, C, H, W) over the batches of all ranks together. Names and state are those of
-- nn.BatchNorm2d; in evaluation it computes that, and in a world of one it is that.
-- opts nn.SyncBatchNorm(num_features, {eps = 1e-5, momentum = 0.1})
-- errs value: fewer than 2 values per channel over all ranks
-- eg   nn.SyncBatchNorm(3).__name  --> BatchNorm2d
sync.SyncBatchNorm = classes.class("SyncBatchNorm", BatchNorm2d)
local SyncBatchNorm = sync.SyncBatchNorm
SyncBatchNorm.pure = false
SyncBatchNorm.statistics = {} -- the same on every rank already
SyncBatchNorm.counters = {batches = true, counted = true}

-- Ranks exchange statistics of layers that have all there is.
local function need_all(self)
  if not self.alone then return end
  require("check").fail("nn.SyncBatchNorm", self.alone .. " is not supported",
    "use nn.BatchNorm2d, whose statistics are those of its rank")
end

function SyncBatchNorm:init(...)
  BatchNorm2d.init(self, ...)
  need_all(self)
  if not dist.parallel then setmetatable(self, BatchNorm2d) end -- Sequential fuses that one
end

function SyncBatchNorm:forward(x)
  local world = self.training and not self.frozen and world_now()
  if not world or not core.is_tensor(x) or x.ndim ~= 4 or x.device == "meta" then
    local y = BatchNorm2d.forward(self, x)
    return y
  end
  if not observer.recomputing then observer:each_time(count_batch, self) end
  local y = forward(self, world, x)
  return y
end

--- Makes every nn.BatchNorm2d of a model an nn.SyncBatchNorm, in place; weights and statistics stay. In a world of one
-- nothing changes.
-- in   model, or such a layer itself
-- out  the same
-- eg   nn.convert_sync_batchnorm(nn.BatchNorm2d(3)).__name  --> BatchNorm2d
function sync.convert_sync_batchnorm(model)
  if not classes.is_module(model) then require("check").arg(1, "convert_sync_batchnorm", "module", model) end
  for _, module in model:named_modules() do
    if getmetatable(module) == BatchNorm2d then
      need_all(module)
      if dist.parallel then setmetatable(module, SyncBatchNorm) end
    end
  end
  return model
end

return sync
