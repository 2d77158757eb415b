/* precision.c -- what a setting "precision" means on a device: the one place where it is interpreted.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "capl/backend.h"

static const struct {
  const char *name;
  capl_dtype low;
} precisions[CAPL_PRECISION_COUNT] = {
#define X(name, dtype) {#name, dtype},
  CAPL_PRECISION_MAP(X)
#undef X
};

static uint32_t offered(const capl_device *device)
{
  return device->backend->precisions ? device->backend->precisions() : CAPL_BIT(CAPL_PRECISION_fp32);
}

const char *capl_precision_offers(const capl_device *device, char *text, size_t len)
{
  size_t used = 0;
  *text = '\0';
  for (int k = 0; k < CAPL_PRECISION_COUNT && used < len; k++)
    if (offered(device) & CAPL_BIT(k))
      used += (size_t)snprintf(text + used, len - used, "%s%s", used ? ", " : "", precisions[k].name);
  return text;
}

/* By its name, or by that of the dtype it computes in: "f16". -1 = there is none. */
static int kind_of(const char *given)
{
  for (int k = 0; k < CAPL_PRECISION_COUNT; k++)
    if (strcmp(precisions[k].name, given) == 0 || strcmp(capl_dtype_name(precisions[k].low), given) == 0) return k;
  return -1;
}

static void settle(int kind, const char *why, capl_precision *out)
{
  *out = (capl_precision){(capl_precision_kind)kind, precisions[kind].name, precisions[kind].low, why};
}

static capl_status settle_auto(const capl_device *device, capl_precision *out)
{
  const char *why = "no 16-bit arithmetic here";
  capl_dtype low = device->backend->auto_precision ? device->backend->auto_precision(&why) : CAPL_F32;
  settle(kind_of(capl_dtype_name(low)), why, out);
  return CAPL_OK;
}

static capl_status not_offered(const capl_device *device, const char *given)
{
  char list[64];
  CAPL_FAIL(CAPL_EUNSUPPORTED, "precision = %s is not supported on %s, which offers %s", given, device->backend->name,
            capl_precision_offers(device, list, sizeof list));
  if (device->backend->host_memory)
    capl_error_hint("use \"auto\", or set it for one device: {cuda = \"%s\", cpu = \"auto\"}", given);
  else
    capl_error_hint("use \"auto\"");
  return CAPL_EUNSUPPORTED;
}

static capl_status unknown(const char *given)
{
  capl_suggestion near = {.wanted = given};
  capl_suggest(&near, "auto");
  for (int k = 0; k < CAPL_PRECISION_COUNT; k++) capl_suggest(&near, precisions[k].name);
  if (near.nearest) return CAPL_FAIL(CAPL_EVALUE, "unknown precision '%s'; did you mean '%s'?", given, near.nearest);
  return CAPL_FAIL(CAPL_EVALUE, "unknown precision '%s'; known: auto, bf16, fp16, fp32, tf32", given);
}

capl_status capl_precision_read(const capl_device *device, const char *given, capl_precision *out)
{
  if (strcmp(given, "auto") == 0 && device) return settle_auto(device, out);
  if (strcmp(given, "auto") == 0) return *out = (capl_precision){0}, CAPL_OK;
  int kind = kind_of(given);
  if (kind < 0) return unknown(given);
  if (device && !(offered(device) & CAPL_BIT(kind))) return not_offered(device, given);
  settle(kind, NULL, out);
  return CAPL_OK;
}
