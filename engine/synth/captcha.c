/* captcha.c -- captcha generators: their options, what threads draw in, the drawing of one image.
**
** A generator is a preset (captcha_presets.c) with options; the preset's style (style_*.c) does the drawing.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/captcha.h"

#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "synth/random.h"
#include "synth/fonts.h"
#include "data/streams.h"

/* ---- making a generator ---------------------------------------------------------------------- */

static int or_default(int value, int fallback)
{
  return value ? value : fallback;
}

/* How often each letter is among the picks: `times` for those of `often`, once for the others. */
static capl_status count_copies(const capl_captcha *gen, const char *often, int times, uint8_t *copies)
{
  char all[128], letter[8];
  int bytes;
  memset(copies, 1, (size_t)capl_vocab_count(gen->vocab));
  for (const char *c = often; *c; c += bytes) {
    bytes = capl_text_char(c) ? capl_text_char(c) : 1;
    int32_t id = capl_vocab_find(gen->vocab, c, (size_t)bytes);
    snprintf(letter, sizeof letter, "%.*s", bytes, c);
    if (id < 0)
      return CAPL_FAIL(CAPL_EVALUE, "captcha often holds '%s', which is not in the charset \"%s\"", letter,
                       capl_vocab_describe(gen->vocab, all, sizeof all));
    copies[id] = (uint8_t)times;
  }
  return CAPL_OK;
}

/* The order in which easy images take letters up is the same for every generator of a charset. */
static void fill_picks(capl_captcha *gen, const uint8_t *copies)
{
  int32_t n_letters = capl_vocab_count(gen->vocab), n = 0;
  for (int32_t id = 0; id < n_letters; id++)
    for (int k = 0; k < copies[id]; k++) gen->pick[gen->n_pick++] = id;
  for (int32_t i = 0; i < n_letters; i++) {
    int32_t id = (int32_t)capl_shuffle(CAPL_STREAM_CAPTCHA, 0, (uint32_t)n_letters, (uint32_t)i);
    for (int k = 0; k < copies[id]; k++) gen->easy_pick[n++] = id;
    gen->n_easy[i + 1] = n;
  }
}

static capl_status make_picks(capl_captcha *gen, const char *often, int times, uint8_t *copies)
{
  size_t n_letters = (size_t)capl_vocab_count(gen->vocab), n = 0;
  CAPL_TRY(count_copies(gen, often, times, copies));
  for (size_t i = 0; i < n_letters; i++) n += copies[i];
  gen->pick = malloc(n * sizeof *gen->pick);
  gen->easy_pick = malloc(n * sizeof *gen->easy_pick);
  gen->n_easy = calloc(n_letters + 1, sizeof *gen->n_easy);
  if (!gen->pick || !gen->easy_pick || !gen->n_easy) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha generator");
  fill_picks(gen, copies);
  return CAPL_OK;
}

static capl_status set_picks(capl_captcha *gen, const char *often, int times)
{
  if (times < 1 || times > CAPL_OFTEN_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "captcha times is %d; it must be 1..%d", times, CAPL_OFTEN_MAX);
  char *normal;
  CAPL_TRY(capl_text_normalize(often, NULL, &normal));
  uint8_t *copies = malloc((size_t)capl_vocab_count(gen->vocab));
  capl_status status = copies ? make_picks(gen, normal, times, copies)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha generator");
  free(copies);
  free(normal);
  return status;
}

static capl_status set_length(capl_captcha *gen, const capl_captcha_options *options)
{
  const capl_captcha_options *usual = &gen->preset->options;
  gen->length_lo = or_default(options->length, usual->length);
  int longest = options->length ? 0 : usual->length_max;
  gen->length = or_default(options->length_max, or_default(longest, gen->length_lo));
  if (gen->length_lo < 1 || gen->length_lo > CAPL_LABEL_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha length is %d; it must be 1..%d", gen->length_lo, CAPL_LABEL_MAX);
  }
  if (gen->length >= gen->length_lo && gen->length <= CAPL_LABEL_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "captcha length is %d..%d; the second number must be %d..%d", gen->length_lo,
                   gen->length, gen->length_lo, CAPL_LABEL_MAX);
}

