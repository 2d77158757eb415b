/* feed.c -- loaders whose batches are made on the GPU give what those on the host give, byte for byte.
**
** Batches of a whole epoch are queued before one of them is read, so work that was not put in order comes in the wrong
** one (CAPL_SHIM_ASYNC). Sources are made of hashed bytes: nothing in them is smooth, so one wrong pixel shows.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capl/capl.h"
#include "data/source.h"

static capl_device *gpu;

static int open_gpu(void **state)
{
  (void)state;
  return capl_device_open("cuda", &gpu) == CAPL_OK ? 0 : -1;
}

/* ---- a source without files ------------------------------------------------------------------ */

typedef struct {
  capl_source base;
  int32_t bad; /* the sample that cannot be read; -1 = none */
} hashed_source;

static uint32_t stir(uint32_t x)
{
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

static capl_status hashed_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  (void)scratch;
  uint32_t id = what->id;
  if ((int32_t)id == ((hashed_source *)source)->bad) return CAPL_FAIL(CAPL_EFORMAT, "sample %u is damaged", id);
  int n = source->width * source->height * source->channels;
  for (int i = 0; i < n; i++) to->pixels[i] = (uint8_t)stir(id * 65537u + (uint32_t)i);
  for (int t = 0; t < source->length; t++) to->labels[t] = (int32_t)((id + (uint32_t)t) % 10);
  for (int i = 0; i < source->width * source->height && source->n_fields > 0; i++)
    ((uint8_t *)to->field[0])[i] = to->pixels[i] % 19;
  return CAPL_OK;
}

static void hashed_close(capl_source *source)
{
  free(source);
}

typedef struct {
  int width, height, channels, length;
  uint32_t count;
  int32_t bad;
  bool mask;
} shape;

static capl_source *open_source(const shape *s)
{
  static const capl_source_ops ops = {.read = hashed_read, .close = hashed_close};
  hashed_source *source = calloc(1, sizeof *source);
  assert_non_null(source);
  source->base = (capl_source){.ops = &ops, .refs = 1, .count = s->count, .width = s->width, .height = s->height,
                               .channels = s->channels, .length = s->length, .fixed = true};
  source->bad = s->bad;
  if (s->mask) {
    source->base.n_fields = 1;
    source->base.field[0] = (capl_field){.name = "mask", .kind = CAPL_FIELD_MASK, .ndim = 2,
                                         .size = {s->height, s->width}};
  }
  return &source->base;
}

static capl_status open_loader(const shape *s, capl_loader_options o, bool on_gpu, capl_loader **loader)
{
  capl_source *source = open_source(s);
  if (on_gpu) {
    o.device = gpu;
    o.feed = gpu->backend->feed;
    o.device_name = gpu->name;
  } else {
    o.cache = CAPL_CACHE_AUTO;
  }
  capl_status status = capl_loader_new(source, &o, loader);
  capl_source_unref(source);
  return status;
}

/* ---- comparing ------------------------------------------------------------------------------- */

enum { MOST_BATCHES = 64 };

/* A batch as the host made it, and where the GPU will have put its own. */
typedef struct {
  int count;
  void *images;
  int32_t *labels;
  size_t image_bytes, label_bytes;
  capl_tensor *made, *made_labels;
} pair;

static void *copy_of(const void *bytes, size_t n)
{
  void *copy = malloc(n + 1);
  assert_non_null(copy);
  if (n) memcpy(copy, bytes, n);
  return copy;
}

static capl_status make_on_gpu(capl_loader *loader, const shape *s, const capl_batch *batch, pair *p)
{
  static const capl_dtype dtypes[] = {CAPL_F32, CAPL_BF16, CAPL_U8, CAPL_F16}; /* ORDER capl_pixel_type */
  int64_t size[4] = {batch->count, s->channels, s->height, s->width}, label_size[2] = {batch->count, s->length};
  CAPL_TRY(capl_tensor_new(gpu, dtypes[capl_loader_type(loader)], 4, size, CAPL_AUTO, &p->made));
  if (s->length) CAPL_TRY(capl_tensor_new(gpu, CAPL_I32, 2, label_size, CAPL_ROW, &p->made_labels));
  return capl_loader_make(loader, capl_tensor_data(p->made), s->length ? capl_tensor_data(p->made_labels) : NULL);
}

