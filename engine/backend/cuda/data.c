/* data.c -- queues the kernels that make a batch: images by augment.cu, labels by gather.cu.
**
** One launch makes the images, whatever they need: kernels/augment.h says which. Only images too large for a block's
** shared memory that are standardized after augmentation take two, the first of which adds up their levels; and gamma
** and blur take one before all.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/augment.h"
#include "backend/cuda/kernels/gather.h"
#include "backend/cuda/stage.h"

enum { GRID_Y = 65535 }; /* blocks of a grid in y: images of one launch */

/* A job's images, as its kernels count them. */
typedef struct {
  const capl_feed_job *job;
  augment_layout layout;
  augment_kind kind;
  int type; /* cu_type; CU_TYPES = u8 */
  size_t image_values, value_bytes;
} plan;

static plan plan_of(const capl_feed_job *job)
{
  static const struct {
    int type;
    size_t bytes;
  } of[] = {
    [CAPL_PIXEL_F32] = {CU_F32, 4}, [CAPL_PIXEL_F16] = {CU_F16, 2}, [CAPL_PIXEL_BF16] = {CU_BF16, 2},
    [CAPL_PIXEL_U8] = {CU_TYPES, 1}};
  augment_layout layout = job->channels == 1 ? AUGMENT_GRAY : job->pixel_bytes == 4 ? AUGMENT_RGBX : AUGMENT_RGB;
  return (plan){
    .job = job,
    .layout = layout,
    .kind = job->more ? AUGMENT_ALL : AUGMENT_PLAIN,
    .type = of[job->type].type,
    .image_values = (size_t)job->height * (size_t)job->width * (size_t)job->channels,
    .value_bytes = of[job->type].bytes,
  };
}

static cu_entry entry_of(const plan *p, augment_kernel kernel)
{
  return cu_augment_table[((int)p->kind * AUGMENT_LAYOUTS + (int)p->layout) * AUGMENT_KERNELS + (int)kernel];
}

static capl_status launch_strips(const plan *p, const augment_args *a, int count)
{
  return cu_launch_2d(entry_of(p, (augment_kernel)(AUGMENT_STRIPS + p->type)), a->strips, count, AUGMENT_THREADS, 0, a);
}

static capl_status launch_whole(const plan *p, const augment_args *a, int count)
{
  return cu_launch_2d(entry_of(p, (augment_kernel)(AUGMENT_WHOLE + p->type)), 1, count, AUGMENT_THREADS,
                      p->image_values, a);
}

/* Two launches: sums, then images. */
static capl_status launch_large(capl_device *device, const plan *p, augment_args *a, int count)
{
  void *sums;
  CAPL_TRY(capl_scratch_get(device, (size_t)count * (size_t)a->strips * 2 * sizeof *a->sums, &sums));
  a->sums = sums;
  capl_status status = cu_launch_2d(entry_of(p, AUGMENT_SUMS), a->strips, count, AUGMENT_THREADS, 0, a);
  if (status == CAPL_OK) status = launch_strips(p, a, count);
  a->sums = NULL;
  capl_scratch_put(device, sums);
  return status;
}

static capl_status launch_some(capl_device *device, const plan *p, augment_args *a, int count)
{
  if (!p->job->standardize) return launch_strips(p, a, count);
  return p->image_values <= AUGMENT_WHOLE_BYTES ? launch_whole(p, a, count) : launch_large(device, p, a, count);
}

/* Images of `count` rows from `first` on that need it. */
static capl_status filter_some(const filter_args *f, int first, int count, int strips)
{
  filter_args some = *f;
  for (int end = first + count; first < end; first += GRID_Y) {
    some.rows = f->rows + first;
    some.more = f->more + first;
    some.tables = f->tables + (size_t)first * 256;
    some.out = f->out + (size_t)first * (size_t)f->height * (size_t)f->width * (size_t)f->pixel_bytes;
    CAPL_TRY(cu_launch_2d(cu_augment_table[AUGMENT_FILTER], strips, end - first < GRID_Y ? end - first : GRID_Y,
                          AUGMENT_THREADS, 0, &some));
  }
  return CAPL_OK;
}

