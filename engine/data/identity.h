/* identity.h -- by what a cache knows the samples of a source again in a later run.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_IDENTITY_H
#define CAPL_DATA_IDENTITY_H

#include "data/source.h"

/* Of how many samples of which form; h: what comes before. */
CAPL_API uint64_t identity_of_form(uint64_t h, const capl_source *source);
/* Of the first samples themselves, which fonts and the program have a part in. ENOMEM; what reading them raises. */
CAPL_API capl_status identity_of_samples(capl_source *source, uint64_t *h);

#endif
