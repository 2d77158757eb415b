/* c_example.c -- trains a small convolutional net from C, with nothing but the public headers.
**
** The task: 16x16 images of one bright bar, class 0 if it lies, class 1 if it stands. Also built against
** an installed capl by tests/unit/install.sh, as a user of the library would:
**   cc c_example.c $(pkg-config --cflags --libs capl) && ./a.out
** Exit status 0 when the loss has fallen to less than a third and the net tells the classes apart.
** SPDX-License-Identifier: Apache-2.0
*/
#include <capl/capl.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 32, SIDE = 16, CLASSES = 2, CHANNELS = 8, STEPS = 30, PARAMS = 6, SEED = 7 };

/* The engine never prints or exits; a program decides what to do with a failure. */
static void must(capl_status status)
{
  if (status == CAPL_OK) return;
  const capl_error *error = capl_error_last();
  fprintf(stderr, "c_example: %s: %s\n%s\n", capl_status_name(status), error->message, error->context);
  exit(1);
}

typedef struct {
  /* conv weight and bias, batch norm weight and bias, linear weight and bias; Adam's m and v of each */
  capl_tensor *param[PARAMS], *m[PARAMS], *v[PARAMS];
  capl_tensor *running_mean, *running_var;
} net;

static capl_tensor *filled(capl_device *device, int ndim, const int64_t *size, double value)
{
  capl_tensor *t;
  must(capl_tensor_new(device, CAPL_F32, ndim, size, CAPL_AUTO, &t));
  must(capl_tensor_fill(t, value));
  return t;
}

static void net_init(net *net, capl_device *device)
{
  static const struct {
    int ndim;
    int64_t size[4];
    double bound, value; /* uniform in [-bound, bound), or value where bound is 0 */
  } spec[PARAMS] = {
    {4, {CHANNELS, 1, 3, 3}, 0.33, 0}, {1, {CHANNELS}, 0, 0}, {1, {CHANNELS}, 0, 1},
    {1, {CHANNELS}, 0, 0}, {2, {CLASSES, CHANNELS}, 0.35, 0}, {1, {CLASSES}, 0, 0},
  };
  for (int i = 0; i < PARAMS; i++) {
    capl_tensor *p = filled(device, spec[i].ndim, spec[i].size, spec[i].value);
    if (spec[i].bound > 0)
      must(capl_tensor_fill_uniform(p, -spec[i].bound, spec[i].bound, SEED, (uint32_t)i, 0, 0));
    p->requires_grad = true;
    net->param[i] = p;
    net->m[i] = filled(device, spec[i].ndim, spec[i].size, 0);
    net->v[i] = filled(device, spec[i].ndim, spec[i].size, 0);
  }
  net->running_mean = filled(device, 1, (int64_t[]){CHANNELS}, 0);
  net->running_var = filled(device, 1, (int64_t[]){CHANNELS}, 1);
}

static void net_free(net *net)
{
  for (int i = 0; i < PARAMS; i++) {
    capl_tensor_unref(net->param[i]);
    capl_tensor_unref(net->m[i]);
    capl_tensor_unref(net->v[i]);
  }
  capl_tensor_unref(net->running_mean);
  capl_tensor_unref(net->running_var);
}

/* x (N,1,16,16) -> logits (N,2): conv 3x3, batch norm + ReLU + pool, average over the image, linear. */
static capl_tensor *forward(net *net, capl_tensor *x)
{
  capl_tensor **p = net->param, *conv, *pooled[4], *mean, *flat, *logits;
  must(capl_run(CAPL_OP_conv2d, (capl_tensor *[]){x, p[0], p[1]}, 3, "padding=1", &conv));
  must(capl_run(CAPL_OP_bn_act_pool,
                (capl_tensor *[]){conv, p[2], p[3], net->running_mean, net->running_var}, 5, "training=true",
                pooled));
  must(capl_run(CAPL_OP_adaptive_avg_pool2d, pooled, 1, "output=1,1", &mean));
  must(capl_run(CAPL_OP_reshape, &mean, 1, "size=-1,8", &flat));
  must(capl_run(CAPL_OP_linear, (capl_tensor *[]){flat, p[4], p[5]}, 3, NULL, &logits));
  capl_tensor_unref(conv);
  for (int i = 0; i < capl_op_get(CAPL_OP_bn_act_pool)->n_out; i++) capl_tensor_unref(pooled[i]);
  capl_tensor_unref(mean);
  capl_tensor_unref(flat);
  return logits;
}

