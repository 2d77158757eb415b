/* captcha_variable_width.c -- captchas whose width grows with the text: a generator for each length, and a source that
** serves them in batches of a few widths.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/captcha.h"
#include "data/resize.h"
#include "synth/identity.h"
#include "data/image.h"
#include "data/hash64.h"
#include "data/source.h"
#include "data/streams.h"
#include "data/widths.h"

/* ---- generators ------------------------------------------------------------------------------ */

int captcha_width_of(const captcha_preset *preset, const capl_captcha_options *options, int length)
{
  int usual = options->width ? options->width : preset->options.width, own = preset->options.length;
  int pitch = options->pitch ? options->pitch : preset->options.pitch;
  return pitch ? usual + (length - own) * pitch : (int)floor((double)usual * length / own + 0.5);
}

capl_status captcha_members_new(capl_captcha *gen, const char *preset, const capl_captcha_options *options)
{
  capl_captcha_options of_one = *options;
  of_one.grows = false;
  of_one.length_max = of_one.pitch = 0;
  size_t letters_most = gen->letters_most / (size_t)(gen->length - gen->length_lo + 1);
  for (int length = gen->length_lo; length <= gen->length; length++) {
    of_one.length = length;
    of_one.width = captcha_width_of(gen->preset, options, length);
    capl_status status = captcha_new_within(preset, &of_one, letters_most, &gen->member[gen->n_members]);
    if (status != CAPL_OK) {
      if (gen->length > gen->length_lo)
        capl_error_context("texts of %d characters are %d px wide", length, of_one.width);
      return status;
    }
    gen->n_members++;
  }
  return CAPL_OK;
}

/* Characters of an image's text: its own, unless they are too many or too few for a difficulty. */
static int length_at(const capl_captcha *gen, uint64_t seed, uint64_t index, const capl_difficulty *d)
{
  capl_rng rng;
  capl_rng_init(&rng, seed, (uint32_t)index, (uint32_t)(index >> 32), CAPL_STREAM_CAPTCHA_LENGTH);
  int own = (int)(capl_rng_u32(&rng) % (uint32_t)gen->n_members), lo = 0, hi = gen->n_members - 1;
  if (d && d->length_lo > gen->length_lo && d->length_lo <= gen->length) lo = d->length_lo - gen->length_lo;
  if (d && d->length_hi >= gen->length_lo && d->length_hi < gen->length) hi = d->length_hi - gen->length_lo;
  if (lo > hi) lo = hi;
  return own >= lo && own <= hi ? own : lo + own % (hi - lo + 1);
}

const capl_captcha *capl_captcha_member(const capl_captcha *gen, uint64_t seed, uint64_t index,
                                        const capl_difficulty *difficulty)
{
  return gen->n_members ? gen->member[length_at(gen, seed, index, difficulty)] : gen;
}

