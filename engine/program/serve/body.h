/* body.h -- what the body of a request holds: an image as it is, in a form or as base64 in JSON, and numbers beside it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SERVE_BODY_H
#define CAPL_SERVE_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BODY_WHY = 400, BODY_INPUTS_MAX = 16, HTTP_BAD = 400, HTTP_KIND = 415, HTTP_FAILED = 500 };

/* An input of a model that is no image. */
typedef struct {
  const char *name; /* as JSON calls it */
  size_t numbers;   /* of a sample */
} body_input;

/* What a model takes. */
typedef struct {
  const char *image; /* what JSON and forms may call the image beside "image"; NULL = it sees none */
  int n_inputs;
  body_input inputs[BODY_INPUTS_MAX];
} body_rules;

typedef struct {
  const uint8_t *image; /* bytes of a PNG or JPEG file, in the body or in own; NULL = the model sees none */
  size_t image_bytes;
  uint8_t *own;
  float *numbers[BODY_INPUTS_MAX]; /* of each input */
} body_parts; /* start from {0}; freed by body_free in any case */

/* Reads a body. type: its Content-Type, NULL = none was given. -> 0, or the HTTP status of what is wrong, which `why`
** explains in one line: HTTP_BAD, HTTP_KIND where it is of no kind that is read, HTTP_FAILED without memory. */
int body_read(const body_rules *rules, const char *type, const char *body, size_t size, body_parts *parts,
              char why[BODY_WHY]);
void body_free(body_parts *parts);

/* ---- forms (multipart.c) ------------------------------------------------------------------------------- */

/* A parameter of a header's value, "a; key=value; key2=\"value\"", without its quotes. false: it is not there, and out
** is "", or longer than room, and out is its beginning. */
bool header_parameter(const char *header, size_t n, const char *key, char *out, size_t room);

/* The image of a multipart/form-data body: its only file, or the part named "image", "file" or `name`. */
int multipart_image(const char *type, const char *name, const char *body, size_t size, body_parts *parts,
                    char why[BODY_WHY]);

#endif
