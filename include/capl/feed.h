/* feed.h -- batches made on a device whose memory the host cannot read.
**
** The loader's threads decode images and draw the random numbers; pixels travel as u8 levels, each with a row of
** numbers that says how the device turns, colours and normalizes it. One call makes a whole batch on the device. The
** levels come with the batch (streamed: through a ring of staging buffers, by copies that overlap the arithmetic) or
** lie on the device since the start (resident). Values are those of the loader on the CPU, bit for bit.
**
** A backend that can do this has one constant table of functions, capl_backend.feed. All of them are called from the
** one thread that trains; a staging buffer is used like this: send, make, send, make ... and each waits on the device,
** not on the host, for what it needs.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FEED_H
#define CAPL_FEED_H

#include "capl/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct capl_device capl_device;         /* backend.h */
typedef struct capl_feed_stage capl_feed_stage; /* staging buffers of one loader; the backend's own */

/* How one image of a batch is made. 96 bytes, the same on host and device. engine/data/augment.h says to the bit what
** is done with it.
** Output (x,y) reads from map[0]*x + map[1]*y + map[2], map[3]*x + map[4]*y + map[5], bilinear with 8-bit fractions;
** its level becomes clip(level * gain + lift), then noise is added; the value is level * scale[c] + shift[c]. */
typedef struct {
  double map[6];
  float gain, lift;
  float noise; /* standard deviation in levels, 0 = none */
  uint32_t noise_key;
  float scale[3], shift[3]; /* unless the job standardizes */
  uint32_t image;           /* which of the job's images */
  uint32_t moves;           /* 0: map is the identity */
} capl_feed_row;

/* Pixels x0 <= x < x1, y alike. */
typedef struct {
  int32_t x0, y0, x1, y1;
} capl_feed_area;

/* What only some augmentations need besides: batches with them have one for each row. 100 bytes. */
typedef struct {
  float colour[9];          /* gain included; read if blends */
  uint32_t filters;         /* levels go through the row's table, then the blur, before anything else */
  int32_t blur_radius;      /* 0..3 px; 0 = none */
  uint16_t blur_weight[4];  /* of the middle and outwards; of 256 */
  uint32_t bends;           /* the row's nodes say where pixels come from, not its map */
  uint32_t blends;          /* colour, not gain; three channels */
  uint32_t mixing;          /* 0; 1: share of 256 is this image's, the rest its partner's; 2: cut is its partner's */
  int32_t share;
  capl_feed_area cut, erased;
} capl_feed_more;

/* One batch. Addresses are the device's; those of a buffer are offsets from its start. */
typedef struct {
  int count, height, width, channels; /* N, H, W, C (1 or 3) */
  int length;                         /* T, 0 = no labels */
  int pixel_bytes;                    /* of a source pixel: C, or 4 with the last one unused */
  size_t rows_at;                     /* of capl_feed_row [N] in the buffer */
  int partner;                        /* > 0: row partner + n is of the image that image n is mixed with; partner >=
                                      ** N */
  bool more;                          /* of the following there is one for each row, in the buffer */
  size_t more_at;                     /* capl_feed_more */
  size_t tables_at;                   /* u8 [256], if filters: what each level becomes */
  size_t nodes_at;                    /* i32 [nodes], if nodes > 0 */
  bool filters;                       /* some row may */
  int nodes;                          /* numbers in a row's nodes */
  uint8_t erase_value;
  const void *images;                 /* u8 (count of images,H,W,pixel_bytes); NULL = in the buffer at images_at */
  const int32_t *labels;              /* (count of images,T); NULL = in the buffer at labels_at */
  size_t images_at, labels_at;
  bool fill; /* outside the source: fill_value, not the nearest edge pixel */
  uint8_t fill_value;
  bool standardize; /* per image, by its own mean and deviation after augmentation */
  capl_pixel_type type;
  void *out;           /* (N,H,W,C) of type */
  int32_t *out_labels; /* (N,T); NULL if T = 0 */
} capl_feed_job;

typedef struct capl_feed_ops {
  /* Host memory that the device copies from directly. ENOMEM says how much was asked for. */
  capl_status (*host_get)(size_t bytes, void **out);
  void (*host_put)(void *p);
  /* Device memory from the caching allocator. ENOMEM. */
  capl_status (*memory_get)(capl_device *device, size_t bytes, void **out);
  void (*memory_put)(capl_device *device, void *p);
  /* Bytes of device memory that are free now, cached blocks among them. */
  capl_status (*memory_free)(capl_device *device, size_t *bytes);
  /* `buffers` staging buffers of `bytes` each. What memory_get gave before may be sent to from now on. */
  capl_status (*open)(capl_device *device, int buffers, size_t bytes, capl_feed_stage **out);
  /* Waits for the copies in flight: host memory they read is free afterwards. NULL is fine. */
  void (*close)(capl_feed_stage *stage);
  /* Queues a copy to `to`, NULL = the buffer itself; it begins when the batch last made from the buffer has been made.
  ** Several may be sent one after the other. host stays untouched until they have arrived. */
  capl_status (*send)(capl_feed_stage *stage, int buffer, void *to, const void *host, size_t bytes);
  /* Whether all that was sent by a buffer has arrived; wait: not before it has. */
  capl_status (*arrived)(capl_feed_stage *stage, int buffer, bool wait, bool *done);
  /* Queues the making of a batch after what was sent by the buffer. */
  capl_status (*make)(capl_feed_stage *stage, int buffer, const capl_feed_job *job);
  /* out (N,T*K) f32 := 1 at t*K + labels[n,t], else 0; labels outside 0..K-1 mark nothing. */
  capl_status (*one_hot)(const int32_t *labels, int64_t n, int64_t T, int64_t K, float *out);
} capl_feed_ops;

#ifdef __cplusplus
}
#endif
#endif
