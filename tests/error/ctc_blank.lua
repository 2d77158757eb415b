--- capl: 1
-- A CTC model that says blank at each time step, and may hardly learn.
local function captchas(role)
  return data.loader {
    source = data.captcha {charset = "01", length = 1, width = 40, height = 20, count = 4, fixed = true}, role = role, batch = 4,
    workers = 0,
  }
end

local Net = nn.class("Net")
function Net:init()
  self.head = nn.Linear(20, 3)
  capl.no_grad(function() self.head.bias:copy_(capl.tensor {0, 0, 99}) end)
end
function Net:forward(x) return self.head(x:squeeze(2):permute(1, 3, 2)) end

local train_set, model = captchas("train"), Net()
capl.model(model, {output = "text", charset = train_set.charset, decoding = "ctc"})
train.fit {
  model = model, optimizer = optim.SGD(model:parameters(), {lr = 1e-9}), train = train_set, val = captchas("val"), steps = 2,
  loss = function(output) return output:mean() end,
}
