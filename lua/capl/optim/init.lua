-- optim: optimisers and learning-rate schedules, with PyTorch's names and formulas.
-- SPDX-License-Identifier: Apache-2.0
local optim = require "optim.algorithms"

optim.schedule = require "optim.schedule"
optim.Muon = require "optim.muon"
optim.join = require "optim.join"
optim.lr_factor = require "optim.lr_factor"
optim.groups = require "optim.groups"

return optim
