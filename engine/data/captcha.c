/* captcha.c -- captcha generators: presets, options, and the drawing of one image.
**
** A preset is a row of the list below: a style (style_*.c) with its numbers. A generator is a preset with options.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/captcha.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dice.h"
#include "data/streams.h"

enum { LEAST_PX = 16, MOST_PX = 1024 };

static const captcha_preset presets[] = {
  {"lepture", &captcha_lepture, "0-9A-Z", 4, 160, 60,
   .lepture = {{42, 50, 56}, {0.1f, 0.2f, 0}, {0.2f, 0.1f, 0}, true}},
  {"lepture-0.7.1", &captcha_lepture, "0-9A-Z", 4, 160, 60,
   .lepture = {{42, 50, 56}, {0, 0.2f, 0.1f}, {0, 0.1f, 0.2f}, false}},
};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *capl_captcha_preset_name(int i)
{
  return i >= 0 && i < N_PRESETS ? presets[i].name : NULL;
}

static capl_status find_preset(const char *name, const captcha_preset **found)
{
  char names[256] = "";
  for (int i = 0; i < N_PRESETS; i++) {
    *found = &presets[i];
    if (name && strcmp(name, presets[i].name) == 0) return CAPL_OK;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", presets[i].name);
  }
  return CAPL_FAIL(CAPL_EVALUE, "no captcha preset \"%s\"; there are: %s", name ? name : "", names);
}

/* ---- making a generator ---------------------------------------------------------------------- */

static int or_default(int value, int fallback)
{
  return value ? value : fallback;
}

static capl_status set_picks(capl_captcha *gen, const char *often, int times)
{
  if (times < 1 || times > CAPL_OFTEN_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha times is %d; it must be 1..%d", times, CAPL_OFTEN_MAX);
  }
  for (const char *c = often; *c; c++) {
    if (!strchr(gen->charset, *c)) {
      return CAPL_FAIL(CAPL_EVALUE, "captcha often holds '%c', which is not in the charset \"%s\"", *c, gen->charset);
    }
  }
  for (int id = 0; gen->charset[id]; id++) {
    int copies = strchr(often, gen->charset[id]) ? times : 1;
    for (int i = 0; i < copies; i++) gen->pick[gen->n_pick++] = (uint8_t)id;
  }
  return CAPL_OK;
}

/* The order in which easy images take letters up is the same for every generator of a charset. */
static void set_easy_picks(capl_captcha *gen)
{
  int n_letters = (int)strlen(gen->charset), n = 0;
  for (int i = 0; i < n_letters; i++) {
    uint8_t id = (uint8_t)capl_shuffle(CAPL_STREAM_CAPTCHA, 0, (uint32_t)n_letters, (uint32_t)i);
    for (int k = 0; k < gen->n_pick; k++) {
      if (gen->pick[k] == id) gen->easy_pick[n++] = id;
    }
    gen->n_easy[i + 1] = n;
  }
}

static capl_status set_length(capl_captcha *gen, const capl_captcha_options *options)
{
  gen->length_lo = or_default(options->length, gen->preset->length);
  gen->length = or_default(options->length_max, gen->length_lo);
  if (gen->length_lo < 1 || gen->length_lo > CAPL_LABEL_MAX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha length is %d; it must be 1..%d", gen->length_lo, CAPL_LABEL_MAX);
  }
  if (gen->length >= gen->length_lo && gen->length <= CAPL_LABEL_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "captcha length is %d..%d; the second number must be %d..%d", gen->length_lo, gen->length,
                   gen->length_lo, CAPL_LABEL_MAX);
}

static capl_status set_options(capl_captcha *gen, const capl_captcha_options *options)
{
  CAPL_TRY(set_length(gen, options));
  gen->width = or_default(options->width, gen->preset->width);
  gen->height = or_default(options->height, gen->preset->height);
  if (gen->width < LEAST_PX || gen->width > MOST_PX || gen->height < LEAST_PX || gen->height > MOST_PX) {
    return CAPL_FAIL(CAPL_EVALUE, "captcha size is %d x %d px; each side must be %d..%d", gen->width, gen->height,
                     LEAST_PX, MOST_PX);
  }
  CAPL_TRY(capl_charset_expand(options->charset ? options->charset : gen->preset->charset, gen->charset));
  CAPL_TRY(set_picks(gen, options->often ? options->often : "", or_default(options->times, 1)));
  set_easy_picks(gen);
  return CAPL_OK;
}

/* ---- rooms: what a thread draws in ----------------------------------------------------------- */

static void free_room(captcha_room *room)
{
  captcha_scratch_free(room->lepture);
  free(room);
}

