/* events.c -- frames event records and counts histograms; the messages themselves come from libcapl_proto.so.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

/* ---- the library that knows protobuf ---------------------------------------------------------- */

static capl_status open_packing(const events_packing **out)
{
  static const library_part part = {
    "libcapl_proto.so", "events_packing_entry", EVENTS_ABI, "TensorBoard files cannot be written here",
    "install the Debian package libprotobuf-c1, or set tensorboard = false in train.fit"};
  static const void *packing;
  capl_status status = library_table(&part, &packing);
  *out = packing;
  return status;
}

/* ---- framing ---------------------------------------------------------------------------------- */

enum { LENGTH_BYTES = 8, CRC_BYTES = 4 };

/* CRC-32C (Castagnoli), bits reflected; by nibbles: records are few, and its table fits into a line of source. */
static uint32_t crc32c(const uint8_t *bytes, size_t len)
{
  uint32_t table[16], crc = ~0u;
  for (uint32_t i = 0; i < 16; i++) {
    table[i] = i;
    for (int bit = 0; bit < 4; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
  }
  for (size_t i = 0; i < len; i++) {
    crc ^= bytes[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

/* Readers expect it masked, because a file may hold CRCs of files. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static void put(uint8_t *to, uint64_t value, int n)
{
  for (int i = 0; i < n; i++) to[i] = (uint8_t)(value >> 8 * i);
}

capl_status events_encode(const events_record *record, uint8_t **bytes, size_t *len)
{
  size_t n, head = LENGTH_BYTES + CRC_BYTES;
  const events_packing *packing;
  CAPL_TRY(open_packing(&packing));
  CAPL_TRY(packing->pack(record, head, CRC_BYTES, bytes, &n));
  uint8_t *at = *bytes;
  put(at, n, LENGTH_BYTES);
  put(at + LENGTH_BYTES, masked(crc32c(at, LENGTH_BYTES)), CRC_BYTES);
  put(at + head + n, masked(crc32c(at + head, n)), CRC_BYTES);
  *len = head + n + CRC_BYTES;
  return CAPL_OK;
}

/* ---- histograms ------------------------------------------------------------------------------- */

enum { BUCKETS = 64 };

/* Statistics of the finite values; the others are excluded and reported by the caller's checks. */
static void note_range(const double *values, size_t n, double scale, events_histogram *h)
{
  for (size_t i = 0; i < n; i++) {
    double v = values[i] * scale;
    if (!isfinite(v)) continue;
    h->min = h->count > 0 ? fmin(h->min, v) : v;
    h->max = h->count > 0 ? fmax(h->max, v) : v;
    h->count++;
    h->sum += v;
    h->sum_squares += v * v;
  }
}

/* Equal ranges from the least to the greatest value; one when all are the same. */
static void fill_buckets(const double *values, size_t n, double scale, events_histogram *h)
{
  double width = (h->max - h->min) / BUCKETS;
  h->n = h->count > 0 ? width > 0 && isfinite(width) ? BUCKETS : 1 : 0;
  for (size_t i = 0; i < h->n; i++) h->limit[i] = i + 1 < h->n ? h->min + width * (double)(i + 1) : h->max;
  for (size_t i = 0; i < n; i++) {
    double v = values[i] * scale;
    if (!isfinite(v)) continue;
    size_t place = h->n > 1 ? (size_t)fmin(BUCKETS - 1, (v - h->min) / width) : 0;
    h->bucket[place]++;
  }
}

capl_status events_histogram_of(const capl_tensor *t, double scale, events_histogram *out)
{
  size_t n = (size_t)capl_tensor_numel(t);
  *out = (events_histogram){0};
  double *values = malloc((n + 1) * sizeof *values);
  out->limit = calloc(2 * BUCKETS, sizeof *out->limit);
  out->bucket = out->limit + BUCKETS;
  capl_status status = CAPL_OK;
  if (!values || !out->limit) status = CAPL_FAIL(CAPL_ENOMEM, "no memory for a histogram of %zu values", n);
  if (status == CAPL_OK) status = capl_tensor_to_doubles(t, values);
  if (status == CAPL_OK) {
    note_range(values, n, scale, out);
    fill_buckets(values, n, scale, out);
  }
  free(values);
  if (status != CAPL_OK) events_histogram_fini(out);
  return status;
}

void events_histogram_fini(events_histogram *h)
{
  free(h->limit);
  *h = (events_histogram){0};
}