/* One Adam step over all parameters at once: the inputs are groups params, grads, m, v. */
static void step(net *net, int number)
{
  capl_tensor *in[4 * PARAMS];
  for (int i = 0; i < PARAMS; i++) {
    in[i] = net->param[i];
    in[PARAMS + i] = net->param[i]->grad;
    in[2 * PARAMS + i] = net->m[i];
    in[3 * PARAMS + i] = net->v[i];
  }
  char attrs[64];
  snprintf(attrs, sizeof attrs, "lr=0.03 step=%d", number);
  must(capl_run(CAPL_OP_adam_step, in, 4 * PARAMS, attrs, NULL));
  for (int i = 0; i < PARAMS; i++) {
    capl_tensor_unref(net->param[i]->grad);
    net->param[i]->grad = NULL;
  }
}

/* Dark noise with one bright bar of two pixels' width, lying (class 0) or standing (class 1). */
static void draw(int number, double *pixels, double *label)
{
  capl_rng rng;
  capl_rng_init(&rng, SEED, (uint32_t)number, 0, 0);
  int standing = number % CLASSES;
  int at = (int)capl_rng_below(&rng, SIDE - 1);
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      int across = standing ? x : y;
      int on_bar = across == at || across == at + 1;
      pixels[y * SIDE + x] = on_bar + 0.2 * capl_rng_float(&rng);
    }
  *label = standing;
}

static int correct(const capl_tensor *logits, const double *labels)
{
  double values[N * CLASSES];
  must(capl_tensor_to_doubles(logits, values));
  int right = 0;
  for (int i = 0; i < N; i++) right += (values[2 * i + 1] > values[2 * i]) == (labels[i] > 0);
  return right;
}

int main(void)
{
  static double pixels[N * SIDE * SIDE], classes[N];
  for (int i = 0; i < N; i++) draw(i, pixels + i * SIDE * SIDE, &classes[i]);

  capl_device *device;
  capl_tensor *x, *labels;
  must(capl_device_open("auto", &device));
  must(capl_tensor_from_doubles(device, CAPL_F32, 4, (int64_t[]){N, 1, SIDE, SIDE}, pixels, &x));
  must(capl_tensor_from_doubles(device, CAPL_I32, 1, (int64_t[]){N}, classes, &labels));

  net net;
  net_init(&net, device);
  double first = 0, last = 0;
  int right = 0;
  for (int number = 1; number <= STEPS; number++) {
    capl_tensor *logits = forward(&net, x), *loss;
    must(capl_run(CAPL_OP_cross_entropy, (capl_tensor *[]){logits, labels}, 2, NULL, &loss));
    must(capl_tensor_item(loss, &last));
    if (number == 1) first = last;
    right = correct(logits, classes);
    must(capl_backward(loss, 1));
    capl_tensor_unref(loss);
    capl_tensor_unref(logits);
    step(&net, number);
  }
  printf("capl %s on %s: loss %.4f -> %.4f, %d of %d right\n", capl_version(), device->name, first, last, right, N);

  net_free(&net);
  capl_tensor_unref(x);
  capl_tensor_unref(labels);
  capl_memory_stats memory;
  capl_memory_stats_get(device, &memory);
  if (memory.live != 0) {
    fprintf(stderr, "c_example: %zu bytes are still live\n", memory.live);
    return 1;
  }
  return last < first / 3 && right == N ? 0 : 1;
}