/* What does not lie on the device. */
static void check_host_parts(const shape *s, const capl_batch *a, const capl_batch *b)
{
  assert_int_equal(a->mix == NULL, b->mix == NULL);
  if (a->mix) assert_memory_equal(a->mix, b->mix, (size_t)a->count * sizeof *a->mix);
  if (a->mix && s->length)
    assert_memory_equal(a->labels2, b->labels2, (size_t)(a->count * s->length) * sizeof *a->labels2);
  if (s->mask) assert_memory_equal(a->field[0], b->field[0], (size_t)(a->count * s->height * s->width));
}

/* The next batch of both; false at the end. */
static bool next_pair(capl_loader *host, capl_loader *device, const shape *s, pair *p)
{
  capl_batch a, b;
  assert_ok(capl_loader_next(host, &a));
  assert_ok(capl_loader_next(device, &b));
  assert_int_equal(a.count, b.count);
  if (a.count == 0) return false;
  assert_int_equal(a.padded, b.padded);
  assert_int_equal(a.substituted, b.substituted);
  assert_memory_equal(a.ids, b.ids, (size_t)a.count * sizeof *a.ids);
  check_host_parts(s, &a, &b);
  *p = (pair){.count = a.count};
  assert_ok(make_on_gpu(device, s, &b, p));
  p->image_bytes = capl_tensor_bytes(p->made);
  p->label_bytes = (size_t)a.count * (size_t)s->length * sizeof(int32_t);
  p->images = copy_of(a.images, p->image_bytes);
  p->labels = copy_of(a.labels, p->label_bytes);
  return true;
}

static void check_pair(const pair *p)
{
  void *got = malloc(p->image_bytes + p->label_bytes);
  assert_non_null(got);
  assert_ok(gpu->backend->copy_out(got, capl_tensor_data(p->made), p->image_bytes));
  assert_memory_equal(got, p->images, p->image_bytes);
  if (p->label_bytes) {
    assert_ok(gpu->backend->copy_out(got, capl_tensor_data(p->made_labels), p->label_bytes));
    assert_memory_equal(got, p->labels, p->label_bytes);
  }
  free(got);
}

static void drop_pair(pair *p)
{
  free(p->images);
  free(p->labels);
  capl_tensor_unref(p->made);
  capl_tensor_unref(p->made_labels);
}

/* The rest of both epochs: queued whole, then read. */
static void compare_rest(capl_loader *host, capl_loader *device, const shape *s)
{
  pair pairs[MOST_BATCHES];
  int n = 0;
  while (next_pair(host, device, s, &pairs[n])) {
    n++;
    assert_true(n < MOST_BATCHES);
  }
  for (int i = 0; i < n; i++) check_pair(&pairs[i]);
  for (int i = 0; i < n; i++) drop_pair(&pairs[i]);
}

static void open_both(const shape *s, const capl_loader_options *o, capl_loader **host, capl_loader **device)
{
  assert_ok(open_loader(s, *o, false, host));
  assert_ok(open_loader(s, *o, true, device));
}

static void close_both(capl_loader *host, capl_loader *device)
{
  capl_loader_stats a, b;
  capl_loader_stats_get(host, &a);
  capl_loader_stats_get(device, &b);
  assert_int_equal(a.batches, b.batches);
  assert_int_equal(a.samples, b.samples);
  assert_int_equal(a.augmented, b.augmented);
  assert_int_equal(a.substituted, b.substituted);
  assert_int_equal(a.bad, b.bad);
  capl_loader_free(host);
  capl_loader_free(device);
}

