/* meta.c -- fuzz target: any text as the meta.json of a model, which then reads one image.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *folder;
  if (!folder) folder = tiny_model();
  fuzz_put(folder, "meta.json", data, size);
  fuzz_device();
  capl_model *model;
  capl_status status = capl_model_open(folder, &(capl_model_options){.device = "ref"}, &model);
  fuzz_status(status);
  if (status != CAPL_OK) return 0;
  static const uint8_t pixels[5 * 3] = {255, 0, 255, 9, 128};
  capl_reading reading;
  status = capl_model_run(model, &(capl_model_image){.pixels = pixels, .width = 5, .height = 3, .channels = 1}, 1, &reading);
  fuzz_status(status);
  if (status == CAPL_OK) FUZZ_CHECK(strlen(reading.text) < sizeof reading.text && reading.length <= CAPL_LABEL_MAX);
  for (int i = 0; status == CAPL_OK && i < reading.n_top; i++)
    FUZZ_CHECK(reading.top[i].name && reading.top[i].probability >= 0 && reading.top[i].probability <= 1);
  capl_model_close(model);
  return 0;
}
