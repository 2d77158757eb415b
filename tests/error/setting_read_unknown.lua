--- capl: 1
local p = capl.params {epochs = 3}
print(p.epoch)
