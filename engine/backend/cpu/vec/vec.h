/* vec.h -- the backend's own vector kernels: one list, compiled once per instruction set.
**
** Every function works on one thread's part and knows nothing of tensors or threads. real is
** CAPL_F32 or CAPL_BF16 and names the type behind void pointers; statistics are f32 or double.
** Sources include simd.h and define each function as VEC(name); table.c collects them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_VEC_H
#define CAPL_CPU_VEC_H

#include "capl/tensor.h"

/* Per-channel constants of one batch-norm call; arrays of C floats. z = x * scale + shift. */
typedef struct {
  const float *scale, *shift;     /* forward */
  const float *center;            /* subtracted from x in sums */
  const float *k_dy, *k_x, *k_1;  /* backward: dx = k_dy * dz + k_x * x + k_1 */
} vec_norm;

/* What follows a normalization. */
typedef enum { VEC_NO_ACT, VEC_THEN_RELU, VEC_THEN_SILU } vec_norm_act;

/* A rectangle of channels-last pixels: rows pixels of channels values each, without gaps. */
typedef struct {
  capl_dtype real;
  int64_t rows, channels;
  vec_norm_act act;
} vec_pixels;

/* One output row of a 2x2 stride-2 max pool over x rows of width pixels. */
typedef struct {
  capl_dtype real;
  int64_t width, channels;
} vec_pool_row;

/* What targets are weighted sums of: taps start[i] .. start[i+1]-1 of target i. */
typedef struct {
  const int32_t *start, *from;
  const float *weight;
} vec_taps;

/* One row of y of a convolution with few channels.
** x: kernel_h rows, padding included, each starting at the first tap; taps = kernel_w * Cin consecutive
** values, step values further per pixel of y. channels is a multiple of 8. */
typedef struct {
  capl_dtype real; /* of x and y; of dy alone where the gradient reads x in f32 */
  int64_t width, channels, kernel_h, taps, step;
  int64_t y_step; /* from pixel to pixel of y; not of dy, which is dense */
  bool relu;      /* of what becomes y */
} vec_conv_row;

/* A line of count pixels that the same taps reach, of a depthwise convolution: neighbours in y lie y_step elements
** apart, what a tap reads of them x_step. channels: at least a vector. */
typedef struct {
  capl_dtype real;
  int64_t count, channels, x_step, y_step;
  int taps;
  bool stream; /* y is stored past the caches; its pixels are whole, aligned lines of them */
} vec_depthwise;

/* y (rows, columns) = sum over segments and length of a * b:
**   y[r][c] = sum over s, l of a[r * a_row + s * a_segment + l * a_step] * b[s * length + l][c]
** a_row or a_step is 1. columns: a multiple of lanes. b lies in panels of 2 * lanes columns, b_panel apart;
** a panel's rows are b_row apart. add: y += instead of y =, without bias. past: y, with rows aligned to vectors, is
** stored past the caches. All in f32. */
typedef struct {
  int64_t rows, columns, segments, length;
  int64_t a_row, a_segment, a_step, b_row, b_panel, y_row;
  bool add, past;
} vec_product;

/* One tile of a Winograd convolution, F(4x4,3x3), for all channels; image pixels lie pixel elements apart,
** rows row apart. v: 36 values per channel, frequency apart. channels: at least lanes; the last vector of winograd.c
** may overlap the one before it, all others want whole ones. */
typedef struct {
  int64_t channels, row, pixel, frequency;
  bool relu; /* of what becomes y */
} vec_winograd;

/* Rows of n values, normalized each by itself. weight, bias: NULL for 1 and 0. mean == NULL means RMS norm. */
typedef struct {
  capl_dtype real;
  int64_t n;
  double eps;
  const float *weight, *bias;
} vec_layer_norm;

/* Rows whose elements are to be 1 in sum: element k of row c lies at c * row + k * step, and one of both is 1. Where
** step is not 1, a row has at most VEC_FEW elements. */
enum { VEC_FEW = 32 };
typedef struct {
  capl_dtype real;
  bool log;
  int64_t count, n, row, step;
} vec_rows;

