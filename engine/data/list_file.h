/* list_file.h -- the lines of a list of images, in any of its formats.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LIST_FILE_H
#define CAPL_DATA_LIST_FILE_H

#include "capl/data.h"
#include "data/file_fields.h"
#include "data/texts.h"

/* What a list says. */
typedef struct {
  texts path, label; /* equally many; labels may be missing */
  uint32_t *line;    /* [path.count], from 1; on which each begins */
  uint32_t lines;    /* room in line */
  file_fields fields; /* begun by the caller, where there are some: paths of masks and target images, numbers */
} list_lines; /* start from {0} */

CAPL_API void list_lines_fini(list_lines *l);

/* Reads a file; labels: each line must have one. Errors as capl_source_list_new; l is fini'd by the caller either
** way. */
CAPL_API capl_status list_lines_read(const char *file, const capl_list_options *options, bool labels, list_lines *l);
/* The same of bytes that name stands for. */
CAPL_API capl_status list_lines_parse(const void *bytes, size_t size, const char *name,
                                      const capl_list_options *options, bool labels, list_lines *l);

#endif
