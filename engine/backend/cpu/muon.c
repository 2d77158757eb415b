/* muon.c -- the optimizer Muon over all matrices of a group at once.
**
** A network has a hundred small matrices, each with twenty products that follow from each other: alone they are too
** small for two threads, and their calls cost as much as they do. So each stage of the method runs over the tiles of
** all matrices. A tile is computed in one order by one thread: results do not depend on the number of threads.
**
** The method wants the shorter side first. A tall matrix is its own transpose: the left operand of a product may lie
** either way.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/optim.h"
#include "ops/attrs.h"

enum {
  MUON_GROUPS = 3,
  TILE = 64,               /* rows and columns of a tile of a weight */
  SMALL = 32,              /* of one of its small matrices */
  BLOCK = 16,              /* floats in a cache line */
  LONGEST = 1024,          /* terms of a sum at once: their rows stay in the cache */
  ROOM = 64 << 20,         /* bytes of matrices that take the step together */
  LEAST_PRODUCTS = 1 << 17 /* for a thread */
};

/* a x + b x^3 + c x^5, applied again and again, takes every number of (0, 1] to the neighbourhood of 1. */
static const float A = 3.4445F, B = -4.7750F, C = 2.0315F;
static const double LEAST_SQUARE = 1e-14; /* of a matrix of zeros */

typedef struct {
  int param;             /* its place in the group */
  int64_t rows, columns; /* the first dim, all others */
  int64_t small, length; /* the shorter side and the longer one */
  int64_t row, edge;     /* from row to row of m, and of the small matrices: whole vectors */
  float *m;              /* the momentum that is to be made orthogonal */
  float *turned;         /* m transposed, of a wide one */
  float *gram, *q, *t;   /* small x small, symmetric */
  float *product, *spare;
  double square;         /* squared norm of m, at least LEAST_SQUARE */
} matrix;

typedef struct {
  const capl_call *call;
  const struct attrs_muon_step *attr;
  step_numbers now;
  int n, count; /* parameters in the group; matrices of this batch */
  matrix *list;
} muon_job;

static bool is_wide(const matrix *x)
{
  return x->rows <= x->columns;
}

static capl_tensor *member(const muon_job *job, int group, const matrix *x)
{
  return job->call->in[group * job->n + x->param];
}

/* ---- tiles of all matrices ---- */

/* Unit u of a matrix; units: how many a matrix has, each of a cost of about as many products. */
typedef struct {
  void (*run)(const muon_job *job, matrix *x, int64_t u);
  int64_t (*units)(const matrix *x);
  int64_t (*cost)(const matrix *x);
} stage;

typedef struct {
  const muon_job *job;
  const stage *s;
} stage_job;

/* A unit belongs to the part that its first product lies in. */
static void run_units(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const stage_job *s = arg;
  int64_t start = 0;
  for (int i = 0; i < s->job->count && start < end; i++) {
    matrix *x = &s->job->list[i];
    int64_t cost = s->s->cost(x), units = s->s->units(x);
    for (int64_t u = begin > start ? (begin - start + cost - 1) / cost : 0; u < units && start + u * cost < end; u++)
      s->s->run(s->job, x, u);
    start += units * cost;
  }
}

static void run_stage(const muon_job *job, const stage *s)
{
  int64_t total = 0;
  for (int i = 0; i < job->count; i++) total += s->units(&job->list[i]) * s->cost(&job->list[i]);
  cpu_parallel(total, LEAST_PRODUCTS, run_units, &(stage_job){job, s});
}

static int64_t parts(int64_t n, int64_t size)
{
  return (n + size - 1) / size;
}

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* y (rows, columns) = a * b over length; b row-major, columns rounded up to whole vectors. */
static void product(int64_t rows, int64_t columns, int64_t length, const float *a, int64_t a_row, int64_t a_step,
                    const float *b, int64_t b_row, float *y, int64_t y_row)
{
  vec_product p = {.rows = rows, .columns = parts(columns, BLOCK) * BLOCK, .segments = 1, .a_row = a_row,
                   .a_step = a_step, .b_row = b_row, .b_panel = 2 * cpu_now->lanes, .y_row = y_row};
  for (int64_t at = 0; at < length; at += LONGEST, p.add = true) {
    p.length = least(LONGEST, length - at);
    cpu_now->product(&p, a + at * a_step, b + at * b_row, NULL, y);
  }
}

/* ---- the momentum, as matrices ---- */

