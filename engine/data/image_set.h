/* image_set.h -- what folders, list files and databases of images share: names, labels, sizes, errors that name the
** file.
**
** A kind of set says where sample i is written down and how its bytes are got; all else is here: labels against a
** charset, decoding, stretching, the size of the first file.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_IMAGE_SET_H
#define CAPL_DATA_IMAGE_SET_H

#include "data/file_fields.h"
#include "data/source.h"
#include "data/texts.h"

typedef struct image_set image_set;

typedef struct {
  capl_source_ops ops; /* as image_set_ops fills them in */
  const char *opener;  /* "data.folder", for hints */
  /* Where the image lies: "set/b/a.png", "set: record image-000000007". */
  void (*title)(const image_set *set, uint32_t i, char *out, size_t room);
  /* What stands before that in messages: "list.tsv:12: "; NULL = nothing. */
  void (*place)(const image_set *set, uint32_t i, char *out, size_t room);
  capl_status (*encoded)(const image_set *set, uint32_t i, const char *title, encoded_bytes *bytes);
  /* The mask of image i, its target image, and their titles; NULL, both = they lie in files. */
  void (*mask)(const image_set *set, uint32_t i, char *title, size_t room, encoded_bytes *bytes);
  void (*target)(const image_set *set, uint32_t i, char *title, size_t room, encoded_bytes *bytes);
  void (*fini)(image_set *set); /* what the kind holds beside; NULL = nothing */
} image_set_kind;

struct image_set {
  capl_source base;
  const image_set_kind *kind;
  char *where; /* folder, list or database */
  texts name;  /* as capl_source_name gives them */
  texts label; /* as set; a bad one is kept too, its error comes again when it is read */
  file_fields fields;
  const char *root; /* that paths of masks begin at, with a slash; NULL = none. The kind's. */
  bool resize;
  capl_folding folding;
  int width_step; /* > 0: widths are found */
  bool (*stop)(void); /* asked while many files are read; NULL = never */
  uint16_t *px;       /* of each sample at the set's height, with several widths */
  uint32_t squeezed, widest;
};

/* The operations of every kind. */
#define IMAGE_SET_OPS                                                                                             \
  {                                                                                                               \
    .read = image_set_read, .close = image_set_close, .name = image_set_name, .set_label = image_set_set_label,   \
    .set_text = image_set_set_text, .text = image_set_text, .encoded = image_set_encoded,                         \
    .check_label = image_set_check_label, .title = image_set_title, .labels = image_set_labels,                   \
    .identity = image_set_identity,                                                            \
    .set_labels = image_set_set_labels, .width_of = image_set_width_of, .used = image_set_used \
  }
capl_status image_set_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to);
void image_set_close(capl_source *source);
const char *image_set_name(const capl_source *source, uint32_t i);
capl_status image_set_set_label(capl_source *source, uint32_t i, const char *text);
void image_set_title(const capl_source *source, uint32_t i, char *out, size_t room);
capl_status image_set_set_text(capl_source *source, uint32_t i, const char *text);
const char *image_set_text(const capl_source *source, uint32_t i);
capl_status image_set_check_label(const capl_source *source, uint32_t i);
capl_status image_set_encoded(capl_source *source, uint32_t i, encoded_bytes *bytes);

capl_status image_set_labels(capl_source *source, uint32_t i, int32_t *labels);
capl_status image_set_identity(capl_source *source, uint64_t *place, uint64_t *content);

capl_status image_set_set_labels(capl_source *source, capl_vocab *vocab, int length_min, int length);

int image_set_width_of(const capl_source *source, uint32_t i);
int image_set_used(const capl_source *source, const capl_read *what);

/* image_widths.c: options of several widths, EVALUE; which one each image has, found by the headers. EINTERRUPT,
** EFORMAT: no image can be read; ENOMEM. */
capl_status image_widths_set(image_set *set, const capl_folder_options *options);
capl_status image_widths_measure(image_set *set);

/* What a source's sample has beside image and text, as files hold it: the bytes of its mask and of its target image,
** the members of a JSON object, all of which the caller frees; NULL = it has none. EIO; EVALUE as file_fields_write;
** ENOMEM. */
capl_status image_set_parts(capl_source *source, uint32_t i, encoded_bytes *mask, encoded_bytes *target, char **json);

/* A set of size bytes (its kind's struct, which begins with image_set), with these options; options may be NULL.
** EVALUE naming where. */
capl_status image_set_new(const image_set_kind *kind, size_t size, const char *where,
                          const capl_folder_options *options, image_set **out);
/* Once all names are there: the count, room for labels unless they are there, the size of the first image. */
capl_status image_set_settle(image_set *set);

#endif
