/* data_loading.h -- what the tests of loaders share: folders and generators as sources, hashes of whole epochs.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_DATA_LOADING_H
#define CAPL_TESTS_DATA_LOADING_H

#include "capl/synth.h"
#include "data_files.h"

enum { N_FILES = 40 };

static const capl_augment_options augment __attribute__((unused)) = {
  .rotate = {-15, 15}, .scale = {0.9f, 1.1f}, .shear = {-5, 5},         .translate_x = {-0.05f, 0.05f},
  .noise = {0, 8},     .invert = 0.3f,        .contrast = {0.8f, 1.2f}, .brightness = {0.8f, 1.2f},
};

static inline int make_captchas(void **state)
{
  capl_captcha *gen;
  if (make_folder(state) != 0 || capl_captcha_new("lepture", NULL, &gen) != CAPL_OK) return -1;
  capl_status status = capl_captcha_save(gen, 1, N_FILES, folder, 0, NULL);
  capl_captcha_unref(gen);
  return status == CAPL_OK ? 0 : -1;
}

static inline capl_source *open_files(void)
{
  capl_source *source;
  assert_ok(capl_source_folder_new(folder, &(capl_folder_options){.charset = "0-9A-Z"}, &source));
  for (uint32_t i = 0; i < capl_source_count(source); i++) {
    char label[5] = "";
    memcpy(label, capl_source_name(source, i), 4);
    assert_ok(capl_source_set_label(source, i, label));
  }
  return source;
}

static inline capl_source *open_generator(uint32_t count, bool fixed)
{
  capl_captcha *gen;
  capl_source *source;
  assert_ok(capl_captcha_new("lepture", NULL, &gen));
  assert_ok(capl_source_captcha_new(gen, 3, 1, count, fixed, &source));
  capl_captcha_unref(gen);
  return source;
}

/* source is given up. */
static inline capl_loader *make(capl_source *source, const capl_loader_options *options)
{
  capl_loader *loader;
  assert_ok(capl_loader_new(source, options, &loader));
  capl_source_unref(source);
  return loader;
}

static inline size_t batch_bytes(const capl_loader *loader, const capl_batch *batch)
{
  static const size_t bytes[] = {4, 2, 1, 2}; /* ORDER capl_pixel_type */
  const capl_source *s = capl_loader_source(loader);
  return (size_t)(batch->count * capl_source_width(s) * capl_source_height(s) * capl_source_channels(s)) *
         bytes[capl_loader_type(loader)];
}

/* Reads on to the end of the epoch. */
static inline uint64_t hash_rest(capl_loader *loader, int *samples)
{
  uint64_t hash = 1;
  capl_batch b;
  size_t length = (size_t)capl_source_length(capl_loader_source(loader));
  *samples = 0;
  for (;;) {
    assert_ok(capl_loader_next(loader, &b));
    if (b.count == 0) return hash;
    *samples += b.count;
    hash = hash_bytes(hash, b.images, batch_bytes(loader, &b));
    hash = hash_bytes(hash, b.labels, (size_t)b.count * length * sizeof *b.labels);
    hash = hash_bytes(hash, b.ids, (size_t)b.count * sizeof *b.ids);
  }
}

static inline uint64_t hash_epoch(capl_loader *loader, uint64_t epoch, int *samples)
{
  assert_ok(capl_loader_epoch(loader, epoch));
  return hash_rest(loader, samples);
}

#endif
