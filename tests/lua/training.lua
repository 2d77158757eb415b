-- training.lua: what the specs of train.fit share: captchas of two characters, a loss for them, the values of a model.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local training = {CHARSET = "012"}

--- o with changes written over it.
function training.with(o, changes)
  for key, value in pairs(changes or {}) do o[key] = value end
  return o
end

--- A loader of small captchas, four in a batch; options of the loader and of its source.
function training.loader(role, count, batch, options, source)
  local images = training.with({charset = training.CHARSET, length = 2, width = 40, height = 20, count = count,
    fixed = true, seed = 5}, source)
  return capl.data.loader(training.with({source = capl.data.captcha(images), role = role, batch = batch or 4,
    workers = 0}, options))
end

--- For charsets of three characters.
function training.loss_of(output, batch) return capl.nn.cross_entropy(output:view(-1, 3), batch.target:view(-1)) end

--- {name = values} of all parameters and buffers.
function training.values_of(model)
  local out = {}
  for name, t in pairs(model:state_dict()) do out[name] = t:tolist() end
  return out
end

--- train.fit without validation.
function training.fit(o)
  o.val = false
  local result = capl.train.fit(o)
  return result
end

return training
