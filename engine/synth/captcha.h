/* captcha.h -- the inside of a generator: its preset, its options, and what a style must be able to do.
**
** captcha.c makes generators and holds the list of presets; each style_*.c draws one family of them.
** The lepture style plans an image (style_lepture.c) before paint.c turns the plan into pixels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_CAPTCHA_H
#define CAPL_DATA_CAPTCHA_H

#include <pthread.h>
#include <stdatomic.h>

#include "capl/loader.h"
#include "capl/synth.h"
#include "capl/rng.h"
#include "synth/letters.h"
#include "synth/renderer.h"
#include "synth/sheet.h"
#include "synth/warp.h"

enum { CAPTCHA_PX_MIN = 16, CAPTCHA_PX_MAX = 1024 }; /* sides of an image */
enum { CAPTCHA_SIZES = 3, CAPTCHA_DOTS = 30 };

typedef struct captcha_scratch captcha_scratch; /* what one thread needs to paint the lepture style; paint.c */

/* What one thread draws in. */
typedef struct captcha_room {
  struct captcha_room *next; /* idle ones form a list */
  captcha_scratch *lepture;  /* NULL if the preset has no use for it */
  uint8_t *rgb;              /* the sheet of a gray image, (H,W,3); NULL likewise */
  uint8_t *rows;             /* two rows of a sheet */
  captcha_renderer renderer; /* of letters that are not there yet */
} captcha_room;

/* How hard one image is to be: what the options say, made easier by what draw_at was given. */
typedef struct {
  int length_lo, length_hi;
  int n_letters;     /* how many of the charset's letters, in the generator's order */
  float noise, warp; /* 0..1 of the style's own */
} captcha_level;

/* One image in the making. */
typedef struct {
  const capl_captcha *gen;
  captcha_level level;
  capl_rng rng;
  captcha_room *room;
  int channels;
  uint8_t *pixels; /* (H,W,channels) */
  int32_t *labels; /* T ids, all -1 at first */
  capl_status status; /* of rendering its letters */
} captcha_image;

/* A family of presets: it draws on a sheet, or by itself. */
typedef struct {
  /* Renders the letters of a small charset, checks that fonts have all others. */
  capl_status (*open)(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts);
  void (*paint)(captcha_image *image, const captcha_sheet *sheet);
  void (*draw)(captcha_image *image); /* without a sheet; NULL if there is paint */
} captcha_style;

/* Largest displacement of a letter's corners: share * cell + px, share = least + spread * uniform. */
typedef struct {
  float least, spread, px;
} captcha_warp_rule;

typedef struct {
  int size_px[CAPTCHA_SIZES];
  captcha_warp_rule warp_x, warp_y;
  bool arc_spans; /* the arc ends in the last fifth of the width; else anywhere right of the first */
} captcha_lepture_rule;

typedef struct {
  const char *name;
  const captcha_style *style;
  capl_captcha_options options; /* what a generator has when its own say nothing */
  captcha_lepture_rule lepture;
  int some_fonts; /* 0 = it has all of options.fonts; else the first so many that are installed and have all symbols */
} captcha_preset;

/* One place of the line: a letter, or a blank of the given width. */
typedef struct {
  capl_warp warp; /* glyph NULL = blank */
  int width;
  int step_back; /* px by which the next cell overlaps this one */
} captcha_cell;

typedef struct {
  int x, y;
} captcha_point;

typedef struct {
  float background[3], ink[3]; /* RGB levels */
  int opacity;
  int n_letters;
  int n_cells, text_width; /* text_width: sum of the cells' widths */
  captcha_cell cell[2 * CAPL_LABEL_MAX];
  int n_dots;
  captcha_point dot[CAPTCHA_DOTS];
  bool has_arc;
  captcha_point arc_from, arc_to; /* corners of the ellipse's box */
  float arc_start, arc_end;       /* radians, clockwise from three o'clock */
} captcha_plan;

struct capl_captcha {
  atomic_int refs;
  const captcha_preset *preset;
  int length_lo, length, width, height; /* length: the longest */
  capl_vocab *vocab; /* its letters */
  /* What letters are drawn from, uniformly: class ids, repeated as wanted; and the same in the order in which easy
  ** images take letters up, with how many of these entries belong to the first n letters. */
  int32_t *pick, *easy_pick, *n_easy;
  int n_pick;
  capl_captcha_options options; /* of those that only some presets have, all that this one has */
  bool own_size, own_dots, own_fonts; /* the preset's, not the options' */
  /* Where longer texts have wider images: the generators of texts of length_lo and more characters. */
  struct capl_captcha *member[CAPL_LABEL_MAX];
  int n_members; /* 0 = all images have the same width */
  captcha_font font[CAPL_FONTS_MAX];
  int n_fonts;
  size_t letters_most;     /* bytes of letters and as many of glyphs to keep */
  captcha_letters letters; /* of styles that draw on a sheet */
  capl_glyphs glyphs;      /* of the lepture style */
  pthread_mutex_t lock; /* of idle */
  captcha_room *idle;
};

extern const captcha_style captcha_lepture, captcha_gd, captcha_seed, captcha_mixed, captcha_gradient, captcha_free;

/* captcha_presets.c, captcha_options.c */
capl_status captcha_preset_find(const char *name, const captcha_preset **found);
bool captcha_option_given(const capl_captcha_options *options, const capl_style_option *option);
/* The preset's options with those given in their place. */
capl_status captcha_options_resolve(const captcha_preset *preset, const capl_captcha_options *options,
                                    capl_captcha_options *resolved);
extern const char *const captcha_grids[], *const captcha_backdrops[], *const captcha_ink_pers[],
    *const captcha_line_places[];
/* Place of a word in its list. */
int captcha_word_index(const char *const *words, const char *word);

/* What the styles roll. */
int captcha_roll_length(captcha_image *image); /* no die is rolled when there is nothing to choose */
int captcha_roll_letter(captcha_image *image); /* class id */
captcha_colour captcha_roll_colour(capl_rng *rng, const capl_captcha_colours *colours);
/* How many of the things that make an image noisy. */
int captcha_roll_count(captcha_image *image, int lo, int hi);

/* Draws the image in a style of its generator. */
void captcha_draw_in(const captcha_style *style, captcha_image *image);

/* The letters of a style that draws on a sheet, which has set their sizes and turns. */
capl_status captcha_letters_open(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts);
/* A letter of the image's generator, rendered if this is its first use. A blank one when that fails, which the image
** then knows. */
const captcha_letter *captcha_letters_at(captcha_image *image, int font, int size, int turn, int id);

/* With room for the glyphs that are rendered. */
capl_status captcha_scratch_new(const capl_captcha *gen, captcha_scratch **scratch);
/* Takes a larger one if the plan has glyphs, or a line, that need it. */
capl_status captcha_scratch_fit(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch **scratch);
void captcha_scratch_free(captcha_scratch *scratch); /* NULL is fine */

/* captcha_variable_width.c: with the option grows or a pitch, px of texts of so many characters; makes the members,
** after all else of gen. */
int captcha_width_of(const captcha_preset *preset, const capl_captcha_options *options, int length);
capl_status captcha_members_new(capl_captcha *gen, const char *preset, const capl_captcha_options *options);
/* As capl_captcha_new, whose letters take at most so many bytes. */
capl_status captcha_new_within(const char *preset, const capl_captcha_options *options, size_t letters_most,
                               capl_captcha **gen);

void captcha_paint(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *scratch, int channels,
                   uint8_t *pixels);

#endif
