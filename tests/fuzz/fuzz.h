/* fuzz.h -- what the fuzz targets share: a file in memory, a folder in memory, and an error that says something.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FUZZ_H
#define CAPL_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capl/capl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A crash with a reason: what libFuzzer reports. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_die(#condition))
static inline void fuzz_die(const char *what)
{
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

/* Every status but OK comes with a message of one line. */
static inline void fuzz_status(capl_status status)
{
  const char *message = capl_error_last()->message;
  if (status != CAPL_OK) FUZZ_CHECK(*message && !strchr(message, '\n') && capl_error_last()->code == status);
}

/* Path of a file with these bytes; the same path each time. */
static inline const char *fuzz_file(const void *data, size_t size)
{
  static int fd = -1;
  static char path[64];
  if (fd < 0) {
    fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
  return path;
}

static inline void fuzz_put(const char *folder, const char *name, const void *data, size_t size)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  FUZZ_CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static char fuzz_made[64];
static inline void fuzz_remove(void)
{
  char path[128];
  static const char *const names[] = {"weights.safetensors", "graph.json", "meta.json", "AB_1.png", "a.txt", "a.json",
                                      "images/AB_1.png", "images/AB_1_2.png", "parts/AB_1_2.png", "override.json", "overrides.jsonl"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", fuzz_made, names[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/parts", fuzz_made);
  rmdir(path);
  snprintf(path, sizeof path, "%s/images", fuzz_made);
  rmdir(path);
  rmdir(fuzz_made);
}

/* A fresh folder, in memory where there is room for it. */
static inline const char *fuzz_folder(void)
{
  strcpy(fuzz_made, "/dev/shm/capl-fuzz-XXXXXX");
  if (!mkdtemp(fuzz_made)) {
    strcpy(fuzz_made, "/tmp/capl-fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(fuzz_made));
  }
  atexit(fuzz_remove);
  return fuzz_made;
}

/* The device that computes with plain loops, its memory limited: a file must not ask for all there is. */
static inline capl_device *fuzz_device(void)
{
  static capl_device *device;
  if (!device) {
    FUZZ_CHECK(capl_device_open("ref", &device) == CAPL_OK);
    capl_memory_limit_set(device, 32 << 20);
  }
  return device;
}

#endif
