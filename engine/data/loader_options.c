/* loader_options.c -- refuses options of a loader that contradict each other, its source or the machine.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "data/loader.h"
#include "data/augment_options.h"

enum { PREFETCH_MAX = 1024 };

/* Parts of a round are of one size, and so are the shares of the ranks. */
static capl_status check_parts(const capl_loader_options *o)
{
  int64_t world = o->world ? o->world : 1;
  if (o->parts == 0) return CAPL_OK;
  if (o->parts < 0 || o->parts % world)
    return CAPL_FAIL(CAPL_EVALUE, "parts is %d; it is a multiple of the %lld ranks", o->parts, (long long)world);
  if (o->batch * world % o->parts == 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%lld images of all ranks together make no %d parts of one size",
                   (long long)(o->batch * world), o->parts);
}

static capl_status check_numbers(const capl_loader_options *o)
{
  if (o->batch < 1) return CAPL_FAIL(CAPL_EVALUE, "batch is %d; it must be at least 1", o->batch);
  if (o->workers < 0 || o->workers > CAPL_WORKERS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "workers is %d; it must be 0..%d", o->workers, CAPL_WORKERS_MAX);
  if (o->prefetch < 0 || o->prefetch > PREFETCH_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "prefetch is %d; it must be 0..%d", o->prefetch, PREFETCH_MAX);
  if (!(o->max_bad >= 0 && o->max_bad <= 1))
    return CAPL_FAIL(CAPL_EVALUE, "max_bad is %g; it is a share, 0..1", o->max_bad);
  if (o->world < 0 || (o->world ? o->rank < 0 || o->rank >= o->world : o->rank != 0)) {
    return CAPL_FAIL(CAPL_EVALUE, "rank %d of %d does not exist", o->rank, o->world);
  }
  CAPL_TRY(check_parts(o));
  if (o->type < CAPL_PIXEL_F32 || o->type > CAPL_PIXEL_F16)
    return CAPL_FAIL(CAPL_EVALUE, "no pixel type %d", (int)o->type);
  if (o->norm < CAPL_NORM_STANDARDIZE || o->norm > CAPL_NORM_MEAN_STD)
    return CAPL_FAIL(CAPL_EVALUE, "no normalization %d", (int)o->norm);
  return CAPL_OK;
}

static capl_status check_norm(const capl_loader_options *o, int channels)
{
  if (o->norm != CAPL_NORM_MEAN_STD) return CAPL_OK;
  for (int c = 0; c < channels; c++) {
    if (isfinite(o->mean[c]) && isfinite(o->std[c]) && o->std[c] > 0) continue;
    return CAPL_FAIL(CAPL_EVALUE, "channel %d: mean %g and std %g; std must be above 0", c, o->mean[c], o->std[c]);
  }
  return CAPL_OK;
}

static capl_status check_cache(const capl_source *source, const capl_loader_options *o)
{
  static const char *const names[] = {"auto", "none", "ram", "disk", "device"};
  if (o->cache < CAPL_CACHE_AUTO || o->cache > CAPL_CACHE_DEVICE)
    return CAPL_FAIL(CAPL_EVALUE, "no cache %d", (int)o->cache);
  if (o->cache == CAPL_CACHE_AUTO || o->cache == CAPL_CACHE_NONE) return CAPL_OK;
  if (o->cache == CAPL_CACHE_DEVICE && !o->feed) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "cache is device, but batches are made on the host");
    capl_error_hint("it needs a GPU; cache = \"auto\" uses one where there is one");
    return CAPL_EUNSUPPORTED;
  }
  if (source->fixed) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "cache is %s, but the source gives other images in every epoch", names[o->cache]);
  capl_error_hint("fixed = true of a generator repeats them; cache = \"auto\" caches where possible");
  return CAPL_EVALUE;
}

static capl_status check_stages(const capl_source *source, const capl_loader_options *o)
{
  if (o->augment && o->n_stages) return CAPL_FAIL(CAPL_EVALUE, "augment and stages are both given");
  for (int i = 0; i < o->n_stages; i++) {
    if (!o->stages[i].augments || capl_augment_check_source(&o->stages[i].augment, source) == CAPL_OK) continue;
    capl_error_context("stage %d", i + 1);
    return capl_error_last()->code;
  }
  return CAPL_OK;
}

static capl_status check_pin(const capl_loader_options *o)
{
  if (o->pin < CAPL_PIN_AUTO || o->pin > CAPL_PIN_OFF) return CAPL_FAIL(CAPL_EVALUE, "no pin %d", (int)o->pin);
  if (o->pin != CAPL_PIN_ON || o->feed) return CAPL_OK;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "pin is true, but batches are made on the host: only a GPU copies from page-locked "
                               "memory");
  capl_error_hint("pin = \"auto\" locks memory where there is a GPU to copy from it");
  return CAPL_EUNSUPPORTED;
}

/* What needs images that are all of one size. */
static capl_status check_widths(const capl_source *source, const capl_loader_options *o)
{
  bool mixes = o->augment && capl_augment_mixes(o->augment);
  for (int i = 0; i < o->n_stages; i++)
    mixes = mixes || (o->stages[i].augments && capl_augment_mixes(&o->stages[i].augment));
  if (!source->n_widths || (!mixes && o->cache != CAPL_CACHE_DEVICE)) return CAPL_OK;
  if (mixes)
    CAPL_FAIL(CAPL_EUNSUPPORTED, "mixup and cutmix take two images of one size, and the source's have %d widths",
              source->n_widths);
  else CAPL_FAIL(CAPL_EUNSUPPORTED, "cache is device, but the source's images have %d widths", source->n_widths);
  capl_error_hint(mixes ? "width and height with resize = true of the source make them one"
                  : "cache = \"auto\" keeps them in memory");
  return CAPL_EUNSUPPORTED;
}

static capl_status check_drop_last(const capl_source *source, const capl_loader_options *o)
{
  int64_t ranks = o->world && !o->once ? o->world : 1;
  if (!o->drop_last || source->count >= o->batch * ranks) return CAPL_OK;
  if (ranks > 1)
    CAPL_FAIL(CAPL_EVALUE, "batch is %d on each of %d ranks but there are only %u samples, so drop_last leaves no "
                           "batch at all", o->batch, o->world, source->count);
  else CAPL_FAIL(CAPL_EVALUE, "batch is %d but there are only %u samples, so drop_last leaves no batch at all",
                 o->batch, source->count);
  capl_error_hint("set drop_last = false or a smaller batch");
  return CAPL_EVALUE;
}

capl_status loader_check_options(const capl_source *source, const capl_loader_options *o)
{
  CAPL_TRY(check_numbers(o));
  CAPL_TRY(check_norm(o, source->channels));
  if (o->augment) CAPL_TRY(capl_augment_check_source(o->augment, source));
  CAPL_TRY(check_stages(source, o));
  CAPL_TRY(check_cache(source, o));
  CAPL_TRY(check_pin(o));
  CAPL_TRY(check_widths(source, o));
  return check_drop_last(source, o);
}
