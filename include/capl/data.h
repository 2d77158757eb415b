/* data.h -- where batches come from: image files, sources, augmentation, loader. What is drawn is in synth.h.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_H
#define CAPL_DATA_H

#include "capl/loader.h"

#endif
