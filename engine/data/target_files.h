/* target_files.h -- target images in files: what a model shall make of each image of a set.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_TARGET_FILES_H
#define CAPL_DATA_TARGET_FILES_H

#include "data/beside.h"
#include "data/resize.h"
#include "data/source.h"

/* Which target is asked for. */
typedef struct {
  const capl_source *source;
  const char *title, *name; /* of the image: "set/b/a.png", "b/a.png" */
  const char *listed;       /* path of the target, as a list has it, and the folder where that begins; NULL = none */
  const char *root;
  const char *held_title;   /* where the set holds targets itself, else NULL: "set: target-000000003", and its bytes */
  encoded_bytes held;
  int width, height;        /* px of the image's file */
} target_of;

/* Copies the texts of `of`, which fini frees. EVALUE: neither 1 nor 3 channels; ENOMEM. */
capl_status target_files_begin(capl_target_files *t, const capl_target_files *of, const char *where);
void target_files_fini(capl_target_files *t);
/* Describes the field target_image, f32 (C,H,W). EVALUE: images of several widths. */
capl_status target_files_settle(const capl_target_files *t, capl_source *source, const char *where);
bool target_files_has(const capl_target_files *t);
/* EIO: the path is too long. */
capl_status target_files_path(const capl_target_files *t, const target_of *s, char path[BESIDE_ROOM]);
/* Its file as it is, and what messages call it; bytes->owned: free(). EIO. */
capl_status target_files_bytes(const capl_target_files *t, const target_of *s, char title[BESIDE_ROOM],
                               encoded_bytes *bytes);
/* The target in its file's size. EIO, EFORMAT, ENOMEM; ESHAPE: it has another size than its image. */
capl_status target_files_decode(const capl_target_files *t, const target_of *s, capl_image *scratch);
/* The target as levels / 255, brought to the source's size; scratch: for decoding. EIO, EFORMAT, ENOMEM; ESHAPE: it has
** another size than its image. */
capl_status target_files_read(const capl_target_files *t, const target_of *s, capl_image *scratch, float *out);

#endif
