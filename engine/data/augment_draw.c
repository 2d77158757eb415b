/* augment_draw.c -- draws the random numbers of the augmentation: from options and the number of a sample to a draw.
**
** Each op has its own Philox stream, so that switching one on does not shift the others. Geometry is composed into one
** map from output to source, colour into one matrix.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/augment_draw.h"

#include <math.h>
#include <string.h>

#include "capl/rng.h"
#include "data/augment_options.h"
#include "data/streams.h"

typedef capl_augment_draw draw;

typedef struct {
  const capl_augment_options *options;
  uint64_t seed;
  uint32_t epoch, sample;
} origin;

/* ---- random numbers ------------------------------------------------------------------------------------ */

static capl_rng open_stream(const origin *from, uint32_t number)
{
  capl_rng rng;
  capl_rng_init(&rng, from->seed, from->sample, from->epoch, number);
  return rng;
}

static capl_rng stream(const origin *from, capl_augment_op op)
{
  return open_stream(from, CAPL_STREAM_AUGMENT + op);
}

/* Whether the op's coin, which others may share, lets it be applied. */
static bool is_dealt(const origin *from, capl_augment_op op)
{
  float skip = from->options->skip[op];
  uint32_t shared = from->options->coin[op];
  if (!augment_is_on(augment_range(from->options, op))) return false;
  if (skip <= 0) return true;
  capl_rng rng = open_stream(from,
                             shared ? CAPL_STREAM_AUGMENT_SHARED + shared : CAPL_STREAM_AUGMENT_COIN + (uint32_t)op);
  return capl_rng_float(&rng) >= skip;
}

static float between(capl_rng *rng, capl_range range)
{
  return range.lo + (range.hi - range.lo) * capl_rng_float(rng);
}

static float pick(const origin *from, capl_augment_op op, float when_off)
{
  if (!is_dealt(from, op)) return when_off;
  capl_rng rng = stream(from, op);
  return between(&rng, augment_range(from->options, op));
}

static bool happens(const origin *from, capl_augment_op op)
{
  float p = augment_probability(from->options, op);
  capl_rng rng = stream(from, op);
  return p > 0 && capl_rng_float(&rng) < p;
}

static double radians(double degrees)
{
  return degrees * 3.14159265358979323846 / 180;
}

/* ---- geometry -------------------------------------------------------------------------------- */

/* The inverse of: shear rows, scale, rotate, shift, about the centre of the image. */
static void draw_affine(const origin *from, int height, int width, draw *d)
{
  double angle = radians(pick(from, CAPL_AUGMENT_ROTATE, 0)), shear = tan(radians(pick(from, CAPL_AUGMENT_SHEAR, 0)));
  double scale = pick(from, CAPL_AUGMENT_SCALE, 1);
  double shift_x = pick(from, CAPL_AUGMENT_TRANSLATE_X, 0) * width,
      shift_y = pick(from, CAPL_AUGMENT_TRANSLATE_Y, 0) * height;
  double c = cos(angle) / scale, s = sin(angle) / scale;
  double centre_x = (width - 1) / 2.0, centre_y = (height - 1) / 2.0;
  double *m = d->map;
  /* Rows run downwards, so turning back counter-clockwise is (c, -s; s, c). */
  m[3] = s;
  m[4] = c;
  m[0] = c - shear * m[3];
  m[1] = -s - shear * m[4];
  m[2] = centre_x - m[0] * (centre_x + shift_x) - m[1] * (centre_y + shift_y);
  m[5] = centre_y - m[3] * (centre_x + shift_x) - m[4] * (centre_y + shift_y);
  d->moves = angle != 0 || shear != 0 || scale != 1 || shift_x != 0 || shift_y != 0;
}

/* What was found at (x,y) is now found at (by_x * x + to_x, by_y * y + to_y). */
static void stretch(draw *d, double by_x, double to_x, double by_y, double to_y)
{
  for (int i = 0; i < 3; i++) {
    d->map[i] = d->map[i] * by_x + d->horizon[i] * to_x;
    d->map[3 + i] = d->map[3 + i] * by_y + d->horizon[i] * to_y;
  }
  d->moves = true;
}

static void draw_flips(const origin *from, int height, int width, draw *d)
{
  bool sideways = happens(from, CAPL_AUGMENT_FLIP), upright = happens(from, CAPL_AUGMENT_FLIP_VERTICAL);
  if (sideways) stretch(d, -1, width - 1, 1, 0);
  if (upright) stretch(d, 1, 0, -1, height - 1);
  d->mirrored = sideways != upright;
}