static void compare(const shape *s, const capl_loader_options *o, int epochs)
{
  capl_loader *host, *device;
  open_both(s, o, &host, &device);
  for (int epoch = 0; epoch < epochs; epoch++) {
    assert_ok(capl_loader_epoch(host, (uint64_t)epoch));
    assert_ok(capl_loader_epoch(device, (uint64_t)epoch));
    compare_rest(host, device, s);
  }
  close_both(host, device);
}

static void compare_streamed_and_resident(const shape *s, capl_loader_options o, int epochs)
{
  o.cache = CAPL_CACHE_NONE;
  compare(s, &o, epochs);
  o.cache = CAPL_CACHE_RAM;
  compare(s, &o, epochs);
  o.cache = CAPL_CACHE_DEVICE;
  compare(s, &o, epochs);
}

/* ---- what is made ---------------------------------------------------------------------------- */

static const capl_augment_options everything = {
  .rotate = {-15, 15}, .scale = {0.9f, 1.1f}, .shear = {-5, 5},         .translate_x = {-0.05f, 0.05f},
  .noise = {0, 8},     .invert = 0.3f,        .contrast = {0.8f, 1.2f}, .brightness = {0.8f, 1.2f},
};
/* Rows that leave the image by far, and coordinates that need more than 32 bits. */
static const capl_augment_options wild = {
  .rotate = {-360, 360}, .scale = {0.05f, 20}, .shear = {-80, 80}, .translate_x = {-1, 1}, .translate_y = {-1, 1},
  .fill = true,          .fill_value = 77,
};
static const capl_augment_options colours = {.contrast = {0, 3}, .brightness = {0, 3}, .noise = {0, 255}};

static const capl_augment_options *const augments[] = {NULL, &everything, &wild, &colours};
enum { AUGMENTS = sizeof augments / sizeof *augments };

/* The last two are standardized by two kernels: their levels do not fit a block's shared memory. */
static const shape shapes[] = {
  {.width = 1, .height = 1, .channels = 1, .count = 5, .bad = -1},
  {.width = 33, .height = 9, .channels = 1, .length = 4, .count = 11, .bad = -1},
  {.width = 40, .height = 30, .channels = 3, .length = 1, .count = 11, .bad = -1},
  {.width = 131, .height = 127, .channels = 3, .length = 2, .count = 2, .bad = -1},
  {.width = 230, .height = 215, .channels = 1, .length = 2, .count = 2, .bad = -1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void every_type_norm_and_augmentation_has_the_bytes_of_the_host(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; s++)
    for (int a = 0; a < AUGMENTS; a++)
      for (int norm = CAPL_NORM_STANDARDIZE; norm <= CAPL_NORM_MEAN_STD; norm++)
        for (int type = CAPL_PIXEL_F32; type <= CAPL_PIXEL_F16; type++) {
          bool plain = norm == CAPL_NORM_STANDARDIZE;
          if (!plain && (type >= CAPL_PIXEL_U8 || shapes[s].count < 5)) continue; /* nothing new */
          capl_loader_options o = {.batch = 3, .workers = 1, .seed = 7, .shuffle = true, .augment = augments[a],
                                   .norm = (capl_norm)norm, .type = (capl_pixel_type)type,
                                   .mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.25f, 0.3f}};
          compare_streamed_and_resident(&shapes[s], o, 1);
        }
}

