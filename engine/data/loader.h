/* loader.h -- the inside of a loader: loader*.c make batches on the host, feed.c takes them on to a device.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LOADER_H
#define CAPL_DATA_LOADER_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/bad_samples.h"
#include "data/batch.h"
#include "data/loader_widths.h"
#include "data/schedule.h"

typedef struct feeder feeder; /* feed.c */

/* A batch in the making, or made. */
typedef struct {
  uint8_t *images;
  int32_t *labels;
  int32_t *labels2; /* and mix: of loaders that mix */
  float *mix;
  void *field[CAPL_FIELDS_MAX]; /* host memory, whoever makes the images */
  uint32_t *ids;
  int32_t *lengths; /* of labels, host memory */
  int32_t *used;    /* px of images, with several widths; else NULL */
  capl_feed_row *rows; /* of loaders with a device: [batch], or [2 * batch] with the partners; likewise: */
  capl_feed_more *more;
  uint8_t *tables;
  int32_t *nodes;
  sample_facts *facts; /* of loaders that fill a set */
  uint8_t *block;      /* memory that holds rows, labels and images; NULL = they have their own */
  bool locked;         /* the block is page-locked */
  int buffer;          /* staging buffer that it was last sent through */
  uint64_t batch;      /* which one is being made here, or no_batch */
  row_stage stage;     /* by which it is made */
  int list, width;     /* of its samples */
  size_t image_bytes;
  int count, padded;
  int rows_left; /* 0 = complete */
  int substituted, augmented;
  int failed_row; /* the first that failed, or -1 */
  capl_error error;
} slot;

struct capl_loader {
  row_maker maker;
  row_stage stage; /* of every batch */
  schedule stages; /* if it has any, they say what each batch's is */
  width_plan widths;  /* of sources with several */
  int batch, n_workers, n_scratch, n_slots;
  double max_bad;
  capl_cache cache;
  char *cache_dir;   /* NULL = the user's */
  bool cache_chosen;
  char cached[640];  /* ", cached in memory, 458 MB", or why not */
  char path[960];    /* how batches come to be */
  capl_pin pin;
  uint32_t rank, world, parts; /* see loader_epoch.c */
  bool once, drop_last;
  feed_needs needs; /* of the augmentations of all stages; mixes on a host, too */
  slot *slots;
  row_scratch *scratch; /* [n_scratch]: one per worker, or one for the consumer */
  pthread_t *threads;
  int n_threads; /* started so far */
  atomic_bool hurry; /* rows in work are no longer wanted: threads give up after their current one */
  feeder *feed;      /* NULL = batches are made on the host */

  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t work;  /* tickets have become available, or stop */
  pthread_cond_t done;  /* a batch is complete, or nobody is busy */
  bool stop;
  bool began;           /* an epoch has been chosen */
  bool ended;           /* its end has been returned */
  uint64_t epoch;
  uint64_t start;       /* position at which this run of the epoch began */
  uint64_t before;      /* batches of the epoch before that */
  uint64_t n_batches;   /* of this run */
  uint64_t next_batch;  /* the next ticket's */
  int next_row;
  uint64_t delivered;   /* batches handed out; the last of them may still be borrowed */
  uint64_t released;    /* batches whose slot is free again */
  int busy;             /* tickets in work */
  double last_call;     /* seconds; of capl_loader_next or the epoch's beginning */
  capl_loader_stats stats;
  uint64_t substituted; /* of the rows handed out in this run of the epoch */
  bad_list bad;
  uint64_t bad_from;    /* number of this run's first batch in that list */
  uint64_t bad_until;   /* what batches from here on needed is not reported yet */
};

/* ---- loader.c, for feed.c; the lock is held ---------------------------------------------------- */

slot *loader_slot(capl_loader *loader, uint64_t batch);
/* Whether a slot holds all rows of a batch. */
bool loader_complete(const slot *s, uint64_t batch);
/* Until it does; lets go of the lock meanwhile. */
void loader_wait(capl_loader *loader, const slot *s, uint64_t batch);
void loader_hand_out(capl_loader *loader, const slot *s, capl_batch *batch);
/* Gives out no more tickets and waits for those in work: one sample each. */
void loader_quiesce(capl_loader *loader);

/* ---- loader_epoch.c ---------------------------------------------------------------------------- */

/* Rows this rank gets from a position of the global order on, and batches. */
uint64_t loader_rows_from(const capl_loader *loader, uint64_t start);
uint64_t loader_batches_from(const capl_loader *loader, uint64_t start);
/* Of this run of the epoch: the position of a row in the order of its batch's list; rows of a batch, of which the last
** ones repeat samples of other ranks. */
uint32_t loader_position_of(const capl_loader *loader, uint64_t batch, int row);
int loader_rows_of(const capl_loader *loader, uint64_t batch, int *repeats);
/* Samples of all ranks in it; 0 for a rank alone, and where samples come once. */
int loader_global_batch_of(const capl_loader *loader, uint64_t batch);
/* Which of the source's widths a batch has, 0 where there is but one. */
int loader_list_of(const capl_loader *loader, uint64_t batch);
/* Begins an epoch's order at a position: sets start and before. EVALUE if no batch begins there. */
capl_status loader_order_begin(capl_loader *loader, const capl_loader_state *state);
/* Samples of all ranks before a batch of this run. */
uint64_t loader_samples_before(const capl_loader *loader, uint64_t batch);
/* Samples of a batch as images of several widths are cut into batches. */
uint64_t loader_planned(const capl_loader *loader);

/* ---- loader_bad.c, loader_options.c ------------------------------------------------------------ */

/* The batch's error, if one of its rows failed or too many stand in for bad ones; it stays where it is. */
capl_status loader_check(capl_loader *loader, const slot *s);
/* EVALUE, EUNSUPPORTED. */
capl_status loader_check_options(const capl_source *source, const capl_loader_options *options);

/* ---- loader_cache.c ---------------------------------------------------------------------------- */

/* At the beginning of an epoch, with idle threads: at the first, decides where samples are kept, and logs the path. */
capl_status loader_cache_begin(capl_loader *loader);

/* ---- feed.c, for loader.c ---------------------------------------------------------------------- */

/* A loader's way to the device of its options. ENOMEM, EVALUE. */
capl_status feed_new(capl_loader *loader, const capl_loader_options *options);
/* Waits for copies in flight; nothing is left. NULL is fine. */
void feed_free(capl_loader *loader);
/* At the beginning of an epoch, with idle threads: at the first, decides how the levels travel and makes room for
** that. */
capl_status feed_begin(capl_loader *loader);
/* How its batches come to the device, once that is known. Borrowed. */
const char *feed_path(const capl_loader *loader);
/* Gives options the device of another loader. */
void feed_options_of(const capl_loader *loader, capl_loader_options *options);
/* capl_loader_next of a loader with a device; the lock is held. */
capl_status feed_next(capl_loader *loader, capl_batch *batch);

/* A loader that fills a set on behalf of another one: each sample once, in order, no matter which are bad. */
capl_status loader_new_filler(const capl_loader *owner, resident_set *set, int batch, capl_loader **filler);

#endif
