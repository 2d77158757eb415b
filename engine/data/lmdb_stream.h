/* lmdb_stream.h -- what the reading child says of a database, and what its parent makes of that.
**
** A stream is a count, then that many records in order, then the end; or an error instead of what follows. Nothing in
** it is trusted: the child works with files that may have been made to take it over.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LMDB_STREAM_H
#define CAPL_DATA_LMDB_STREAM_H

#include <stdbool.h>

#include "data/byte_store.h"
#include "data/file_fields.h"
#include "data/texts.h"

enum {
  LMDB_COUNT = 0x314e5443,  /* number records follow */
  LMDB_RECORD = 0x31434552, /* number from 1; bytes of image, label, mask, target and fields follow, in this order */
  LMDB_ERROR = 0x31525245,  /* label bytes of text follow, and nothing else */
  LMDB_END = 0x31444e45,    /* number as in the count */
};
enum { LMDB_KEPT = 3 }; /* parts of a record whose bytes are kept: image, mask, target */
enum { LMDB_IMAGE_MAX = 64 << 20, LMDB_LABEL_MAX = 4095, LMDB_FIELDS_MAX = 1 << 20, LMDB_COUNT_MAX = 999999999 };
static const uint32_t LMDB_NO_LABEL = 0xffffffff;

/* Before each part, in this machine's byte order. */
typedef struct {
  uint32_t kind, number, image, label, mask, target, fields; /* bytes of each part; from mask on 0 = there is none */
} lmdb_frame;

typedef struct {
  const char *where; /* the database, for messages; borrowed */
  byte_store bytes;
  uint64_t *at; /* image i is bytes at[3 i] .. at[3 i + 1], its mask those up to at[3 i + 2], its target the next */
  texts label;
  file_fields *wanted; /* gets the numbers; what it has of masks and targets is kept. NULL = nothing; borrowed */
  uint32_t count, places; /* records complete; room in at */
  uint32_t promised;
  bool counted, ended;
  /* the part that is arriving */
  lmdb_frame frame;
  uint32_t have, image_left, label_left, mask_left, target_left, fields_left; /* bytes of the frame; still to come */
  char text[LMDB_LABEL_MAX + 1];
  uint32_t text_length, json_length;
  char *json; /* fields of the record */
} lmdb_stream; /* start from {.where = …} */

CAPL_API void lmdb_stream_fini(lmdb_stream *s);
/* Takes the next bytes. EFORMAT naming where and the record: what the child reports, or bytes that are no such
** stream. */
CAPL_API capl_status lmdb_stream_feed(lmdb_stream *s, const void *bytes, size_t size);

#endif