static capl_status new_room(const capl_captcha *gen, captcha_room **made)
{
  captcha_room *room = calloc(1, sizeof *room);
  if (!room) return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw captchas");
  capl_status status = gen->glyphs.glyph ? captcha_scratch_new(gen, &room->lepture) : CAPL_OK;
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

static capl_status build(capl_captcha *gen, const char *preset, const capl_captcha_options *options)
{
  CAPL_TRY(find_preset(preset, &gen->preset));
  CAPL_TRY(set_options(gen, options));
  CAPL_TRY(gen->preset->style->open(gen, options));
  return new_room(gen, &gen->idle);
}

capl_status capl_captcha_new(const char *preset, const capl_captcha_options *options, capl_captcha **out)
{
  static const capl_captcha_options defaults;
  capl_captcha *gen = calloc(1, sizeof *gen);
  if (!gen) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha generator");
  gen->refs = 1;
  pthread_mutex_init(&gen->lock, NULL);
  capl_status status = build(gen, preset, options ? options : &defaults);
  if (status == CAPL_OK) {
    *out = gen;
  } else {
    capl_captcha_unref(gen);
  }
  return status;
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
  capl_glyphs_fini(&gen->glyphs);
  pthread_mutex_destroy(&gen->lock);
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
  return gen->charset;
}

const char *capl_captcha_font(const capl_captcha *gen)
{
  return gen->glyphs.path;
}

int capl_captcha_shortest(const capl_captcha *gen)
{
  return gen->length_lo;
}

/* ---- drawing --------------------------------------------------------------------------------- */

int captcha_roll_letter(const capl_captcha *gen, const captcha_level *level, capl_rng *rng)
{
  bool all = level->n_letters == (int)strlen(gen->charset);
  const uint8_t *pick = all ? gen->pick : gen->easy_pick;
  return pick[dice_between(rng, 0, gen->n_easy[level->n_letters] - 1)];
}

int captcha_roll_length(const captcha_level *level, capl_rng *rng)
{
  return level->length_lo == level->length_hi ? level->length_lo : dice_between(rng, level->length_lo, level->length_hi);
}

static capl_status check_share(const char *name, float share)
{
  if (share >= 0 && share <= 1) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "difficulty: %s is %g; it is a share, 0..1", name, (double)share);
}

static capl_status set_level(const capl_captcha *gen, const capl_difficulty *d, captcha_level *level)
{
  int n_letters = (int)strlen(gen->charset);
  *level = (captcha_level){gen->length_lo, gen->length, n_letters, 1, 1};
  if (!d) return CAPL_OK;
  level->length_hi = or_default(d->length_hi, gen->length);
  level->length_lo = or_default(d->length_lo, level->length_hi < gen->length_lo ? level->length_hi : gen->length_lo);
  if (level->length_lo < gen->length_lo || level->length_hi > gen->length || level->length_lo > level->length_hi) {
    return CAPL_FAIL(CAPL_EVALUE, "difficulty: length is %d..%d; the generator draws %d..%d characters", level->length_lo,
                     level->length_hi, gen->length_lo, gen->length);
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

capl_status capl_captcha_draw_at(const capl_captcha *generator, uint64_t seed, uint64_t index,
                                 const capl_difficulty *difficulty, int channels, uint8_t *pixels, int32_t *labels)
{
  if (channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "a captcha has 1 or 3 channels, not %d", channels);
  capl_captcha *gen = (capl_captcha *)generator; /* only the list of idle rooms changes */
  captcha_level level;
  CAPL_TRY(set_level(gen, difficulty, &level));
  captcha_room *room;
  CAPL_TRY(take_room(gen, &room));
  capl_rng rng;
  capl_rng_init(&rng, seed, (uint32_t)index, (uint32_t)(index >> 32), CAPL_STREAM_CAPTCHA);
  for (int i = 0; i < gen->length; i++) labels[i] = -1;
  gen->preset->style->draw(gen, &level, &rng, room, channels, pixels, labels);
  return_room(gen, room);
  return CAPL_OK;
}

capl_status capl_captcha_draw(const capl_captcha *gen, uint64_t seed, uint64_t index, int channels, uint8_t *pixels,
                              int32_t *labels)
{
  return capl_captcha_draw_at(gen, seed, index, NULL, channels, pixels, labels);
}

int capl_captcha_text(const capl_captcha *gen, const int32_t *labels, char *text)
{
  int n = 0;
  while (n < gen->length && labels[n] >= 0) {
    text[n] = gen->charset[labels[n]];
    n++;
  }
  text[n] = '\0';
  return n;
}
