/* assume.h -- CAPL_ASSUME: facts of the machine that tests force, because a default depends on them.
**
** CAPL_ASSUME="bf16=native,isa=avx2,cores=64": capl then chooses by itself what it would choose on such a machine. Who
** finds out a fact asks capl_assumed first, so that all that follows from it is forced with it. docs/assume.md lists
** the keys. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_ASSUME_H
#define CAPL_BASE_ASSUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

typedef enum {
  CAPL_ASSUME_BF16,     /* 1: products of bf16 are faster than those of f32; 0: they are not */
  CAPL_ASSUME_ISA,      /* a capl_isa */
  CAPL_ASSUME_WINOGRAD, /* 1: bf16 convolutions are by Winograd's algorithm where they can be; 0: none is */
  CAPL_ASSUME_CORES,    /* processors that this process may use */
  CAPL_ASSUME_MEMORY,   /* bytes, all of them free */
  CAPL_ASSUME_LANDLOCK, /* the version of Landlock, 0: none */
  CAPL_ASSUME_SECCOMP,  /* 0: no filter of system calls */
  CAPL_ASSUME_GPU,      /* 0: none */
  CAPL_ASSUME_KEYS
} capl_assume_key;

/* EVALUE: a key or a value is unknown; EUNSUPPORTED: this processor lacks the instruction set. OK where nothing is
** assumed. */
CAPL_API capl_status capl_assume_check(void);

/* The value of a key; false where CAPL_ASSUME does not set it. What capl_assume_check refuses is not set. */
CAPL_API bool capl_assumed(capl_assume_key key, int64_t *value);

/* The variable itself, NULL where it is unset or empty: for headers and records. */
CAPL_API const char *capl_assume_text(void);

#endif
