/* conv_winograd_table.c -- for which bf16 convolutions Winograd's algorithm is faster than oneDNN's direct one.
**
** The rows were measured by bench/conv_choice.c (bench/results/). They hold for processors that multiply bf16 by
** AVX-512 as fast as its registers allow; matrix units (AMX) are several times as fast, and no row is for them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_winograd_table.h"

#include "backend/cpu/dnnl.h"
#include "backend/cpu/parallel.h"
#include "base/assume.h"
#include "base/isa.h"

/* Time of a convolution of so many channels, in units of the time that direct convolution takes for a pixel of y:
** Winograd takes tile / 100 for each pixel of its tiles and `fixed` more for all. */
typedef struct {
  capl_op_id id;
  int16_t threads, inputs, outputs, tile;
  int32_t fixed;
} row;

static const row rows[] = {
#define ROW(pass, threads, inputs, outputs, tile, fixed) {CAPL_OP_##pass, threads, inputs, outputs, tile, fixed},
#include "backend/cpu/conv_winograd_rows.h"
#undef ROW
};

/* A choice that changes nothing measurable stays with direct convolution. */
enum { GAIN = 2, SIDE = 2, KERNEL = 3 };

/* The row of the largest numbers that are not above those given; NULL if there is none. */
static const row *find(capl_op_id id, int64_t inputs, int64_t outputs)
{
  const row *best = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    if (r->id != id || r->threads > cpu_threads() || r->inputs > inputs || r->outputs > outputs) continue;
    if (!best || r->threads > best->threads ||
        (r->threads == best->threads && r->inputs * r->outputs > best->inputs * best->outputs))
      best = r;
  }
  return best;
}

static bool measured_here(void)
{
  return capl_isa_has_bf16() && dn_bf16_is_fast() && !dn_has_amx();
}

bool conv_winograd_bf16_is_on(void)
{
  int64_t always;
  return capl_assumed(CAPL_ASSUME_WINOGRAD, &always) ? always != 0 : measured_here();
}

bool conv_winograd_bf16_pays(capl_op_id id, const int64_t *x, const int64_t *padding, const int64_t *weight,
                             bool frozen)
{
  int64_t always;
  if (capl_assumed(CAPL_ASSUME_WINOGRAD, &always)) return always != 0;
  if (!measured_here()) return false;
  bool forward = id == CAPL_OP_conv2d || id == CAPL_OP_conv2d_act, grad_w = id == CAPL_OP_conv2d_grad_w;
  capl_op_id measured = forward ? CAPL_OP_conv2d : grad_w ? id : CAPL_OP_conv2d_grad_x;
  const row *r = find(measured, weight[1], weight[0]);
  if (!r) return false;
  int64_t pixels = x[0], tiles = x[0];
  for (int i = 0; i < 2; i++) {
    int64_t y = x[2 + i] + 2 * padding[i] - (KERNEL - 1), covered = forward || grad_w ? y : x[2 + i];
    pixels *= y;
    tiles *= (covered + SIDE - 1) / SIDE;
  }
  int64_t fixed = frozen ? 0 : r->fixed; /* frozen weights were transformed when the file was opened */
  return 100 * fixed + r->tile * SIDE * SIDE * tiles <= (100 - GAIN) * pixels;
}
