/* data.c -- queues the kernels that make a batch: images by augment.cu, labels by gather.cu.
**
** One launch makes the images, whatever they need: kernels/augment.h says which. Only images too large for a block's
** shared memory that are standardised after augmentation take two, the first of which adds up their levels.
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
  int type; /* cu_type; CU_TYPES = u8 */
  size_t image_values, value_bytes;
} plan;

static plan plan_of(const capl_feed_job *job)
{
  static const struct {
    int type;
    size_t bytes;
  } of[] = {
    [CAPL_PIXEL_F32] = {CU_F32, 4}, [CAPL_PIXEL_F16] = {CU_F16, 2}, [CAPL_PIXEL_BF16] = {CU_BF16, 2}, [CAPL_PIXEL_U8] = {CU_TYPES, 1}};
  augment_layout layout = job->channels == 1 ? AUGMENT_GRAY : job->pixel_bytes == 4 ? AUGMENT_RGBX : AUGMENT_RGB;
  return (plan){
    .job = job,
    .layout = layout,
    .type = of[job->type].type,
    .image_values = (size_t)job->height * (size_t)job->width * (size_t)job->channels,
    .value_bytes = of[job->type].bytes,
  };
}

static cu_entry entry_of(const plan *p, augment_kernel kernel)
{
  return cu_augment_table[(int)p->layout * AUGMENT_KERNELS + (int)kernel];
}

static capl_status launch_strips(const plan *p, const augment_args *a, int count)
{
  return cu_launch_2d(entry_of(p, (augment_kernel)(AUGMENT_STRIPS + p->type)), a->strips, count, AUGMENT_THREADS, 0, a);
}

static capl_status launch_whole(const plan *p, const augment_args *a, int count)
{
  return cu_launch_2d(entry_of(p, (augment_kernel)(AUGMENT_WHOLE + p->type)), 1, count, AUGMENT_THREADS, p->image_values, a);
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
  if (!p->job->standardise) return launch_strips(p, a, count);
  return p->image_values <= AUGMENT_WHOLE_BYTES ? launch_whole(p, a, count) : launch_large(device, p, a, count);
}

static capl_status make_images(capl_device *device, const capl_feed_row *rows, const uint8_t *images, const capl_feed_job *job)
{
  plan p = plan_of(job);
  for (int first = 0; first < job->count; first += GRID_Y) {
    augment_args a = {
      .rows = rows + first,
      .images = images,
      .out = (uint8_t *)job->out + (size_t)first * p.image_values * p.value_bytes,
      .height = job->height,
      .width = job->width,
      .strips = (job->height + AUGMENT_STRIP - 1) / AUGMENT_STRIP,
      .fill = job->fill ? job->fill_value : -1,
    };
    CAPL_TRY(launch_some(device, &p, &a, job->count - first < GRID_Y ? job->count - first : GRID_Y));
  }
  return CAPL_OK;
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
  CAPL_TRY(make_images(device, rows, images, job));
  return job->out_labels ? make_labels(rows, labels, job) : CAPL_OK;
}

capl_status cu_one_hot(const int32_t *labels, int64_t n, int64_t T, int64_t K, float *out)
{
  one_hot_args a = {.labels = labels, .out = out, .count = n * T * K, .classes = K};
  return cu_launch(cu_gather_table[GATHER_ONE_HOT], cu_blocks(a.count, CU_THREADS), CU_THREADS, 0, &a);
}
