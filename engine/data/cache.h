/* cache.h -- a source that keeps in memory what another one gives.
**
** Each sample is kept when it is first read, by the thread that reads it; from then on it is looked up without a lock. What
** could not be read is not kept: its error comes again.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_CACHE_H
#define CAPL_DATA_CACHE_H

#include "data/source.h"

/* Bytes that a sample takes in it. */
size_t cache_record_bytes(const capl_source *source);

/* All samples of a source in memory, which is taken as it fills: cache_record_bytes for each. ENOMEM. */
capl_status cache_ram_new(capl_source *of, capl_source **out);
/* Bytes that such caches have not taken yet but will. */
int64_t cache_ram_promised(void);

#endif
