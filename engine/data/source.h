/* source.h -- what a source of samples must be able to do.
**
** A new kind of source embeds capl_source as its first member, fills it in and supplies
** one table. read may be called by many threads at once; everything else by one.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SOURCE_H
#define CAPL_DATA_SOURCE_H

#include <stdatomic.h>

#include "capl/data.h"

/* Which sample is wanted. */
typedef struct {
  uint32_t epoch, id;
  const capl_difficulty *difficulty; /* of generators; NULL = as their options say */
} capl_read;

/* An image file as it lies on disk or in a database. */
typedef struct {
  const uint8_t *at;
  size_t size;
  uint8_t *owned; /* free(); NULL = the source keeps it */
} encoded_bytes;

typedef struct {
  /* scratch: the calling thread's, for decoding. */
  capl_status (*read)(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to);
  void (*close)(capl_source *source); /* frees source itself too */
  const char *(*name)(const capl_source *source, uint32_t i); /* NULL = no files */
  capl_status (*set_label)(capl_source *source, uint32_t i, const char *text); /* NULL = has its own */
  /* what messages begin with; NULL = the name */
  void (*title)(const capl_source *source, uint32_t i, char *out, size_t room);
  capl_status (*set_text)(capl_source *source, uint32_t i, const char *text); /* NULL = no files */
  const char *(*text)(const capl_source *source, uint32_t i); /* the label as it was given; NULL = none are */
  capl_status (*check_label)(const capl_source *source, uint32_t i); /* NULL = they are always right */
  capl_status (*encoded)(capl_source *source, uint32_t i, encoded_bytes *bytes); /* by many threads; NULL = no files */
  /* The labels alone, by many threads; NULL = they are part of the sample, the same in every run. */
  capl_status (*labels)(capl_source *source, uint32_t i, int32_t *labels);
  /* What read would copy, where it lies already: at->pixels and at->field become places that stay as they are until the
  ** source is closed; at->labels are written. lent: false = this sample must be read. By many threads; NULL = all
  ** must. */
  capl_status (*borrow)(capl_source *source, const capl_read *what, capl_image *scratch, capl_sample *at, bool *lent);
  /* Hashes: of where the files are and how they are read, or of what a generator was asked for; and of all that would
  ** change what is read. NULL = samples cannot be identified in another run. */
  capl_status (*identity)(capl_source *source, uint64_t *place, uint64_t *content);
  /* Of sources with several widths: which one a sample has; px of it that the image takes. By many threads. */
  int (*width_of)(const capl_source *source, uint32_t id);
  int (*used)(const capl_source *source, const capl_read *what);
  /* Holds labels against a vocabulary from now on, or against another length (vocab NULL); NULL = they are what they
  ** are. */
  capl_status (*set_labels)(capl_source *source, capl_vocab *vocab, int length_min, int length);
  /* The source whose samples these are, and the number of sample *id there; NULL = its own. */
  capl_source *(*root)(capl_source *source, uint32_t *id);
} capl_source_ops;

struct capl_source {
  const capl_source_ops *ops;
  atomic_int refs;
  uint32_t count;
  int width, height, channels; /* 0, 0, 0 = samples are no images */
  capl_letterbox letterbox;    /* how images came to that size */
  int widths[CAPL_WIDTHS_MAX], n_widths; /* ascending, the last one is width; 0 = all samples are that wide */
  int n_fields;
  capl_field field[CAPL_FIELDS_MAX];
  int length; /* T, 0 = no labels */
  int length_min; /* of texts; 0 = all have T characters */
  char several;   /* what separates the names of a label; 0 = it has one name */
  int shortest; /* of generated texts; 0 = samples know no difficulty */
  bool fixed; /* a sample is the same in every epoch */
  capl_vocab *vocab; /* of labels, owned; NULL = none */
};

/* The description of a source as the beginning of another one that gives the same samples: one reference, a vocabulary
** of its own. */
CAPL_API capl_source source_like(const capl_source *of);
/* Bytes of field i of a sample of that width: a mask is as wide as its image, and capl_field_bytes those of the
** widest. */
CAPL_API size_t source_field_bytes(const capl_source *source, int i, int width);
/* capl_source_read with the caller's own scratch image. */
CAPL_API capl_status capl_source_read_with(capl_source *source, const capl_read *what, capl_image *scratch,
                                           const capl_sample *to);
/* Where sample i lies, as messages begin: "list.tsv:12: set/a.png". Returns out. */
CAPL_API const char *capl_source_title(const capl_source *source, uint32_t i, char *out, size_t room);
/* The bytes of sample i's file. ESTATE for a source without files. Thread-safe. */
capl_status capl_source_encoded(capl_source *source, uint32_t i, encoded_bytes *bytes);

#endif
