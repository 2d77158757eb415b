-- The network of recipes/classify.lua against torchvision's ResNet-18: names, shapes, outputs, loss, gradients.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "golden.support"

local nn = capl.nn
local golden = support.load("resnet18.json")
support.seed = golden.seed

-- The recipe's own lines, from its section "network" up to the model.
local function recipes_network(settings, classes)
  local path = (os.getenv("CAPL_SOURCE_DIR") or ".") .. "/recipes/classify.lua"
  local file = assert(io.open(path))
  local text = file:read("*a"):match("(%-%- %-%-%-%- network %-%-%-%-.-\nlocal model = ResNet%(%)\n)")
  file:close()
  local names = "local p, K, nn = ...\n"
  return assert(loadstring(names .. text .. "return model", "=classify.lua"))(settings, classes, nn)
end

-- As resnet18.py has them.
local function values_of(entry, t)
  local u, fan_in = support.uniform(entry.shape, t), 1
  for i = 2, #entry.shape do fan_in = fan_in * entry.shape[i] end
  if #entry.shape > 1 then return (u * 2 - 1) * math.sqrt(6 / fan_in) end
  if entry.name:find("running_var$") or entry.name:find("weight$") then return u + 0.5 end
  return (u * 2 - 1) * capl.tensor(0.1)
end

-- A safetensors file with torchvision's names.
local function write_weights()
  local path, state = os.tmpname(), {}
  for i, entry in ipairs(golden.state) do
    state[entry.name] = #entry.shape > 0 and values_of(entry, i - 1) or capl.zeros({}, {dtype = "i64"})
  end
  capl.io.save(path, state)
  return path
end

-- The largest difference as a share of the largest value.
local function distance(given, wanted)
  local scale, worst = 0, 0
  for _, w in ipairs(wanted) do scale = math.max(scale, math.abs(w)) end
  for i, w in ipairs(wanted) do worst = math.max(worst, math.abs(given[i] - w) / scale) end
  return worst
end

local function flat(rows)
  local out = {}
  for _, row in ipairs(rows) do
    for _, value in ipairs(row) do out[#out + 1] = value end
  end
  return out
end

-- Norm, first, middle and last element, as resnet18.py's few.
local function few(tensor)
  local n = tensor:numel()
  local x = tensor:reshape(n)
  return {capl.op.grad_norm(tensor):item(), x:get(1), x:get(math.floor(n / 2) + 1), x:get(n)}
end

describe("the network of classify.lua", function()
  it("is torchvision's resnet18 in names, shapes, outputs and gradients", function()
    local model = recipes_network({width = 64, stem = "7x7"}, golden.classes)
    assert.equal(golden.parameters, model:parameter_count())
    local state, count = model:state_dict(), 0
    for _ in pairs(state) do count = count + 1 end
    assert.equal(#golden.state, count)
    for _, entry in ipairs(golden.state) do assert.same(entry.shape, state[entry.name]:size(), entry.name) end

    local path = write_weights()
    local taken = #capl.train.load_weights(model, path, {strict = true, quiet = true}).taken
    os.remove(path)
    assert.equal(#golden.state, taken)

    local images = ((support.uniform(golden.batch, golden.tensors.batch) * 2 - 1) * 2):requires_grad_()
    local labels = (support.uniform({golden.batch[1]}, golden.tensors.labels) * golden.classes):to("i32")
    local evaluated = capl.no_grad(function() return model:eval()(images) end)
    assert.is_true(distance(flat(evaluated:tolist()), flat(golden.eval)) < 1e-4)
    local output = model:train()(images)
    assert.is_true(distance(flat(output:tolist()), flat(golden.train)) < 1e-4)
    local loss = nn.cross_entropy(output, labels, {label_smoothing = golden.label_smoothing})
    assert.is_true(distance({loss:item()}, {golden.loss}) < 1e-5)
    loss:backward()
    local worst, where = distance(few(images.grad), golden.image_gradient), "the images"
    local gradients = {}
    for name, p in model:named_parameters() do gradients[name] = p.grad end
    for _, entry in ipairs(golden.state) do
      if entry.gradient then
        local off = distance(few(gradients[entry.name]), entry.gradient)
        if off > worst then worst, where = off, entry.name end
      end
    end
    assert.is_true(worst < 1e-4, ("the gradient of %s is off by %.2g"):format(where, worst))
  end)
end)
