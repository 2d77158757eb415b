/* byte_store.h -- bytes that are only ever appended: in memory as long as that is fair, then in a file without a name.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_BYTE_STORE_H
#define CAPL_DATA_BYTE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

typedef struct {
  uint8_t *at;     /* memory, or the mapped file once byte_store_seal is done */
  uint64_t size;
  size_t capacity; /* of memory */
  uint64_t limit;  /* bytes held in memory; set before the first append; 0 = a quarter of the machine's */
  int file;        /* if in_file */
  bool in_file;
  bool mapped;     /* at is the file's mapping */
} byte_store; /* start from {0} */

CAPL_API void byte_store_fini(byte_store *s);
/* ENOMEM; EIO if the temporary file cannot be made or written. */
CAPL_API capl_status byte_store_append(byte_store *s, const void *bytes, size_t size);
/* After the last append: all bytes are at s->at, readable by any thread. */
CAPL_API capl_status byte_store_seal(byte_store *s);

#endif
