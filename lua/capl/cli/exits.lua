-- exits.lua: what the exit status of the program means.
-- SPDX-License-Identifier: Apache-2.0
return {
  {"0", "done; of checks such as data check, verify and doctor: nothing was found"},
  {"1", "an error, of which standard error tells; or a check found something"},
  {"2", "the words before the command, or the command itself, make no sense"},
  {"75", "one of several ranks was lost: a machine, a process, a connection"},
  {"124", "the time was over that --minutes or the recipe's header allows"},
  {"130", "stopped by Ctrl-C; what was learnt until then is kept"},
  {"128+N", "ended by signal N: 143 is SIGTERM, 137 SIGKILL, as when memory runs out"},
}
