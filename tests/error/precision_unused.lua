--- capl: 1
-- Asks for bf16, but its forward pass is outside capl.autocast.
local p = capl.params {precision = "auto"}
local model = nn.Linear(4, 2)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
opt:backward_step(model(capl.ones(3, 4)):sum())
print("never", p.precision)