/* What only some augmentations need: filters, maps that bend, colour, mixing, erasing; each sample has its own. */
static const capl_augment_options bent = {
  .perspective = {0, 0.4f}, .elastic = {0, 6}, .rotate = {-20, 20}, .crop = {0.4f, 1}, .noise = {0, 9}, .flip = 0.5f,
  .flip_text = true, .skip = {[CAPL_AUGMENT_PERSPECTIVE] = 0.4f, [CAPL_AUGMENT_ELASTIC] = 0.4f},
  .class_swaps = {.declared = true, .count = 1, .pair = {{4, 5}}},
};
static const capl_augment_options filtered = {
  .gamma = {0.4f, 2.5f}, .blur = {0.2f, 3}, .saturation = {0, 2}, .hue = {-0.5f, 0.5f}, .contrast = {0.5f, 1.5f},
  .erase = {0.05f, 0.4f}, .erase_value = 99,     .invert = 0.3f,
  .skip = {[CAPL_AUGMENT_GAMMA] = 0.3f, [CAPL_AUGMENT_BLUR] = 0.3f, [CAPL_AUGMENT_HUE] = 0.5f,
           [CAPL_AUGMENT_ERASE] = 0.5f},
};
static const capl_augment_options mixed = {
  .mixup = {0.4f, 0.4f}, .cutmix = {1, 0.4f}, .elastic = {0, 3}, .gamma = {0.5f, 2}, .blur = {0.3f, 1},
  .rotate = {-30, 30}, .noise = {0, 5}, .skip = {[CAPL_AUGMENT_ELASTIC] = 0.5f, [CAPL_AUGMENT_BLUR] = 0.5f},
  .fill = true, .fill_value = 20, .mask_fill = 3,
};
static const capl_augment_options *const rare[] = {&bent, &filtered, &mixed};
static const shape rare_shapes[] = {
  {.width = 1, .height = 1, .channels = 1, .length = 1, .count = 5, .bad = -1},
  {.width = 33, .height = 9, .channels = 1, .length = 4, .count = 11, .bad = -1, .mask = true},
  {.width = 40, .height = 31, .channels = 3, .length = 1, .count = 11, .bad = -1, .mask = true},
  {.width = 131, .height = 127, .channels = 3, .length = 2, .count = 3, .bad = -1},
};

static void what_few_augmentations_need_has_the_bytes_of_the_host_too(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof rare_shapes / sizeof *rare_shapes; s++)
    for (size_t a = 0; a < sizeof rare / sizeof *rare; a++)
      for (int type = CAPL_PIXEL_F32; type <= CAPL_PIXEL_U8; type += CAPL_PIXEL_U8) {
        capl_loader_options o = {.batch = 3, .workers = 1, .seed = 11, .shuffle = true, .augment = rare[a],
                                 .type = (capl_pixel_type)type,
                                 .norm = a == 0 ? CAPL_NORM_UNIT : CAPL_NORM_STANDARDIZE};
        compare_streamed_and_resident(&rare_shapes[s], o, 2);
      }
}

static void stages_have_the_bytes_of_the_host(void **state)
{
  (void)state;
  const capl_stage stages[] = {
    {.from = CAPL_FROM_EPOCH, .at = 1},
    {.from = CAPL_FROM_STEP, .at = 2, .ramp = 3, .augments = true, .augment = everything},
    {.from = CAPL_FROM_EPOCH, .at = 3, .ramp = 1, .ramp_in_epochs = true, .shape = CAPL_RAMP_COSINE, .augments = true,
     .augment = mixed},
    {.from = CAPL_FROM_EPOCH, .at = 4, .augments = true, .augment = filtered},
  };
  for (size_t s = 1; s < 3; s++)
    for (int norm = CAPL_NORM_STANDARDIZE; norm <= CAPL_NORM_UNIT; norm++) {
      capl_loader_options o = {.batch = 2, .workers = 1, .seed = 11, .shuffle = true, .stages = stages, .n_stages = 4,
                               .norm = (capl_norm)norm};
      compare_streamed_and_resident(&rare_shapes[s], o, 6);
    }
}

static void many_epochs_of_many_batches_keep_their_order(void **state)
{
  (void)state;
  shape s = {.width = 24, .height = 12, .channels = 1, .length = 4, .count = 101, .bad = -1};
  for (int workers = 0; workers <= 4; workers += 2) {
    capl_loader_options o = {.batch = 2, .workers = workers, .prefetch = 1, .seed = 3, .shuffle = true,
                             .augment = &everything};
    compare_streamed_and_resident(&s, o, 3);
  }
}

