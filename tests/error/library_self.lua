--- capl: 1
-- A method called without its object: the message is about this call, not about a line of the library.
local net = nn.Linear(2, 2)
local list = net.parameters()
print(#list)