static double least_of(double a, double b)
{
  return a < b ? a : b;
}

/* Sides of a rectangle with a share of the unit square's area, where that fits. */
static void draw_sides(capl_rng *rng, double share, capl_range aspect, double *across, double *down)
{
  double ratio = exp(log(aspect.lo) + (log(aspect.hi) - log(aspect.lo)) * capl_rng_float(rng));
  *across = least_of(sqrt(share * ratio), 1);
  *down = least_of(sqrt(share / ratio), 1);
}

static void draw_crop(const origin *from, int height, int width, draw *d)
{
  static const capl_range usual = {3.0f / 4, 4.0f / 3};
  const capl_augment_options *options = from->options;
  double across, down;
  if (!is_dealt(from, CAPL_AUGMENT_CROP)) return;
  capl_rng rng = stream(from, CAPL_AUGMENT_CROP);
  double share = between(&rng, options->crop);
  draw_sides(&rng, share, augment_is_on(options->crop_aspect) ? options->crop_aspect : usual, &across, &down);
  double left = capl_rng_float(&rng) * (1 - across) * width, top = capl_rng_float(&rng) * (1 - down) * height;
  if (across == 1 && down == 1) return;
  /* Edges of pixels are half a pixel from their centres. */
  stretch(d, across, left + 0.5 * across - 0.5, down, top + 0.5 * down - 0.5);
}

/* The map from a quadrilateral (corners of the image clockwise from the top left, in edges) to the unit square it was,
** as rows of a matrix: the inverse of the square's map to it (Heckbert, "Fundamentals of texture mapping and image
** warping", 1989). */
static void quad_to_square(const double x[4], const double y[4], double out[9])
{
  double dx1 = x[1] - x[2], dx2 = x[3] - x[2], sx = x[0] - x[1] + x[2] - x[3];
  double dy1 = y[1] - y[2], dy2 = y[3] - y[2], sy = y[0] - y[1] + y[2] - y[3];
  double det = dx1 * dy2 - dx2 * dy1, g = (sx * dy2 - dx2 * sy) / det, h = (dx1 * sy - sx * dy1) / det;
  double a = x[1] - x[0] + g * x[1], b = x[3] - x[0] + h * x[3], c = x[0];
  double e = y[1] - y[0] + g * y[1], f = y[3] - y[0] + h * y[3], k = y[0];
  const double adjoint[9] = {f - k * h, c * h - b, b * k - c * f, k * g - e, a - c * g, c * e - a * k, e * h - f * g,
                             b * g - a * h, a * f - b * e};
  for (int i = 0; i < 9; i++) out[i] = adjoint[i];
}

/* out = a * b, rows of 3 x 3 */
static void multiply(const double a[9], const double b[9], double out[9])
{
  for (int i = 0; i < 9; i++) {
    const double *row = a + i / 3 * 3;
    out[i] = row[0] * b[i % 3] + row[1] * b[3 + i % 3] + row[2] * b[6 + i % 3];
  }
}

/* d's map after one that leads from output to what used to be the output. */
static void append(draw *d, const double first[9])
{
  double then[9], whole[9];
  memcpy(then, d->map, sizeof d->map);
  memcpy(then + 6, d->horizon, sizeof d->horizon);
  multiply(then, first, whole);
  memcpy(d->map, whole, sizeof d->map);
  memcpy(d->horizon, whole + 6, sizeof d->horizon);
}

/* Every corner moves inwards, each by its own numbers: less than half, so the four stay convex. */
static void draw_perspective(const origin *from, int height, int width, draw *d)
{
  static const double at_x[4] = {0, 1, 1, 0}, at_y[4] = {0, 0, 1, 1};
  double x[4], y[4], m[9];
  if (!is_dealt(from, CAPL_AUGMENT_PERSPECTIVE)) return;
  capl_rng rng = stream(from, CAPL_AUGMENT_PERSPECTIVE);
  double reach = between(&rng, from->options->perspective) / 2.0;
  for (int i = 0; i < 4; i++) {
    x[i] = (at_x[i] + (1 - 2 * at_x[i]) * reach * capl_rng_float(&rng)) * width;
    y[i] = (at_y[i] + (1 - 2 * at_y[i]) * reach * capl_rng_float(&rng)) * height;
  }
  if (reach == 0) return;
  quad_to_square(x, y, m);
  /* From edges to centres on both sides, and from the unit square to pixels. */
  for (int i = 0; i < 3; i++) m[i] = m[i] * width - 0.5 * m[6 + i], m[3 + i] = m[3 + i] * height - 0.5 * m[6 + i];
  for (int i = 0; i < 9; i += 3) m[i + 2] += 0.5 * (m[i] + m[i + 1]);
  double unit = m[8] != 0 ? fabs(m[8]) : 1;
  for (int i = 0; i < 9; i++) m[i] /= unit;
  append(d, m);
  d->moves = d->bends = true;
}

