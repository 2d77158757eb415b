-- Reads images with a trained model, from plain LuaJIT: luajit predict.lua MODEL.capl IMAGE.png...
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local model = capl.io.open_model(arg[1])
for i = 2, #arg do
  local reading = model:read(capl.data.image_read(arg[i]))[1]
  if reading.error then error(reading.error) end
  local output = reading.outputs[1]
  print(arg[i], output.text, ("%.4f"):format(output.confidence))
end
