/* override.c -- fuzz target: any bytes as override.json of a run, or as overrides.jsonl, which it repeats. The first byte
** chooses it. Nothing of it is an error: what cannot be taken is printed.
** SPDX-License-Identifier: Apache-2.0
*/
#include "library.h"

/* As much of train.fit as the callback sees: one optimizer, one loader. */
static const char run[] =
  "local core, require = ...\n"
  "local override, optim, data = require 'train.callbacks.override', require 'optim', require 'data'\n"
  "core.device('ref')\n"
  "local folder = FOLDER\n"
  "local function fit_of(said)\n"
  "  local train = data.loader{source = data.tensors{image = core.zeros({4, 1, 4, 4}, {dtype = 'u8'})}, role = 'train', batch = 2,\n"
  "    workers = 0, augment = {rotate = 5}}\n"
  "  return {run = {mode = 'run', folder = function() return folder end, print = function(_, text) said[#said + 1] = text end},\n"
  "    o = {train = train, log_every = 'auto', eval_every = 3}, step = 5, span = {position = 0.5}, record = {}, eval_due = {},\n"
  "    optimizer = optim.SGD({core.zeros({2}, {}):requires_grad_(true)}, {lr = 0.1}), at = function() return {} end,\n"
  "    callbacks = {get = function() return {due = {}} end}, stop = function(self, reason) self.stopping = reason end}\n"
  "end\n"
  "return function(text)\n"
  "  local said = {}\n"
  "  local name = text:byte() == 0 and '/overrides.jsonl' or '/override.json'\n"
  "  core.sys.write(folder .. name, text:sub(2))\n"
  "  local fit = fit_of(said)\n"
  "  local callback = override.new(fit)\n"
  "  if text:byte() == 0 then callback:set_state{now = {}, done = 0, count = 0} end\n"
  "  local done, err = pcall(function() callback:begin() callback:after_step() end)\n"
  "  core.sys.remove(folder .. '/overrides.jsonl')\n"
  "  core.sys.remove(folder .. '/override.json')\n"
  "  if not done then error('raised: ' .. tostring(core.is_error(err) and err.message or err), 0) end\n"
  "  local lr = fit.optimizer.groups[1].lr\n"
  "  if type(lr) ~= 'number' or lr ~= lr or lr < 0 then error('the rate is ' .. tostring(lr), 0) end\n"
  "end\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static lua_State *L;
  if (size == 0) return 0;
  if (!L) L = library_open_in(run, fuzz_folder());
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data, size);
  if (capl_bind_call(L, 1, 0) != 0) fuzz_die(capl_bind_error_text(L, -1, true));
  lua_settop(L, 1);
  return 0;
}