static void draw_elastic(const origin *from, draw *d)
{
  if (!is_dealt(from, CAPL_AUGMENT_ELASTIC)) return;
  capl_rng rng = stream(from, CAPL_AUGMENT_ELASTIC);
  d->elastic = between(&rng, from->options->elastic);
  for (int i = 0; i < 2 * AUGMENT_LATTICE * AUGMENT_LATTICE; i++)
    d->lattice[i % 2][i / 2] = 2 * capl_rng_float(&rng) - 1;
  if (d->elastic > 0) d->moves = d->bends = true;
}

/* From the source outwards: crop, flip, then what turns about the centre, then perspective; d->map leads the other
** way. */
static void draw_geometry(const origin *from, int height, int width, draw *d)
{
  d->horizon[2] = 1;
  draw_affine(from, height, width, d);
  draw_flips(from, height, width, d);
  draw_crop(from, height, width, d);
  draw_perspective(from, height, width, d);
  draw_elastic(from, d);
}

/* ---- nodes of a map that bends --------------------------------------------------------------- */

int capl_augment_nodes_across(int size)
{
  return (size + AUGMENT_CELL - 1) / AUGMENT_CELL + 1;
}

/* The lattice spans the image's pixel centres; beyond, it goes on as at its border. */
static double on_lattice(double at, int size)
{
  double place = size > 1 ? at * (AUGMENT_LATTICE - 1) / (size - 1) : 0;
  return place < 0 ? 0 : place < AUGMENT_LATTICE - 1 ? place : AUGMENT_LATTICE - 1;
}

static double bent_by(const draw *d, int axis, double x, double y)
{
  int i = (int)x < AUGMENT_LATTICE - 2 ? (int)x : AUGMENT_LATTICE - 2,
  j = (int)y < AUGMENT_LATTICE - 2 ? (int)y : AUGMENT_LATTICE - 2;
  const float *p = d->lattice[axis] + j * AUGMENT_LATTICE + i;
  double fx = x - i, fy = y - j;
  double above = p[0] + (p[1] - p[0]) * fx,
      below = p[AUGMENT_LATTICE] + (p[AUGMENT_LATTICE + 1] - p[AUGMENT_LATTICE]) * fx;
  return d->elastic * (above + (below - above) * fy);
}

/* The lattice is looked up at nodes; between them what is added is bilinear, as the map is. */
void capl_augment_bent_by(const draw *d, int height, int width, double x, double y, double *by_x, double *by_y)
{
  double i = floor(x / AUGMENT_CELL), j = floor(y / AUGMENT_CELL), fx = x / AUGMENT_CELL - i, fy = y / AUGMENT_CELL - j;
  double *by[2] = {by_x, by_y};
  for (int axis = 0; axis < 2; axis++) {
    *by[axis] = 0;
    for (int k = 0; k < 4; k++) {
      double weight = (k % 2 ? fx : 1 - fx) * (k / 2 ? fy : 1 - fy);
      double column = on_lattice((i + k % 2) * AUGMENT_CELL, width),
          row = on_lattice((j + k / 2) * AUGMENT_CELL, height);
      *by[axis] += weight * bent_by(d, axis, column, row);
    }
  }
}

static int32_t to_node(double at)
{
  const double most = 16383.0 * 65536;
  at *= 65536;
  return (int32_t)lrint(at < -most ? -most : at > most ? most : at);
}

void capl_augment_nodes(const draw *d, int height, int width, int32_t *nodes)
{
  int across = capl_augment_nodes_across(width), down = capl_augment_nodes_across(height);
  const double *m = d->map, *h = d->horizon;
  for (int j = 0; j < down; j++) {
    double y = AUGMENT_CELL * j, row = on_lattice(AUGMENT_CELL * j, height);
    for (int i = 0; i < across; i++) {
      double x = AUGMENT_CELL * i, z = h[0] * x + h[1] * y + h[2];
      z = 1 / (z > 1e-6 ? z : 1e-6); /* behind the horizon: far outside */
      double u = (m[0] * x + m[1] * y + m[2]) * z, v = (m[3] * x + m[4] * y + m[5]) * z;
      if (d->elastic > 0) {
        double column = on_lattice(AUGMENT_CELL * i, width);
        u += bent_by(d, 0, column, row);
        v += bent_by(d, 1, column, row);
      }
      *nodes++ = to_node(u);
      *nodes++ = to_node(v);
    }
  }
}

