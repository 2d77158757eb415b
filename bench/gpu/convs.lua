--- capl: 1
--- needs: minutes=10
-- convs.lua: captcha_cnn's convolutions with and without bias, the first one also with its image padded to 8 channels:
-- run with CAPL_DNN_ENGINES=FILE, which lists what each engine takes for them, forward and backward.
--
-- data      random numbers
-- expected  nothing: the list is what it is for
-- time      a minute
-- run       CAPL_DNN_ENGINES=engines.jsonl capl bench/gpu/convs.lua [--batch=1024] [--precision=bf16]
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {batch = 1024, precision = "bf16"}

-- inputs, outputs, height, width
local shapes = {{1, 32, 60, 160}, {8, 32, 60, 160}, {32, 64, 30, 80}, {64, 64, 30, 80}, {64, 128, 15, 40},
  {128, 128, 15, 40}, {128, 128, 7, 20}}

local function once(shape, bias)
  local layer = nn.Conv2d(shape[1], shape[2], 3, {padding = 1, bias = bias})
  local x = capl.randn(p.batch, shape[1], shape[3], shape[4]):requires_grad_()
  local loss = capl.autocast(p.precision, function() return layer(x):float():mean() end)
  loss:backward()
  return loss:item()
end

for _, shape in ipairs(shapes) do
  for _, bias in ipairs{true, false} do
    local loss = capl.scope(once, shape, bias)
    print(("%d to %d at %dx%d, bias %s: %.6g"):format(shape[1], shape[2], shape[3], shape[4], tostring(bias), loss))
  end
end
