/* image.c -- fuzz target: any bytes as an image file: its header alone, then its pixels in all ways of reading channels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const int channels[] = {0, 1, 3};
  if (size < 1) return 0;
  uint8_t *bytes = malloc(size); /* exactly as long, so that reading past the end is seen */
  memcpy(bytes, data + 1, size - 1);
  capl_image image = {0};
  capl_image_info info;
  capl_status probed = capl_image_probe(bytes, size - 1, "fuzz", &info);
  fuzz_status(probed);
  if (probed == CAPL_OK) FUZZ_CHECK(info.width > 0 && info.height > 0 && info.channels > 0 && *info.format);
  capl_status status = capl_image_decode(bytes, size - 1, "fuzz", channels[data[0] % 3], &image);
  fuzz_status(status);
  if (status == CAPL_OK) {
    uint32_t sum = 0; /* every pixel is there to be read */
    for (size_t i = 0; i < (size_t)image.width * (size_t)image.height * (size_t)image.channels; i++) sum += image.pixels[i];
    FUZZ_CHECK(sum != 0xffffffff);
    FUZZ_CHECK(probed == CAPL_OK && info.width == image.width && info.height == image.height);
  }
  capl_image_fini(&image);
  free(bytes);
  return 0;
}
