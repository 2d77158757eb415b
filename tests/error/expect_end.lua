--- capl: 1
local p = capl.params {seed = 3, samples = 10}
capl.expect {exact = 0.9, chars = 0.5, steps = 5, within = "1 h"}
capl.expect {exact = 0.75, given = {samples = 5}}
local model = nn.Linear(1, 1)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
capl.manual_seed(p.seed)
for _ = 1, p.samples do opt:backward_step(model(capl.ones(1, 1)):sum()) end
capl.final({exact = 0.8, low = 0.7, high = 0.95, chars = 0.9, n = p.samples * 100}, {images_per_s = 1, seconds = 1})
