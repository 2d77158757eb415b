--- capl: 1
-- Asks for augmentation that changes nothing.
local train = data.loader {
  source = data.captcha {count = 8}, role = "train", batch = 8, workers = 0, augment = {invert = 0},
}
local model = nn.Sequential {nn.Flatten(), nn.Linear(60 * 160, 2)}
local opt = optim.SGD(model:parameters(), {lr = 0.1})
for batch in train:epoch(1) do opt:backward_step(model(batch.image):sum()) end
