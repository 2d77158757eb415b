--- capl: 1
local model = nn.Linear(2, 1)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
opt:backward_step(model(capl.ones(1, 2)):sum())
capl.expect {exact = 0.9}
