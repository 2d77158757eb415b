-- replicas.lua: in a world of several ranks: the header says what came from rank 0, the result how much of the exchange
-- of gradients the backward pass has hidden.
-- SPDX-License-Identifier: Apache-2.0
local dist = require "dist"

local Replicas = {}
Replicas.__index = Replicas

local function new() return dist.parallel and setmetatable({}, Replicas) or nil end

function Replicas:lines() return {dist.parallel.header_line()} end -- luacheck: no self

function Replicas:finish(result) result.overlap = dist.parallel.overlap() end -- luacheck: no self

return {name = "replicas", new = new}