static void ranks_and_whole_batches_are_those_of_the_host(void **state)
{
  (void)state;
  shape s = {.width = 8, .height = 8, .channels = 3, .length = 4, .count = 21, .bad = -1};
  for (int rank = 0; rank < 2; rank++)
    for (int drop = 0; drop < 2; drop++) {
      capl_loader_options o = {.batch = 4, .workers = 2, .shuffle = true, .rank = rank, .world = 2,
                               .drop_last = drop == 1};
      compare_streamed_and_resident(&s, o, 2);
    }
}

static void labels_become_ones_among_zeros(void **state)
{
  (void)state;
  const int32_t labels[] = {0, 2, -1, 1, 9, 2};
  const float wanted[18] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1};
  int64_t in_size[2] = {2, 3}, out_size[2] = {2, 9};
  capl_tensor *in, *out;
  float got[18];
  assert_ok(capl_tensor_new(gpu, CAPL_I32, 2, in_size, CAPL_ROW, &in));
  assert_ok(capl_tensor_new(gpu, CAPL_F32, 2, out_size, CAPL_ROW, &out));
  assert_ok(gpu->backend->copy_in(capl_tensor_data(in), labels, sizeof labels));
  assert_ok(gpu->backend->feed->one_hot(capl_tensor_data(in), 2, 3, 3, capl_tensor_data(out)));
  assert_ok(gpu->backend->copy_out(got, capl_tensor_data(out), sizeof got));
  assert_memory_equal(got, wanted, sizeof got);
  capl_tensor_unref(in);
  capl_tensor_unref(out);
}

/* ---- beginnings and ends --------------------------------------------------------------------- */

static const shape small = {.width = 20, .height = 10, .channels = 1, .length = 4, .count = 37, .bad = -1};

static void take(capl_loader *host, capl_loader *device, const shape *s, int batches)
{
  pair p;
  for (int i = 0; i < batches; i++) {
    assert_true(next_pair(host, device, s, &p));
    check_pair(&p);
    drop_pair(&p);
  }
}

/* Samples that come from no file are not kept on disk. */
static int next_cache(int cache)
{
  return cache == CAPL_CACHE_RAM ? CAPL_CACHE_DEVICE : cache + 1;
}

static void an_epoch_may_be_left_and_another_begun(void **state)
{
  (void)state;
  for (int cache = CAPL_CACHE_NONE; cache <= CAPL_CACHE_DEVICE; cache = next_cache(cache))
    for (int left_after = 0; left_after < 6; left_after++) {
      capl_loader_options o = {.batch = 3, .workers = 2, .shuffle = true, .augment = &everything,
                               .cache = (capl_cache)cache};
      capl_loader *host, *device;
      open_both(&small, &o, &host, &device);
      for (uint64_t epoch = 0; epoch < 3; epoch++) {
        assert_ok(capl_loader_epoch(host, epoch));
        assert_ok(capl_loader_epoch(device, epoch));
        take(host, device, &small, left_after);
      }
      assert_ok(capl_loader_epoch(host, 9));
      assert_ok(capl_loader_epoch(device, 9));
      compare_rest(host, device, &small);
      close_both(host, device);
    }
}

/* Their copies may not have begun when the other epoch's threads would like to write where they read. */
static void batches_of_a_left_epoch_stay_what_they_were(void **state)
{
  (void)state;
  for (int cache = CAPL_CACHE_NONE; cache <= CAPL_CACHE_DEVICE; cache = next_cache(cache)) {
    capl_loader_options o = {.batch = 3, .workers = 2, .shuffle = true, .augment = &everything,
                             .cache = (capl_cache)cache};
    capl_loader *host, *device;
    pair pairs[12];
    open_both(&small, &o, &host, &device);
    for (int i = 0; i < 12; i++) {
      if (i % 3 == 0) assert_ok(capl_loader_epoch(host, (uint64_t)i));
      if (i % 3 == 0) assert_ok(capl_loader_epoch(device, (uint64_t)i));
      assert_true(next_pair(host, device, &small, &pairs[i]));
      usleep(2000); /* for the threads to get ahead */
    }
    close_both(host, device);
    for (int i = 0; i < 12; i++) check_pair(&pairs[i]);
    for (int i = 0; i < 12; i++) drop_pair(&pairs[i]);
  }
}

