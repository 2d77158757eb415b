/* lines.h -- a list of labels beside saved images, which appears whole or not at all.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SYNTH_LINES_H
#define CAPL_SYNTH_LINES_H

#include <stdio.h>

#include "capl/error.h"

/* dir/labels.jsonl, as write writes it. EIO naming it, and what write returns. */
capl_status lines_save(const char *dir, capl_status (*write)(const void *context, FILE *f), const void *context);

#endif
