--- capl: 1
-- SPDX-License-Identifier: Apache-2.0
--
-- Four steps of a small net; the second batch is so large that its gradients are not finite in fp16.
local p = capl.params {precision = "auto", epochs = 4}

capl.manual_seed(3)
local model = nn.Sequential {nn.Conv2d(1, 8, 5, {padding = 2}), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 4)}
local opt = optim.SGD(model:parameters(), {lr = 1e-3})
for step = 1, p.epochs do
  local x = capl.randn(8, 1, 6, 6) * (step == 2 and 100 or 1)
  local loss = capl.autocast(p.precision, function() return (model(x):float() * 0.05):abs():sum() end)
  opt:backward_step(loss)
end