int capl_captcha_widths(const capl_captcha *gen, int widths[CAPL_LABEL_MAX])
{
  int n = 0;
  if (!gen->n_members) widths[n++] = gen->width;
  for (int i = 0; i < gen->n_members; i++)
    if (n == 0 || gen->member[i]->width > widths[n - 1]) widths[n++] = gen->member[i]->width;
  return n;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* The text's length is that of the sample in an epoch of its own, so that a sample has one width for ever. */
typedef struct {
  capl_source base;
  capl_captcha *gen;
  uint64_t seed;
} wide_source;

static const uint32_t fixed_epoch = 0xffffffff; /* as of all generated captchas */

static const capl_captcha *own_member(const wide_source *s, uint32_t id)
{
  return capl_captcha_member(s->gen, s->seed, (uint64_t)fixed_epoch << 32 | id, NULL);
}

static int wide_width_of(const capl_source *source, uint32_t id)
{
  return widths_find(source->widths, source->n_widths, capl_captcha_width(own_member((const wide_source *)source, id)));
}

/* At a difficulty the text is another one, if it fits the width. */
static const capl_captcha *member_of(const wide_source *s, const capl_read *what)
{
  const capl_captcha *own = own_member(s, what->id);
  if (!what->difficulty) return own;
  const capl_captcha *other = capl_captcha_member(s->gen, s->seed, (uint64_t)fixed_epoch << 32 | what->id,
                                                  what->difficulty);
  return other->width <= capl_source_width_of(&s->base, what->id) ? other : own;
}

static int wide_used(const capl_source *source, const capl_read *what)
{
  return capl_captcha_width(member_of((const wide_source *)source, what));
}

static capl_status draw(const wide_source *s, const capl_captcha *member, const capl_read *what, uint8_t *pixels,
                        int32_t *labels)
{
  uint64_t index = (uint64_t)(s->base.fixed ? fixed_epoch : what->epoch) << 32 | what->id;
  capl_difficulty d = what->difficulty ? *what->difficulty : (capl_difficulty){0, 0, 1, 1, 1};
  d.length_lo = d.length_hi = 0;
  for (int t = member->length; t < s->base.length; t++) labels[t] = -1;
  return capl_captcha_draw_at(member, s->seed, index, &d, s->base.channels, pixels, labels);
}

static capl_status wide_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  const wide_source *s = (const wide_source *)source;
  const capl_captcha *member = member_of(s, what);
  int width = capl_source_width_of(source, what->id), used = member->width;
  int32_t unread[CAPL_LABEL_MAX], *labels = to->labels ? to->labels : unread;
  if (used == width) return draw(s, member, what, to->pixels, labels);
  CAPL_TRY(capl_image_resize(scratch, used, source->height, source->channels));
  CAPL_TRY(draw(s, member, what, scratch->pixels, labels));
  return resize_padded(scratch->pixels, used, source->height, source->channels, used, width, source->height,
                       to->pixels);
}

static capl_status wide_identity(capl_source *source, uint64_t *place, uint64_t *content)
{
  const wide_source *s = (const wide_source *)source;
  *place = identity_of_form(identity_of_captcha(hash64_text(s->seed, "captcha of several widths"), s->gen), source);
  *place = hash64_bytes(*place, source->widths, sizeof source->widths);
  CAPL_TRY(identity_of_drawn(source, *place, content));
  return identity_of_fonts(s->gen, content);
}

static void wide_close(capl_source *source)
{
  capl_captcha_unref(((wide_source *)source)->gen);
  free(source);
}

static capl_status check_widths(const capl_captcha *gen, uint32_t count, const int *widths, int n)
{
  if (!gen->n_members) return CAPL_FAIL(CAPL_EVALUE, "all images of this generator are %d px wide", gen->width);
  for (int k = 0; k < n; k++) {
    if (widths[k] < 1 || (k > 0 && widths[k] <= widths[k - 1]))
      return CAPL_FAIL(CAPL_EVALUE, "widths are px in ascending order, not %d", widths[k]);
  }
  if (gen->width > widths[n - 1])
    return CAPL_FAIL(CAPL_EVALUE, "images of %d characters are %d px wide, but the largest of widths is %d",
                     gen->length, gen->width, widths[n - 1]);
  if (count) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "images of several widths need a count");
  capl_error_hint("count is how many images an epoch has: the batches of each width are shared out by it");
  return CAPL_EVALUE;
}

capl_status capl_source_captcha_widths_new(capl_captcha *gen, uint64_t seed, int channels, uint32_t count, bool fixed,
                                           const int *widths, int n, capl_source **source)
{
  static const capl_source_ops ops = {
    .read = wide_read, .close = wide_close, .identity = wide_identity, .width_of = wide_width_of, .used = wide_used};
  if (channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "a captcha has 1 or 3 channels, not %d", channels);
  CAPL_TRY(check_widths(gen, count, widths, n));
  wide_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha source");
  s->base = (capl_source){
    .ops = &ops, .refs = 1, .count = count, .width = widths[n - 1], .n_widths = n, .height = gen->height,
    .channels = channels, .length = gen->length, .length_min = gen->length_lo, .shortest = gen->length_lo,
    .fixed = fixed};
  memcpy(s->base.widths, widths, (size_t)n * sizeof *widths);
  s->base.vocab = capl_vocab_ref(gen->vocab);
  s->gen = capl_captcha_ref(gen);
  s->seed = seed;
  *source = &s->base;
  return CAPL_OK;
}