/* Images of rows that need it, filtered, in scratch memory; NULL if no row may. */
static capl_status filter_images(capl_device *device, const uint8_t *buffer, const capl_feed_job *job,
                                 const augment_args *a, void **filtered)
{
  *filtered = NULL;
  if (!job->filters) return CAPL_OK;
  size_t image_bytes = (size_t)job->height * (size_t)job->width * (size_t)job->pixel_bytes;
  CAPL_TRY(capl_scratch_get(device, (size_t)(job->partner + job->count) * image_bytes, filtered));
  filter_args f = {.rows = a->rows, .more = a->more, .images = a->images, .tables = buffer + job->tables_at,
                   .out = *filtered, .height = job->height, .width = job->width, .pixel_bytes = job->pixel_bytes};
  capl_status status = filter_some(&f, 0, job->count, a->strips);
  if (status == CAPL_OK && job->partner) status = filter_some(&f, job->partner, job->count, a->strips);
  if (status != CAPL_OK) capl_scratch_put(device, *filtered);
  return status;
}

static augment_args args_of(const uint8_t *buffer, const capl_feed_row *rows, const uint8_t *images,
                            const capl_feed_job *job)
{
  return (augment_args){
    .rows = rows,
    .images = images,
    .out = job->out,
    .height = job->height,
    .width = job->width,
    .strips = (job->height + AUGMENT_STRIP - 1) / AUGMENT_STRIP,
    .fill = job->fill ? job->fill_value : -1,
    .more = job->more ? (const void *)(buffer + job->more_at) : NULL,
    .nodes = job->nodes ? (const void *)(buffer + job->nodes_at) : NULL,
    .row_nodes = job->nodes,
    .partner = job->partner,
    .erase_value = job->erase_value,
  };
}

/* Beginning with the first-th image. */
static augment_args from_image(const augment_args *a, int first, size_t image_bytes, size_t source_bytes)
{
  augment_args some = *a;
  some.rows += first;
  some.out = (uint8_t *)a->out + (size_t)first * image_bytes;
  if (a->more) some.more += first;
  if (a->nodes) some.nodes += (size_t)first * (size_t)a->row_nodes;
  if (a->filtered) some.filtered += (size_t)first * source_bytes;
  return some;
}

static capl_status make_images(capl_device *device, const uint8_t *buffer, const capl_feed_row *rows,
                               const uint8_t *images, const capl_feed_job *job)
{
  plan p = plan_of(job);
  augment_args a = args_of(buffer, rows, images, job);
  void *filtered;
  CAPL_TRY(filter_images(device, buffer, job, &a, &filtered));
  a.filtered = filtered;
  size_t source_bytes = (size_t)job->height * (size_t)job->width * (size_t)job->pixel_bytes;
  capl_status status = CAPL_OK;
  for (int first = 0; status == CAPL_OK && first < job->count; first += GRID_Y) {
    augment_args some = from_image(&a, first, p.image_values * p.value_bytes, source_bytes);
    status = launch_some(device, &p, &some, job->count - first < GRID_Y ? job->count - first : GRID_Y);
  }
  if (filtered) capl_scratch_put(device, filtered);
  return status;
}

static capl_status make_labels(const capl_feed_row *rows, const int32_t *labels, const capl_feed_job *job)
{
  gather_labels_args a = {
    .rows = rows,
    .labels = labels,
    .out = job->out_labels,
    .count = (int64_t)job->count * job->length,
    .length = job->length,
  };
  return cu_launch(cu_gather_table[GATHER_LABELS], cu_blocks(a.count, CU_THREADS), CU_THREADS, 0, &a);
}

capl_status cu_make_batch(capl_device *device, const uint8_t *buffer, const capl_feed_job *job)
{
  const capl_feed_row *rows = (const void *)(buffer + job->rows_at);
  const uint8_t *images = job->images ? job->images : buffer + job->images_at;
  const int32_t *labels = job->labels ? job->labels : (const void *)(buffer + job->labels_at);
  CAPL_TRY(make_images(device, buffer, rows, images, job));
  return job->out_labels ? make_labels(rows, labels, job) : CAPL_OK;
}

capl_status cu_one_hot(const int32_t *labels, int64_t n, int64_t T, int64_t K, float *out)
{
  one_hot_args a = {.labels = labels, .out = out, .count = n * T * K, .classes = K};
  return cu_launch(cu_gather_table[GATHER_ONE_HOT], cu_blocks(a.count, CU_THREADS), CU_THREADS, 0, &a);
}
