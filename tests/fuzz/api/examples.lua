-- examples.lua: calls that work, with most functions and options that docstrings have no example of; what is called has parts of
-- them changed. One expression per line.
-- SPDX-License-Identifier: Apache-2.0
augment.preset("strong")
augment.preset("strong", {flip = false, noise = 3})
augment.preset("strong", {flip_swaps = {}})
augment.schedule { {augment = {rotate = 2}, difficulty = {length = {1, 2}, charset = 0.3, noise = 0.2, warp = 0.2}}, {from = {epoch = 3}, difficulty = {length = {3, 6}, charset = 1}, ramp = {epochs = 2, shape = "cosine"}}, {from = {metric = "exact", above = 0.9}, augment = "captcha", difficulty = false, ramp = {steps = 500}}, }
augment.schedule { {name = "gentle", augment = {rotate = 2, scale = {0.95, 1.05}, translate_x = 0.02, translate_y = 0.03}}, {name = "all", from = {metric = "chars", above = 0.7}, augment = "captcha", ramp = {steps = 300}}, }
augment.schedule{{augment = {rotate = 3}}}
augment.schedule{{augment = {rotate = 4}}, {from = {step = 4}, augment = {rotate = 12}, ramp = {steps = 8}}}
augment.schedule{{augment = {rotate = 5}, name = "easy"}, {from = {epoch = 2}, augment = {rotate = 20, noise = {0, 12}}, difficulty = {noise = 0.5}, ramp = {epochs = 2, shape = "cosine"}}, {from = {metric = "exact", above = 0.9}, augment = false, ramp = {steps = 10}}}
augment.schedule{{difficulty = {length = {2, 3}}}}
augment.schedule{{}, {from = {epoch = 2}}}
augment.schedule{{}, {from = {metric = "exact", above = 0.5}}}
capl.arange(2)
capl.arange(3)
capl.arange(3):tolist()
capl.arange(5):float()
capl.arange(6):view(2, 3)
capl.arange(6):view(2, 3):t()
capl.autocast("fp32", nn.Linear(2, 2), capl.ones(1, 2))
capl.capture(function() return x * 2 end)
capl.capture(function(x) made = made or capl.tensor({1, 2}):keep() return x + made end)
capl.capture(function(x) n = n + 1 return n % 2 == 0 and x:exp() or x:abs() end)
capl.capture(function(x) n = n + 1 return x + capl.full({2}, n) end)
capl.capture(function(x) n = n + 1 return x:narrow(1, 1, 1 + n % 3):exp() end)
capl.capture(function(x) return (x:matmul(x) * 2):sum() end)
capl.capture(function(x) return capl.no_grad(model, x) end)
capl.capture(function(x) return x * 2 end)
capl.capture(function(x) return x + capl.rand(2) end)
capl.capture(function(x) return x + capl.tensor{1, 2} end)
capl.capture(function(x) return x:exp() end)
capl.capture(function(x) return x:sum():item() end, {strict = false})
capl.capture(function(x, labels) local loss = nn.cross_entropy(model(x), labels) opt:backward_step(loss) return loss end)
capl.choice {"small", "large"}
capl.choice{"a", "b"}
capl.clock()
capl.counters()
capl.deterministic()
capl.deterministic(true)
capl.device("cpu")
capl.device()
capl.device():match("^cuda")
capl.devices()
capl.distributed()
capl.empty(4, 5)
capl.empty(64, 32, 3, 3)
capl.expect {at_most = {loss = 9}, given = {sample = 20}}
capl.expect {exact = 0.75, given = {samples = 5}}
capl.expect {exact = 0.9, chars = 0.5, steps = 5, within = "1 h"}
capl.expect {exact = 0.9}
capl.eye(8)
capl.full({1}, 9)
capl.full({}, 5)
capl.full_like(capl.zeros(2), 2)
capl.full_like(capl.zeros(2), 2):tolist()
capl.fuse()
capl.fuse(f)
capl.fuse(function(t) local y = t:relu():sum() return y end)
capl.fuse(function(x) return x * x:sigmoid() end)
capl.fuse(function(x) return x:tanh() end)
capl.is_error(err)
capl.is_error{}
capl.is_tensor(state)
capl.is_tensor(t)
capl.linspace(-1, 1, 3)
capl.linspace(-1, 1, 3):tolist()
capl.manual_seed(1)
capl.manual_seed(2)
capl.memory()
capl.memory_limit(0)
capl.memory_limit(capl.memory().live + 2 ^ 20)
capl.memory_reset_peak()
capl.model(nn.Linear(1, 1))
capl.ones(1)
capl.ones(2)
capl.ones(3, 2, 5):bmm(capl.ones(3, 5, 4))
capl.ones(4):requires_grad_()
capl.ones_like(capl.zeros({1}, {dtype = "bf16"}))
capl.op.conv2d(capl.zeros(1, 2, 3, 3), capl.zeros(4, 2, 3, 3), nil)
capl.ops()
capl.params { epochs = 3, rate = 0.1, augment = true, kind = capl.choice {"small", "large"}, precision = {cuda = "fp16", cpu = "f32"}, presets = {quick = {epochs = 1}, broken = {epoch = 1}}, }
capl.params { label = "^(.-)_", charset = "0-9A-Z", length = 4, on_error = "stop", }
capl.params { steps = 60, seed = 7, lr = 0.003, every = 2, }
capl.params {a = 1}
capl.precision("auto")
capl.precision("f32")
capl.progress {steps = 1000}
capl.rand(1)
capl.rand(2)
capl.randn(1020, 1, 4):log_softmax(-1)
capl.randn(1020, 1, 4):log_softmax(-1):detach()
capl.randn(5)
capl.randn(9)
capl.randn(9):to("bf16")
capl.randn(size, {seed = seed, stream = {0, 0, 0}, device = device})
capl.run_folder()
capl.save_model(path, model, meta)
capl.scope(function() model = model or nn.Linear(2, 1) opt = opt or optim.Adam(model:parameters()) opt:backward_step(model(capl.ones(1, 2)):sum()) end)
capl.scope(function() return (capl.zeros(1000, 1000) * 2):sum():item() end)
capl.scope(function() return capl.ones(1) end)
capl.scope(function(n) inside = capl.zeros(n) kept = capl.ones(n):keep() return capl.full({n}, 2), {list = {capl.full({n}, 3)}} end, 2)
capl.tensor(4)
capl.tensor({0, 50, 100, 150, 200, 250}, {dtype = "u8"}):reshape(1, 2, 3)
capl.tensor{1, 2}:log()
capl.tensor{1, 2}:pow(3)
capl.tensor{1, 2}:repeat_interleave(2)
capl.tensor{1, 4}:sqrt()
capl.tensor{3, -4}:norm()
capl.tensor{3}:byte()
capl.tensor{{0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}, {0, 1, 1, 1, 1}}:gt(0)
capl.tensor{{1, 2, 3, 4, 5}}:cumsum(2)
capl.tensor{{1, 2}, {3, 4}}:unbind(2)
capl.tensor{{1}, {2}}:expand(2, 2)
capl.tensor{}
capl.text_meter("01")
capl.text_meter("01"):result()
capl.text_meter("A")
capl.text_meter("AB"):confusion_line()
capl.zeros(0)
capl.zeros(0):split(3)
capl.zeros(1)
capl.zeros_like(capl.ones(2, 3))
data.captcha {preset = "mixed", length = {3, 6}, width = 200}
data.captcha(images)
data.captcha{count = 11, fixed = true}
data.captcha{count = 19, fixed = true, charset = "0-9", length = {1, 4}, width = 72, height = 20, widths = "auto"}
data.captcha{}
data.faces{count = 1}
data.loader { source = data.faces {size = 512, count = 900, fixed = true}, role = "train", normalize = "unit", augment = {flip = 0.5, rotate = 15, flip_swaps = data.face_swaps}, }
data.loader {source = data.slider {backgrounds = {0, 1799}}, role = "train", batch = 128, normalize = "unit"}
data.loader{source = data.captcha{charset = "01", length = 1, count = 4}, role = "train", batch = 2}
data.loader{source = data.faces{count = 3, size = 64}, role = "val", batch = 3, workers = 0}
data.loader{source = data.faces{count = 3, size = 64}, role = "val", batch = 3, workers = 0}:epoch(1)
data.loader{source = data.slider{count = 6, seed = 2}, role = "train", batch = 6, workers = 1}
data.pm25 {seed = 1}
data.pm25_features{columns = {"date", "pm25", "u10", "v10", "t2m", "d2m"}, pm25 = {1, 1, 1}, date = {"2015-01-01", "2015-01-02", "2015-01-03"}, u10 = {3, 0, -1}, v10 = {4, -2, 0}, t2m = {293.15, 293.15, 280}, d2m = {293.15, 283.15, 0 / 0}}
data.pm25_features{columns = {"date", "pm25"}, date = {"2016-02-29", "2018-12-31", "2015-01-01", "2021-01-03", "2020-12-31"}, pm25 = {1, 2, 3, 4, 5}}
data.pm25{seed = 7, days = 800}
data.presets()
data.save_captchas {dir = "images", count = 2, seed = 1}
data.save_captchas {dir = capl.run_folder() .. "/files", count = 3, seed = 1, charset = "0-9", length = 2}
data.slider{count = 6, seed = 2}
data.style_options()
data.tensors{image = image, target = capl.arange(40, {dtype = "i32"}), classes = 40}
data.tensors{value = capl.full({4, 2}, 1)}
nn.AdaptiveAvgPool2d(1)
nn.AdaptiveAvgPool2d(2)
nn.AdaptiveMaxPool2d{"keep", 4}
nn.AdaptiveMaxPool2d{2, 4}
nn.AvgPool1d(2, 2)
nn.AvgPool2d(2)
nn.AvgPool2d(4)
nn.BCEWithLogitsLoss()
nn.BatchNorm1d(2)
nn.BatchNorm1d(3)
nn.BatchNorm2d(1)
nn.BatchNorm2d(2)
nn.CTCLoss {reduction = "sum"}
nn.Checkpoint(model)
nn.Checkpoint(nn.Sequential{nn.Linear(2, 2)})
nn.Checkpoint(nn.Sequential{nn.Linear(2, 2)}):named_parameters()
nn.Conv1d(4, 5, 3, {padding = "same"})
nn.Conv1d(4, 6, 3, {stride = 2, padding = 1, groups = 2})
nn.Conv2d(1, 2, 1)
nn.Conv2d(1, 2, 3)
nn.ConvTranspose2d(3, 8, 2)
nn.ConvTranspose2d(8, 1, 3)
nn.CrossEntropyLoss()
nn.Dropout()
nn.Dropout(0.1)
nn.ELU()
nn.ELU(2)
nn.Embedding(5, 2)
nn.Embedding(50, 4)
nn.Ensemble {n = 4, seed = 1, build = function() return nn.Sequential {nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)} end}
nn.Ensemble{n = 2, build = function() return nn.Dropout(0.5) end}
nn.Ensemble{n = 2, build = function() return nn.Sequential{nn.Flatten(), nn.Linear(9600, 2)} end}
nn.Ensemble{n = 2, seed = 1, build = function() return nn.Sequential{nn.Linear(3, 4), nn.Tanh(), nn.Softmax(2), nn.Linear(4, 2)} end}
nn.Flatten()
nn.GELU()
nn.GELU{approximate = "erf"}
nn.GRU(3, 4)
nn.GRU(4, 7)
nn.GroupNorm(1, 6)
nn.GroupNorm(1, 8)
nn.Hardsigmoid()
nn.Hardswish()
nn.Hardtanh()
nn.Hardtanh(-1, 3)
nn.HuberLoss{delta = 2}
nn.Identity()
nn.InstanceNorm2d(4)
nn.InstanceNorm2d(6)
nn.L1Loss{reduction = "sum"}
nn.LSTM(3, 4)
nn.LSTM(3, 4, {num_layers = 2, bidirectional = true})
nn.LSTMCell(3, 4)
nn.LayerNorm(4)
nn.LayerNorm(8)
nn.LeakyReLU()
nn.LeakyReLU(0.3)
nn.Linear(1, 1)
nn.Linear(1, 2)
nn.LogSigmoid()
nn.MSELoss()
nn.MaxPool1d(2)
nn.MaxPool1d(2, {ceil_mode = true})
nn.MaxPool2d(2)
nn.MaxPool2d(3, 2, 1)
nn.Mish()
nn.ModuleDict{small = nn.Linear(2, 3), large = nn.Linear(2, 30)}
nn.ModuleDict{{"b", nn.ReLU()}, {"a", nn.ReLU()}}
nn.ModuleDict{{"b", nn.ReLU()}, {"a", nn.ReLU()}}:named_children()
nn.ModuleList{nn.Linear(1, 2), nn.Linear(2, 1)}
nn.MultiLabelSoftMarginLoss{reduction = "sum"}
nn.MultiheadAttention(8, 2)
nn.MultiheadAttention(8, 2):eval()
nn.MultiheadAttention(8, 2, {dropout = 0.5, batch_first = true})
nn.PReLU()
nn.PReLU(3)
nn.Parameter(capl.ones(1))
nn.Parameter(capl.ones(3))
nn.PixelUnshuffle(2)
nn.PixelUnshuffle(3)
nn.RMSNorm(4)
nn.RMSNorm(4):parameters()
nn.ReLU()
nn.ReLU6()
nn.SELU()
nn.Sequential {}
nn.Sequential{nn.Embedding(50, 4), nn.Linear(4, 50)}
nn.Sequential{nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 4), nn.GELU{approximate = "tanh"}, nn.Softplus(), nn.LeakyReLU(), nn.ELU(), nn.Hardswish(), nn.Mish(), nn.SELU(), nn.Hardtanh(), nn.ReLU6(), nn.Hardsigmoid(), nn.LogSigmoid()}
nn.Sequential{nn.ReLU(), nn.Sigmoid(), nn.Tanh(), nn.ReLU(), nn.ReLU(), nn.ReLU()}
nn.Sequential{shared, shared}
nn.SiLU()
nn.Sigmoid()
nn.SmoothL1Loss()
nn.Softmax(2)
nn.Softplus()
nn.Softplus(2)
nn.Softplus{beta = 2, threshold = 3}
nn.Tanh()
nn.TransformerEncoderLayer(8, 2, 16, {batch_first = true, dropout = 0.3, activation = "gelu"})
nn.TransformerEncoderLayer(8, 2, 16, {batch_first = true})
nn.TripletMarginLoss()
nn.Unflatten(2, {3, -1})
nn.Unflatten(2, {5, -1})
nn.Upsample{size = {3, 5}, mode = "bilinear"}
nn.ZeroPad2d{1, 0, 0, 1}
nn.affine_grid(capl.tensor{{{-1, 0, 0}, {0, 1, 0}}}, {1, 2, 3, 4}, {align_corners = true})
nn.affine_grid(capl.tensor{{{1, 0, 0}, {0, 1, 0}}}, {1, 2, 3, 4})
nn.bce_with_logits(capl.full({1}, 9), capl.ones(1))
nn.bce_with_logits(capl.tensor{-1000}, capl.tensor{1}, {pos_weight = capl.ones(1)})
nn.binary_cross_entropy(capl.tensor{0, 1, 0, 1}, capl.tensor{0, 1, 1, 0})
nn.binary_cross_entropy(capl.tensor{0, 1, 0, 1}, capl.tensor{0, 1, 1, 0}):item()
nn.class("Bad")
nn.class("Net")
nn.convert_sync_batchnorm(model)
nn.cosine_similarity(capl.zeros(1, 3), capl.ones(1, 3))
nn.cosine_similarity(capl.zeros(1, 3), capl.ones(1, 3)):item()
nn.dice_loss(capl.zeros(1, 2, 2) - 500, capl.zeros(1, 2, 2), {smooth = smooth})
nn.dice_loss(capl.zeros(1, 2, 2) - 500, capl.zeros(1, 2, 2), {smooth = smooth}):item()
nn.kl_div(capl.zeros(2, 2), capl.tensor{{0, 1}, {1, 0}})
nn.kl_div(capl.zeros(2, 2), capl.tensor{{0, 1}, {1, 0}}):item()
nn.mse(capl.zeros(2, 2), capl.full({2, 2}, 9) + capl.arange(4, {dtype = "f32"}):view(2, 2))
nn.soft_margin_loss(capl.tensor{-1000}, capl.tensor{1})
nn.soft_margin_loss(capl.tensor{-1000}, capl.tensor{1}):item()
nn.summary(model, {1, 2})
optim.Adam(model:parameters())
optim.Adam(model:parameters(), {lr = 0.1})
optim.AdamW(model:parameters(), {clip_norm = 1})
optim.AdamW(model:parameters(), {lr = 0.01})
optim.AdamW(model:parameters(), {lr = optim.schedule.warmup_cosine {lr = 6e-3, warmup = 200, total = "run"}})
optim.SGD(model:parameters(), {lr = 0.1})
optim.SGD(model:parameters(), {lr = 0.5})
optim.lr_factor("sqrt", 16, 8)
optim.schedule.cosine{lr = 1, T_max = 2}
optim.schedule.cosine{lr = 4, T_max = 2}
optim.schedule.cosine{lr = 4, T_max = 2}:apply(opt, 1)
optim.schedule.one_cycle{max_lr = 1, total_steps = "run"}
optim.schedule.one_cycle{max_lr = 1, total_steps = 11}
optim.schedule.plateau{lr = 1, patience = 100}
optim.schedule.plateau{lr = 1e-9, patience = 1, factor = 0.5, metric = "loss", eps = 0}
optim.schedule.plateau{lr = 1}
optim.schedule.step{lr = 1, step_size = 2, gamma = 0.1}
optim.schedule.warmup(optim.schedule.cosine{lr = 1, T_max = "run"}, {steps = 20})
optim.schedule.warmup(optim.schedule.plateau {lr = 0.01, patience = 2}, {steps = 10})
optim.schedule.warmup_cosine{lr = 0.01, warmup = 3, total = 10}
optim.schedule.warmup_cosine{lr = 1, warmup = 10, total = 100}
optim.schedule.warmup_stable_decay{lr = 1e-9, warmup = 1, total = "run"}
train.BestTracker {}
train.BestTracker{keep = 2}
train.Checkpoint {model = model, optimizer = opt, train = images, ema = ema, every = "5m"}
train.EMA(model)
train.EMA(model, {every = 2})
train.EarlyStopping{patience = 2}
train.EarlyStopping{patience = 3}
train.LocalizationMeter{distance = "l1", hits = {1}, points = {2}, main = "hit_1"}
train.LocalizationMeter{names = {"gap", "piece"}}
train.LocalizationMeter{}
train.Log {folder = capl.run_folder()}
train.Monitor {every = 1}
train.Monitor()
train.RegressionMeter{loader = val}
train.RegressionMeter{}
train.SegmentationMeter{classes = K}
train.SegmentationMeter{}
train.TextMeter{charset = "ABC", decode = function() return {} end}
train.TextMeter{charset = "ABC"}
train.batch_by_memory {{40, 512}, {24, 256}, {0, 64}}
train.batch_by_memory{{40, 512}, {24, 256}, {0, 64}}
train.draw_schedule {optimizer = opt, steps = 1000, path = capl.run_folder() .. "/schedule.png"}
train.initial_loss(function() return 1 end)