static void a_batch_need_not_be_made_and_a_loader_not_be_finished(void **state)
{
  (void)state;
  for (int taken = 0; taken < 8; taken++) {
    capl_loader_options o = {.batch = 2, .workers = 2, .cache = CAPL_CACHE_NONE};
    capl_loader *device;
    capl_batch b;
    pair p = {0};
    assert_ok(open_loader(&small, o, true, &device));
    assert_ok(capl_loader_epoch(device, 0));
    for (int i = 0; i < taken; i++) {
      assert_ok(capl_loader_next(device, &b));
      if (i % 2) continue;
      assert_ok(make_on_gpu(device, &small, &b, &p));
      drop_pair(&p);
      assert_int_equal(capl_loader_make(device, NULL, NULL), CAPL_ESTATE); /* it is made already */
    }
    capl_loader_free(device);
  }
}

static void a_state_is_of_what_was_handed_out_not_of_what_was_sent_ahead(void **state)
{
  (void)state;
  for (int cache = CAPL_CACHE_NONE; cache <= CAPL_CACHE_DEVICE; cache = next_cache(cache)) {
    capl_loader_options o = {.batch = 3, .workers = 2, .shuffle = true, .augment = &everything,
                             .cache = (capl_cache)cache};
    capl_loader *host, *device;
    capl_loader_state was, is;
    open_both(&small, &o, &host, &device);
    assert_ok(capl_loader_epoch(host, 4));
    assert_ok(capl_loader_epoch(device, 4));
    take(host, device, &small, 5);
    capl_loader_state_get(host, &was);
    capl_loader_state_get(device, &is);
    assert_memory_equal(&was, &is, sizeof was);
    assert_ok(capl_loader_state_set(device, &is));
    compare_rest(host, device, &small);
    close_both(host, device);
  }
}

/* ---- bad samples ----------------------------------------------------------------------------- */

static void a_bad_sample_is_told_when_its_batch_comes(void **state)
{
  (void)state;
  shape s = small;
  s.bad = 20;
  for (int cache = CAPL_CACHE_NONE; cache <= CAPL_CACHE_DEVICE; cache = next_cache(cache)) {
    capl_loader_options o = {.batch = 3, .workers = 3, .cache = (capl_cache)cache};
    capl_loader *host, *device;
    capl_batch b;
    open_both(&s, &o, &host, &device);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
      assert_ok(capl_loader_epoch(host, epoch));
      assert_ok(capl_loader_epoch(device, epoch));
      take(host, device, &s, 6);
      for (int again = 0; again < 2; again++) {
        assert_fails(capl_loader_next(host, &b), CAPL_EFORMAT, "sample 20 is damaged");
        assert_fails(capl_loader_next(device, &b), CAPL_EFORMAT, "sample 20 is damaged");
      }
    }
    close_both(host, device);
  }
}

