/* predict.c -- reads captchas with a trained model, from C: predict MODEL.capl IMAGE.png...
**
**   cc predict.c $(pkg-config --cflags --libs capl) -o predict
** SPDX-License-Identifier: Apache-2.0
*/
#include <capl/model.h>

#include <stdio.h>

static int failed(void)
{
  fprintf(stderr, "predict: %s\n", capl_error_last()->message);
  return 1;
}

int main(int argc, char **argv)
{
  capl_model *model;
  int bad = 0;
  if (argc < 3) return fputs("usage: predict MODEL.capl IMAGE.png...\n", stderr), 2;
  if (capl_model_open(argv[1], NULL, &model) != CAPL_OK) return failed();
  for (int i = 2; i < argc; i++) {
    capl_model_sample image = {.path = argv[i]}; /* or .file, .file_bytes; .pixels, .width, .height, .channels */
    capl_reading reading;
    if (capl_model_run(model, &image, 1, &reading) != CAPL_OK) return failed();
    const capl_output *out = &reading.outputs[0]; /* of a model that gives texts or classes; field.h has the others */
    if (reading.status == CAPL_OK) printf("%s\t%s\t%.4f\n", argv[i], out->text, out->confidence);
    else fprintf(stderr, "%s\n", reading.error), bad = 1;
    capl_readings_free(&reading, 1);
  }
  capl_model_close(model);
  return bad;
}
