-- augment: how training images are changed, and when.
-- SPDX-License-Identifier: Apache-2.0
local augment = {}

--- augment.schedule{{…}, {from = {epoch = 3}, …}}: stages of a run. See lua/capl/augment/schedule.lua.
augment.schedule = require("augment.schedule").new

return augment
