/* gb2312.h -- a charset by name: common Chinese characters.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FIELDS_GB2312_H
#define CAPL_FIELDS_GB2312_H

#include <stdbool.h>

#include "capl/error.h"

/* "gb2312-1" or "gb2312-1:N", which as a list of characters no charset can be: '2' is there twice. */
bool gb2312_is_named(const char *spec);
/* All 3,755, or N of them at even distances: number i of N is number floor(3755 i / N) of all. *symbols: UTF-8, caller
** frees. EVALUE for a bad N; ENOMEM. */
capl_status gb2312_symbols(const char *spec, char **symbols);

#endif
