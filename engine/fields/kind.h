/* kind.h -- the kinds of what goes into a model and comes out of it. A kind is one folder: KIND/KIND.c has its
** field_kind_KIND, KIND/KIND.lua the rest; nothing outside asks for a kind.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FIELDS_KIND_H
#define CAPL_FIELDS_KIND_H

#include "base/room.h"
#include "fields/keys.h"

typedef struct field_kind field_kind;

/* An input or output of a model as its file describes it. */
typedef struct {
  char name[64]; /* "" = an only one without */
  const field_kind *kind;
  capl_vocab *vocab; /* the characters, or the names of classes, points or numbers; NULL = it has none; owned */
  void *own;         /* [own_size] what its kind has read; owned */
} model_field;

/* What a model says for one sample. */
typedef struct {
  const double *numbers;
  int ndim;
  int64_t size[6];
} field_scores;

/* How the image that was given lies in the one that the model sees. */
typedef struct {
  int width, height;       /* px as given; 0 = the model saw no image */
  int in_width, in_height; /* px that the model sees */
  int left, top;           /* of them, where it begins */
  double x, y;             /* px as given for each px that the model sees */
} field_place;

struct field_kind {
  const char *name;
  size_t own_size;
  bool pixels;  /* as an input it is the image itself, whose preprocessing the model's file says: one kind */
  bool spelled; /* its outputs are texts */
  bool first;   /* outputs of the first model files, which name no kind, are of this one */
  /* Reads the keys of a description into f, whose own is all zero. EFORMAT. */
  capl_status (*read)(const field_keys *k, model_field *f);
  void (*fini)(model_field *f); /* what own points to; NULL = nothing */
  /* Whether this is the size of one sample. Of a model of several widths it is asked for each. */
  bool (*fits)(model_field *f, int ndim, const int64_t *size);
  /* What it should be, for messages: "4 characters out of a charset of 36: (N,4,36)" */
  void (*expects)(const model_field *f, char *text, size_t room);
  /* What the model says of a sample -> out, in memory of room. NULL: it is never an output. EVALUE: not finite; ENOMEM
  ** */
  capl_status (*decode)(const model_field *f, const field_scores *s, const field_place *place, base_room **room,
                        capl_output *out);
  /* n numbers of a sample in their units -> as the model takes them. NULL: it is never an input beside images. */
  void (*encode)(const model_field *f, const float *in, size_t n, float *out);
  /* How texts are read from now on; NULL = it has none. EVALUE, ENOMEM */
  capl_status (*decoding)(model_field *f, const capl_text_decoding *o);
};

/* All kinds, NULL behind the last. */
extern const field_kind *const field_kinds[];
/* NULL = there is none of this name. */
const field_kind *field_kind_named(const char *name);
/* The one whose inputs are pixels, and that of files without a kind. */
const field_kind *field_kind_pixels(void);
const field_kind *field_kind_first(void);
/* The kind of an input, of which an image has none of its own: never NULL. The ONNX writer's library asks, too. */
CAPL_API const field_kind *field_input_kind(const model_field *f);

/* Reads a description of the kind that k's `key` names; absent: the kind where it is missing, NULL = an error. f->name
** stays. EFORMAT, ENOMEM; f is empty then. */
capl_status model_field_read(const field_keys *k, const char *key, const char *absent, model_field *f);
void model_field_fini(model_field *f);

/* EVALUE: "the model's output for this image is not finite". */
capl_status field_not_finite(void);
/* Whether all n are. */
bool field_finite(const double *x, size_t n);
size_t field_numbers(int ndim, const int64_t *size);

#endif
