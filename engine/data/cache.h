/* cache.h -- a source that keeps what another one gives: levels in memory, or in a file that later runs use too.
**
** Each sample is kept when it is first read, by the thread that reads it; from then on it is looked up without a lock.
** What could not be read is not kept: its error comes again.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_CACHE_H
#define CAPL_DATA_CACHE_H

#include "data/source.h"

/* One sample as it is kept: pixels, labels, fields, each where a cache line begins. */
typedef struct {
  size_t pixels_bytes, labels_bytes, field_bytes[CAPL_FIELDS_MAX];
  size_t labels_at, field_at[CAPL_FIELDS_MAX];
  size_t bytes; /* from one to the next */
} cache_record;

cache_record cache_record_of(const capl_source *source);
/* Where the parts of a record lie. */
capl_sample cache_record_parts(const cache_record *record, uint8_t *at);
/* Copies what is wanted of a record; labels come from the source where it sets them anew in each run. */
capl_status cache_record_copy(const cache_record *record, capl_source *of, uint32_t id, const uint8_t *at,
                              const capl_sample *to);

/* All samples of a source in memory, which is taken as it fills: `record.bytes` for each. ENOMEM. */
capl_status cache_ram_new(capl_source *of, capl_source **out);
/* Bytes that such caches have not taken yet but will. */
int64_t cache_ram_promised(void);

/* All samples of the files or the generator behind a source in one file below dir, NULL = $XDG_CACHE_HOME/capl/data,
** else ~/.cache/capl/data. Its name says which files and options they are; one that says other sizes or times of the
** files, or is cut or of another kind, is replaced. Several processes may fill it. why: what the environment refuses,
** in which case *out is NULL: no room, no folder to write to. EUNSUPPORTED: the source does not identify what its
** samples are; ENOMEM. */
capl_status cache_disk_new(capl_source *of, const char *dir, capl_source **out, char *why, size_t room);
/* Makes the file whole again that somebody has cut while it was in use; what is lost is read anew, and where there is
** no room nothing is kept any more. Not while samples are read. Other sources stay as they are. */
void cache_disk_mend(capl_source *source);
/* Where it lies. Borrowed. */
const char *cache_disk_path(const capl_source *source);

#endif
