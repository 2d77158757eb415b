--- capl: 1
-- The model decides in Lua, by what is in its images, whether to turn them to negatives: a file has one of both ways.
local function captchas(role)
  return data.loader {
    source = data.captcha {charset = "01", length = 1, width = 40, height = 20, count = 4, fixed = true}, role = role, batch = 4,
    workers = 0, normalize = "unit",
  }
end

local Bright = nn.class("Bright")
function Bright:init()
  self.head = nn.Linear(1, 2)
  capl.no_grad(function()
    self.head.weight:copy_(capl.tensor {{-10}, {10}})
    self.head.bias:copy_(capl.tensor {5, -5})
  end)
end
function Bright:forward(x)
  if x:mean():item() > 0 then x = 1 - x end
  return self.head(x:mean({2, 3, 4}):reshape(-1, 1))
end

local model = Bright()
local train_set = captchas("train")
train.fit {
  model = model, optimizer = optim.SGD(model:parameters(), {lr = 1e-9}), train = train_set, val = captchas("val"), steps = 2,
  sanity = 0,
  loss = function(output, batch) return nn.cross_entropy(output, batch.target:view(-1)) end,
}
