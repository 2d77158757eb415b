/* drawing.h -- what the files that draw share.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_REPORT_DRAWING_H
#define CAPL_REPORT_DRAWING_H

#include "report/canvas.h"

/* The functions of report_drawing; report.h says what they do. */
capl_status draw_lines(const report_chart *chart, report_picture *out);
capl_status draw_sheet(const report_sheet *sheet, report_picture *out);

#endif
