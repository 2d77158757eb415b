-- exits.lua: what the exit status of the program means.
-- SPDX-License-Identifier: Apache-2.0
return {
  {"0", "success; for checks such as data check, verify and doctor: no problem found"},
  {"1", "an error, described on standard error; or a check found problems"},
  {"2", "invalid options before the command, or an unknown command"},
  {"75", "a device or one of several ranks was lost: a GPU, a machine, a process, a connection"},
  {"124", "the time limit of --minutes or of the recipe's header was reached"},
  {"130", "stopped by Ctrl-C; the state was saved"},
  {"128+N", "ended by signal N: 143 is SIGTERM, 137 SIGKILL, for example if memory runs out"},
}
