/* capl.h -- the whole public C interface of libcapl.
**
** Start reading at tensor.h, then op.h, tape.h, backend.h, io.h; data.h stands on its own.
** To use a trained model, model.h is enough.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CAPL_H
#define CAPL_CAPL_H

#include "capl/backend.h"
#include "capl/data.h"
#include "capl/error.h"
#include "capl/feed.h"
#include "capl/io.h"
#include "capl/model.h"
#include "capl/op.h"
#include "capl/rng.h"
#include "capl/schedule.h"
#include "capl/series.h"
#include "capl/tape.h"
#include "capl/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH", as CMakeLists.txt has it. Static. */
CAPL_API const char *capl_version(void);

#ifdef __cplusplus
}
#endif
#endif
