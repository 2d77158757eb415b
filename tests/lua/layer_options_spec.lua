-- Options that layers got after their first version: saved models compute the same; those left out say what to write.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local error_text = support.error_text

local function says(wanted, f, ...)
  local text = error_text(f, ...)
  assert.truthy(text:find(wanted, 1, true), text)
end

local function saved(model, example)
  local path = os.tmpname()
  os.remove(path)
  capl.io.save_model(path, model:eval(), example, {})
  local loaded = capl.io.load_model(path)
  os.execute("rm -r '" .. path .. "'")
  return loaded
end

describe("options of layers", function()
  for name, make in pairs{
    ["batch norm without weights"] = function() return nn.BatchNorm2d(3, {affine = false}) end,
    ["batch norm without a bias"] = function() return nn.BatchNorm2d(3, {bias = false}) end,
    ["batch norm without running statistics"] = function() return nn.BatchNorm2d(3, {track_running_stats = false}) end,
    ["padding by reflection"] = function() return nn.Conv2d(3, 2, 3, {padding = 1, padding_mode = "reflect"}) end,
    ["an even kernel that keeps the size"] = function() return nn.Conv2d(3, 2, {2, 4}, {padding = "same"}) end,
    ["pooling with gaps"] = function() return nn.MaxPool2d(2, {stride = 1, dilation = {2, 1}}) end,
    ["averages with a divisor"] = function() return nn.AvgPool2d(2, {divisor_override = 3}) end,
    bicubic = function() return nn.Upsample{scale_factor = 1.5, mode = "bicubic"} end,
    area = function() return nn.Upsample{size = {4, 3}, mode = "area"} end,
    ["group norm without a bias"] = function() return nn.GroupNorm(3, 3, {bias = false}) end,
    ["batch norm without a momentum"] = function() return nn.BatchNorm2d(3, {momentum = false}) end,
    ["nearest-exact"] = function() return nn.Upsample{size = {5, 9}, mode = "nearest-exact"} end,
  } do
    it("are saved with a model: " .. name, function()
      local model, x = make(), capl.randn(2, 3, 6, 4)
      local loaded = saved(model, x:narrow(1, 1, 1))
      local y, z = model(x), loaded.forward(x)
      assert.same(y.shape, z.shape)
      assert.is_true((y - z):abs():amax():item() < 1e-5)
    end)
  end

  it("are saved with a model: projected states of an LSTM", function()
    local LSTM = nn.class("LSTM")
    function LSTM:init() self.rnn = nn.LSTM(4, 5, {proj_size = 2, batch_first = true, bidirectional = true}) end
    function LSTM:forward(x) return (self.rnn(x)) end
    local model, x = LSTM(), capl.randn(3, 6, 4)
    assert.is_true((model(x) - saved(model, x:narrow(1, 1, 1)).forward(x)):abs():amax():item() < 1e-5)
  end)

  it("are saved with a model: places of the largest values", function()
    local Winners = nn.class("Winners")
    function Winners:init() self.pool = nn.MaxPool2d(2, {return_indices = true}) end
    function Winners:forward(x) return select(2, self.pool(x)):float() end
    local x = capl.randn(3, 2, 4, 6)
    assert.same((Winners()(x)):tolist(), (saved(Winners(), x:narrow(1, 1, 1)).forward(x)):tolist())
  end)

  it("that an ensemble cannot have are refused by name", function()
    for wanted, make in pairs{
      ["nn.BatchNorm2d with affine = false"] = function() return nn.BatchNorm2d(3, {affine = false}) end,
      ["nn.Conv2d with padding_mode"] = function()
        return nn.Conv2d(3, 2, 3, {padding = 1, padding_mode = "circular"})
      end,
      ["nn.LSTM with proj_size"] = function() return nn.LSTM(3, 4, {proj_size = 2}) end,
    } do
      says(wanted, nn.Ensemble, {n = 2, build = make})
    end
    says("nn.SyncBatchNorm: affine = false", nn.SyncBatchNorm, 3, {affine = false})
  end)

  it("keep the statistics of batch norm within the batch where none are tracked", function()
    local layer, x = nn.BatchNorm1d(2, {track_running_stats = false}):eval(), capl.tensor{{1, 5}, {3, 9}}
    assert.is_true(math.abs(layer(x):mean():item()) < 1e-6)
    local n = 0
    for _ in pairs(layer:state_dict()) do n = n + 1 end
    assert.equal(2, n) -- weight and bias
  end)

  it("let batch norm average all batches, whose number is kept", function()
    local function batch(k) return capl.full({2, 3}, k) * capl.tensor{{1, 2, 3}, {3, 2, 1}} end
    local layer, mean = nn.BatchNorm1d(3, {momentum = false}), 0
    for k = 1, 3 do
      layer(batch(k))
      mean = mean + batch(k):mean(1) / 3
    end
    assert.is_true(layer.running_mean:allclose(mean))
    local again = nn.BatchNorm1d(3, {momentum = false})
    again:load_state_dict(layer:state_dict())
    for _, l in ipairs{layer, again} do l:train()(batch(7)) end
    assert.is_true(layer.running_mean:allclose(again.running_mean))
    assert.is_true(layer.running_mean:allclose(mean * 0.75 + batch(7):mean(1) / 4))
    local part = nn.Sequential{layer, nn.ReLU(), nn.Checkpoint(nn.BatchNorm1d(3, {momentum = false}))}
    part(batch(2)):sum():backward()
    assert.equal(1, part:state_dict()["2.num_batches_tracked"]:item())
    says("momentum is a number, or false", nn.BatchNorm2d, 3, {momentum = true})
    says("momentum must be a number from 0 to 1 or boolean, got 2", nn.BatchNorm2d, 3, {momentum = 2})
    local step = capl.capture(function(x) return layer(x):sum() end)
    says("momentum was", function() for _ = 1, 3 do step(batch(1)) end end)
  end)

  it("left out say what to write instead", function()
    local p = nn.Linear(2, 1):parameters()
    says("unknown option 'maximize'; give minus the loss", optim.Adam, p, {maximize = true})
    says("nn.AvgPool2d: divisor_override is not possible with ceil_mode", nn.AvgPool2d, 2, {divisor_override = 3,
      ceil_mode = true})
    says("averages have no gaps", nn.AvgPool2d, 2, {dilation = 2})
    says("unknown option 'fused'; leave it out", optim.AdamW, p, {fused = true})
    says("unknown option 'device'; model:to", nn.Linear, 2, 2, {device = "cuda"})
    says('mode "linear" is for sequences (N,C,L), x has 4 dims', nn.interpolate, capl.ones(1, 1, 4, 4),
      {size = 2, mode = "linear"})
    says('mode "bicubic" is for images (N,C,H,W), x has 3 dims', nn.interpolate, capl.ones(1, 1, 4),
      {size = 2, mode = "bicubic"})
    says("size and scale_factor are numbers", nn.interpolate, capl.ones(1, 1, 4), {size = {2, 3}})
    says("targets are 4 labels one behind the other, target_lengths are 3 in sum", nn.ctc_loss,
      capl.zeros(4, 2, 3):log_softmax(-1), capl.tensor({1, 2, 1, 2}, {dtype = "i32"}), 4, {2, 1})
  end)
end)
