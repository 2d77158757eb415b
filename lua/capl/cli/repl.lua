-- repl.lua: the prompt's page for `capl repl --help`; the prompt itself is engine/bind/repl.c.
-- SPDX-License-Identifier: Apache-2.0
return {main = function() return 0 end}