/* ---- colour ---------------------------------------------------------------------------------- */

/* Saturation moves a colour away from its luma; hue turns the chroma plane of YIQ. Neither changes luma or grays. */
static void draw_tint(const origin *from, draw *d)
{
  static const double to_yiq[9] = {0.299, 0.587, 0.114, 0.595716, -0.274453, -0.321263, 0.211456, -0.522591, 0.311135};
  static const double to_rgb[9] = {1, 0.9563, 0.6210, 1, -0.2721, -0.6474, 1, -1.1070, 1.7046};
  double saturation = pick(from, CAPL_AUGMENT_SATURATION, 1), hue = radians(360 * pick(from, CAPL_AUGMENT_HUE, 0));
  double c = saturation * cos(hue), s = saturation * sin(hue);
  const double turn[9] = {1, 0, 0, 0, c, s, 0, -s, c}; /* red becomes yellow, then green */
  double half[9], whole[9];
  d->blends = saturation != 1 || hue != 0;
  if (!d->blends) return;
  multiply(turn, to_yiq, half);
  multiply(to_rgb, half, whole);
  for (int i = 0; i < 9; i++) d->colour[i] = (float)whole[i];
}

static void draw_colour(const origin *from, float mean, draw *d)
{
  float contrast = pick(from, CAPL_AUGMENT_CONTRAST, 1), brightness = pick(from, CAPL_AUGMENT_BRIGHTNESS, 1);
  d->gain = contrast * brightness;
  d->lift = contrast != 1 ? (1 - contrast) * mean * brightness : 0;
  if (happens(from, CAPL_AUGMENT_INVERT)) {
    d->gain = -d->gain;
    d->lift = 255 - d->lift;
  }
  draw_tint(from, d);
  for (int i = 0; i < 9; i++) d->colour[i] *= d->gain;
  d->noise = pick(from, CAPL_AUGMENT_NOISE, 0);
  capl_rng rng = stream(from, CAPL_AUGMENT_NOISE);
  (void)capl_rng_u32(&rng); /* the first number chose the strength */
  d->noise_key = capl_rng_u32(&rng);
}

/* ---- filters --------------------------------------------------------------------------------- */

static int blur_radius(const capl_augment_options *options, double sigma)
{
  if (options->blur_size) return options->blur_size / 2;
  return sigma <= 0.8 ? 1 : sigma <= 1.4 ? 2 : 3;
}

static void draw_filters(const origin *from, draw *d)
{
  d->gamma = pick(from, CAPL_AUGMENT_GAMMA, 1);
  double sigma = pick(from, CAPL_AUGMENT_BLUR, 0), weight[AUGMENT_BLUR_MOST + 1] = {1}, sum = 1;
  if (sigma <= 0) return;
  int radius = blur_radius(from->options, sigma), rest = AUGMENT_SHARE;
  for (int k = 1; k <= radius; k++) {
    weight[k] = exp(-0.5 * k * k / (sigma * sigma));
    sum += 2 * weight[k];
  }
  for (int k = 1; k <= radius; k++) {
    d->blur_weight[k] = (uint16_t)lrint(AUGMENT_SHARE * weight[k] / sum);
    rest -= 2 * d->blur_weight[k];
  }
  d->blur_weight[0] = (uint16_t)rest;
  d->blur_radius = rest < AUGMENT_SHARE ? radius : 0; /* so narrow that nothing changes */
}

void capl_augment_gamma(float gamma, uint8_t table[256])
{
  for (int v = 0; v < 256; v++) table[v] = (uint8_t)floor(255 * pow(v / 255.0, gamma) + 0.5);
}

/* ---- two samples, rectangles ----------------------------------------------------------------- */

/* Beta(alpha, alpha) by Johnk's rejection, in logarithms because small alphas underflow. */
static double beta(capl_rng *rng, double alpha)
{
  for (int i = 0; i < 4096; i++) {
    double x = log(1 - (double)capl_rng_float(rng)) / alpha, y = log(1 - (double)capl_rng_float(rng)) / alpha;
    if (exp(x) + exp(y) > 1) continue;
    double most = x > y ? x : y;
    return exp(x - most) / (exp(x - most) + exp(y - most));
  }
  return 0.5;
}

