--- capl: 1
-- A model that gives several things, or is called with several: in ways that a model file cannot hold.
local p = capl.params {kind = "nested"}
local function sliders(role)
  return data.loader {
    source = data.slider {width = 240, height = 120, count = 4, fixed = true}, role = role, batch = 4, normalize = "unit",
  }
end

local gives = {
  nested = function(y) return {points = {y, y}} end,
  name = function(y) return {["two points"] = y, level = y} end,
  two = function(y) return y, y end,
  number = function(y) return {points = y, count = 2} end,
}

local Net = nn.class("Net")
function Net:init() self.head = nn.Linear(3, 2) end
function Net:forward(x)
  local y = self.head(x:mean({3, 4}))
  if gives[p.kind] then return gives[p.kind](y) end
  return y
end

local model = Net()
capl.model(model, p.kind == "field" and {inputs = {"picture"}} or nil)
train.fit {
  model = model, optimizer = optim.SGD(model:parameters(), {lr = 1e-3}), train = sliders("train"), val = false, steps = 2,
  loss = function() return model.head.weight:sum() end,
  input = p.kind == "ids" and function(batch) return batch.image * #batch.ids end or nil,
}
