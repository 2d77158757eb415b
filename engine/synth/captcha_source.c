/* captcha_source.c -- the source whose samples are captchas of one size.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "data/hash64.h"
#include "synth/identity.h"

typedef struct {
  capl_source base;
  capl_captcha *gen;
  uint64_t seed;
  bool fixed;
} captcha_source;

/* Epoch numbers stop at 2^31 - 1, so the fixed set's is one that no training run reaches. */
static const uint32_t fixed_epoch = 0xffffffff;

static capl_status captcha_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  (void)scratch;
  captcha_source *s = (captcha_source *)source;
  uint64_t index = (uint64_t)(s->fixed ? fixed_epoch : what->epoch) << 32 | what->id;
  int32_t unread[CAPL_LABEL_MAX];
  return capl_captcha_draw_at(s->gen, s->seed, index, what->difficulty, source->channels, to->pixels,
                              to->labels ? to->labels : unread);
}

static capl_status captcha_identity(capl_source *source, uint64_t *place, uint64_t *content)
{
  const captcha_source *s = (const captcha_source *)source;
  *place = identity_of_form(identity_of_captcha(hash64_text(s->seed, "captcha"), s->gen), source);
  CAPL_TRY(identity_of_drawn(source, *place, content));
  return identity_of_fonts(s->gen, content);
}

static void captcha_close(capl_source *source)
{
  capl_captcha_unref(((captcha_source *)source)->gen);
  free(source);
}

capl_status capl_source_captcha_new(capl_captcha *gen, uint64_t seed, int channels, uint32_t count, bool fixed,
                                    capl_source **source)
{
  static const capl_source_ops ops = {.read = captcha_read, .close = captcha_close, .identity = captcha_identity};
  if (channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "a captcha has 1 or 3 channels, not %d", channels);
  captcha_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a captcha source");
  s->base = (capl_source){
    .ops = &ops,
    .refs = 1,
    .count = count ? count : UINT32_MAX,
    .width = capl_captcha_width(gen),
    .height = capl_captcha_height(gen),
    .channels = channels,
    .length = capl_captcha_length(gen),
    .length_min = capl_captcha_shortest(gen),
    .shortest = capl_captcha_shortest(gen),
    .fixed = fixed,
  };
  s->base.vocab = capl_vocab_ref((capl_vocab *)capl_captcha_vocab(gen));
  s->gen = capl_captcha_ref(gen);
  s->seed = seed;
  s->fixed = fixed;
  *source = &s->base;
  return CAPL_OK;
}
