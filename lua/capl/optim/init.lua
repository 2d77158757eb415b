-- optim: optimisers and learning-rate schedules.
-- SPDX-License-Identifier: Apache-2.0
local optim = {schedule = require "optim.schedule"}

for name, value in pairs(require "optim.algorithms") do optim[name] = value end

return optim
