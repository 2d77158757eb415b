/* faces.c -- drawn faces as a source: samples, masks, names of classes.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>

#include "capl/synth.h"
#include "synth/identity.h"
#include "data/image.h"
#include "data/hash64.h"
#include "synth/scenes/face.h"
#include "synth/scenes/scene.h"
#include "data/streams.h"

typedef struct {
  scene_source scene;
  capl_face_style style;
} faces_source;

/* The mask lies behind the canvas in the thread's memory when nobody wants it. */
static capl_status faces_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  int size = source->width;
  if (!to->pixels && !to->field[0]) return CAPL_OK;
  CAPL_TRY(capl_image_resize(scratch, (int)canvas_bytes(size, size) + size * size, 1, 1));
  uint8_t *mask = to->field[0] ? to->field[0] : scratch->pixels + canvas_bytes(size, size);
  capl_rng rng;
  face_plan plan;
  canvas c;
  outline o;
  scene_rng((const scene_source *)source, what, CAPL_STREAM_FACE, &rng);
  face_roll(&plan, size, ((const faces_source *)source)->style, &rng);
  CAPL_TRY(canvas_open(&c, size, size, mask, scratch));
  face_draw(&plan, &c, &o);
  if (to->pixels) canvas_write(&c, source->channels, to->pixels);
  return CAPL_OK;
}

static capl_status faces_identity(capl_source *source, uint64_t *place, uint64_t *content)
{
  const faces_source *s = (const faces_source *)source;
  uint64_t h = hash64_text(hash64_text(s->scene.seed, "faces"), capl_face_style_name((int)s->style));
  *place = identity_of_form(h, source);
  return identity_of_drawn(source, *place, content);
}

static void faces_close(capl_source *source)
{
  free(source);
}

capl_status capl_source_faces_new(int size, capl_face_style style, const capl_scene_set *set, capl_source **source)
{
  static const capl_source_ops ops = {.read = faces_read, .close = faces_close, .identity = faces_identity};
  if (size == 0) size = 512;
  if (size < 64 || size > 1024) return CAPL_FAIL(CAPL_EVALUE, "a face is 64..1024 px wide and high, not %d", size);
  if (!capl_face_style_name((int)style)) return CAPL_FAIL(CAPL_EVALUE, "there are %d styles of faces, not %d",
                                                          CAPL_FACE_STYLES, (int)style + 1);
  faces_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a source of faces");
  s->style = style;
  capl_status status = scene_begin(&s->scene, &ops, set);
  if (status != CAPL_OK) return free(s), status;
  capl_source *base = &s->scene.base;
  base->width = base->height = size;
  scene_field(base, "mask", CAPL_FIELD_MASK, 2, size, size);
  *source = base;
  return CAPL_OK;
}

const char *capl_face_class_name(int i)
{
#define X(name, text) text,
  static const char *const names[] = {CAPL_FACE_CLASS_MAP(X)};
#undef X
  return i >= 0 && i < CAPL_FACE_CLASSES ? names[i] : NULL;
}

const char *capl_face_style_name(int i)
{
#define X(name, text) text,
  static const char *const names[] = {CAPL_FACE_STYLE_MAP(X)};
#undef X
  return i >= 0 && i < CAPL_FACE_STYLES ? names[i] : NULL;
}
