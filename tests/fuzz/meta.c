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
  status = capl_model_run(model, &(capl_model_sample){.pixels = pixels, .width = 5, .height = 3, .channels = 1}, 1, &reading);
  fuzz_status(status);
  for (int o = 0; status == CAPL_OK && o < reading.n_outputs; o++) {
    const capl_output *out = &reading.outputs[o];
    FUZZ_CHECK(out->text && strlen(out->text) < 4 * 65536 && out->length <= CAPL_READING_MAX);
    for (int i = 0; i < out->n_top; i++)
      FUZZ_CHECK(out->top[i].name && out->top[i].probability >= 0 && out->top[i].probability <= 1);
    FUZZ_CHECK(out->per_row == 0 || out->n_values % out->per_row == 0);
    FUZZ_CHECK(!out->levels || (out->width > 0 && out->height > 0));
  }
  if (status == CAPL_OK) capl_readings_free(&reading, 1);
  capl_model_close(model);
  return 0;
}
