-- public.lua: what recipes call of their run: capl.final, capl.run_folder.
-- SPDX-License-Identifier: Apache-2.0
local _, observer = ...

local Run = require "run"

local public = {}

--- The last line of a run, its summary. result: of meter:result().
-- extra  images_per_s, seconds of training
-- main   name of the metric that sums up another meter than that of texts
function public.final(result, extra, main) Run.of(observer):final(result, extra, main) end

--- The run's folder, made at first use: runs/captcha for recipes/captcha.lua, runs/captcha-2 for its next run: files
--- of two runs never mix. In a world of several ranks the first of them makes it, and all have it by their first
-- loader.
--- A command that leaves no run (check, bench …) gives one in the recipe's temporary files.
function public.folder() return Run.of(observer):folder() end

return public