static capl_status set_options(capl_captcha *gen, const capl_captcha_options *options)
{
  CAPL_TRY(set_length(gen, options));
  if (options->pitch < 0)
    return CAPL_FAIL(CAPL_EVALUE, "captcha pitch is %d px; it is a positive number", options->pitch);
  bool by_length = options->grows || options->pitch || (gen->preset->options.pitch && !options->width);
  gen->width = by_length ? captcha_width_of(gen->preset, options, gen->length)
      : or_default(options->width, gen->preset->options.width);
  gen->height = or_default(options->height, gen->preset->options.height);
  if (gen->width < CAPTCHA_PX_MIN || gen->width > CAPTCHA_PX_MAX || gen->height < CAPTCHA_PX_MIN
      || gen->height > CAPTCHA_PX_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha size is %d x %d px; each side must be %d..%d", gen->width, gen->height,
                     CAPTCHA_PX_MIN, CAPTCHA_PX_MAX);
  }
  CAPL_TRY(capl_vocab_charset(options->charset ? options->charset : gen->preset->options.charset, &gen->vocab));
  CAPL_TRY(set_picks(gen, options->often ? options->often : "", or_default(options->times, 1)));
  gen->own_size = !options->size.given;
  gen->own_dots = !options->dots.given;
  return captcha_options_resolve(gen->preset, options, &gen->options);
}

static capl_status check_candidate(capl_captcha *gen)
{
  captcha_renderer renderer;
  captcha_renderer_init(&renderer, gen->font);
  capl_status status = captcha_fonts_check(&renderer, gen->n_fonts, 1, gen->vocab);
  captcha_renderer_fini(&renderer);
  return status;
}

/* Fails as the last one did if all that are installed lack something. */
static capl_status find_some_fonts(capl_captcha *gen, const char *const *names)
{
  capl_status last = CAPL_OK;
  for (int i = 0; i < CAPL_FONTS_MAX && names[i] && gen->n_fonts < gen->preset->some_fonts; i++) {
    if (!captcha_font_is_there(names[i])) continue;
    CAPL_TRY(captcha_font_find(names[i], NULL, &gen->font[gen->n_fonts]));
    last = check_candidate(gen);
    if (last == CAPL_OK) gen->n_fonts++;
    else captcha_font_free(&gen->font[gen->n_fonts]);
  }
  if (gen->n_fonts) return CAPL_OK;
  return last != CAPL_OK ? last : captcha_fonts_missing(names);
}

static capl_status find_fonts(capl_captcha *gen, const capl_captcha_options *options)
{
  const char *const *usual = gen->preset->options.fonts, *const *names = options->fonts[0] ? options->fonts : usual;
  gen->own_fonts = names == usual;
  if (gen->own_fonts && gen->preset->some_fonts) return find_some_fonts(gen, names);
  while (gen->n_fonts < CAPL_FONTS_MAX && names[gen->n_fonts]) {
    const char *own = gen->own_fonts ? usual[gen->n_fonts] : usual[0];
    CAPL_TRY(captcha_font_find(names[gen->n_fonts], own, &gen->font[gen->n_fonts]));
    gen->n_fonts++;
  }
  return CAPL_OK;
}

/* ---- rooms: what a thread draws in ----------------------------------------------------------- */

static void free_room(captcha_room *room)
{
  captcha_scratch_free(room->lepture);
  captcha_renderer_fini(&room->renderer);
  free(room->rgb);
  free(room->rows);
  free(room);
}

static capl_status furnish(const capl_captcha *gen, captcha_room *room)
{
  size_t row = (size_t)gen->width * 3;
  captcha_renderer_init(&room->renderer, gen->font);
  if (gen->glyphs.store) CAPL_TRY(captcha_scratch_new(gen, &room->lepture));
  if (!gen->letters.store) return CAPL_OK;
  room->rgb = malloc(row * (size_t)gen->height);
  room->rows = malloc(2 * row);
  if (room->rgb && room->rows) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas of %d x %d px", gen->width, gen->height);
}

static capl_status new_room(const capl_captcha *gen, captcha_room **made)
{
  captcha_room *room = calloc(1, sizeof *room);
  if (!room) return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas");
  capl_status status = furnish(gen, room);
  if (status != CAPL_OK) {
    free_room(room);
    return status;
  }
  *made = room;
  return CAPL_OK;
}

static capl_status take_room(capl_captcha *gen, captcha_room **room)
{
  pthread_mutex_lock(&gen->lock);
  *room = gen->idle;
  if (*room) gen->idle = (*room)->next;
  pthread_mutex_unlock(&gen->lock);
  return *room ? CAPL_OK : new_room(gen, room);
}

static void return_room(capl_captcha *gen, captcha_room *room)
{
  pthread_mutex_lock(&gen->lock);
  room->next = gen->idle;
  gen->idle = room;
  pthread_mutex_unlock(&gen->lock);
}

/* ---- making and releasing -------------------------------------------------------------------- */

static capl_status open_style(capl_captcha *gen)
{
  captcha_renderer renderer;
  captcha_renderer_init(&renderer, gen->font);
  capl_status status = gen->preset->style->open(gen, &renderer, 0, gen->n_fonts);
  captcha_renderer_fini(&renderer);
  return status;
}