/* Columns [first, first + BLOCK) of the transpose; behind the last row they are 0. */
static void turn_block(const matrix *x, int64_t first)
{
  int64_t rows = least(BLOCK, x->rows - first);
  for (int64_t c = 0; c < x->columns; c++) {
    float *to = x->turned + c * x->edge + first;
    for (int64_t r = 0; r < rows; r++) to[r] = x->m[(first + r) * x->row + c];
    for (int64_t r = rows; r < BLOCK; r++) to[r] = 0;
  }
}

/* Rows of BLOCK. */
static void run_momentum(const muon_job *job, matrix *x, int64_t u)
{
  vec_sgd how = {.grad_scale = (float)job->now.grad_scale, .momentum = (float)job->attr->momentum.f,
                 .nesterov = job->attr->nesterov.i};
  const float *grad = capl_tensor_data(member(job, 1, x));
  float *buffer = capl_tensor_data(member(job, 2, x));
  int64_t first = u * BLOCK, end = least(x->rows, first + BLOCK);
  for (int64_t r = first; r < end; r++) {
    float *row = x->m + r * x->row;
    cpu_now->momentum(&how, x->columns, grad + r * x->columns, buffer + r * x->columns, row);
    memset(row + x->columns, 0, (size_t)(x->row - x->columns) * sizeof *row);
  }
  if (is_wide(x)) turn_block(x, first);
}

static int64_t blocks_of_rows(const matrix *x) { return parts(x->rows, BLOCK); }
static int64_t cost_of_rows(const matrix *x) { return 64 * BLOCK * x->columns; } /* memory counts, not arithmetic */

/* ---- products of the small side ---- */

static int64_t tiles_across(const matrix *x) { return parts(x->small, SMALL); }
static int64_t square_tiles(const matrix *x) { return tiles_across(x) * (tiles_across(x) + 1) / 2; }
static int64_t cost_of_gram(const matrix *x) { return least(SMALL, x->small) * least(SMALL, x->small) * x->length; }
static int64_t cost_of_square(const matrix *x) { return least(SMALL, x->small) * least(SMALL, x->small) * x->small; }

/* Where a tile of a small matrix begins, and its size. */
typedef struct {
  int64_t r, c, rows, columns, at;
} place;

/* Tile u on or above the diagonal, row after row: all small matrices are polynomials of one, and so symmetric. */
static place place_of(const matrix *x, int64_t u)
{
  int64_t across = tiles_across(x), row = 0;
  for (int64_t left = across; u >= left; left--, row++) u -= left;
  place p = {.r = row * SMALL, .c = (row + u) * SMALL};
  p.rows = least(SMALL, x->small - p.r);
  p.columns = least(SMALL, x->small - p.c);
  p.at = p.r * x->edge + p.c;
  return p;
}

/* The tile on the other side of the diagonal. */
static void mirror(const matrix *x, const place *p, float *y)
{
  if (p->r == p->c) return;
  for (int64_t c = 0; c < p->columns; c++)
    for (int64_t r = 0; r < p->rows; r++) y[(p->c + c) * x->edge + p->r + r] = y[p->at + r * x->edge + c];
}

/* t = m m', or m' m of a tall one */
static void run_gram(const muon_job *job, matrix *x, int64_t u)
{
  (void)job;
  place p = place_of(x, u);
  if (is_wide(x))
    product(p.rows, p.columns, x->length, x->m + p.r * x->row, x->row, 1, x->turned + p.c, x->edge, x->t + p.at,
            x->edge);
  else product(p.rows, p.columns, x->length, x->m + p.r, 1, x->row, x->m + p.c, x->row, x->t + p.at, x->edge);
  mirror(x, &p, x->t);
}

/* y = a * b of small ones */
static void multiply(const matrix *x, const place *p, const float *a, const float *b, float *y)
{
  product(p->rows, p->columns, x->small, a + p->r * x->edge, x->edge, 1, b + p->c, x->edge, y + p->at, x->edge);
  mirror(x, p, y);
}

/* gram = t / square, the squared norm being the sum of t's diagonal; rows of BLOCK */
static void run_scale(const muon_job *job, matrix *x, int64_t u)
{
  (void)job;
  double square = 0;
  for (int64_t r = 0; r < x->small; r++) square += x->t[r * (x->edge + 1)];
  square += LEAST_SQUARE;
  int64_t at = u * BLOCK * x->edge, n = least(BLOCK, x->small - u * BLOCK) * x->edge;
  cpu_now->combine(n, (float)(1 / square), x->t + at, 0, x->t + at, x->gram + at);
  if (u == 0) x->square = square;
}

