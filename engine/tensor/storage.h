/* storage.h -- refcounted memory of one device, from the device's caching allocator.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TENSOR_STORAGE_H
#define CAPL_TENSOR_STORAGE_H

#include "capl/backend.h"

struct capl_storage {
  int refs;
  uint64_t version; /* grows with every write in place; the tape compares it */
  uint64_t serial;  /* storages are numbered as they are made; no number comes twice */
  capl_device *device;
  void *data; /* NULL on devices without arithmetic and for 0 bytes */
  size_t bytes;
  struct capl_shadow *shadow; /* shadow.h; NULL = none */
  bool frozen;                /* weights that never change: kernels keep forms of them */
  struct capl_form *forms;    /* form.c; NULL = none */
};

/* bytes may be 0. ENOMEM after the allocator has tried everything. */
capl_status capl_storage_new(capl_device *device, size_t bytes, capl_storage **out);
capl_storage *capl_storage_ref(capl_storage *s);
void capl_storage_unref(capl_storage *s); /* NULL-safe */
/* Bytes of s are about to change: for everybody who writes them, once for each write. NULL-safe. */
void storage_written(capl_storage *s);
/* Storages made from now on have this serial or a higher one. */
uint64_t storage_next_serial(void);

/* The number at p in host memory (values.c). */
double value_load(const void *p, capl_dtype dtype);

typedef struct capl_allocator capl_allocator;
capl_status capl_allocator_new(capl_allocator **out);

/* One block, at least 64-byte aligned. */
capl_status capl_block_get(capl_device *device, size_t bytes, void **out);
void capl_block_put(capl_device *device, void *p, size_t bytes);

/* Before s is freed: its shadow stays as long as recordings have it (shadow.c). */
void storage_leave_shadow(capl_storage *s);
/* Frees the forms of s, which is about to change or to be freed. */
void storage_leave_forms(capl_storage *s);

#endif
