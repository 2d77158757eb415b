/* events.h -- records of TensorBoard's event files: scalars, pictures, histograms, texts.
**
** A file is a sequence of records; the first says "brain.Event:2". A record is its length (u64), the masked CRC-32C of
** those 8 bytes, a protobuf message (events.proto) and the masked CRC-32C of it, all lowest byte first. Nothing here
** touches files: what writes them appends whole records, so that a killed run leaves a readable file.
** The messages are put together by libcapl_proto.so (events_pack.c), which is loaded when the first one is asked for.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_EVENTS_H
#define CAPL_IO_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"
#include "capl/tensor.h"

/* How often values lie in ranges: bucket i holds those up to limit[i] and above the limit before it. */
typedef struct {
  double min, max, count, sum, sum_squares;
  size_t n;
  double *limit, *bucket; /* one block, at limit */
} events_histogram;

typedef enum { EVENTS_SCALAR, EVENTS_IMAGE, EVENTS_HISTOGRAM, EVENTS_TEXT } events_kind;

/* Everything is borrowed. */
typedef struct {
  events_kind kind;
  const char *tag;
  double number;              /* EVENTS_SCALAR */
  const void *bytes;          /* EVENTS_IMAGE: a PNG file; EVENTS_TEXT: Markdown */
  size_t n_bytes;
  int width, height, channels; /* EVENTS_IMAGE */
  const events_histogram *histogram; /* EVENTS_HISTOGRAM */
} events_value;

typedef struct {
  double time; /* seconds since 1970 */
  int64_t step;
  const char *version; /* of the first record; NULL otherwise */
  const events_value *values;
  size_t n;
} events_record;

/* The record as bytes of a file; caller frees *bytes. ENOMEM; EUNSUPPORTED without libcapl_proto.so. */
CAPL_API capl_status events_encode(const events_record *record, uint8_t **bytes, size_t *len);

/* Histogram of a tensor's finite values, each multiplied by scale; caller calls fini. ENOMEM. */
CAPL_API capl_status events_histogram_of(const capl_tensor *t, double scale, events_histogram *out);
CAPL_API void events_histogram_fini(events_histogram *h);

/* ---- the door of libcapl_proto ---------------------------------------------------------------- */

enum { EVENTS_ABI = 1 };

typedef struct {
  int abi;
  /* The record's protobuf message, with room for `before` bytes in front and `after` behind; caller frees. */
  capl_status (*pack)(const events_record *record, size_t before, size_t after, uint8_t **bytes, size_t *len);
} events_packing;

CAPL_API const events_packing *events_packing_entry(void);

#endif
