-- optim: optimizers and learning-rate schedules, with PyTorch's names and formulas.
-- SPDX-License-Identifier: Apache-2.0
local missing = require "missing"
local optim = require "optim.algorithms"

optim.schedule = require "optim.schedule"
optim.Muon = require "optim.muon"
optim.join = require "optim.join"
optim.lr_factor = require "optim.lr_factor"
optim.groups = require "optim.groups"

missing.watch("optim.schedule", optim.schedule)
return missing.watch("optim", optim)