/* Optimizer settings, as far as the step number goes already worked out. grad_scale multiplies g first. */
typedef struct {
  float grad_scale, beta1, beta2, eps;
  float decay_grad;   /* g += decay_grad * w (Adam) */
  float keep_weight;  /* w *= keep_weight (AdamW) */
  float rate;         /* lr / (1 - beta1^step) */
  float root_correct; /* 1 / sqrt(1 - beta2^step) */
} vec_adam;

typedef struct {
  float grad_scale, lr, momentum, dampening, weight_decay;
  bool nesterov, first_step;
} vec_sgd;

typedef struct {
  float grad_scale, lr, alpha, eps, weight_decay, momentum;
  bool centered;
} vec_rmsprop;

/* One step of one sequence, parts of `hidden` values: real where a pointer is void. x: what the inputs give; u: what
** the state before gives. c, h: states, replaced; c and cells are lstm's. gates, cells: NULL: nobody reads them. */
typedef struct {
  capl_dtype real;
  int64_t hidden;
  const void *x;
  const float *u;
  void *gates, *y;
  float *c, *cells, *h;
} vec_rnn;

/* Back: dh is the gradient of h behind the step without dy, which may be NULL; gru leaves in it what passes its z. dc:
** of c behind, then before. before: c (lstm, NULL = 0) or h (gru) before the step. */
typedef struct {
  capl_dtype real;
  int64_t hidden;
  const void *gates;
  const float *cells, *before, *dy;
  float *dh, *dc, *du;
  void *dx;
} vec_rnn_grad;

/* The elementwise ops with kernels here, each once: enums, cases and the rows of elementwise.c are made of these lists.
** X(op, inputs): every = any dtypes, exactly where there is no vector kernel; real = f32 or bf16, all inputs alike. */
#define VEC_BINARY_MAP(X) \
  X(add, every) X(sub, every) X(mul, every) X(div, every) X(maximum, every) X(minimum, every) X(relu_grad, real) \
  X(power, real) X(remainder, every)
#define VEC_COMPARE_MAP(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
/* Of f32 or bf16; affine and pow (x to the power of scale) have attributes. */
#define VEC_PLAIN_MAP(X) X(relu) X(exp) X(log) X(sqrt) X(abs) X(sign) X(sigmoid) X(tanh) X(log1p) X(floor) X(round)
#define VEC_UNARY_MAP(X) X(affine) X(pow) VEC_PLAIN_MAP(X)

#define VEC_KIND(op, ...) VEC_##op,
typedef enum { VEC_BINARY_MAP(VEC_KIND) } vec_binary_kind;
typedef enum { VEC_COMPARE_MAP(VEC_KIND) } vec_compare_kind;
typedef enum { VEC_UNARY_MAP(VEC_KIND) } vec_unary_kind;

/* ORDER ops/activation.h: functions, then activations, whose numbers are p and q, then gradients by the result. */
typedef enum {
  VEC_ERF,
  VEC_SIN,
  VEC_COS,
  VEC_SILU,
  VEC_GELU,
  VEC_SOFTPLUS,
  VEC_LEAKY_RELU,
  VEC_ELU,
  VEC_HARDSIGMOID,
  VEC_HARDSWISH,
  VEC_LOG_SIGMOID,
  VEC_CLAMP,
  VEC_BY_SIGMOID,
  VEC_BY_TANH
} vec_activation_kind;

/* Philox counter words 1..2 and the key of a dropout call. */
typedef struct {
  uint32_t key[2], word1, word2;
  uint32_t threshold; /* an element stays when its word >= threshold */
  float scale;        /* of what stays */
} vec_dropout;

/* A loss of elements of dtype real; p, q: its numbers. */
typedef enum { VEC_SMOOTH_L1, VEC_SIGMOID_FOCAL } vec_loss_kind;
typedef struct {
  vec_loss_kind kind;
  capl_dtype real;
  float p, q;
} vec_loss;

