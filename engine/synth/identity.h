/* identity.h -- by what a cache knows the samples of a generator again in a later run.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SYNTH_IDENTITY_H
#define CAPL_SYNTH_IDENTITY_H

#include "capl/synth.h"
#include "data/identity.h"

/* Of all that was asked for: preset, letters, sizes, style; h: what comes before. */
uint64_t identity_of_captcha(uint64_t h, const capl_captcha *gen);
/* Of what is drawn for that here: place, FreeType's version, and the first samples themselves, which fonts and the
** program have a part in. ENOMEM; what drawing them raises. */
capl_status identity_of_drawn(capl_source *source, uint64_t place, uint64_t *content);
/* The bytes of a generator's fonts. EIO, ENOMEM. */
capl_status identity_of_fonts(const capl_captcha *gen, uint64_t *h);

#endif
