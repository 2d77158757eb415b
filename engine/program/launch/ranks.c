/* ranks.c -- how many processes a job has, and who starts them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- words of the command line ---------------------------------------------------------------- */

static capl_status read_ranks(const char *text, int *ranks)
{
  char *end, shown[64];
  errno = 0;
  long n = strtol(text, &end, 10);
  if (strcmp(text, "gpus") == 0) return *ranks = RANKS_GPUS, CAPL_OK;
  if (*text >= '0' && *text <= '9' && !*end && errno == 0 && n >= 1 && n <= RANKS_MOST) return *ranks = (int)n, CAPL_OK;
  capl_text_show(shown, sizeof shown, text, false);
  return CAPL_FAIL(CAPL_EVALUE, "--ranks is a number of processes from 1 to %d, or 'gpus' for one per GPU, not '%s'",
                   RANKS_MOST, shown);
}

capl_status ranks_take_word(int *argc, char **argv, const char *name, const char *values, const char **value)
{
  int kept = 0, found = 0;
  size_t n = strlen(name);
  for (int i = 0; i < *argc; i++) {
    bool two_words = strcmp(argv[i], name) == 0;
    if (two_words || (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')) {
      if (found++) return CAPL_FAIL(CAPL_EVALUE, "%s is given twice", name);
      if (two_words && (i + 1 == *argc || argv[i + 1][0] == '-'))
        return CAPL_FAIL(CAPL_EVALUE, "%s needs a value: %s", name, values);
      *value = two_words ? argv[++i] : argv[i] + n + 1;
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  return CAPL_OK;
}

capl_status ranks_take(int *argc, char **argv, int *ranks)
{
  const char *value = NULL;
  CAPL_TRY(ranks_take_word(argc, argv, "--ranks", "--ranks=2, or --ranks=gpus", &value));
  return value ? read_ranks(value, ranks) : CAPL_OK;
}

const char *ranks_device(int argc, char *const *argv)
{
  const char *word = getenv("CAPL_DEVICE");
  for (int i = 0; i < argc; i++)
    if (strncmp(argv[i], "--device=", 9) == 0) word = argv[i] + 9;
  return word && *word && strcmp(word, "auto") != 0 ? word : NULL;
}

/* ---- ranks that somebody else has started ----------------------------------------------------- */

static const char *launcher(const capl_place *place)
{
  if (place->launch == CAPL_LAUNCH_TORCHRUN) return "torchrun";
  if (place->launch == CAPL_LAUNCH_LOCAL) return "capl";
  return getenv("OMPI_COMM_WORLD_SIZE") ? "mpirun" : "srun";
}

static bool one_gpu(const char *device) { return device && strncmp(device, "cuda:", 5) == 0; }

static capl_status settle_rank(const ranks_wish *wish, const capl_place *place, ranks_decision *out)
{
  if (wish->asked > 0 && wish->asked != place->size) {
    CAPL_FAIL(CAPL_EVALUE, "--ranks=%d contradicts %s, which has started %d %s", wish->asked, launcher(place),
              place->size, place->size == 1 ? "process" : "processes");
    capl_error_hint("leave --ranks away; the launcher's number counts");
    return CAPL_EVALUE;
  }
  if (one_gpu(wish->device) && place->local_size > 1) {
    CAPL_FAIL(CAPL_EVALUE, "device %s is one GPU, but this host has %d ranks, each of which needs its own",
              wish->device, place->local_size);
    capl_error_hint("write --device=cuda: each rank takes the GPU of its number");
    return CAPL_EVALUE;
  }
  out->how = place->size > 1 ? LAUNCH_RANK : LAUNCH_ALONE;
  out->ranks = place->size;
  return CAPL_OK;
}

/* ---- ranks to be started ---------------------------------------------------------------------- */

capl_status ranks_too_many(int ranks, int gpus)
{
  CAPL_FAIL(CAPL_EVALUE, "%d ranks, but this machine has %d %s", ranks, gpus, gpus == 1 ? "GPU" : "GPUs");
  capl_error_hint("--ranks=gpus takes one per GPU; --device=cpu trains on the processors");
  return CAPL_EVALUE;
}

static capl_status no_gpu(int ranks, const char *why)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%d ranks on GPUs, but there is none: %s", ranks, why);
  capl_error_hint("--device=cpu trains on the processors");
  return CAPL_EUNSUPPORTED;
}

static capl_status settle_gpus(int ranks, const char *device, int (*gpus)(char *why, size_t room), ranks_decision *out)
{
  int n = gpus(out->why, sizeof out->why);
  if (n == 0 && ranks == RANKS_GPUS) return out->how = LAUNCH_PLAN, out->ranks = 0, CAPL_OK;
  if (n == 0 && device) return no_gpu(ranks, out->why);
  if (n == 0) return out->how = LAUNCH_MPIRUN, out->ranks = ranks, CAPL_OK;
  if (ranks > n) return ranks_too_many(ranks, n);
  out->ranks = ranks == RANKS_GPUS ? n : ranks;
  out->how = out->ranks > 1 ? LAUNCH_FORK : LAUNCH_ALONE;
  return CAPL_OK;
}

static capl_status contradiction(int ranks, const char *device)
{
  if (ranks == RANKS_GPUS)
    CAPL_FAIL(CAPL_EVALUE, "--ranks=gpus contradicts device %s: it means one process per GPU", device);
  else
    CAPL_FAIL(CAPL_EVALUE, "--ranks=%d contradicts device %s: each rank needs its own GPU", ranks, device);
  capl_error_hint(one_gpu(device) ? "choose GPUs by CUDA_VISIBLE_DEVICES=0,2 capl …"
                  : "on processors: --ranks=N --device=cpu");
  return CAPL_EVALUE;
}

/* What the header asks for gives way to a device that was named: a recipe for all GPUs tried out on one of them. */
capl_status ranks_settle(const ranks_wish *wish, const capl_place *place, int (*gpus)(char *why, size_t room),
                         ranks_decision *out)
{
  *out = (ranks_decision){.how = LAUNCH_ALONE, .ranks = 1};
  bool asked = wish->asked != RANKS_UNSAID, launched = place->size > 1 || getenv("OMPI_COMM_WORLD_SIZE");
  int ranks = asked ? wish->asked : wish->header;
  if (launched && (place->size > 1 || asked)) return settle_rank(wish, place, out);
  if (ranks == 1 || launched) return CAPL_OK;
  if (one_gpu(wish->device)) return asked ? contradiction(ranks, wish->device) : CAPL_OK;
  if (!wish->device || strcmp(wish->device, "cuda") == 0) return settle_gpus(ranks, wish->device, gpus, out);
  if (ranks == RANKS_GPUS) return asked ? contradiction(ranks, wish->device) : CAPL_OK;
  out->how = LAUNCH_MPIRUN;
  out->ranks = ranks;
  return CAPL_OK;
}