static capl_status build(capl_captcha *gen, const char *preset, const capl_captcha_options *options)
{
  CAPL_TRY(captcha_preset_find(preset, &gen->preset));
  CAPL_TRY(set_options(gen, options));
  CAPL_TRY(find_fonts(gen, options));
  if (options->grows) return captcha_members_new(gen, preset, options);
  CAPL_TRY(open_style(gen));
  return new_room(gen, &gen->idle);
}

capl_status captcha_new_within(const char *preset, const capl_captcha_options *options, size_t letters_most,
                               capl_captcha **out)
{
  static const capl_captcha_options defaults;
  capl_captcha *gen = calloc(1, sizeof *gen);
  if (!gen) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha generator");
  gen->refs = 1;
  gen->letters_most = letters_most;
  pthread_mutex_init(&gen->lock, NULL);
  capl_status status = build(gen, preset, options ? options : &defaults);
  if (status == CAPL_OK) {
    *out = gen;
  } else {
    capl_captcha_unref(gen);
  }
  return status;
}

capl_status capl_captcha_new(const char *preset, const capl_captcha_options *options, capl_captcha **out)
{
  return captcha_new_within(preset, options, (size_t)CAPL_LETTERS_BYTES, out);
}

capl_captcha *capl_captcha_ref(capl_captcha *gen)
{
  atomic_fetch_add(&gen->refs, 1);
  return gen;
}

void capl_captcha_unref(capl_captcha *gen)
{
  if (!gen || atomic_fetch_sub(&gen->refs, 1) != 1) return;
  while (gen->idle) {
    captcha_room *next = gen->idle->next;
    free_room(gen->idle);
    gen->idle = next;
  }
  for (int i = 0; i < gen->n_members; i++) capl_captcha_unref(gen->member[i]);
  for (int i = 0; i < gen->n_fonts; i++) captcha_font_free(&gen->font[i]);
  captcha_letters_fini(&gen->letters);
  capl_glyphs_fini(&gen->glyphs);
  pthread_mutex_destroy(&gen->lock);
  capl_vocab_unref(gen->vocab);
  free(gen->pick);
  free(gen->easy_pick);
  free(gen->n_easy);
  free(gen);
}

int capl_captcha_width(const capl_captcha *gen)
{
  return gen->width;
}

int capl_captcha_height(const capl_captcha *gen)
{
  return gen->height;
}

int capl_captcha_length(const capl_captcha *gen)
{
  return gen->length;
}

const char *capl_captcha_charset(const capl_captcha *gen)
{
  return capl_vocab_text(gen->vocab);
}

const capl_vocab *capl_captcha_vocab(const capl_captcha *gen)
{
  return gen->vocab;
}

const char *capl_captcha_font(const capl_captcha *gen, int i)
{
  return i >= 0 && i < gen->n_fonts ? gen->font[i].path : NULL;
}

static size_t bytes_of(const letter_store *store)
{
  return store ? letter_store_bytes(store) : 0;
}

size_t capl_captcha_letters_bytes(const capl_captcha *gen)
{
  size_t bytes = bytes_of(gen->letters.store) + bytes_of(gen->glyphs.store);
  for (int i = 0; i < gen->n_members; i++) bytes += capl_captcha_letters_bytes(gen->member[i]);
  return bytes;
}

int capl_captcha_shortest(const capl_captcha *gen)
{
  return gen->length_lo;
}

/* ---- drawing --------------------------------------------------------------------------------- */

int captcha_roll_letter(captcha_image *image)
{
  const capl_captcha *gen = image->gen;
  bool all = image->level.n_letters == capl_vocab_count(gen->vocab);
  const int32_t *pick = all ? gen->pick : gen->easy_pick;
  return pick[random_between(&image->rng, 0, gen->n_easy[image->level.n_letters] - 1)];
}

int captcha_roll_length(captcha_image *image)
{
  int lo = image->level.length_lo, hi = image->level.length_hi;
  return lo == hi ? lo : random_between(&image->rng, lo, hi);
}

capl_status captcha_letters_open(capl_captcha *gen, captcha_renderer *renderer, int first_font, int n_fonts)
{
  gen->letters.first_font = first_font;
  gen->letters.n_fonts = n_fonts;
  return captcha_letters_init(&gen->letters, renderer, gen->vocab, gen->letters_most);
}

const captcha_letter *captcha_letters_at(captcha_image *image, int font, int size, int turn, int id)
{
  static uint8_t nothing[9];
  static const captcha_letter blank = {.width = 1, .height = 1, .advance = 1, .coverage = nothing};
  const captcha_letters *l = &image->gen->letters;
  size_t place = captcha_letters_place(l, font, size, turn, id);
  const captcha_letter *letter = letter_store_get(l->store, place);
  if (letter) return letter;
  capl_status status = captcha_letters_render(l, &image->room->renderer, place, &letter);
  if (status != CAPL_OK) image->status = status;
  return status == CAPL_OK ? letter : &blank;
}

