--- capl: 1
local p = capl.params {steps = 12, widths = false}
local found = data.explore("images", {steps = p.steps})
if p.widths then data.open("images", {label = found.label, charset = found.charset, length = "auto", height = 30, widths = {40, 80}}) end
