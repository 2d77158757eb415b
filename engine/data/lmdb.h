/* lmdb.h -- the inside of the source that reads databases, for its tests.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LMDB_H
#define CAPL_DATA_LMDB_H

#include "data/lmdb_stream.h"

/* Starts the reading child on a database and takes in all that it says. silence_ms: the child is given up when it says
** nothing for so long. stop: as capl_lmdb_options. Errors as capl_source_lmdb_new. */
CAPL_API capl_status lmdb_receive(lmdb_stream *s, int silence_ms, bool (*stop)(void));

#endif
