/* beside.h -- files that lie beside an image and belong to it: a.json, a.txt, a_mask.png of a.png.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_BESIDE_H
#define CAPL_DATA_BESIDE_H

#include "base/json.h"
#include "data/image.h"

enum { BESIDE_ROOM = 4096 };

/* path: root, then the image's path with another ending. EIO: it is too long. */
capl_status beside_path(const char *root, const char *image, const char *ending, char path[BESIDE_ROOM]);
/* path: root, then a path that a list gives, unless that begins with a slash. what: "mask". EIO: it is too long. */
capl_status beside_listed(const char *root, const char *given, const char *image, const char *what,
                          char path[BESIDE_ROOM]);
/* what: "mask", for the hint. EIO, ENOMEM; file->at: free(). */
capl_status beside_read(const char *path, const char *image, const char *what, file_bytes *file);
/* The JSON file of an image. *object: caller deletes. EIO, EFORMAT, ENOMEM. */
capl_status beside_json(const char *image, char path[BESIDE_ROOM], cJSON **object);
/* The label that lies in a.txt, without line ends and blanks around it, or in a.json under a key; key NULL: the first
** of label, text and class. A whole number is a label too. several: what separates the names of a label, which a list
** or a line for each may give; 0 = a label is one. *text: free(). EIO; EFORMAT with file and line: several lines, bytes
** that are no UTF-8, no such key; ENOMEM. */
CAPL_API capl_status beside_label(const char *image, const char *ending, const char *key, char several, char **text);
/* ["cat", "dog"] -> "cat|dog". where: for messages. *text: free(). EFORMAT: no list of names, or one with the
** separator; ENOMEM. */
capl_status beside_join(const cJSON *list, const char *where, char several, char **text);

#endif
