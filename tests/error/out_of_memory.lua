--- capl: 1
local kept = {}
for i = 1, 1000 do kept[i] = capl.zeros(1024, 1024) end
