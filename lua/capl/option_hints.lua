-- option_hints.lua: the right place of options that are often written one level too high or too low: "patience" belongs
-- to early_stop.
-- SPDX-License-Identifier: Apache-2.0
local option_hints = {}

-- Names of options, how they are written where they belong, and who needs no such advice: other optimizers have them.
local places = {
  {names = {"patience", "min_delta", "min_epochs", "unit", "target"}, text = "early_stop = {%s = …} of train.fit"},
  {names = {"decay"}, text = "ema = {%s = …} of train.fit"},
  {names = {"every", "every_n"}, text = "checkpoint = {%s = …} of train.fit"},
  {names = {"names", "batch_norm"}, text = "freeze = {%s = …} of train.fit"},
  {names = {"strict", "map"}, text = "init_from = {path = …, %s = …} of train.fit"},
  {names = {"betas", "eps", "lr", "momentum", "nesterov", "weight_decay", "loss_scale", "ns_steps"},
  not_of = "^optim%.",
    text = "the optimizer: optim.AdamW(model:parameters(), {%s = …}) and the like"},
  {names = {"warmup", "schedule", "scheduler"},
    text = "the learning rate of the optimizer: lr = optim.schedule.warmup_cosine{…} and the like"},
  {names = {"layer_decay", "no_decay", "rules"}, text = "optim.groups(model, {%s = …})"},
  {names = {"batch", "workers", "shuffle", "augment", "drop_last", "cache", "normalize", "source", "role"},
  text = "data.loader{%s = …}"},
  {names = {"accumulate", "ema", "early_stop", "eval_every", "log_every", "keep", "top_k", "freeze", "steps", "epochs",
  "samples",
    "max_time", "limit_batches", "overfit", "metric", "lr_rule", "base_batch", "checkpoint", "init_from"},
    text = "train.fit{%s = …}"},
  {names = {"device", "deterministic", "autotune", "resume", "inexact"}, text = "the command line: capl RECIPE --%s"},
  {names = {"seed"}, text = "capl.manual_seed(p.%s)"},
}

-- Names in other trainers.
local theirs = {
  max_epochs = "epochs", num_epochs = "epochs", max_steps = "steps", monitor = "metric",
  accumulate_grad_batches = "accumulate", gradient_accumulation_steps = "accumulate", gradient_clip_val = "clip_norm",
  max_grad_norm = "clip_norm", amp = "precision", val_check_interval = "eval_every", log_every_n_steps = "log_every",
  fast_dev_run = "dry_run", num_sanity_val_steps = "sanity", overfit_batches = "overfit",
  limit_train_batches = "limit_batches", save_top_k = "top_k", gradient_checkpointing = "checkpoint_layers",
  batch_size = "batch of data.loader", num_workers = "workers of data.loader", early_stopping = "early_stop",
  settle = "cooldown", -- capl's own name for it before
}

-- Names in other loaders.
local of_loaders = {
  batch_size = "batch", num_workers = "workers", prefetch_factor = "prefetch", dataset = "source",
  transform = "augment", transforms = "augment",
}

-- Options of PyTorch that are not here: by function, or by the beginning of its name, what to write instead.
local instead = {
  ["optim.Adam"] = {maximize = "give minus the loss", foreach = "leave it out: all parameters step in one call",
    fused = "leave it out: all parameters step in one call", capturable = "leave it out: every step can be captured"},
  ["optim.SGD"] = {maximize = "give minus the loss", foreach = "leave it out: all parameters step in one call",
    fused = "leave it out: all parameters step in one call"},
  ["sum"] = {dtype = "x:to(dtype) before it"}, ["mean"] = {dtype = "x:to(dtype) before it"},
  ["sort"] = {stable = "leave it out: equal elements stay in order"},
  ["topk"] = {sorted = "leave it out: values come in order"},
  ["multilabel_soft_margin"] = {weight = "nn.bce_with_logits has it and computes the same"},
  ["nn.MultiLabelSoftMarginLoss"] = {weight = "nn.BCEWithLogitsLoss has it and computes the same"},
  ["nn.Embedding"] = {max_norm = "divide rows of its weight by their norm between steps, in capl.no_grad",
    sparse = "leave it out: gradients are dense", scale_grad_by_freq = "it is not here; use a smaller learning rate"},
  ["nn.AvgPool"] = {dilation = "averages have no gaps; nn.Conv2d with constant weights does that"},
  ["nn.LSTM"] = {proj_size = "nn.LSTM has it; or put nn.Linear after the layer"},
  ["nn."] = {inplace = "leave it out: memory of what is not needed is released", device = "model:to(\"cuda\")",
    dtype = "model:to(\"f64\")"},
}

local function instead_of(op, name)
  local best, length = nil, 0
  for prefix, options in pairs(instead) do
    if options[name] and op:sub(1, #prefix) == prefix and #prefix > length then
      best, length = options[name], #prefix
    end
  end
  return best
end

local askers = {"^train%.", "^optim%."} -- functions whose options are often misplaced

--- Where an option that function op does not have belongs, in words; nil when it is not known.
function option_hints.of(op, name)
  local is_asked = false
  for _, pattern in ipairs(askers) do is_asked = is_asked or (op or ""):find(pattern) ~= nil end
  local other = instead_of(op or "", name)
  if other then return other end
  local here = is_asked and theirs[name] or op == "data.loader" and of_loaders[name]
  if here then return ("here it is %s"):format(here) end
  for _, place in ipairs(is_asked and places or {}) do
    for _, known in ipairs(place.not_of and op:find(place.not_of) and {} or place.names) do
      if known == name then return "it belongs to " .. place.text:gsub("%%s", name) end
    end
  end
end

return option_hints
