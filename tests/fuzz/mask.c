/* mask.c -- fuzz target: any bytes as the PNG beside an image: its mask, a part of one, its target image. The first byte chooses it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

enum { W = 4, H = 2, BIG = 2 };

static const char *folder_with_image(void)
{
  static const uint8_t pixels[W * H];
  static char images[96];
  char path[128];
  const char *folder = fuzz_folder();
  snprintf(path, sizeof path, "%s/parts", folder);
  snprintf(images, sizeof images, "%s/images", folder);
  FUZZ_CHECK(mkdir(path, 0700) == 0 && mkdir(images, 0700) == 0);
  snprintf(path, sizeof path, "%s/AB_1.png", images);
  FUZZ_CHECK(capl_png_write(path, pixels, W, H, 1) == CAPL_OK);
  return images;
}

/* choice: classes, values, another size of the samples. */
static void beside(const char *folder, int choice)
{
  capl_source *source;
  capl_folder_options o = {.resize = choice & 1, .width = choice & 1 ? BIG * W : W, .height = choice & 1 ? BIG * H : H};
  bool target = choice & 2;
  if (target) o.fields.target = (capl_target_files){.ending = "_2.png", .channels = choice & 4 ? 3 : 0};
  else o.fields.mask = (capl_mask_files){.ending = "_2.png", .classes = choice & 12 ? 3 : 0, .n_values = choice & 8 ? 3 : 0,
                                         .value = {0, 128, 255}};
  FUZZ_CHECK(capl_source_folder_new(folder, &o, &source) == CAPL_OK);
  uint8_t pixels[BIG * W * BIG * H];
  static float levels[3 * BIG * W * BIG * H];
  capl_status status = capl_source_read(source, 0, 0, &(capl_sample){.pixels = pixels, .field = {levels}});
  fuzz_status(status);
  for (int i = 0; target && status == CAPL_OK && i < W * H; i++) FUZZ_CHECK(levels[i] >= 0 && levels[i] <= 1);
  uint64_t count[256], sum = 0;
  if (!target && capl_source_mask_counts(source, 0, count) == CAPL_OK) {
    for (int k = 0; k < 256; k++) sum += count[k];
    FUZZ_CHECK(sum == W * H);
  }
  capl_source_unref(source);
}

/* Masks of several files: this one is the only part, the second. */
static void part(const char *folder)
{
  static const char *const names[] = {"skin", "2"};
  char root[96], other[96];
  snprintf(root, sizeof root, "%s/../parts", folder);
  snprintf(other, sizeof other, "%s/AB_1_2.png", folder);
  unlink(other);
  capl_folder_options o = {.width = W, .height = H, .fields.mask = {.root = root, .part = names, .n_parts = 2}};
  capl_source *source;
  FUZZ_CHECK(capl_source_folder_new(folder, &o, &source) == CAPL_OK);
  uint8_t pixels[W * H];
  uint64_t count[256];
  static int32_t mask[W * H];
  fuzz_status(capl_source_read(source, 0, 0, &(capl_sample){.pixels = pixels, .field = {mask}}));
  capl_status status = capl_source_mask_counts(source, 0, count);
  fuzz_status(status);
  for (int k = 0; status == CAPL_OK && k < 256; k++) FUZZ_CHECK(count[k] == 0 || k == 0 || k == 2);
  capl_source_unref(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *folder;
  if (size < 1) return 0;
  if (!folder) folder = folder_with_image();
  bool is_part = data[0] & 16;
  fuzz_put(folder, is_part ? "../parts/AB_1_2.png" : "AB_1_2.png", data + 1, size - 1);
  if (is_part) part(folder);
  else beside(folder, data[0] & 15);
  return 0;
}
