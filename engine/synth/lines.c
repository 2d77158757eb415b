/* lines.c -- writes the list of labels beside saved images.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "synth/lines.h"

#include <errno.h>
#include <unistd.h>

#include "base/text.h"
#include "base/user_dirs.h"

capl_status lines_save(const char *dir, capl_status (*write)(const void *context, FILE *f), const void *context)
{
  char path[4096], temporary[4200];
  if (snprintf(path, sizeof path, "%s/labels.jsonl", dir) >= (int)sizeof path)
    return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", dir);
  snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
  int fd = capl_file_create_new(temporary);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
  capl_status status = write(context, f);
  bool failed = ferror(f);
  if ((fclose(f) != 0 || failed || (status == CAPL_OK && rename(temporary, path) != 0)) && status == CAPL_OK)
    status = CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
  if (status != CAPL_OK) unlink(temporary);
  return status;
}
