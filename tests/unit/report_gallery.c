/* report_gallery.c -- galleries: masks, points and boxes lie where they belong, rows and sections have their places.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <stdlib.h>

#include "unit.h"

enum { SIDE = 80, ZOOM = 3, PAD = 18, TOP = PAD + 20 }; /* 240 px for a column; below the heads of the columns */

static const report_drawing *drawing;
static uint8_t gray[SIDE * SIDE], mask[SIDE * SIDE];

static int open_drawing(void **state)
{
  (void)state;
  memset(gray, 200, sizeof gray);
  return report_open(&drawing) == CAPL_OK ? 0 : -1;
}

/* One view, whose image lies at (PAD + 1, TOP + 1). */
static report_picture draw_one(const report_view *view)
{
  const report_section section = {.views = view, .n_views = 1};
  const report_gallery gallery = {.columns = 1, .sections = &section, .n_sections = 1, .first = "as it is"};
  report_picture picture;
  assert_ok(drawing->gallery(&gallery, &picture));
  return picture;
}

/* Levels of the picture at (x,y) of the view's image. */
static const uint8_t *at(const report_picture *p, double x, double y)
{
  int px = PAD + 1 + (int)(x * ZOOM), py = TOP + 1 + (int)(y * ZOOM);
  return p->pixels + 3 * ((size_t)py * (size_t)p->width + (size_t)px);
}

static bool is_gray(const uint8_t *rgb)
{
  return rgb[0] == 200 && rgb[1] == 200 && rgb[2] == 200;
}

static void a_mask_tints_the_pixels_of_its_classes(void **state)
{
  (void)state;
  memset(mask, 0, sizeof mask);
  for (int y = 20; y < 40; y++) memset(mask + y * SIDE + 10, y < 30 ? 1 : 2, 30);
  report_picture p = draw_one(&(report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1,
                                             .mask = mask});
  for (int y = 1; y < SIDE; y += 3)
    for (int x = 1; x < SIDE; x += 3) {
      const uint8_t *rgb = at(&p, x + 0.5, y + 0.5);
      if (mask[y * SIDE + x] == 0) assert_true(is_gray(rgb));
      else if (mask[y * SIDE + x] == 1) assert_true(rgb[0] > rgb[2] + 40); /* red */
      else assert_true(rgb[2] > rgb[0] + 40);                              /* blue */
    }
  report_picture_fini(&p);
}

static void points_are_dots_and_crosses_at_their_place(void **state)
{
  (void)state;
  const float points[] = {20, 30, 1, 60, 50, 0, 500, 500, 1};
  report_picture p = draw_one(&(report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1,
                                             .points = points, .n_points = 3});
  assert_true(is_gray(at(&p, 20, 30)));      /* a ring is empty */
  assert_false(is_gray(at(&p, 20, 31)));     /* 3 px below */
  assert_false(is_gray(at(&p, 60, 50)));     /* a cross is not */
  for (int d = 3; d < 10; d++) assert_true(is_gray(at(&p, 20 + d, 30 + d)) && is_gray(at(&p, 60 - d, 50 + d)));
  report_picture_fini(&p);
}

static void where_a_point_should_be_is_a_full_dot_at_the_end_of_a_line(void **state)
{
  (void)state;
  const float points[] = {20, 30, 1, 20, 60, -1}, truth[] = {60, 30, 1, 60, 60, -1};
  report_picture p = draw_one(&(report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1,
                                             .points = points, .truth = truth, .n_points = 2});
  const uint8_t *full = at(&p, 60, 30), *line = at(&p, 40, 30);
  assert_true(full[0] == 0xd5 && full[1] == 0x5e && full[2] == 0x00);
  assert_true(line[0] > line[2] + 40);
  for (int x = 1; x < SIDE; x++) assert_true(is_gray(at(&p, x, 60)));
  report_picture_fini(&p);
}

static void the_legend_has_the_colours_of_the_classes(void **state)
{
  (void)state;
  const report_view views[] = {{.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1},
                               {.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1}};
  const report_section section = {.views = views, .n_views = 2};
  const report_key keys[] = {{"none", 0}, {"sky", 2}};
  report_gallery gallery = {.columns = 2, .together = 2, .sections = &section, .n_sections = 1, .legend = keys,
                            .n_legend = 2};
  report_picture p;
  assert_ok(drawing->gallery(&gallery, &p));
  assert_int_equal(p.width, 2 * PAD + 2 * (3 * SIDE + 2) + 10); /* both of a row stand together */
  int blue = 0;
  for (int x = PAD; x < p.width; x++) {
    const uint8_t *rgb = p.pixels + 3 * ((size_t)(PAD + 5) * (size_t)p.width + (size_t)x);
    blue += rgb[0] == 0x00 && rgb[1] == 0x72 && rgb[2] == 0xb2;
  }
  assert_int_equal(blue, 9);
  report_picture_fini(&p);
}

