--- capl: 1
local net = nn.Sequential {
  nn.Sequential {nn.Conv2d(1, 8, 3, {padding = 1}), nn.ReLU()},
  nn.Conv2d(8, 8, 3),
}
local images = capl.zeros(4, 3, 60, 160)
net(images)
