--- capl: 1
-- Catches everything, also what ends `capl check`.
local model = nn.Linear(4, 2)
local opt = optim.SGD(model:parameters(), {lr = 0.1})
while true do pcall(function() opt:backward_step(model(capl.ones(3, 4)):sum()) end) end