#define CPU_VEC_MAP(X)                                                                                         \
  /* batch norm: sum[c] += of (x - center), square[c] += of its square */                                      \
  X(void, norm_sums, (const vec_pixels *p, const void *x, const float *center, double *sum, double *square))   \
  X(void, norm_apply, (const vec_pixels *p, const vec_norm *n, const void *x, void *y, bool stream))           \
  /* sum_dz[c] += of dz, sum_dzx[c] += of dz * (x - center); dz: dy times the slope of p->act at z; with silu   \
  ** f32 dz is stored in keep */                                                                               \
  X(void, norm_grad_sums, (const vec_pixels *p, const vec_norm *n, const void *x, const void *dy, void *keep,  \
                           double *sum_dz, double *sum_dzx))                                                   \
  X(void, norm_grad_apply, (const vec_pixels *p, const vec_norm *n, const void *x, const void *dy, void *dx,   \
                            bool stream))                                                                      \
  /* with relu and 2x2 pool; x0, x1: the two input rows. y: the x that is greatest of its window after             \
  ** multiplication by scale, index: which; adds to sum and square as norm_sums where sum is not NULL */        \
  X(void, norm_pool_row, (const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1, void *y,   \
                          uint8_t *index, double *sum, double *square))                                        \
  X(void, norm_pool_grad_sums, (const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1,      \
                                const void *dy, const uint8_t *index, double *sum_dz, double *sum_dzx))        \
  X(void, norm_pool_grad_row, (const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1,       \
                               const void *dy, const uint8_t *index, void *dx0, void *dx1, bool stream))       \
  X(void, layer_norm, (const vec_layer_norm *p, int64_t rows, const void *x, void *y, float *mean,             \
                       float *invstd))                                                                         \
  /* adds to dweight and dbias, n floats each */                                                               \
  X(void, layer_norm_grad, (const vec_layer_norm *p, int64_t rows, const void *x, const void *dy,              \
                            const float *mean, const float *invstd, float *dweight, float *dbias, void *dx))   \
  /* one channel of group norm: sums of x - center and its square; of dy and dy * (x - center); dx = k_dy * dy \
  ** + k_x * x + k_1 */                                                                                        \
  X(void, run_moments, (capl_dtype real, int64_t n, const void *x, float center, double *sum, double *square)) \
  X(void, run_grad_sums, (capl_dtype real, int64_t n, const void *x, const void *dy, float center,             \
                          double *sum_dy, double *sum_dyx))                                                    \
  X(void, run_grad, (capl_dtype real, int64_t n, const void *x, const void *dy, float k_dy, float k_x,         \
                     float k_1, void *dx))                                                                     \
  /* attention: y (rows, padded) = x * scale with zeros behind the columns; y (columns, padded) = x turned */      \
  X(void, attend_pack, (capl_dtype real, int64_t rows, int64_t columns, int64_t padded, float scale,          \
                        const void *x, int64_t row, int64_t step, float *y))                                   \
  X(void, attend_turn, (capl_dtype real, int64_t rows, int64_t columns, int64_t padded, const void *x,         \
                        int64_t row, int64_t step, float *y))                                                  \
  X(void, attend_store, (capl_dtype real, int64_t n, float scale, const float *x, void *y, int64_t step))      \
  X(double, attend_dot, (capl_dtype real, int64_t n, const void *x, int64_t x_step, const float *y))           \
  /* rows of n scores, n a multiple of lanes but for the mask: s becomes exp(s - *max) with *max the largest   \
  ** so far, and the sum is given; s = exp(s - less); dw = weight * (dw - dot) */                              \
  X(void, attend_bool, (int64_t n, const uint8_t *mask, float *s))                                             \
  X(float, attend_row, (int64_t n, float *s, float *max))                                                      \
  X(void, attend_scale, (int64_t n, float *y, float factor))                                                   \
  X(void, attend_exp, (int64_t n, float *s, float less))                                                       \
  X(void, attend_grad, (int64_t n, const float *weight, float dot, float *dw))                                 \
  /* pooling of one pixel over n taps, each a pixel of channels values */                                      \
  X(void, pool_max, (capl_dtype real, int64_t channels, int n, const void *const *taps, const uint8_t *place,  \
                     void *y, uint8_t *index))                                                                 \
  /* y = sum of weight[i] * taps[i] */                                                                         \
  X(void, pool_sum, (capl_dtype real, int64_t channels, int n, const void *const *taps, const float *weight,   \
                     void *y))                                                                                 \
  /* dx = sum of taps[i] where index[i] == place[i] */                                                         \
  X(void, pool_pick, (capl_dtype real, int64_t channels, int n, const void *const *taps,                       \
                      const uint8_t *const *index, const uint8_t *place, void *dx))                            \
  /* y = sum of weight[k] * row[k], rows of n values */                                                         \
  X(void, blend_rows, (capl_dtype real, int64_t n, int rows, const void *const *row, const float *weight,      \
                       float *y))                                                                              \
  /* pixel w of y (width pixels) = sum of the pixels of x that its taps name */                                \
  X(void, blend_pixels, (capl_dtype real, const vec_taps *t, int64_t width, int64_t channels, const float *x,  \
                         void *y))                                                                             \
  /* y += x, y += weight * x */                                                                                \
  X(void, add_row, (capl_dtype real, int64_t n, const void *x, float *y))                                      \
  X(void, add_weighted, (capl_dtype real, int64_t n, const void *x, float weight, float *y))                   \
  X(float, dot, (capl_dtype real, int64_t n, const void *a, const void *b))                                    \
  /* y = bias + sum over taps of x * w[kernel_h][taps][channels]. bf16: w are pairs of taps, and an odd last tap is   \
  ** the pair (0, tap) for the last two values of x. taps: at least 2. bias may be NULL */                      \
  X(void, conv_row, (const vec_conv_row *p, const void *const *x, const void *w, const float *bias, void *y))  \
  /* dw[kernel_h][taps][channels] += sum of x * dy, db[channels] += sum of dy */                                \
  X(void, conv_row_grad_w, (const vec_conv_row *p, const float *const *x, const void *dy, float *dw, float *db)) \
  /* y = bias + sum over taps of x[t] * w[t]; x[t]: what tap t reads for the first pixel. bias may be NULL */    \
  X(void, depthwise, (const vec_depthwise *p, const void *const *x, const float *const *w, const float *bias,  \
                      void *y))                                                                                \
  /* dw[t] += sum of x[t] * dy, db += sum of dy */                                                             \
  X(void, depthwise_grad_w, (const vec_depthwise *p, const void *const *x, const void *dy, float *const *dw,   \
                             float *db))                                                                       \
  /* bias (columns) may be NULL */                                                                             \
  X(void, product, (const vec_product *p, const float *a, const float *b, const float *bias, float *y))        \
  /* the same of pairs of bf16 in place of floats: length and strides count pairs, sums and y are f32 */        \
  X(void, product_pairs, (const vec_product *p, const void *a, const void *b, const float *bias, float *y))    \
  /* y[i] = the pair x[i], other[i] */                                                                         \
  X(void, pair_bf16, (int64_t n, const float *x, const float *other, uint32_t *y))                             \
  /* 6x6 pixels of x -> v; 4x4 pixels of dy -> v; v -> the first rows x columns of 4x4 pixels of y.           \
  ** Where x or dy is NULL, each lists its pixels in reading order. */                                          \
  X(void, winograd_x, (const vec_winograd *p, const float *x, const void *const *each, float *v))              \
  X(void, winograd_dy, (const vec_winograd *p, const float *dy, const void *const *each, float *v))            \
  X(void, winograd_y, (const vec_winograd *p, const float *v, const float *bias, int rows, int columns,        \
                       float *y))                                                                              \
  /* 3x3 weights -> v; sums of v, given in parts -> 3x3 weights */                                             \
  X(void, winograd_w, (const vec_winograd *p, const float *w, float *v))                                       \
  X(void, winograd_dw, (const vec_winograd *p, int parts, const float *const *v, float *dw))                   \
  /* the same in tiles of 2x2, F(2x2,3x3) of bf16 images: 4x4 pixels of x, 2x2 of dy, 16 values of v per channel. \
  ** _pair: v are pairs of a tile's and another tile's values; total += the sums of both tiles of dy. w and other:   \
  ** the taps of two inputs, which become pairs. */                                                                \
  X(void, winograd_bf16_x, (const vec_winograd *p, const void *const *each, uint16_t *v))                      \
  X(void, winograd_bf16_x_pair, (const vec_winograd *p, const void *const *each, const void *const *other,     \
                                 uint32_t *v))                                                                 \
  X(void, winograd_bf16_dy_pair, (const vec_winograd *p, const void *const *each, const void *const *other,    \
                                  uint32_t *v, float *total))                                                  \
  X(void, winograd_bf16_y, (const vec_winograd *p, const float *v, const float *bias, int rows, int columns,   \
                            uint16_t *y))                                                                      \
  X(void, winograd_bf16_w, (const vec_winograd *p, const float *w, const float *other, uint32_t *v))           \
  X(void, winograd_bf16_dw, (const vec_winograd *p, int parts, const float *const *v, float *dw))              \
  /* the same along lines, F(4,3): 6 pixels, 4 pixels, 3 weights, and 6 values of v per channel */              \
  X(void, winoline_x, (const vec_winograd *p, const float *x, const void *const *each, float *v))              \
  X(void, winoline_dy, (const vec_winograd *p, const float *dy, const void *const *each, float *v))            \
  X(void, winoline_y, (const vec_winograd *p, const float *v, const float *bias, int columns, float *y))       \
  X(void, winoline_w, (const vec_winograd *p, const float *w, float *v))                                       \
  X(void, winoline_dw, (const vec_winograd *p, int parts, const float *const *v, float *dw))                   \
  /* the same in tiles of 2, F(2,3) of bf16 images: 4 pixels, and 4 values of v */                              \
  X(void, winoline_bf16_x, (const vec_winograd *p, const void *const *each, uint16_t *v))                      \
  X(void, winoline_bf16_y, (const vec_winograd *p, const float *v, const float *bias, int columns, uint16_t *y)) \
  X(void, winoline_bf16_w, (const vec_winograd *p, const float *w, const float *other, uint32_t *v))           \
  /* y[i] = a[i * sa] op b[i * sb], sa and sb 0 or 1 */                                                        \
  X(void, binary, (vec_binary_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b,     \
                   int sb, void *y))                                                                           \
  X(void, compare, (vec_compare_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b,   \
                    int sb, uint8_t *y))                                                                       \
  X(void, unary, (vec_unary_kind kind, capl_dtype real, int64_t n, const void *x, void *y, float scale,        \
                  float shift))                                                                                \
  X(void, activation, (vec_activation_kind kind, capl_dtype real, int64_t n, const void *x, void *y, float p,   \
                       float q))                                                                               \
  /* dx[i] = dy[i * sy] * slope at x[i * sx], sx and sy 0 or 1; not of functions */                             \
  X(void, activation_grad, (vec_activation_kind kind, capl_dtype real, int64_t n, const void *x, int sx,        \
                            const void *dy, int sy, void *dx, float p, float q))                               \
  X(void, to_bf16, (int64_t n, const float *x, uint16_t *y))                                                   \
  X(void, to_f32, (int64_t n, const uint16_t *x, float *y))                                                    \
  /* x, y: element number `first` of the tensor in logical order, and on */                                    \
  X(void, dropout, (const vec_dropout *p, capl_dtype real, int64_t first, int64_t n, const void *x, void *y))  \
  /* softmax, or its logarithm; its gradient by y and dy; y[c] = log(sum(exp(x))) of row c, in f32 */             \
  X(void, softmax, (const vec_rows *r, const void *x, void *y))                                                \
  X(void, softmax_grad, (const vec_rows *r, const void *y, const void *dy, void *dx))                          \
  X(void, log_sums, (const vec_rows *r, const float *x, double *y))                                            \
  /* rows of n values */                                                                                       \
  X(double, sum, (capl_dtype real, int64_t n, const void *x))                                                  \
  X(double, sum_squares, (capl_dtype real, int64_t n, const void *x))                                          \
  /* acc[i] += x[i] */                                                                                         \
  X(void, add_to, (capl_dtype real, int64_t n, const void *x, double *acc))                                    \
  /* best[i] = the larger of it and x[i]; the largest; its place, the first of equals. NaN is above all */      \
  X(void, largest_to, (capl_dtype real, int64_t n, const void *x, double *best))                               \
  X(float, largest, (capl_dtype real, int64_t n, const void *x))                                               \
  X(int64_t, argmax, (capl_dtype real, int64_t n, const void *x))                                              \
  /* binary cross-entropy with logits: the sum, or one loss per element */                                      \
  X(double, bce_sum, (capl_dtype real, int64_t n, const void *x, const float *target))                         \
  X(void, bce_each, (capl_dtype real, int64_t n, const void *x, const float *target, float *y))                \
  /* dx = (sigmoid(x) - target) * scale, times each[i] unless each is NULL */                                   \
  X(void, bce_grad, (capl_dtype real, int64_t n, const void *x, const float *target, float scale,              \
                     const float *each, void *dx))                                                             \
  /* One step over n states of a text (a multiple of lanes): path = log of the paths into each state, from[s],     \
  ** from[s-1] and from[s-2] + skip[s] joined, minus less; to = path + e. from[-2] and from[-1] are readable. Gives\
  ** to's largest. */                                                                                              \
  X(float, ctc_step, (int64_t n, const float *from, const float *skip, const float *e, float less,             \
                      float *path, float *to))                                                                 \
  /* path = exp(path + other - their largest sum) over n states, a multiple of lanes; gives the total */        \
  X(float, ctc_shares, (int64_t n, const float *other, float *path))                                           \
  /* other losses, likewise */                                                                                 \
  X(double, loss_sum, (const vec_loss *l, int64_t n, const void *x, const float *target))                      \
  X(void, loss_each, (const vec_loss *l, int64_t n, const void *x, const float *target, float *y))             \
  X(void, loss_grad, (const vec_loss *l, int64_t n, const void *x, const float *target, float scale,           \
                      const float *each, void *dx))                                                            \
  X(void, lstm_cell, (const vec_rnn *p))                                                                       \
  X(void, lstm_cell_grad, (const vec_rnn_grad *p))                                                             \
  X(void, gru_cell, (const vec_rnn *p))                                                                        \
  X(void, gru_cell_grad, (const vec_rnn_grad *p))                                                              \
  /* largest, buffer, mean: may be NULL where the settings do not use them; largest: amsgrad */               \
  X(void, adam, (const vec_adam *p, int64_t n, float *w, const float *g, float *m, float *v, float *largest))  \
  X(void, sgd, (const vec_sgd *p, int64_t n, float *w, const float *g, float *buffer))                         \
  /* buffer = momentum * buffer + g; y = buffer, or with nesterov g + momentum * buffer */                      \
  X(void, momentum, (const vec_sgd *p, int64_t n, const float *g, float *buffer, float *y))                    \
  /* y = s * a + t * b; y may be a or b */                                                                      \
  X(void, combine, (int64_t n, float s, const float *a, float t, const float *b, float *y))                    \
  X(void, rmsprop, (const vec_rmsprop *p, int64_t n, float *w, const float *g, float *square, float *buffer,   \
                    float *mean))

typedef struct {
  const char *isa;
  int lanes; /* floats in a vector */
#define X(result, name, args) result(*name) args;
  CPU_VEC_MAP(X)
#undef X
} cpu_vec;

extern const cpu_vec cpu_vec_portable;
#if defined(__x86_64__)
extern const cpu_vec cpu_vec_avx2, cpu_vec_avx512, cpu_vec_avx512bf16;
#endif

#endif
