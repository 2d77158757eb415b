/* png.c -- fuzz target: any bytes as a PNG file, in all three ways of reading channels and as a mask.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

/* A chunk's checksum hides the rest from the fuzzer: with the first byte's bit set, all of them are made right. */
static void repair(uint8_t *bytes, size_t size)
{
  for (size_t at = 8; at + 12 <= size;) {
    size_t n = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 | (size_t)bytes[at + 2] << 8 | bytes[at + 3];
    if (n > size - at - 12) return;
    uint32_t crc = 0xffffffff;
    for (size_t i = at + 4; i < at + 8 + n; i++) {
      crc ^= bytes[i];
      for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    crc = ~crc;
    for (int k = 0; k < 4; k++) bytes[at + 8 + n + (size_t)k] = (uint8_t)(crc >> (24 - 8 * k));
    at += 12 + n;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1) return 0;
  uint8_t *bytes = malloc(size);
  memcpy(bytes, data + 1, size - 1);
  if (data[0] & 1) repair(bytes, size - 1);
  static const int channels[] = {0, 1, 3};
  capl_image image = {0};
  capl_status status = capl_png_decode(bytes, size - 1, "fuzz.png", channels[data[0] / 2 % 3], &image);
  fuzz_status(status);
  if (status == CAPL_OK) {
    uint32_t sum = 0; /* every pixel is there to be read */
    for (size_t i = 0; i < (size_t)image.width * (size_t)image.height * (size_t)image.channels; i++) sum += image.pixels[i];
    FUZZ_CHECK(sum != 0xffffffff);
  }
  status = capl_png_decode_indices(bytes, size - 1, "fuzz.png", &image);
  fuzz_status(status);
  FUZZ_CHECK(status != CAPL_OK || image.channels == 1);
  capl_image_fini(&image);
  free(bytes);
  return 0;
}
