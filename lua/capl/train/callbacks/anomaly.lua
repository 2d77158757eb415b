-- anomaly.lua: a loss or a gradient that is not finite ends the run before it spoils the weights, and is explained.
-- SPDX-License-Identifier: Apache-2.0
local anomaly = require "train.anomaly"
local check = require "check"

local Part = {}
Part.__index = Part

local function read(o)
  if not o.detect_anomaly then return end
  if o.capture == true then
    check.fail("train.fit", "detect_anomaly reads the result of every op, which a captured step does not allow",
      "leave capture out")
  end
  o.capture = false
end

local function new(fit) return setmetatable({fit = fit}, Part) end

function Part:begin()
  local o = self.fit.o
  self.watch = anomaly.new{model = o.model, optimizer = o.optimizer, loss = o.loss, input = o.input,
    precision = o.precision, train = o.train, detect_anomaly = o.detect_anomaly, op = "train.fit"}
  if o.detect_anomaly then
    self.fit.run:add_feature{name = "detect_anomaly", what = "steps whose results were read",
      count = function() return self.watch.checked end}
  end
end

function Part:before_step(batch) self.watch:before_step(batch, self.fit.step + 1) end
function Part:after_step(loss) self.watch:after_step(loss) end
function Part:before_evaluation() self.watch:read(0) end
function Part:finish() self.watch:read(0) end
function Part:close()
  if self.watch then self.watch:close() end
end

return {name = "anomaly", spec = {{"detect_anomaly", "boolean", default = false}}, read = read, new = new}
