/* entry.c -- the door of libcapl_report.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/drawing.h"

const report_drawing *report_drawing_entry(void)
{
  static const report_drawing drawing = {
    .abi = REPORT_ABI, .lines = draw_lines, .sheet = draw_sheet, .gallery = draw_gallery, .matrix = draw_matrix,
    .overlay = draw_overlay, .bars = draw_bars};
  return &drawing;
}
