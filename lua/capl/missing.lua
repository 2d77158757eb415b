-- missing.lua: what a table of the library says when a name is read that it does not have: nn.Dropout2d, capl.matmul.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local check = require "check"
local readonly = require "readonly"

local missing = {}

local others = {"nn", "optim", "data", "augment", "plot", "train"} -- where the name may stand instead

-- What PyTorch has under these names, and what there is instead.
local instead = {
  functional = "what torch.nn.functional has is in nn (nn.cross_entropy) and a method of tensors (x:relu())",
  lr_scheduler = "optim.schedule has the schedules: optim.SGD(parameters, {lr = optim.schedule.cosine{…}})",
  Conv3d = "nn.Conv2d per slice: fold depth into the batch with x:permute(…) and x:reshape(…)",
  ConvTranspose1d = "nn.ConvTranspose2d(Cin, Cout, {1, k}) of x:unsqueeze(3)",
  DropPath = "x + nn.Dropout(p)(capl.ones(n, 1, 1, 1)) * branch(x), in a module of your own",
  TransformerDecoder = "nn.MultiheadAttention twice, self and cross, in a module of your own",
  TransformerDecoderLayer = "nn.MultiheadAttention twice, self and cross, in a module of your own",
  MaxUnpool2d = "nn.Upsample, or nn.ConvTranspose2d(Cin, Cout, 2, {stride = 2})",
  Bilinear = "w (O,I,J) of your own: (a:unsqueeze(2):unsqueeze(2):matmul(w):squeeze(3) * b:unsqueeze(2)):sum(3)",
  utils = "train.clip_grad_norm_(parameters, max_norm); optimizers clip themselves: {clip_norm = 1}",
  DataParallel = "in the shell: capl RECIPE --ranks=gpus", AlphaDropout = "nn.Dropout", Transformer =
    "nn.TransformerEncoder", Unfold = "x:narrow(…) for each place, capl.stack of them", Fold = "nn.ConvTranspose2d",
  ParameterList = "fields of a class of your own: self.w1 = nn.Parameter(…)", MaxPool3d = "nn.MaxPool2d per slice",
  compile = "capl.fuse is on by default; capl.capture(step) replays a step on a GPU",
  jit = "a model file needs no code: capl.io.save_model, docs/model-file.md",
  set_num_threads = "in the shell: CAPL_THREADS=2", float32 = "dtypes are texts: \"f32\"",
  float16 = "dtypes are texts: \"f16\"", bfloat16 = "dtypes are texts: \"bf16\"", int64 = "dtypes are texts: \"i64\"",
  meshgrid = "x:view(-1, 1):expand(n, m) and y:view(1, -1):expand(n, m)",
  bincount = "x:one_hot(n):sum(1)", unique = "x:tolist() and a table",
  EmbeddingBag = "nn.Embedding(n, d)(index):mean(2)",
  LocalResponseNorm = "nn.GroupNorm or nn.BatchNorm2d",
  LBFGS = "optim.Adam or optim.SGD; there is no optimizer that calls the loss several times a step",
  Adagrad = "optim.RMSprop, or optim.Adam", Adadelta = "optim.RMSprop, or optim.Adam",
  NAdam = "optim.Adam or optim.AdamW", RAdam = "optim.AdamW with lr = optim.schedule.warmup_cosine{…}",
  einsum = "x:permute(…), x:matmul(y) and x:sum(dim)",
  randint = "(capl.rand(…) * n):floor():long()", randperm = "select(2, capl.rand(n):sort())",
  set_grad_enabled = "capl.no_grad(function() … end)", inference_mode = "capl.no_grad(function() … end)",
  from_numpy = "capl.tensor{…}, or data.tensors for a file of arrays",
  DataLoader = "data.loader serves a source in batches",
  cuda = "capl.device(\"cuda\") makes it the default, x:to(\"cuda\") copies; --device=cuda for a recipe",
  load = "capl.io.load(path) reads tensors, train.load(path) what train.save wrote",
  save = "capl.io.save(path, tensors) writes tensors, train.save(path, value) tables of them",
}

-- "x:matmul(y)": the first argument is the tensor itself.
local function call_of(name)
  for _, op in ipairs(core.ops()) do
    local further = op.name == name and (op.ins:match("^[^,]*, (.*)$") or "")
    if further then return ("x:%s(%s)"):format(name, further == "b" and "y" or further) end
  end
  return ("x:%s(…)"):format(name)
end

local function names_of(t, more)
  local names = {}
  for name in pairs(t) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  for name in pairs(more or {}) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- "optim.AdamW", where another table has the name, in capitals or not.
local function elsewhere(path, key)
  for _, other in ipairs(others) do
    for name in pairs(other == path and {} or require(other)) do
      if type(name) == "string" and name:lower() == key:lower() then return other .. "." .. name end
    end
  end
end

-- What to write instead of path.key, or nil.
local function advice(path, key)
  if instead[key] then return instead[key] end
  if core.tensor_methods[key] and path ~= "capl.op" then return "it is a method of tensors: " .. call_of(key) end
  local place = elsewhere(path, key)
  return place and ("did you mean %s?"):format(place)
end

--- Raises for path.key, which the table t does not have. more: {name = …} that it has besides.
function missing.fail(path, t, key, more)
  local said = ("unknown name '%s'"):format(tostring(key))
  if type(key) ~= "string" then check.fail(path, said) end
  local hint = advice(path, key)
  local nearest = not hint and core.nearest(key, names_of(t, more))
  if nearest then check.fail(path, ("%s; did you mean '%s'?"):format(said, nearest)) end
  check.fail(path, said, hint or ("?%s at the prompt lists its names"):format(path))
end

--- Lets t, which recipes know as path, say so when an unknown name is read -> t
function missing.watch(path, t)
  readonly.is_library[t] = true
  return setmetatable(t, {__index = function(_, key)
    if type(key) == "string" and key:sub(1, 2) ~= "__" then missing.fail(path, t, key) end
  end})
end

return missing
