--- capl: 1
-- A curriculum with one mistake, chosen by --case.
local p = capl.params { case = "order" }
local rotate = {rotate = 5}
local cases = {
  order = {{}, {from = {epoch = 5}, augment = rotate}, {from = {epoch = 3}, augment = rotate}},
  key = {{}, {from = {epoch = 5}, augmentation = rotate}},
  ramp = {{}, {from = {epoch = 2}, augment = rotate, ramp = {epochs = 3}}, {from = {epoch = 4}, augment = false}},
  endless = {{}, {from = {epoch = 2}, augment = rotate}},
  length = {{difficulty = {length = {2, 9}}}},
  metric = {{}, {from = {metric = "exact", above = 0.9}, augment = rotate}},
  ops = {{}, {from = {step = 5}, augment = {rotate = {9, 2}}}},
}
local images = data.loader {
  source = data.captcha {length = {2, 6}}, role = "train", batch = 4, augment = augment.schedule(cases[p.case]),
}
local model = nn.Sequential {nn.Flatten(), nn.Linear(60 * 160, 6 * 36)}
train.fit {
  model = model, train = images, val = false, steps = 4, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
  loss = function(output, batch) return nn.cross_entropy(output:view(-1, 36), batch.target:view(-1), {ignore_index = -1}) end,
}
