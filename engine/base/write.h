/* write.h -- all bytes of a piece, also when a signal or a full pipe parts it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_WRITE_H
#define CAPL_BASE_WRITE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* false with errno: not all of the n bytes were written. */
static inline bool base_write(int fd, const void *bytes, size_t n)
{
  for (const char *p = bytes; n > 0;) {
    ssize_t done = write(fd, p, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return errno = done < 0 ? errno : ENOSPC, false;
    p += done;
    n -= (size_t)done;
  }
  return true;
}

#endif
