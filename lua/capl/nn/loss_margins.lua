-- loss_margins.lua: losses that ask for a distance: cosine similarity, hinges, rankings, triplets.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local parts = require "nn.loss_parts"

local op = core.op
local loss = {}

local cosine_spec = {{"dim", "whole", default = 2}, {"eps", "number", default = 1e-8}}

--- Cosine of the angle between vectors along a dim; 0, and without gradient, for vectors of length 0.
-- in   a, b (…) that broadcast
-- opts dim = 2, eps = 1e-8 (lengths are at least this)
-- eg   nn.cosine_similarity(capl.tensor({{3, 4}}), capl.tensor({{4, 3}})):item()  --> 0.96
function loss.cosine_similarity(a, b, opts)
  parts.tensors("cosine_similarity", a, b)
  local o = check.options("cosine_similarity", cosine_spec, opts)
  a, b = parts.broadcast("cosine_similarity", parts.wide(a), "a", parts.wide(b), "b")
  local dim = check.dim(3, "cosine_similarity", o.dim, math.max(a.ndim, 1))
  local function length(x) return x:norm(2, dim):clamp(o.eps) end
  return (a * b):sum(dim) / (length(a) * length(b))
end

local function hinge(x) return x:clamp(0) end

-- 1 and -1 as masks of x's dtype.
local function sides(target, x) return target:eq(1):to(x.dtype), target:eq(-1):to(x.dtype) end

local margin_spec = {{"margin", "number", default = 0}, parts.reduction}

--- 1 - cosine where target is 1; how far the cosine is above margin where it is -1.
-- in   a, b (N, D) or (D); target (N) or none: 1 | -1
-- opts margin = 0, reduction = "mean"|"sum"|"none"
-- eg   nn.cosine_embedding(capl.ones(1, 3), capl.ones(1, 3), capl.ones(1)):item() < 1e-6  --> true
function loss.cosine_embedding_loss(a, b, target, opts)
  parts.tensors("cosine_embedding_loss", a, b, target)
  local o = check.options("cosine_embedding_loss", margin_spec, opts)
  parts.alike("cosine_embedding_loss", a, "a", b, "b")
  local cosine = loss.cosine_similarity(a, b, {dim = -1})
  parts.alike("cosine_embedding_loss", cosine, "the cosine of a and b", target, "target")
  local same, other = sides(target, cosine)
  return parts.reduce("cosine_embedding_loss", same * (1 - cosine) + other * hinge(cosine - o.margin), o.reduction)
end

local hinge_spec = {{"margin", "number", default = 1}, parts.reduction}

--- x, a distance, where target is 1; how far it is below margin where it is -1.
-- in   x, target (…) alike; target 1 | -1
-- opts margin = 1, reduction = "mean"|"sum"|"none"
-- eg   nn.hinge_embedding(capl.tensor{0.25}, capl.tensor{-1}):item()  --> 0.75
function loss.hinge_embedding_loss(x, target, opts)
  parts.tensors("hinge_embedding_loss", x, target)
  local o = check.options("hinge_embedding_loss", hinge_spec, opts)
  parts.alike("hinge_embedding_loss", x, "x", target, "target")
  local wide = parts.wide(x)
  local same, other = sides(target, wide)
  return parts.reduce("hinge_embedding_loss", same * wide + other * hinge(o.margin - wide), o.reduction)
end

--- log(1 + exp(-target * x))
-- in   x, target (…) alike; target 1 | -1
-- opts reduction = "mean"|"sum"|"none"
-- eg   nn.soft_margin(capl.zeros(2), capl.ones(2)):item()  --> 0.69314718
function loss.soft_margin_loss(x, target, opts)
  parts.tensors("soft_margin_loss", x, target)
  local o = check.options("soft_margin_loss", {parts.reduction}, opts)
  parts.alike("soft_margin_loss", x, "x", target, "target")
  return parts.reduce("soft_margin_loss", (-(parts.wide(x) * target)):softplus(), o.reduction)
end

local multi_spec = {{"p", "whole", default = 1}, {"margin", "number", default = 1}, {"weight", "tensor"},
  parts.reduction}