static void a_bad_sample_is_replaced_by_the_same_one(void **state)
{
  (void)state;
  shape s = small;
  s.bad = 20;
  capl_loader_options o = {.batch = 3, .workers = 2, .shuffle = true, .on_error = CAPL_ON_ERROR_SKIP,
                           .augment = &everything};
  compare_streamed_and_resident(&s, o, 3);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void check_path(const shape *s, capl_cache cache, const char *wanted)
{
  capl_loader_options o = {.batch = 3, .cache = cache};
  capl_loader *device;
  assert_ok(open_loader(s, o, true, &device));
  assert_string_equal(capl_loader_path(device), "");
  assert_ok(capl_loader_epoch(device, 0));
  assert_string_equal(capl_loader_path(device), wanted);
  capl_loader_free(device);
}

static void memory_need_not_be_page_locked(void **state)
{
  (void)state;
  capl_loader_options o = {.batch = 3, .workers = 2, .shuffle = true, .augment = &everything, .pin = CAPL_PIN_OFF};
  compare_streamed_and_resident(&small, o, 2);
  capl_loader *device;
  o.cache = CAPL_CACHE_NONE;
  assert_ok(open_loader(&small, o, true, &device));
  assert_ok(capl_loader_epoch(device, 0));
  assert_string_equal(capl_loader_path(device), "streamed to cuda:0, not page-locked: cache is none");
  capl_loader_free(device);
}

static void the_way_is_chosen_by_size_and_told(void **state)
{
  (void)state;
  shape large = {.width = 640, .height = 480, .channels = 1, .count = 1000000, .bad = -1};
  shape set = {.width = 100, .height = 100, .channels = 3, .length = 1, .count = 50, .bad = -1};
  capl_loader_options o = {.batch = 3, .cache = CAPL_CACHE_DEVICE};
  capl_loader *loader;
  check_path(&set, CAPL_CACHE_AUTO, "resident on cuda:0, 2 MB");
  check_path(&set, CAPL_CACHE_DEVICE, "resident on cuda:0, 2 MB");
  check_path(&set, CAPL_CACHE_NONE, "streamed to cuda:0, page-locked: cache is none");
  check_path(&set, CAPL_CACHE_RAM, "streamed to cuda:0, page-locked: cache is ram, cached in memory, 1.5 MB");
  assert_ok(open_loader(&large, o, true, &loader));
  assert_int_equal(capl_loader_epoch(loader, 0), CAPL_ENOMEM); /* 307 GB, asked for by name */
  capl_loader_free(loader);
  o.cache = CAPL_CACHE_AUTO;
  assert_ok(open_loader(&large, o, true, &loader));
  assert_ok(capl_loader_epoch(loader, 0));
  assert_non_null(strstr(capl_loader_path(loader), "its 307200 MB are more than a quarter of the"));
  capl_loader_free(loader);
}

static int questions;

static bool stops_at_the_second_question(void)
{
  return ++questions == 2;
}

static void reading_a_set_can_be_stopped_and_begun_again(void **state)
{
  (void)state;
  capl_memory_stats before, after;
  capl_loader_options o = {.batch = 3, .workers = 2, .cache = CAPL_CACHE_DEVICE, .stop = stops_at_the_second_question};
  capl_loader *host, *device;
  capl_memory_stats_get(gpu, &before);
  open_both(&small, &o, &host, &device);
  questions = 0;
  assert_fails(capl_loader_epoch(device, 0), CAPL_EINTERRUPT, "interrupted");
  capl_memory_stats_get(gpu, &after);
  assert_int_equal(before.live, after.live);
  assert_ok(capl_loader_epoch(host, 0));
  assert_ok(capl_loader_epoch(device, 0));
  compare_rest(host, device, &small);
  close_both(host, device);
}

static void a_set_needs_a_gpu(void **state)
{
  (void)state;
  capl_source *source = open_source(&small);
  capl_loader *loader;
  capl_loader_options o = {.batch = 3, .cache = CAPL_CACHE_DEVICE};
  assert_fails(capl_loader_new(source, &o, &loader), CAPL_EUNSUPPORTED,
               "cache is device, but batches are made on the host");
  capl_source_unref(source);
}

static void loaders_leave_no_memory_behind(void **state)
{
  (void)state;
  capl_memory_stats before, after;
  capl_memory_stats_get(gpu, &before);
  a_bad_sample_is_replaced_by_the_same_one(state);
  capl_memory_stats_get(gpu, &after);
  assert_int_equal(before.live, after.live);
}

/* ---- a failing GPU --------------------------------------------------------------------------- */

/* In a process of its own, whose n-th call of the runtime fails with a CUDA error; for 2, all from the n-th on that
** allocate. -> 0: nothing failed, 1: it was told, 2: something else was wrong */
static int run_failing(int code, int n)
{
  char text[32];
  snprintf(text, sizeof text, code == 2 ? "%d:%d+" : "%d:%d", code, n);
  setenv("CAPL_SHIM_FAIL", text, 1);
  capl_loader *loader = NULL;
  capl_batch batch;
  capl_loader_options o = {.batch = 8, .workers = 2, .augment = &everything,
                           .cache = n % 2 ? CAPL_CACHE_NONE : CAPL_CACHE_AUTO};
  capl_status status = capl_device_open("cuda", &gpu);
  if (status == CAPL_OK) status = open_loader(&small, o, true, &loader);
  if (status == CAPL_OK) status = capl_loader_epoch(loader, 0);
  while (status == CAPL_OK) {
    pair p = {0};
    status = capl_loader_next(loader, &batch);
    if (status != CAPL_OK || batch.count == 0) break;
    status = make_on_gpu(loader, &small, &batch, &p);
    drop_pair(&p);
  }
  capl_loader_free(loader);
  if (status == CAPL_OK) status = gpu->backend->sync();
  if (status == CAPL_OK) return 0;
  bool told = strlen(capl_error_last()->message) > 0
      && (status == CAPL_EDEVICE || status == CAPL_ENOMEM || status == CAPL_EUNSUPPORTED);
  return told ? 1 : 2;
}

static int in_a_child(int code, int n)
{
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(run_failing(code, n));
  int state;
  assert_int_equal(waitpid(child, &state, 0), child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 3;
}

/* Must come before the GPU is opened in this process. */
static void every_failure_of_the_gpu_is_told_and_ends_nothing_else(void **state)
{
  (void)state;
  static const int codes[] = {2, 700, 719}, steps[] = {1, 1, 5};
  for (int k = 0; k < 3; k++) {
    int fine = 0, told = 0;
    for (int n = 1; fine < 8; n += steps[k]) { /* a failure before the GPU is chosen, or while all is put away, may
                                               ** do no harm */
      int ended = in_a_child(codes[k], n);
      if (ended > 1) fail_msg("CUDA error %d at call %d: %s", codes[k], n,
                              ended == 2 ? "was told as something else" : "ended the process");
      fine = ended == 0 ? fine + 1 : 0;
      told += ended == 1;
    }
    print_message("CUDA error %d: told %d times\n", codes[k], told);
    assert_true(told > (codes[k] == 2 ? 4 : 20));
  }
}

int main(void)
{
  const struct CMUnitTest failures[] = {cmocka_unit_test(every_failure_of_the_gpu_is_told_and_ends_nothing_else)};
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_type_norm_and_augmentation_has_the_bytes_of_the_host),
    cmocka_unit_test(what_few_augmentations_need_has_the_bytes_of_the_host_too),
    cmocka_unit_test(stages_have_the_bytes_of_the_host),
    cmocka_unit_test(many_epochs_of_many_batches_keep_their_order),
    cmocka_unit_test(ranks_and_whole_batches_are_those_of_the_host),
    cmocka_unit_test(labels_become_ones_among_zeros),
    cmocka_unit_test(an_epoch_may_be_left_and_another_begun),
    cmocka_unit_test(batches_of_a_left_epoch_stay_what_they_were),
    cmocka_unit_test(a_batch_need_not_be_made_and_a_loader_not_be_finished),
    cmocka_unit_test(a_state_is_of_what_was_handed_out_not_of_what_was_sent_ahead),
    cmocka_unit_test(a_bad_sample_is_told_when_its_batch_comes),
    cmocka_unit_test(a_bad_sample_is_replaced_by_the_same_one),
    cmocka_unit_test(memory_need_not_be_page_locked),
    cmocka_unit_test(the_way_is_chosen_by_size_and_told),
    cmocka_unit_test(reading_a_set_can_be_stopped_and_begun_again),
    cmocka_unit_test(a_set_needs_a_gpu),
    cmocka_unit_test(loaders_leave_no_memory_behind),
  };
  if (getenv("FEED_ONLY")) cmocka_set_test_filter(getenv("FEED_ONLY"));
  if (getenv("FEED_SKIP")) cmocka_set_skip_filter(getenv("FEED_SKIP"));
  if (getenv("FEED_FAILURES")) return cmocka_run_group_tests_name("failures", failures, NULL, NULL);
  return cmocka_run_group_tests_name("feed", tests, open_gpu, NULL);
}
