-- optim: optimisers and learning-rate schedules, with PyTorch's names and formulas.
-- SPDX-License-Identifier: Apache-2.0
local optim = require "optim.algorithms"

optim.schedule = require "optim.schedule"
optim.Muon = require "optim.muon"
optim.join = require "optim.join"

return optim