static void classes_have_colours_of_their_own(void **state)
{
  (void)state;
  assert_int_equal(report_class_colour(1), 0xd55e00);
  assert_int_equal(report_class_colour(0), 0);
  for (int a = 1; a < 256; a++)
    for (int b = 1; b < a; b++) assert_int_not_equal(report_class_colour(a), report_class_colour(b));
}

static void a_point_that_there_is_not_has_no_mark(void **state)
{
  (void)state;
  const float points[] = {4, 4, -1, 60, 50, -1};
  report_picture p = draw_one(&(report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1,
                                             .points = points, .n_points = 2});
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) assert_true(is_gray(at(&p, x, y)));
  report_picture_fini(&p);
}

static void boxes_are_drawn_unless_there_is_none(void **state)
{
  (void)state;
  const float boxes[] = {10, 20, 40, 60, 0, 50, 20, 70, 60, -1};
  report_picture p = draw_one(&(report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1,
                                             .boxes = boxes, .n_boxes = 2});
  for (int y = 30; y < 60; y += 5) {
    assert_false(is_gray(at(&p, 10, y)));
    assert_false(is_gray(at(&p, 40, y)));
    assert_true(is_gray(at(&p, 30, y)));
    assert_true(is_gray(at(&p, 50, y)) && is_gray(at(&p, 70, y)));
  }
  report_picture_fini(&p);
}

static void rows_and_sections_add_up(void **state)
{
  (void)state;
  report_view views[7];
  for (int i = 0; i < 7; i++)
    views[i] = (report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1, .caption = i ? "" : "A"};
  const report_section sections[] = {{.title = "one", .note = "note", .views = views, .n_views = 7},
                                     {.title = "two", .views = views, .n_views = 1}};
  report_picture p;
  assert_ok(drawing->gallery(&(report_gallery){.columns = 3, .sections = sections, .n_sections = 2, .title = "all"},
                             &p));
  assert_int_equal(p.width, 2 * PAD + 3 * (3 * SIDE + 2) + 2 * 10 + 22);
  assert_int_equal(p.height, 2 * PAD + 38 + (26 + 20) + 3 * (3 * SIDE + 2 + 20 + 12) + 14 + 26 + (3 * SIDE + 2 + 20));
  report_picture_fini(&p);
}

static void long_notes_have_several_lines(void **state)
{
  (void)state;
  const report_view view = {.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1};
  const char *notes[] = {"short",
                         ("a note of many words that is by far too long for one line of so narrow a picture, "
                          "so it takes two"),
                         "oneveryveryverylongwordthatnolinecanhold,whichisthencutattheendofitsonlylinewithadotdotdot"};
  int height[3];
  for (int i = 0; i < 3; i++) {
    const report_section section = {.note = notes[i], .views = &view, .n_views = 1};
    report_picture p;
    assert_ok(drawing->gallery(&(report_gallery){.columns = 1, .sections = &section, .n_sections = 1}, &p));
    height[i] = p.height;
    report_picture_fini(&p);
  }
  assert_int_equal(height[1], height[0] + 20);
  assert_int_equal(height[2], height[0]);
}

static void what_cannot_be_drawn_is_told(void **state)
{
  (void)state;
  report_picture p;
  report_view view = {.pixels = gray, .width = SIDE, .height = SIDE, .channels = 2};
  const report_section section = {.views = &view, .n_views = 1};
  report_gallery gallery = {.columns = 1, .sections = &section, .n_sections = 1};
  assert_fails(drawing->gallery(&gallery, &p), CAPL_EVALUE, "section 1, view 1: an image of 2 channels, not 1 or 3");
  view = (report_view){.pixels = gray, .width = SIDE, .height = SIDE, .channels = 1, .n_points = 3};
  assert_fails(drawing->gallery(&gallery, &p), CAPL_EVALUE, "section 1, view 1: points or boxes without numbers");
  gallery.columns = 0;
  assert_fails(drawing->gallery(&gallery, &p), CAPL_EVALUE, "a gallery has 1 to 64 columns, not 0");
  gallery = (report_gallery){.columns = 1};
  assert_fails(drawing->gallery(&gallery, &p), CAPL_EVALUE, "a gallery shows 1 to 10000 views, not 0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_mask_tints_the_pixels_of_its_classes),
    cmocka_unit_test(points_are_dots_and_crosses_at_their_place),
    cmocka_unit_test(where_a_point_should_be_is_a_full_dot_at_the_end_of_a_line),
    cmocka_unit_test(the_legend_has_the_colours_of_the_classes),
    cmocka_unit_test(classes_have_colours_of_their_own),
    cmocka_unit_test(a_point_that_there_is_not_has_no_mark),
    cmocka_unit_test(boxes_are_drawn_unless_there_is_none),
    cmocka_unit_test(rows_and_sections_add_up),
    cmocka_unit_test(long_notes_have_several_lines),
    cmocka_unit_test(what_cannot_be_drawn_is_told),
  };
  return cmocka_run_group_tests(tests, open_drawing, NULL);
}