captcha_colour captcha_roll_colour(capl_rng *rng, const capl_captcha_colours *colours)
{
  captcha_colour colour;
  for (int c = 0; c < 3; c++) colour.rgb[c] = (uint8_t)random_between(rng, colours->lo[c], colours->hi[c]);
  return colour;
}

int captcha_roll_count(captcha_image *image, int lo, int hi)
{
  return (int)((float)random_between(&image->rng, lo, hi) * image->level.noise + 0.5f);
}

void captcha_draw_in(const captcha_style *style, captcha_image *image)
{
  if (style->draw) {
    style->draw(image);
    return;
  }
  uint8_t *rgb = image->channels == 3 ? image->pixels : image->room->rgb;
  captcha_sheet sheet = {image->gen->width, image->gen->height, rgb};
  style->paint(image, &sheet);
  if (image->channels == 1) captcha_sheet_luma(&sheet, image->pixels);
}

static capl_status check_share(const char *name, float share)
{
  if (share >= 0 && share <= 1) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "difficulty: %s is %g; it is a share, 0..1", name, (double)share);
}

static capl_status set_level(const capl_captcha *gen, const capl_difficulty *d, captcha_level *level)
{
  int n_letters = capl_vocab_count(gen->vocab);
  *level = (captcha_level){gen->length_lo, gen->length, n_letters, 1, 1};
  if (!d) return CAPL_OK;
  level->length_hi = or_default(d->length_hi, gen->length);
  level->length_lo = or_default(d->length_lo, level->length_hi < gen->length_lo ? level->length_hi : gen->length_lo);
  if (level->length_lo < gen->length_lo || level->length_hi > gen->length || level->length_lo > level->length_hi) {
    return CAPL_FAIL(CAPL_EVALUE, "difficulty: length is %d..%d; the generator draws %d..%d characters",
                     level->length_lo, level->length_hi, gen->length_lo, gen->length);
  }
  CAPL_TRY(check_share("charset_share", d->charset_share));
  CAPL_TRY(check_share("noise", d->noise));
  CAPL_TRY(check_share("warp", d->warp));
  level->n_letters = (int)ceilf(d->charset_share * (float)n_letters - 1e-3f);
  if (level->n_letters < 1) level->n_letters = 1;
  level->noise = d->noise;
  level->warp = d->warp;
  return CAPL_OK;
}

/* A member draws texts of one length; what lies behind them is the caller's. */
static capl_status draw_by_member(const capl_captcha *gen, const capl_captcha *member, uint64_t seed, uint64_t index,
                                  const capl_difficulty *difficulty, int channels, uint8_t *pixels, int32_t *labels)
{
  captcha_level level;
  CAPL_TRY(set_level(gen, difficulty, &level));
  capl_difficulty rest = difficulty ? *difficulty : (capl_difficulty){0, 0, 1, 1, 1};
  rest.length_lo = rest.length_hi = 0;
  for (int i = member->length; i < gen->length; i++) labels[i] = -1;
  return capl_captcha_draw_at(member, seed, index, &rest, channels, pixels, labels);
}

capl_status capl_captcha_draw_at(const capl_captcha *generator, uint64_t seed, uint64_t index,
                                 const capl_difficulty *difficulty, int channels, uint8_t *pixels, int32_t *labels)
{
  if (channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "a captcha has 1 or 3 channels, not %d", channels);
  const capl_captcha *member = capl_captcha_member(generator, seed, index, difficulty);
  if (member != generator) return draw_by_member(generator, member, seed, index, difficulty, channels, pixels, labels);
  capl_captcha *gen = (capl_captcha *)generator; /* only the list of idle rooms changes */
  captcha_image image = {.gen = gen, .channels = channels, .pixels = pixels, .labels = labels};
  CAPL_TRY(set_level(gen, difficulty, &image.level));
  CAPL_TRY(take_room(gen, &image.room));
  capl_rng_init(&image.rng, seed, (uint32_t)index, (uint32_t)(index >> 32), CAPL_STREAM_CAPTCHA);
  for (int i = 0; i < gen->length; i++) labels[i] = -1;
  captcha_draw_in(gen->preset->style, &image);
  captcha_renderer_drop(&image.room->renderer);
  return_room(gen, image.room);
  return image.status;
}

capl_status capl_captcha_draw(const capl_captcha *gen, uint64_t seed, uint64_t index, int channels, uint8_t *pixels,
                              int32_t *labels)
{
  return capl_captcha_draw_at(gen, seed, index, NULL, channels, pixels, labels);
}

int capl_captcha_text(const capl_captcha *gen, const int32_t *labels, char *text)
{
  int n = 0;
  *text = '\0';
  for (; n < gen->length && labels[n] >= 0; n++) text = stpcpy(text, capl_vocab_name(gen->vocab, labels[n]));
  return n;
}