typedef struct {
  capl_mixing how;
  uint32_t partner; /* of 2^32 */
  double share;
  capl_rng rng; /* what is left */
} mixing;

static mixing roll_mixing(const origin *from)
{
  const capl_augment_options *options = from->options;
  mixing m = {.rng = stream(from, CAPL_AUGMENT_MIX)};
  float coin = capl_rng_float(&m.rng);
  m.partner = capl_rng_u32(&m.rng);
  if (coin < options->mixup.p) m.how = CAPL_MIXUP;
  else if (coin < options->mixup.p + options->cutmix.p) m.how = CAPL_CUTMIX;
  if (m.how != CAPL_MIX_NONE)
    m.share = beta(&m.rng, m.how == CAPL_MIXUP ? options->mixup.alpha : options->cutmix.alpha);
  return m;
}

bool capl_augment_partner(const capl_augment_options *options, const capl_augment_case *which, uint32_t count,
                          uint32_t *id)
{
  if (!capl_augment_mixes(options)) return false;
  mixing m = roll_mixing(&(origin){options, which->seed, which->epoch, which->sample});
  *id = (uint32_t)(((uint64_t)m.partner * count) >> 32);
  return m.how != CAPL_MIX_NONE;
}

static int within(int value, int most)
{
  return value < 0 ? 0 : value > most ? most : value;
}

/* Its centre may be anywhere in the image, what lies outside is cut off (Yun et al., "CutMix", ICCV 2019). */
static capl_area draw_cut(capl_rng *rng, double side, int height, int width)
{
  int across = (int)(side * width), down = (int)(side * height);
  int left = (int)capl_rng_below(rng, (uint32_t)width) - across / 2,
      top = (int)capl_rng_below(rng, (uint32_t)height) - down / 2;
  return (capl_area){within(left, width), within(top, height), within(left + across, width),
                     within(top + down, height)};
}

static void draw_mixing(const origin *from, int height, int width, draw *d)
{
  d->share = AUGMENT_SHARE;
  d->mix = 1;
  if (!capl_augment_mixes(from->options)) return;
  mixing m = roll_mixing(from);
  d->mixing = m.how;
  if (m.how == CAPL_MIXUP) {
    d->share = (int)lrint(m.share * AUGMENT_SHARE);
    d->mix = (float)d->share / AUGMENT_SHARE;
  } else if (m.how == CAPL_CUTMIX) {
    d->cut = draw_cut(&m.rng, sqrt(1 - m.share), height, width);
    double area = (double)(d->cut.x1 - d->cut.x0) * (d->cut.y1 - d->cut.y0);
    d->mix = (float)(1 - area / ((double)width * height));
  }
}

/* A rectangle of the drawn share, as far as its aspect lets it fit (Zhong et al., "Random erasing", AAAI 2020). */
static void draw_erase(const origin *from, int height, int width, draw *d)
{
  static const capl_range aspect = {0.3f, 3.3f};
  double across, down;
  if (!is_dealt(from, CAPL_AUGMENT_ERASE)) return;
  capl_rng rng = stream(from, CAPL_AUGMENT_ERASE);
  double share = between(&rng, from->options->erase);
  draw_sides(&rng, share, aspect, &across, &down);
  int w = (int)lrint(across * width), h = (int)lrint(down * height);
  int left = (int)capl_rng_below(&rng, (uint32_t)(width - w + 1)),
      top = (int)capl_rng_below(&rng, (uint32_t)(height - h + 1));
  if (w > 0 && h > 0) d->erased = (capl_area){left, top, left + w, top + h};
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool capl_augment_needs_mean(const capl_augment_options *options)
{
  return augment_is_on(options->contrast);
}

draw capl_augment_roll(const capl_augment_options *options, uint64_t seed, uint32_t epoch, uint32_t sample, int height,
                       int width, float mean)
{
  origin from = {options, seed, epoch, sample};
  draw d = {0};
  draw_geometry(&from, height, width, &d);
  draw_colour(&from, mean, &d);
  draw_filters(&from, &d);
  draw_mixing(&from, height, width, &d);
  draw_erase(&from, height, width, &d);
  d.alone = d.moves || d.gain != 1 || d.lift != 0 || d.blends || d.noise > 0 || d.gamma != 1 || d.blur_radius > 0 ||
            d.erased.x1 > 0;
  d.any = d.alone || d.mixing != CAPL_MIX_NONE;
  return d;
}
