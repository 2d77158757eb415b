/* meta.c -- the backend that computes shapes and byte counts only.
**
** Every op "runs" without kernels: the dispatcher stops after the shape rule. Memory is counted,
** never mapped, so `capl check` plans a step of any size on any machine.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/registry.h"

/* A block needs an address that is not NULL; nobody may read or write it. */
static char nothing;

static capl_status meta_alloc(size_t bytes, void **out)
{
  (void)bytes;
  *out = &nothing;
  return CAPL_OK;
}

static void meta_free(void *p, size_t bytes)
{
  (void)p;
  (void)bytes;
}

static capl_status meta_fill(void *p, int byte, size_t bytes)
{
  (void)p;
  (void)byte;
  (void)bytes;
  return CAPL_OK;
}

/* A plan for any device: all of them. */
static uint32_t meta_precisions(void)
{
  return CAPL_BIT(CAPL_PRECISION_COUNT) - 1;
}

static const capl_kernel *const no_families[] = {NULL};

const capl_backend capl_backend_meta = {
  .abi = CAPL_BACKEND_ABI,
  .name = "meta",
  .families = no_families,
  .mem_alloc = meta_alloc,
  .mem_free = meta_free,
  .mem_fill = meta_fill,
  .precisions = meta_precisions,
};