static int64_t blocks_of_small(const matrix *x) { return parts(x->small, BLOCK); }
static int64_t cost_of_small(const matrix *x) { return 16 * BLOCK * x->small; }

/* q = a I + b gram + c gram gram */
static void run_q(const muon_job *job, matrix *x, int64_t u)
{
  (void)job;
  place p = place_of(x, u);
  product(p.rows, p.columns, x->small, x->gram + p.r * x->edge, x->edge, 1, x->gram + p.c, x->edge, x->q + p.at,
          x->edge);
  for (int64_t r = 0; r < p.rows; r++) {
    float *row = x->q + p.at + r * x->edge;
    cpu_now->combine(p.columns, C, row, B, x->gram + p.at + r * x->edge, row);
    if (p.r == p.c) row[r] += A;
  }
  mirror(x, &p, x->q);
}

/* spare = q product */
static void run_product(const muon_job *job, matrix *x, int64_t u)
{
  (void)job;
  place p = place_of(x, u);
  multiply(x, &p, x->q, x->product, x->spare);
}

/* t = q gram */
static void run_t(const muon_job *job, matrix *x, int64_t u)
{
  (void)job;
  place p = place_of(x, u);
  multiply(x, &p, x->q, x->gram, x->t);
}

static void run_both(const muon_job *job, matrix *x, int64_t u)
{
  int64_t tiles = square_tiles(x);
  if (u < tiles) run_product(job, x, u);
  else run_t(job, x, u - tiles);
}

static int64_t both_tiles(const matrix *x) { return 2 * square_tiles(x); }

/* gram = q t */
static void run_next(const muon_job *job, matrix *x, int64_t u)
{
  (void)job;
  place p = place_of(x, u);
  multiply(x, &p, x->q, x->t, x->gram);
}

/* product = the polynomial of gram by which steps iterations multiply m: with gram = m m' / square every iterate is
** that times m. */
static void iterate(const muon_job *job, bool first, bool last)
{
  static const stage q = {run_q, square_tiles, cost_of_square}, next = {run_next, square_tiles, cost_of_square},
                     products = {run_product, square_tiles, cost_of_square}, t = {run_t, square_tiles, cost_of_square},
                     both = {run_both, both_tiles, cost_of_square};
  run_stage(job, &q);
  if (!first && last) run_stage(job, &products);
  if (first && !last) run_stage(job, &t);
  if (!first && !last) run_stage(job, &both);
  if (!last) run_stage(job, &next);
  for (int i = 0; i < job->count; i++) {
    matrix *x = &job->list[i];
    float **computed = first ? &x->q : &x->spare, *old = x->product; /* at first the product is q */
    x->product = *computed;
    *computed = old;
  }
}

/* ---- the step ---- */

static int64_t final_tiles(const matrix *x) { return parts(x->rows, TILE) * parts(x->columns, TILE); }

static int64_t cost_of_final(const matrix *x)
{
  return least(TILE, x->rows) * least(TILE, x->columns) * x->small;
}

/* A tile of the weight, less what the product of m makes of it. */
static void run_final(const muon_job *job, matrix *x, int64_t u)
{
  float y[TILE * TILE] __attribute__((aligned(64)));
  int64_t across = parts(x->columns, TILE), r = u / across * TILE, c = u % across * TILE;
  int64_t rows = least(TILE, x->rows - r), columns = least(TILE, x->columns - c);
  if (is_wide(x)) product(rows, columns, x->small, x->product + r * x->edge, x->edge, 1, x->m + c, x->row, y, TILE);
  else product(rows, columns, x->small, x->m + r * x->row, x->row, 1, x->product + c, x->edge, y, TILE);
  double ratio = is_wide(x) ? 1 : (double)x->rows / (double)x->columns;
  vec_sgd how = {.grad_scale = (float)sqrt(ratio / x->square), .lr = (float)job->now.lr,
                 .weight_decay = (float)job->attr->weight_decay.f};
  const capl_tensor *param = member(job, 0, x);
  float *weight = capl_tensor_data(param);
  capl_tensor low;
  bool shadowed = capl_shadow_of(param, &low);
  for (int64_t k = 0; k < rows; k++) {
    int64_t at = (r + k) * x->columns + c;
    cpu_now->sgd(&how, columns, weight + at, y + k * TILE, NULL);
    if (shadowed) cpu_narrow(columns, weight + at, low.dtype, (uint16_t *)capl_tensor_data(&low) + at);
  }
}

