/* open.c -- finds the library that draws.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <stdlib.h>

#include "base/library.h"

capl_status report_open(const report_drawing **out)
{
  static const library_part part = {
    "libcapl_report.so", "report_drawing_entry", REPORT_ABI, "pictures cannot be drawn here",
    "install the Debian package libcairo2; libcapl_report.so belongs beside libcapl.so or in its folder capl"};
  static const void *drawing;
  capl_status status = library_table(&part, &drawing);
  *out = drawing;
  return status;
}

void report_picture_fini(report_picture *picture)
{
  free(picture->pixels);
  *picture = (report_picture){0};
}
