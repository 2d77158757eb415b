/* open.c -- finds the library that draws.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/library.h"

static const report_drawing *drawing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static capl_status load(void)
{
  char why[512] = "";
  void *library = library_open("libcapl_report.so", why, sizeof why);
  if (!library) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "pictures cannot be drawn here: %s", why);
    library_hint(why, "install the Debian package libcairo2; libcapl_report.so belongs beside libcapl.so or in its folder capl");
    return CAPL_EUNSUPPORTED;
  }
  const report_drawing *(*entry)(void);
  library_find(library, "report_drawing_entry", &entry);
  const report_drawing *found = entry ? entry() : NULL;
  if (!found || found->abi != REPORT_ABI)
    return CAPL_FAIL(CAPL_EUNSUPPORTED,
                     "pictures cannot be drawn here: libcapl_report.so is of another build of capl; build both anew");
  drawing = found;
  return CAPL_OK;
}

capl_status report_open(const report_drawing **out)
{
  pthread_mutex_lock(&lock);
  capl_status status = drawing ? CAPL_OK : load();
  *out = drawing;
  pthread_mutex_unlock(&lock);
  return status;
}

void report_picture_fini(report_picture *picture)
{
  free(picture->pixels);
  *picture = (report_picture){0};
}
