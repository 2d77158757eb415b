--- capl: 1
-- Asks for bf16, runs its step without capl.autocast, and looks whether a weight has changed.
local p = capl.params {precision = "auto"}
local model = nn.Linear(4, 2)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local before = model.weight:get(1, 1)
local done = pcall(opt.backward_step, opt, model(capl.ones(3, 4)):sum())
print(done, model.weight:get(1, 1) == before, p.precision)
