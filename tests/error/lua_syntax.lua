--- capl: 1
local x = = 3
