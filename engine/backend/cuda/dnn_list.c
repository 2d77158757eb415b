/* dnn_list.c -- writing what each engine of a record took.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/dnn_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"

/* ORDER cudnnBackendNumericalNote_t */
static const char *const notes[] = {
  "TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION", "FFT", "NONDETERMINISTIC", "WINOGRAD",
  "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13", "STRICT_NAN_PROP",
};

static const char *path_in(const char *variable)
{
  const char *path = getenv(variable);
  return path && *path ? path : NULL;
}

const char *dnn_list_path(void)
{
  return path_in("CAPL_DNN_ENGINES");
}

static void print_engine(FILE *f, const dnn_record *record, int64_t engine)
{
  char text[DNN_TEXT];
  fprintf(f, "{\"record\": \"%s\", \"engine\": ", dnn_describe(record, text, sizeof text));
  if (engine == DNN_OWN) fprintf(f, "\"own\"");
  else fprintf(f, "%" PRId64, engine);
}

static void print_notes(FILE *f, uint32_t numerical)
{
  const char *comma = "";
  for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
    if (!(numerical & 1u << i)) continue;
    fprintf(f, "%s\"%s\"", comma, notes[i]);
    comma = ", ";
  }
}

/* Why it did not run: the text of an error, with what JSON does not take left out. */
static void print_why(FILE *f, const char *why)
{
  fprintf(f, "null, \"error\": \"");
  for (; *why; why++)
    if (*why >= ' ' && *why != '"' && *why != '\\') fputc(*why, f);
  fputc('"', f);
}

static void print_row(FILE *f, const dnn_row *row)
{
  print_engine(f, row->record, row->engine);
  if (row->engine != DNN_OWN) fprintf(f, ", \"candidate\": %d", row->candidate);
  fprintf(f, ", \"workspace\": %" PRId64 ", \"ms\": ", row->workspace);
  if (row->ms < 0) print_why(f, row->why ? row->why : "");
  else fprintf(f, "%.6f", (double)row->ms);
  fprintf(f, ", \"chosen\": %s, \"compiled\": %s, \"notes\": [", row->chosen ? "true" : "false",
          row->compiled ? "true" : "false");
  print_notes(f, row->numerical);
  fprintf(f, "]}\n");
}

static void log_unwritten(const char *path)
{
  static bool said;
  int err = errno;
  char shown[512];
  capl_text_show(shown, sizeof shown, path, false);
  if (!said) capl_log("no list of engines: %s cannot be written: %s", shown, capl_errno_text(err));
  said = true;
}

void dnn_list_row(const dnn_row *row)
{
  const char *path = dnn_list_path();
  if (!path) return;
  FILE *f = fopen(path, "a");
  if (f) print_row(f, row);
  if (!f || fclose(f) != 0) log_unwritten(path);
}

void dnn_list_plan(const dnn_record *record, int64_t engine, int64_t workspace, const char *how)
{
  const char *path = path_in("CAPL_DNN_PLANS");
  if (!path) return;
  FILE *f = fopen(path, "a");
  if (f) {
    print_engine(f, record, engine);
    fprintf(f, ", \"workspace\": %" PRId64 ", \"how\": \"%s\"}\n", workspace, how);
  }
  if (!f || fclose(f) != 0) log_unwritten(path);
}
