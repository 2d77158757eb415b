--- capl: 1
local p = capl.params {samples = 10, batch = 1}
capl.expect {at_most = {loss = 9}, given = {sample = 20}}
local model = nn.Linear(p.batch, 1)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
for _ = 1, p.samples do opt:backward_step(model(capl.ones(1, 1)):sum()) end
