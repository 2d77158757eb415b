--- capl: 1
-- A recipe with settings and no training.
local p = capl.params {
  epochs = 3, -- passes over the data
  rate = 0.1,
  augment = true,
  kind = capl.choice {"small", "large"},
  precision = {cuda = "fp16", cpu = "f32"},
  presets = {quick = {epochs = 1}, broken = {epoch = 1}},
}
print(p.epochs, p.rate, p.augment, p.kind)
