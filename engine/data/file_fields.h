/* file_fields.h -- masks, points, boxes and numbers that lie in files beside images, or in the list that names them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_FILE_FIELDS_H
#define CAPL_DATA_FILE_FIELDS_H

#include "data/beside.h"
#include "data/field_numbers.h"
#include "data/mask_parts.h"
#include "data/resize.h"
#include "data/source.h"
#include "data/target_files.h"
#include "data/texts.h"

typedef struct {
  capl_mask_files mask; /* its texts are owned */
  int16_t class_of[256]; /* of each level; -1 = none */
  texts path;            /* of masks, as a list has them */
  mask_parts parts;      /* where a mask lies in several files */
  int n_numbers;
  field_numbers numbers[CAPL_FIELDS_MAX];
  capl_target_files target; /* its texts are owned */
  texts target_path;        /* as a list has them */
} file_fields; /* start from {0} */

/* Which image is asked for, and where it lies. */
typedef struct {
  const capl_source *source;
  uint32_t i;
  const char *title, *name; /* "set/b/a.png", "b/a.png" */
  const char *root;         /* folder that paths of a list's masks begin at, with a slash at the end, or "" */
  int width, height;        /* px of the image's file */
  resize_area area;         /* px of the sample that the image takes */
  int row;                  /* px of its rows */
  const char *mask_title;   /* where the set holds masks itself, else NULL: "set: mask-000000003", and its bytes */
  encoded_bytes mask;
  const char *target_title; /* likewise */
  encoded_bytes target;
} file_sample;

/* where: folder or list, for messages. EVALUE: wrong classes or columns, too many fields; ENOMEM. fini is due. */
CAPL_API capl_status file_fields_begin(file_fields *f, const capl_file_fields *of, const char *where);
CAPL_API void file_fields_fini(file_fields *f);
bool file_fields_has_mask(const file_fields *f);
/* Whether a file is called as masks or target images are that lie among the images. */
bool file_fields_is_beside(const file_fields *f, const char *name);
/* Reads x.json beside x.png: the next sample's numbers. EIO, EFORMAT, ENOMEM. */
CAPL_API capl_status file_fields_add_beside(file_fields *f, const char *image);
/* Once all samples are there and the source's size is known: describes the fields. EVALUE: there is nothing in one. */
capl_status file_fields_settle(const file_fields *f, capl_source *source, const char *where);

/* to->field of the sample, brought to the source's size; scratch: for decoding. EIO, EFORMAT; ESHAPE: a mask of another
** size; EVALUE: a level without a class, a point outside. */
capl_status file_fields_read(const file_fields *f, const file_sample *s, capl_image *scratch, const capl_sample *to);
/* The mask as its file has it, as classes, in scratch. Errors as file_fields_read. */
capl_status file_fields_read_mask(const file_fields *f, const file_sample *s, capl_image *scratch);
/* Its file as it is, and what messages call it; bytes->owned: free(). EIO. */
capl_status file_fields_mask_bytes(const file_fields *f, const file_sample *s, char title[BESIDE_ROOM],
                                   encoded_bytes *bytes);
/* The same of its target image, and that in its file's size, in scratch. */
capl_status file_fields_target_bytes(const file_fields *f, const file_sample *s, char title[BESIDE_ROOM],
                                     encoded_bytes *bytes);
capl_status file_fields_read_target(const file_fields *f, const file_sample *s, capl_image *scratch);
/* The numbers of sample i as members of a JSON object, which file_fields_begin's columns read back. EVALUE: two fields
** have a key in common. */
CAPL_API capl_status file_fields_write(const file_fields *f, uint32_t i, FILE *out);
/* The path of the k-th file of the sample's mask and target image, from 0; empty past the last. EIO: it is too long. */
capl_status file_fields_path(const file_fields *f, const file_sample *s, uint32_t k, char path[BESIDE_ROOM]);
/* What samples depend on: mixed into a hash. */
uint64_t file_fields_hash(const file_fields *f, uint64_t h);
/* The path of the k-th file of the sample's mask, from 0; empty past the last. EIO: it is too long. */
capl_status file_fields_mask_path(const file_fields *f, const file_sample *s, uint32_t k, char path[BESIDE_ROOM]);

#endif
