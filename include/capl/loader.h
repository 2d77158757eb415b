/* loader.h -- batches: threads that read, augment and normalize samples ahead of time, in order.
**
** Batches are N,H,W,C. Every random choice is a Philox stream of (seed, epoch, sample), so a batch has the same bytes
** for any number of workers, and 24 bytes of state resume a run exactly.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LOADER_H
#define CAPL_LOADER_H

#include "capl/augment.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { CAPL_PIXEL_F32, CAPL_PIXEL_BF16, CAPL_PIXEL_U8, CAPL_PIXEL_F16 } capl_pixel_type;

typedef enum {
  CAPL_NORM_STANDARDIZE, /* per image: (x - mean) / deviation over all its values */
  CAPL_NORM_UNIT,        /* x / 255 */
  CAPL_NORM_MEAN_STD,    /* (x / 255 - mean[c]) / std[c] */
} capl_norm;

/* Where a loader keeps levels, labels and fields that are the same in every epoch, so that each is decoded once:
** nowhere; in memory; in a file, which later runs use too; on the device. auto: on a device when they take at most a
** quarter of its free memory, else in memory when they take at most half of what is available. */
typedef enum { CAPL_CACHE_AUTO, CAPL_CACHE_NONE, CAPL_CACHE_RAM, CAPL_CACHE_DISK, CAPL_CACHE_DEVICE } capl_cache;

typedef enum { CAPL_ON_ERROR_STOP, CAPL_ON_ERROR_SKIP } capl_on_error;

/* Whether batches wait for a device in page-locked memory, which it copies from directly; auto: where it can be had. */
typedef enum { CAPL_PIN_AUTO, CAPL_PIN_ON, CAPL_PIN_OFF } capl_pin;

/* Threads that read, draw or augment images together. */
enum { CAPL_WORKERS_MAX = 256 };

typedef struct {
  int batch;    /* N >= 1 */
  int workers;  /* threads, at most CAPL_WORKERS_MAX; 0 = capl_loader_next does the work itself */
  int prefetch; /* batches made ahead; 0 = 2 */
  uint64_t seed;
  bool shuffle;   /* a new order each epoch, a function of (seed, epoch) */
  bool drop_last; /* false: the last batch of an epoch may be smaller; with several widths, the last of each */
  int rank, world; /* batch t of all ranks is batch * world samples, of which this rank takes block number rank; 0, 0
                   ** = alone */
  bool once;       /* each sample is in one batch, as one rank alone makes them: ranks may get one batch less, or none.
                   ** false: all get equally many, and what the last ones lack of a round is shared out */
  int parts;       /* such a round is cut into so many parts of nearly one size, a multiple of world; 0 = world */
  capl_on_error on_error;
  double max_bad; /* skip: an epoch fails that has met more bad samples than this share of its samples, one apart; 0
                  ** = 0.01 */
  capl_pixel_type type;
  capl_norm norm; /* not for u8, which keeps its levels */
  float mean[3], std[3];
  const capl_augment_options *augment; /* copied; NULL = none */
  const struct capl_stage *stages;     /* in place of augment (schedule.h), copied */
  int n_stages;                        /* 0 = none */
  struct capl_device *device;          /* makes the batches (capl_loader_make); NULL = the host does */
  const struct capl_feed_ops *feed;    /* how it does that (feed.h), constant; NULL = the host makes them */
  const char *device_name;             /* for reports, constant */
  capl_cache cache;
  const char *cache_dir; /* folder of files for disk; NULL = $XDG_CACHE_HOME/capl/data, else ~/.cache/capl/data.
                         ** Copied */
  capl_pin pin;
  bool (*stop)(void); /* asked while a whole set is read; true gives up with EINTERRUPT. NULL = never */
} capl_loader_options;

typedef struct capl_loader capl_loader;

/* Borrowed from the loader until its next call that is not a getter. */
typedef struct {
  const void *images;    /* (N,H,W,C) of the loader's pixel type, 64-byte aligned; NULL if a device makes them or the
                         ** source has none */
  const int32_t *labels; /* (N,T); NULL if T = 0, or a device makes them */
  const int32_t *labels2; /* (N,T) of the samples that these are mixed with, and */
  const float *mix;       /* (N) the share of their own label; NULL unless an augmentation may mix */
  const void *field[CAPL_FIELDS_MAX]; /* (N,…) by number, 64-byte aligned, in host memory; NULL past the last */
  int width;              /* W; 0 = no images */
  const int32_t *used;    /* (N) px of W that the image takes, of sources with several widths, else NULL */
  const int32_t *lengths; /* (N) labels before the first -1, in host memory; NULL if T = 0 */
  const uint32_t *ids;   /* (N) sample numbers in the source, after substitution */
  int count;             /* N; 0 = the epoch has ended */
  int padded;            /* rows at the end that repeat a sample, where a round has fewer than parts */
  int global_batch_size; /* samples of all ranks in this round; 0: one rank, or samples come once */
  int substituted;       /* rows that stand in for a bad sample */
} capl_batch;