static void step_batch(const muon_job *job)
{
  static const stage momentum = {run_momentum, blocks_of_rows, cost_of_rows},
                     gram = {run_gram, square_tiles, cost_of_gram}, scale = {run_scale, blocks_of_small, cost_of_small},
                     final = {run_final, final_tiles, cost_of_final};
  int64_t steps = job->attr->ns_steps.i;
  run_stage(job, &momentum);
  run_stage(job, &gram);
  run_stage(job, &scale);
  for (int64_t k = 0; k < steps; k++) iterate(job, k == 0, k == steps - 1);
  run_stage(job, &final);
}

/* ---- the matrices ---- */

static matrix matrix_of(const capl_tensor *t, int param)
{
  matrix x = {.param = param, .rows = t->size[0], .columns = capl_tensor_numel(t) / t->size[0]};
  x.small = least(x.rows, x.columns);
  x.length = is_wide(&x) ? x.columns : x.rows;
  x.row = parts(x.columns, BLOCK) * BLOCK;
  x.edge = parts(x.small, BLOCK) * BLOCK;
  return x;
}

/* Takes n floats from *at. */
static float *take(float **at, int64_t n)
{
  float *got = *at;
  *at += n;
  return got;
}

/* Shares out the room behind *at, which may be NULL to count it. All sizes are whole cache lines. */
static void place_matrix(matrix *x, float **at)
{
  int64_t square = x->edge * x->edge;
  float **small[] = {&x->gram, &x->q, &x->t, &x->product, &x->spare};
  x->m = take(at, x->rows * x->row);
  x->turned = is_wide(x) ? take(at, x->columns * x->edge) : NULL;
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) *small[i] = take(at, square);
}

static int64_t room_of(const matrix *x)
{
  int64_t turned = is_wide(x) ? x->columns * x->edge : 0;
  return x->rows * x->row + turned + 5 * x->edge * x->edge;
}

/* The matrices from parameter *next on that have a gradient, as many as ROOM takes, at least one. -> floats */
static int64_t next_batch(muon_job *job, int *next)
{
  int64_t floats = 0;
  for (job->count = 0; *next < job->n; ++*next) {
    const capl_tensor *param = job->call->in[*next];
    if (!job->call->in[job->n + *next] || capl_tensor_numel(param) == 0) continue;
    matrix x = matrix_of(param, *next);
    if (job->count > 0 && (floats + room_of(&x)) * (int64_t)sizeof(float) > ROOM) break;
    floats += room_of(&x);
    job->list[job->count++] = x;
  }
  return floats;
}

static capl_status run_batches(muon_job *job, capl_device *device)
{
  for (int next = 0; next < job->n;) {
    int64_t floats = next_batch(job, &next);
    void *room;
    if (job->count == 0) break;
    CAPL_TRY(capl_scratch_get(device, (size_t)floats * sizeof(float), &room));
    float *at = room;
    for (int i = 0; i < job->count; i++) place_matrix(&job->list[i], &at);
    step_batch(job);
    capl_scratch_put(device, room);
  }
  return CAPL_OK;
}

static capl_status cpu_muon_step(const capl_call *call)
{
  muon_job job = {.call = call, .attr = ATTRS(call, muon_step), .n = call->n_in / MUON_GROUPS};
  job.now = cpu_step_numbers(call, MUON_GROUPS, AT(muon_step, grad_scale), 1);
  if (job.now.skip || job.n == 0) return CAPL_OK;
  void *list;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)job.n * sizeof(matrix), &list));
  job.list = list;
  capl_status status = run_batches(&job, call->device);
  capl_scratch_put(call->device, list);
  return status;
}

/* Without gaps, and the first dim is the outermost one in memory: rows of a matrix. */
static bool supports_muon(const capl_call *call)
{
  if (!cpu_supports_steps(call, MUON_GROUPS)) return false;
  for (int i = 0; i < call->n_in / MUON_GROUPS; i++) {
    const capl_tensor *t = call->in[i];
    if (t->size[0] > 1 && t->stride[0] * t->size[0] != capl_tensor_numel(t)) return false;
  }
  return true;
}

const capl_kernel cpu_muon_kernels[] = {
  {CAPL_OP_muon_step, cpu_muon_step, supports_muon, CPU_F32},
  {0},
};
