/* header.h -- the lines on top of a recipe that say which language it speaks and what it needs.
**
**   --- capl: 1
**   --- needs: ranks=gpus read=captchas minutes=30 memory=8GB output=50GB
**
** The supervisor reads them as text, before any Lua runs, from the leading block of comment lines.
** `capl:` is required; `needs:` is optional, and so is each of its keys.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_HEADER_H
#define CAPL_HEADER_H

#include <stddef.h>

#include "capl/error.h"

enum { CAPL_RECIPE_VERSION = 1, CAPL_HEADER_TEXT = 256 };

typedef struct {
  int version;                  /* of the recipe language */
  int ranks;                    /* processes; 0 = one per GPU, or one on a machine without */
  double minutes;               /* the run is stopped after this long; 0 = it does not say */
  double memory, output;        /* bytes of Lua and tensors, bytes it writes; 0 = it does not say */
  char read[CAPL_HEADER_TEXT];  /* folders it reads, separated by commas; may be empty */
  char program[24];             /* the oldest capl that can run it, such as 0.9; may be empty */
} capl_header;

/* Reads the header of a recipe's text. EFORMAT, EVALUE or, where this program is too old for it, EUNSUPPORTED, naming
** the line of path. */
capl_status capl_header_parse(const char *path, const char *text, size_t size, capl_header *header);

#endif