/* What has been handed out, not what was prefetched. */
typedef struct {
  uint64_t seed, epoch;
  uint64_t position; /* samples of the epoch's global order (all ranks) handed out */
} capl_loader_state;

enum { CAPL_LOADER_STATE_BYTES = 24 };

/* The same as bytes for a file: three numbers, lowest byte first. */
CAPL_API void capl_loader_state_pack(const capl_loader_state *state, uint8_t bytes[CAPL_LOADER_STATE_BYTES]);
CAPL_API void capl_loader_state_unpack(const uint8_t bytes[CAPL_LOADER_STATE_BYTES], capl_loader_state *state);

typedef struct {
  uint64_t batches, samples; /* handed out since the loader was made */
  uint64_t augmented;        /* of those samples, how many an augmentation changed */
  uint64_t substituted;      /* of those samples, how many stand in for a bad one */
  uint32_t bad;              /* different bad samples among them, as capl_loader_bad_get lists them */
  double wait_seconds;       /* time capl_loader_next spent waiting or, without workers, working */
  double seconds;            /* time from the beginning of each epoch to its end: what wait_seconds is a
                             ** share of */
  double work_seconds;       /* time the threads spent making samples, estimated from one in 16 of them … */
  double augment_seconds;    /* … and of that in augmentation, normalizing included */
} capl_loader_stats;

/* Starts the threads. Holds a reference to source. *loader: caller frees. EVALUE, ENOMEM. */
CAPL_API capl_status capl_loader_new(capl_source *source, const capl_loader_options *options,
                                     capl_loader **loader);
/* Stops the threads (after their current sample) and releases everything. NULL is fine. */
CAPL_API void capl_loader_free(capl_loader *loader);

/* Begins an epoch at its first sample; what was prefetched of another is dropped. EVALUE above 2^31 - 1. */
CAPL_API capl_status capl_loader_epoch(capl_loader *loader, uint64_t epoch);
/* The next batch of the epoch; batch->count is 0 after the last. When a sample is bad and on_error is stop, all
** batches before it come first, then its error, again at each call. ESTATE before the first epoch. */
CAPL_API capl_status capl_loader_next(capl_loader *loader, capl_batch *batch);

/* Of a loader with a device, after each batch that has rows: queues the making of that batch in the device's memory.
** images: (N,H,W,C) of the loader's pixel type; labels: (N,T), NULL if T = 0. ESTATE without such a batch. */
CAPL_API capl_status capl_loader_make(capl_loader *loader, void *images, int32_t *labels);
/* Likewise, but the batch stays the one to be made: for measuring. */
CAPL_API capl_status capl_loader_make_once_more(capl_loader *loader, void *images, int32_t *labels);
/* How the batches come to be: "made on the host", "resident on cuda:0, 458 MB", "streamed to cuda:0, page-locked: why",
** and behind that ", cached in memory, 458 MB", ", cached in FILE" or ", not cached: why". Known from the first epoch
** on. Borrowed until the loader's next call. */
CAPL_API const char *capl_loader_path(const capl_loader *loader);

/* Samples this rank gets per epoch, all ranks together get, and this rank's batches. */
CAPL_API uint64_t capl_loader_samples(const capl_loader *loader);
CAPL_API uint64_t capl_loader_all_samples(const capl_loader *loader);
CAPL_API uint64_t capl_loader_batches(const capl_loader *loader);
CAPL_API uint64_t capl_loader_batches_left(const capl_loader *loader); /* of the epoch that has begun */
CAPL_API capl_source *capl_loader_source(const capl_loader *loader); /* borrowed */
CAPL_API capl_pixel_type capl_loader_type(const capl_loader *loader);
/* that makes its batches; NULL = the host does */
CAPL_API struct capl_device *capl_loader_device(const capl_loader *loader);
CAPL_API void capl_loader_state_get(const capl_loader *loader, capl_loader_state *state);
/* Continues exactly where the state was taken, under the same source and options. EVALUE if the position is past
** the epoch's end. */
CAPL_API capl_status capl_loader_state_set(capl_loader *loader, const capl_loader_state *state);
CAPL_API void capl_loader_stats_get(capl_loader *loader, capl_loader_stats *stats);
/* i-th bad sample in order of its number that the batches handed out so far, or the one that failed, needed: its id and
** what was wrong (borrowed until the loader's next call that is not a getter). false when i is past the last. The list
** is the same for any number of threads. */
CAPL_API bool capl_loader_bad_get(capl_loader *loader, uint32_t i, uint32_t *id, const char **message);

/* Place position -> sample number: a bijection of [0, n) for each (seed, epoch). position < n. */
CAPL_API uint32_t capl_shuffle(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t position);

#ifdef __cplusplus
}
#endif
#endif
