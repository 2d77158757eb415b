/* loader.c -- the loader for Lua: its options, batches as tensors.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"
#include "capl/schedule.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- loader ---------------------------------------------------------------------------------- */

/* A list of as many numbers as the images have channels; without it, otherwise for each of them. */
static void option_channels(lua_State *L, int i, const char *key, int channels, float *out, float otherwise)
{
  bool given = bind_option(L, i, key);
  for (int c = 0; c < 3; c++) out[c] = otherwise;
  if (given && (!lua_istable(L, -1) || lua_objlen(L, -1) != (size_t)channels))
    bind_fail(L, CAPL_EVALUE, "data.loader", NULL, "%s is a list with one number per channel, and the images have %d",
              key, channels);
  for (int c = 0; given && c < channels; c++) {
    lua_rawgeti(L, -1, c + 1);
    if (lua_type(L, -1) != LUA_TNUMBER)
      bind_fail(L, CAPL_EVALUE, "data.loader", NULL, "%s: entry %d is no number", key, c + 1);
    out[c] = (float)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Batches are made where tensors are made by default, if that device can. */
static void use_device(lua_State *L, capl_loader_options *o)
{
  capl_device *device = bind_opt_device(L, 0);
  o->device = device;
  o->feed = device->backend->feed;
  o->device_name = device->name;
  o->stop = capl_interrupt_pending;
}

static const char *const types[] = {"f32", "bf16", "u8", "f16", NULL};        /* ORDER capl_pixel_type */
static const char *const norms[] = {"standardize", "unit", "mean_std", NULL}; /* ORDER capl_norm */
static const char *const on_errors[] = {"stop", "skip", NULL};                /* ORDER capl_on_error */
static const char *const pins[] = {"auto", "on", "off", NULL};                /* ORDER capl_pin */
static const char *const caches[] = {"auto", "none", "ram", "disk", "device", NULL}; /* ORDER capl_cache */
_Static_assert(CAPL_PIXEL_F16 == 3 && CAPL_NORM_MEAN_STD == 2 && CAPL_ON_ERROR_SKIP == 1 && CAPL_CACHE_DEVICE == 4,
               "orders match data.h");

#define T capl_loader_options
static const bind_option_spec loader_options[] = {
  {"batch", BIND_WHOLE(T, batch), .min = 1, .max = 1 << 20},
  {"workers", BIND_WHOLE(T, workers), .max = CAPL_WORKERS_MAX},
  {"prefetch", BIND_WHOLE(T, prefetch), .max = 64},
  {"seed", BIND_WHOLE(T, seed), .max = 0x1p53},
  {"shuffle", BIND_BOOL(T, shuffle)},
  {"drop_last", BIND_BOOL(T, drop_last)},
  {"rank", BIND_WHOLE(T, rank), .max = 65535},
  {"world", BIND_WHOLE(T, world), .max = 65536},
  {"parts", BIND_WHOLE(T, parts), .max = 65536},
  {"once", BIND_BOOL(T, once)},
  {"on_error", BIND_WORD(T, on_error), .words = on_errors},
  {"dtype", BIND_WORD(T, type), .words = types},
  {"norm", BIND_WORD(T, norm), .words = norms},
  {"mean", BIND_OTHER}, {"std", BIND_OTHER}, {"augment", BIND_OTHER}, {"stages", BIND_OTHER}, {"like", BIND_OTHER},
  {"max_bad", BIND_NUMBER(T, max_bad), .max = 1},
  {"pin", BIND_WORD(T, pin), .words = pins},
  {"cache", BIND_WORD(T, cache), .words = caches},
  {"cache_dir", BIND_PATH(T, cache_dir), .rights = CAPL_MAY_READ | CAPL_MAY_WRITE},
  BIND_END};
#undef T

/* data.loader(source, options): see lua/capl/data for what each means */
static int data_loader(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  capl_augment_options augment;
  capl_loader_options o = {.batch = 64, .seed = bind_current.seed, .max_bad = 0.01};
  bind_read_options(L, "data.loader", 2, loader_options, &o);
  o.max_bad = fmax(o.max_bad, DBL_MIN); /* 0 means what is usual */
  use_device(L, &o);
  option_channels(L, 2, "mean", capl_source_channels(source), o.mean, 0);
  option_channels(L, 2, "std", capl_source_channels(source), o.std, 1);
  if (bind_option(L, 2, "augment")) {
    augment = data_read_augment(L, lua_gettop(L));
    o.augment = &augment;
  }
  capl_stage like;
  o.stages = data_option_stages(L, 2, "stages", &o.n_stages);
  if (data_option_like(L, 2, "like", &like)) o.stages = &like, o.n_stages = 1;
  void **box = data_new_box(L, LOADER_TYPE);
  bind_check(L, capl_loader_new(source, &o, (capl_loader **)box), NULL);
  return 1;
}

/* loader:epoch(number) begins it */
static int loader_epoch(lua_State *L)
{
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  int64_t epoch = bind_check_int(L, 2);
  if (epoch < 0) return bind_arg_error(L, 2, "epoch from 0 on, got %lld", (long long)epoch);
  bind_check(L, capl_loader_epoch(loader, (uint64_t)epoch), NULL);
  return 0;
}

static const capl_dtype dtypes[] = {CAPL_F32, CAPL_BF16, CAPL_U8, CAPL_F16}; /* ORDER capl_pixel_type */

/* Room for a batch on the loader's device; *labels stays NULL without labels. */
static void new_batch(lua_State *L, capl_loader *loader, const capl_batch *batch, capl_tensor **images,
                      capl_tensor **labels)
{
  const capl_source *source = capl_loader_source(loader);
  capl_device *device = capl_loader_device(loader);
  int T = capl_source_length(source);
  int64_t size[4] = {batch->count, capl_source_channels(source), capl_source_height(source), batch->width};
  int64_t label_size[2] = {batch->count, T};
  bind_check(L, capl_tensor_new(device, dtypes[capl_loader_type(loader)], 4, size, CAPL_AUTO, images), "data");
  if (T > 0)
    bind_check(L, capl_tensor_new(device, CAPL_I32, data_label_dims(source), label_size, CAPL_ROW, labels), "data");
}

/* Into the table at the top, unless it is nil. */
static void set_tensor(lua_State *L, const char *key, capl_tensor **t)
{
  if (!*t) return;
  data_push_owned(L, t);
  lua_setfield(L, -2, key);
}

/* A batch made on the loader's device: into the table at the top. */
static void add_made(lua_State *L, capl_loader *loader, const capl_batch *batch)
{
  OWNED *images = NULL, *labels = NULL;
  new_batch(L, loader, batch, &images, &labels);
  bind_check(L, capl_loader_make(loader, capl_tensor_data(images), labels ? capl_tensor_data(labels) : NULL), "data");
  set_tensor(L, "image", &images);
  set_tensor(L, "target", &labels);
}

static void add_images(lua_State *L, capl_loader *loader, const capl_batch *batch)
{
  const capl_source *source = capl_loader_source(loader);
  OWNED *t = NULL;
  void *data;
  data_new_images(L, dtypes[capl_loader_type(loader)], batch->count, capl_source_channels(source),
                  capl_source_height(source), batch->width, &t, &data);
  if (data && t->device->backend->host_memory) memcpy(data, batch->images, capl_tensor_bytes(t));
  else if (data) data_sent(L, t, batch->images);
  set_tensor(L, "image", &t);
}

/* A batch made on the host: likewise. */
static void add_copied(lua_State *L, capl_loader *loader, const capl_batch *batch)
{
  if (batch->images) add_images(L, loader, batch);
  if (!batch->labels) return;
  data_push_labels(L, capl_loader_source(loader), batch->labels, batch->count);
  lua_setfield(L, -2, "target");
}

/* (N) f32: which share of each sample is its own, and the labels of those it is mixed with, of loaders that mix. Both
** are the host's, whoever makes the images. */
static void add_mix(lua_State *L, const capl_source *source, const capl_batch *batch)
{
  static const capl_field field = {.name = "mix", .kind = CAPL_FIELD_VALUES};
  if (!batch->mix) return;
  data_push_field(L, &field, batch->count, batch->mix);
  lua_setfield(L, -2, field.name);
  if (!batch->labels2) return;
  data_push_labels(L, source, batch->labels2, batch->count);
  lua_setfield(L, -2, "target2");
}

/* (N) i32 of texts of several lengths. */
static void add_lengths(lua_State *L, const capl_source *source, const capl_batch *batch)
{
  if (!batch->lengths || capl_source_length_min(source) == capl_source_length(source)) return;
  data_push_copy(L, CAPL_I32, 1, (const int64_t[]){batch->count}, batch->lengths);
  lua_setfield(L, -2, "target_length");
}

/* (N) i32: px of the batch's width that each image takes, of sources with several widths. */
static void add_used(lua_State *L, const capl_batch *batch)
{
  if (!batch->used) return;
  data_push_copy(L, CAPL_I32, 1, (const int64_t[]){batch->count}, batch->used);
  lua_setfield(L, -2, "width");
}

static void add_fields(lua_State *L, const capl_source *source, const capl_batch *batch)
{
  const capl_field *field;
  for (int i = 0; (field = capl_source_field(source, i)); i++) {
    data_push_source_field(L, source, i, batch->width, batch->count, batch->field[i]);
    lua_setfield(L, -2, field->name);
  }
}

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

/* loader:next() -> {image (N,C,H,W), target (N,T) i32, of classes (N), target_length (N) i32 if they vary, a tensor
** (N,…) by the name of each field, count = N, padded = rows repeated for equal ranks, global_batch_size = samples of
** all ranks, where they share a round}, without what the source has not, and the samples' numbers in the source as
** bytes, for loader_ids; nil at the end */
static int loader_next(lua_State *L)
{
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  capl_batch batch;
  bind_check(L, capl_loader_next(loader, &batch), NULL);
  if (batch.count == 0) return lua_pushnil(L), 1;
  lua_createtable(L, 0, 8);
  if (capl_loader_device(loader)) add_made(L, loader, &batch);
  else add_copied(L, loader, &batch);
  add_lengths(L, capl_loader_source(loader), &batch);
  add_used(L, &batch);
  add_mix(L, capl_loader_source(loader), &batch);
  add_fields(L, capl_loader_source(loader), &batch);
  set_number(L, "count", batch.count);
  set_number(L, "padded", batch.padded);
  if (batch.global_batch_size) set_number(L, "global_batch_size", batch.global_batch_size);
  lua_pushlstring(L, (const char *)batch.ids, (size_t)batch.count * sizeof *batch.ids);
  return 2;
}

/* loader_ids(bytes) -> list of sample numbers, from 0, of what next gave */
static int loader_ids(lua_State *L)
{
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  int n = (int)(size / sizeof(uint32_t));
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    uint32_t id;
    memcpy(&id, bytes + (size_t)i * sizeof id, sizeof id);
    lua_pushnumber(L, id);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* loader:measure(times) -> seconds in which the device makes the next batch once, bytes that it must read and write for
** that at least */
static int loader_measure(lua_State *L)
{
  enum { FROM = CAPL_MARKS - 2, TO };
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  int64_t times = bind_check_int(L, 2);
  capl_device *device = capl_loader_device(loader);
  const capl_backend *backend = device ? device->backend : NULL;
  if (!device || !backend->mark)
    return bind_fail(L, CAPL_EUNSUPPORTED, NULL, NULL, "no device with a clock makes these batches");
  if (times < 1) return bind_arg_error(L, 2, "at least once, got %lld", (long long)times);
  capl_batch batch;
  OWNED *images = NULL, *labels = NULL;
  double seconds;
  bind_check(L, capl_loader_next(loader, &batch), NULL);
  if (batch.count == 0) return lua_pushnil(L), 1;
  new_batch(L, loader, &batch, &images, &labels);
  void *to = capl_tensor_data(images), *labels_to = labels ? capl_tensor_data(labels) : NULL;
  bind_check(L, capl_loader_make_once_more(loader, to, labels_to), "data"); /* loads the kernels */
  bind_check(L, backend->mark(FROM), NULL);
  for (int64_t i = 0; i < times; i++) bind_check(L, capl_loader_make_once_more(loader, to, labels_to), "data");
  bind_check(L, backend->mark(TO), NULL);
  bind_check(L, backend->between(FROM, TO, &seconds), NULL);
  bind_check(L, capl_loader_make(loader, to, labels_to), "data");
  lua_pushnumber(L, seconds / (double)times);
  lua_pushnumber(L, (double)capl_tensor_bytes(images) + (double)capl_tensor_numel(images));
  return 2;
}

/* loader:path() -> how its batches come to be; "" before the first epoch of a loader with a device */
static int loader_path(lua_State *L)
{
  lua_pushstring(L, capl_loader_path(data_check_box(L, 1, LOADER_TYPE)));
  return 1;
}

static int loader_samples(lua_State *L)
{
  return lua_pushnumber(L, (lua_Number)capl_loader_samples(data_check_box(L, 1, LOADER_TYPE))), 1;
}

static int loader_all_samples(lua_State *L)
{
  return lua_pushnumber(L, (lua_Number)capl_loader_all_samples(data_check_box(L, 1, LOADER_TYPE))), 1;
}

static int loader_batches(lua_State *L)
{
  return lua_pushnumber(L, (lua_Number)capl_loader_batches(data_check_box(L, 1, LOADER_TYPE))), 1;
}

static int loader_batches_left(lua_State *L)
{
  return lua_pushnumber(L, (lua_Number)capl_loader_batches_left(data_check_box(L, 1, LOADER_TYPE))), 1;
}

/* loader:state() -> {seed, epoch, position}; loader:set_state(state) continues there */
static int loader_state(lua_State *L)
{
  capl_loader_state s;
  capl_loader_state_get(data_check_box(L, 1, LOADER_TYPE), &s);
  lua_newtable(L);
  set_number(L, "seed", (double)s.seed);
  set_number(L, "epoch", (double)s.epoch);
  set_number(L, "position", (double)s.position);
  return 1;
}

static capl_loader_state state_of_table(lua_State *L)
{
  static const bind_option_spec options[] = {{"seed", BIND_WHOLE(capl_loader_state, seed), .max = 0x1p53},
                                             {"epoch", BIND_WHOLE(capl_loader_state, epoch), .max = 0x1p53},
                                             {"position", BIND_WHOLE(capl_loader_state, position), .max = 0x1p53},
                                             BIND_END};
  capl_loader_state state = {0};
  bind_check_table(L, 2);
  bind_read_options(L, "loader:set_state", 2, options, &state);
  return state;
}

static capl_loader_state state_of_bytes(lua_State *L)
{
  size_t size;
  const char *bytes = lua_tolstring(L, 2, &size);
  capl_loader_state s;
  if (size != CAPL_LOADER_STATE_BYTES)
    bind_arg_error(L, 2, "a state is %d bytes, not %zu", CAPL_LOADER_STATE_BYTES, size);
  capl_loader_state_unpack((const uint8_t *)bytes, &s);
  return s;
}

static int loader_set_state(lua_State *L)
{
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  capl_loader_state s = lua_type(L, 2) == LUA_TSTRING ? state_of_bytes(L) : state_of_table(L);
  bind_check(L, capl_loader_state_set(loader, &s), NULL);
  return 0;
}

/* loader:state_bytes() -> the same as a string of 24 bytes */
static int loader_state_bytes(lua_State *L)
{
  capl_loader_state s;
  uint8_t bytes[CAPL_LOADER_STATE_BYTES];
  capl_loader_state_get(data_check_box(L, 1, LOADER_TYPE), &s);
  capl_loader_state_pack(&s, bytes);
  lua_pushlstring(L, (const char *)bytes, sizeof bytes);
  return 1;
}

/* loader:stats() -> {batches, samples, augmented, substituted, bad, wait_seconds, seconds, work_seconds,
** augment_seconds} */
static int loader_stats(lua_State *L)
{
  capl_loader_stats s;
  capl_loader_stats_get(data_check_box(L, 1, LOADER_TYPE), &s);
  lua_newtable(L);
  set_number(L, "batches", (double)s.batches);
  set_number(L, "samples", (double)s.samples);
  set_number(L, "augmented", (double)s.augmented);
  set_number(L, "substituted", (double)s.substituted);
  set_number(L, "bad", (double)s.bad);
  set_number(L, "wait_seconds", s.wait_seconds);
  set_number(L, "work_seconds", s.work_seconds);
  set_number(L, "augment_seconds", s.augment_seconds);
  set_number(L, "seconds", s.seconds);
  return 1;
}

/* loader:bad() -> list of {id, message} */
static int loader_bad(lua_State *L)
{
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  uint32_t id;
  const char *message;
  lua_newtable(L);
  for (uint32_t i = 0; capl_loader_bad_get(loader, i, &id, &message); i++) {
    lua_newtable(L);
    set_number(L, "id", id);
    lua_pushstring(L, message);
    lua_setfield(L, -2, "message");
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static int loader_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, LOADER_TYPE);
  if (box) capl_loader_free(*box), *box = NULL;
  return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

void bind_open_loader(lua_State *L)
{
  static const luaL_Reg loader[] = {
      {"epoch", loader_epoch},     {"next", loader_next},   {"samples", loader_samples},
      {"all_samples", loader_all_samples}, {"batches", loader_batches}, {"batches_left", loader_batches_left},
      {"state", loader_state}, {"set_state", loader_set_state}, {"state_bytes", loader_state_bytes},
      {"stats", loader_stats},     {"bad", loader_bad},     {"path", loader_path},
      {"measure", loader_measure}, {NULL, NULL}};
  data_open_type(L, LOADER_TYPE, loader, loader_release);
  lua_pushcfunction(L, data_loader);
  lua_setfield(L, -2, "loader");
  lua_pushcfunction(L, loader_ids);
  lua_setfield(L, -2, "loader_ids");
  bind_open_schedule(L);
}