--- How far each other class's score is above the label's less margin, mean over the classes.
-- in   x (N, K); labels (N) i32|i64
-- opts p = 1|2 (power), margin = 1, weight (K), reduction = "mean"|"sum"|"none"
-- eg   nn.multi_margin(capl.tensor{{2, 0}}, capl.tensor({0}, {dtype = "i32"})):item()  --> 0
function loss.multi_margin_loss(x, labels, opts)
  parts.tensors("multi_margin_loss", x, labels)
  local o = check.options("multi_margin_loss", multi_spec, opts)
  if o.p ~= 1 and o.p ~= 2 then check.fail("multi_margin_loss", ("p is 1 or 2, got %d"):format(o.p)) end
  if x.ndim ~= 2 or labels.ndim ~= 1 then
    check.fail("multi_margin_loss",
      ("x (N,K) and labels (N) expected, they have %d and %d dims"):format(x.ndim, labels.ndim))
  end
  local wide = parts.wide(x)
  local own = op.gather(wide, labels:unsqueeze(2), {dim = 2})
  local over = hinge(wide - own + o.margin)
  if o.p == 2 then over = over * over end
  -- the label's own term is margin^p, whatever x is
  local each = (over:sum(2) - o.margin ^ o.p * (o.margin > 0 and 1 or 0)) / x:size(2)
  if o.weight then each = each * op.index_select(o.weight, labels, {dim = 1}) end
  return parts.reduce("multi_margin_loss", each, o.reduction)
end

--- How far a is below b plus margin where target is 1, and the other way round where it is -1.
-- in   a, b, target (…) alike; target 1 | -1
-- opts margin = 0, reduction = "mean"|"sum"|"none"
-- eg   nn.margin_ranking(capl.tensor{1}, capl.tensor{3}, capl.tensor{1}):item()  --> 2
function loss.margin_ranking_loss(a, b, target, opts)
  parts.tensors("margin_ranking_loss", a, b, target)
  local o = check.options("margin_ranking_loss", margin_spec, opts)
  parts.alike("margin_ranking_loss", a, "a", b, "b")
  parts.alike("margin_ranking_loss", a, "a", target, "target")
  return parts.reduce("margin_ranking_loss", hinge((parts.wide(b) - a) * target + o.margin), o.reduction)
end

local triplet_spec = {{"margin", "number", default = 1, above = 0}, {"p", "number", default = 2, above = 0},
  {"eps", "number", default = 1e-6},
  {"swap", "boolean", default = false}, parts.reduction}

-- The p-norm of a - b along the last dim; eps is added to the difference, so that vectors that are alike learn, too.
local function distance(a, b, p, eps) return (a - b + eps):norm(p, -1) end

--- How far the distance to the positive is above that to the negative less margin.
-- in   anchor, positive, negative (N, D) alike
-- opts margin = 1, p = 2 (of the norm), eps = 1e-6, swap = false (true: the negative's distance to the positive if
--      smaller), reduction = "mean"|"sum"|"none"
-- paper F. Schroff, D. Kalenichenko, J. Philbin: FaceNet, 2015
-- eg   nn.triplet_margin(capl.zeros(1, 2), capl.zeros(1, 2), capl.tensor{{3, 4}}):item() < 1e-5  --> true
function loss.triplet_margin_loss(anchor, positive, negative, opts)
  parts.tensors("triplet_margin_loss", anchor, positive, negative)
  local o = check.options("triplet_margin_loss", triplet_spec, opts)
  parts.alike("triplet_margin_loss", anchor, "anchor", positive, "positive")
  parts.alike("triplet_margin_loss", anchor, "anchor", negative, "negative")
  local a, p, n = parts.wide(anchor), parts.wide(positive), parts.wide(negative)
  local far = distance(a, n, o.p, o.eps)
  if o.swap then far = far:minimum(distance(p, n, o.p, o.eps)) end
  return parts.reduce("triplet_margin_loss", hinge(distance(a, p, o.p, o.eps) - far + o.margin), o.reduction)
end

--- The same as modules: CosineSimilarity, CosineEmbeddingLoss, HingeEmbeddingLoss, SoftMarginLoss, MultiMarginLoss,
-- MarginRankingLoss, TripletMarginLoss.
loss.CosineSimilarity = parts.module("CosineSimilarity", loss.cosine_similarity, cosine_spec)
loss.CosineEmbeddingLoss = parts.module("CosineEmbeddingLoss", loss.cosine_embedding_loss, margin_spec, 3)
loss.HingeEmbeddingLoss = parts.module("HingeEmbeddingLoss", loss.hinge_embedding_loss, hinge_spec)
loss.SoftMarginLoss = parts.module("SoftMarginLoss", loss.soft_margin_loss, {parts.reduction})
loss.MultiMarginLoss = parts.module("MultiMarginLoss", loss.multi_margin_loss, multi_spec)
loss.MarginRankingLoss = parts.module("MarginRankingLoss", loss.margin_ranking_loss, margin_spec, 3)
loss.TripletMarginLoss = parts.module("TripletMarginLoss", loss.triplet_margin_loss, triplet_spec, 3)

return loss
