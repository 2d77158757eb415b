-- Layer norm and its kin, attention and its layers: how recipes use them.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local error_text = support.error_text

local function apart(a, b) return (a - b):abs():amax():item() end

local function has(text, ...)
  local message = error_text(...)
  assert.is_truthy(message:find(text, 1, true), message)
end

describe("normalization within a sample", function()
  it("gives rows of mean 0 and variance 1", function()
    local y = nn.LayerNorm(16)(capl.randn(4, 16) * 5 + 3)
    assert.is_true(y:mean(2):abs():amax():item() < 1e-5)
    assert.is_true(math.abs((y * y):mean():item() - 1) < 1e-3)
  end)

  it("is group norm with one group, over images of any memory order", function()
    local x = capl.randn(2, 6, 3, 5)
    assert.is_true(apart(nn.LayerNorm{6, 3, 5}(x), nn.GroupNorm(1, 6)(x)) < 1e-5)
    local instance = nn.InstanceNorm2d(6)(x)
    assert.is_true(apart(instance, nn.GroupNorm(6, 6)(x)) < 1e-6)
    assert.is_true(instance:mean{3, 4}:abs():amax():item() < 1e-5)
  end)

  it("has PyTorch's names, and none without affine parameters", function()
    local names = {}
    for name in nn.LayerNorm(4):named_parameters() do names[#names + 1] = name end
    assert.same({"weight", "bias"}, names)
    assert.equal(1, #nn.LayerNorm(4, {bias = false}):parameters())
    assert.equal(0, #nn.InstanceNorm2d(4):parameters())
    assert.equal(1, #nn.RMSNorm(4):parameters())
  end)

  it("computes in f32 where x is 16-bit, and keeps its parameters so", function()
    local layer = nn.LayerNorm(8):to("bf16")
    assert.equal("f32", layer.weight.dtype)
    assert.equal("bf16", layer(capl.randn(2, 8):to("bf16")).dtype)
  end)

  it("says what does not fit, and what to do", function()
    has("nn.LayerNorm({4}, {eps = …})", nn.LayerNorm, {4, eps = 1})
    has("x:permute(1, 3, 4, 2), or nn.GroupNorm(1, 8)", function() local y = nn.LayerNorm(8)(capl.zeros(2, 8, 3, 3))
      return y end)
    has("num_groups has to divide num_channels, got 3 and 8", nn.GroupNorm, 3, 8)
    has("there are no running statistics", nn.InstanceNorm2d, 3, {track_running_stats = true})
  end)
end)

describe("attention", function()
  local x, layer, padding

  before_each(function()
    capl.manual_seed(1)
    x = capl.randn(3, 5, 8)
    layer = nn.MultiheadAttention(8, 2, {batch_first = true}):eval()
    padding = capl.tensor({{0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}, {0, 1, 1, 1, 1}}, {dtype = "bool"})
  end)

  it("is the same with and without its weights, whatever the masks", function()
    local future = capl.tensor({{0, 1, 1, 1, 1}, {0, 0, 1, 1, 1}, {0, 0, 0, 1, 1}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 0}},
      {dtype = "bool"})
    for _, how in ipairs{{}, {key_padding_mask = padding}, {is_causal = true},
      {key_padding_mask = padding, is_causal = true}, {attn_mask = future}, {attn_mask = capl.randn(6, 5, 5)},
      {attn_mask = future, key_padding_mask = padding}} do
      local short = layer(x, x, x, how)
      how.need_weights = true
      local long, weights = layer(x, x, x, how)
      assert.is_true(apart(short, long) < 1e-6)
      assert.same({3, 5, 5}, weights.shape)
      assert.is_true(apart(weights:sum(3), capl.ones(3, 5)) < 1e-6)
    end
    assert.is_true(apart(layer(x, x, x, {attn_mask = future}), layer(x, x, x, {is_causal = true})) < 1e-6)
  end)

  it("takes sequences in either order, and one alone", function()
    local other = nn.MultiheadAttention(8, 2):eval()
    other:load_state_dict(layer:state_dict())
    assert.is_true(apart(other(x:transpose(1, 2)):transpose(1, 2), layer(x)) < 1e-6)
    assert.is_true(apart(layer(x[2]), layer(x)[2]) < 1e-6)
  end)

  it("looks at another sequence", function()
    assert.same({3, 5, 8}, layer(x, capl.randn(3, 9, 8)).shape)
  end)

  it("drops weights in training only, the same ones for the same seed", function()
    local dropping = nn.MultiheadAttention(8, 2, {dropout = 0.5, batch_first = true})
    capl.manual_seed(7)
    local first, second = dropping(x), dropping(x)
    assert.is_true(apart(first, second) > 1e-3)
    capl.manual_seed(7)
    assert.equal(0, apart(first, dropping(x)))
    dropping:eval()
    assert.equal(0, apart(dropping(x), dropping(x)))
  end)

  it("hides no NaN: it is not taken for a masked score", function()
    for _, device in ipairs{"ref", "cpu"} do
      local q = capl.tensor({{{1, 0 / 0}, {1, 2}}}, {device = device})
      local k = capl.tensor({{{1, 1}, {2, 1}, {0, 1}}}, {device = device})
      local y = capl.op.scaled_dot_product_attention(q, k, k):tolist()[1]
      assert(y[1][1] ~= y[1][1] and y[2][1] == y[2][1], device .. ": " .. y[1][1])
    end
  end)

  it("learns a mask that is added to the scores", function()
    local bias, q = capl.zeros(4, 4):requires_grad_(), capl.randn(2, 4, 3)
    nn.scaled_dot_product_attention(q, q, capl.randn(2, 4, 3), {attn_mask = bias}):sum():backward()
    assert.is_true(bias.grad:abs():sum():item() > 0)
    has("attn_mask:detach()", function() capl.op.scaled_dot_product_attention(q, q, q, bias):sum():backward() end)
  end)

  it("makes an encoder layer that trains, under bf16 too", function()
    local net = nn.TransformerEncoderLayer(8, 2, 16,
      {batch_first = true, norm_first = true, activation = "gelu", dropout = 0.1})
    for _, precision in ipairs{"fp32", "bf16"} do
      net:zero_grad()
      capl.autocast(precision, function() net(x, {is_causal = true}):sum():backward() end)
      for name, p in net:named_parameters() do assert.is_true(p.grad:abs():sum():item() < math.huge, name) end
    end
  end)

  it("is captured with its dropout: each step draws its own, as without", function()
    local dropping = nn.MultiheadAttention(8, 2, {dropout = 0.5, batch_first = true})
    local function sums(captured)
      local run = function(batch) return dropping(batch):sum() end
      if captured then run = capl.capture(run) end
      capl.manual_seed(3)
      local out = {}
      for k = 1, 5 do out[k] = run(x):item() end
      return out
    end
    local plain = sums(false)
    assert.same(plain, sums(true))
    assert.are_not.equal(plain[1], plain[2])
  end)

  it("is in a model file, for any number of images", function()
    local Net, path = nn.class("Net"), os.tmpname()
    function Net:init()
      self.norm, self.first = nn.GroupNorm(2, 6), nn.Linear(4, 8)
      self.encoder = nn.TransformerEncoderLayer(8, 2, 16, {batch_first = true})
    end
    function Net:forward(images)
      local rows = self.norm(images):reshape(images:size(1), 30, 4)
      local y = self.encoder(self.first(rows)):mean(2)
      return y
    end
    local net, images = Net():eval(), capl.randn(7, 6, 5, 4)
    os.remove(path)
    capl.io.save_model(path, net, capl.zeros(1, 6, 5, 4), {})
    local model = capl.io.load_model(path)
    assert.is_true(apart(model.forward(images), net(images)) < 1e-5)
    os.execute(("rm -r '%s'"):format(path))
  end)

  it("stacks copies of an encoder layer under PyTorch's names", function()
    local one = nn.TransformerEncoderLayer(8, 2, 16, {batch_first = true, dropout = 0.3, activation = "gelu"}):eval()
    local encoder, rows = nn.TransformerEncoder(one, 2, {norm = nn.LayerNorm(8)}), capl.randn(3, 5, 8)
    local names = encoder:state_dict()
    assert.is_truthy(names["layers.0.self_attn.in_proj_weight"] and names["layers.1.linear2.bias"]
      and names["norm.weight"])
    local blank = capl.tensor{{0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}, {0, 1, 1, 1, 1}}:gt(0)
    local how = {src_key_padding_mask = blank, is_causal = true}
    assert.is_true(apart(encoder(rows, how), nn.LayerNorm(8)(one(one(rows, how), how))) < 1e-5)
    assert.is_true(apart(encoder(rows, {mask = capl.zeros(5, 5)}), encoder(rows)) < 1e-6)
    capl.no_grad(function() encoder.layers[2].linear1.weight:fill_(0) end)
    assert.is_true(apart(one.linear1.weight, encoder.layers[1].linear1.weight) == 0) -- copies, not the layer itself
    encoder:train()
    encoder(rows):sum():backward()
    for name, p in encoder:named_parameters() do assert.is_truthy(p.grad, name) end
    has("encoder_layer must be an nn.TransformerEncoderLayer, got nn.Linear", nn.TransformerEncoder, nn.Linear(2, 2), 2)
    has("num_layers is at least 1, got 0", nn.TransformerEncoder, one, 0)
    has("unknown option 'nrom'; did you mean 'norm'?", nn.TransformerEncoder, one, 1, {nrom = one})
  end)

  it("says what does not fit", function()
    has("num_heads has to divide embed_dim, got 3 and 8", nn.MultiheadAttention, 8, 3)
    has("kdim is embed_dim (8) here, got 4", nn.MultiheadAttention, 8, 2, {kdim = 4})
    has("query must be (batch,length,8), got (2,3,4)", layer, capl.zeros(2, 3, 4))
    has("key_padding_mask must be (3,5), one per sequence and key, got (3,4)", layer, x, x, x,
      {key_padding_mask = capl.zeros(3, 4)})
    has("attn_mask must be (5,5) or (6,5,5), got (3,4)", layer, x, x, x, {attn_mask = capl.zeros(3, 4)})
    has("is_causal and attn_mask are both given", nn.scaled_dot_product_attention, x, x, x,
      {is_causal = true, attn_mask = padding})
    has("dropout is a share from 0 to below 1, got 1", nn.scaled_dot_product_attention, x, x, x, {dropout_p = 1})
  end)
end)

describe("attention under autocast", function()
  it("takes all of q, k and v in 16 bit", function()
    local q, k, v = capl.randn(2, 4, 8), capl.randn(2, 5, 8), capl.randn(2, 5, 8):requires_grad_()
    local y = capl.autocast("bf16", nn.scaled_dot_product_attention, q, k, v)
    assert.equal("bf16", y.dtype)
    y:float():sum():backward()
    assert.equal("f32", v.grad.dtype)
  end)
end)
