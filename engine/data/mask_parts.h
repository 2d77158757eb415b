/* mask_parts.h -- masks in several files: a PNG for each part of an image, such as 00012_hair.png, white where it is.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_MASK_PARTS_H
#define CAPL_DATA_MASK_PARTS_H

#include "data/image.h"
#include "data/source.h"
#include "data/texts.h"

typedef struct {
  char *root; /* folder, for messages */
  texts name; /* of the parts: number k is class k + 1 */
  texts file; /* sorted: image, number of the part, path */
} mask_parts; /* start from {0} */

/* Lists all PNG files below of->root. EVALUE: one that ends in none of the parts; EIO; ENOMEM. fini is due. */
capl_status mask_parts_open(mask_parts *p, const capl_mask_files *of);
void mask_parts_fini(mask_parts *p);
/* The path of the k-th part that an image has, from 0; NULL past the last. name: of the image, "b/12.jpg"; leading
** zeros are of no account. */
const char *mask_parts_path(const mask_parts *p, const char *name, uint32_t k);
/* Classes in mask, 0 where no part is; later parts cover earlier ones. title, width, height: of the image. EIO: it has
** no part; ESHAPE: parts of several sizes, or of other proportions than the image; EIO, EFORMAT of a file. */
capl_status mask_parts_read(const mask_parts *p, const char *name, const char *title, int width, int height,
                            capl_image *mask);

#endif
