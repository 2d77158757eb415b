/* dnnl_version.c -- what differs between oneDNN's versions 2 and 3: memory descriptors and primitive descriptors.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/dnnl_api.h"

#if DNNL_VERSION_MAJOR >= 3

void dn_md_free(md_own md)
{
  if (md) dnnl_memory_desc_destroy(md);
}

dnnl_status_t dn_md_strided(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type,
                            const int64_t *stride)
{
  return dnnl_memory_desc_create_with_strides(out, ndim, size, type, stride);
}

dnnl_status_t dn_md_any(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type)
{
  return dnnl_memory_desc_create_with_tag(out, ndim, size, type, dnnl_format_tag_any);
}

dnnl_status_t dn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha)
{
  return dnnl_post_ops_append_eltwise(ops, alg, alpha, 0);
}

bool dn_md_bytes(md_ref md, uint8_t *bytes, size_t *n)
{
#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 4
  size_t room = *n;
  return dnnl_memory_desc_get_blob(NULL, n, md) == dnnl_success && *n <= room
      && dnnl_memory_desc_get_blob(bytes, n, md) == dnnl_success;
#else
  (void)md, (void)bytes, (void)n;
  return false;
#endif
}

dnnl_status_t dn_conv_pd(const dn_spec *s, dnnl_alg_kind_t alg, const md_own *md, dnnl_primitive_desc_t hint,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  switch (s->kind) {
  case DN_CONV:
    return dnnl_convolution_forward_primitive_desc_create(out, dn_engine, dnnl_forward_training, alg, md[DN_X],
                                                          md[DN_W], md[DN_B], md[DN_Y], s->stride, s->dilation,
                                                          s->pad_low, s->pad_high, attr);
  case DN_CONV_GRAD_X:
    return dnnl_convolution_backward_data_primitive_desc_create(out, dn_engine, alg, md[DN_X], md[DN_W], md[DN_Y],
                                                                s->stride, s->dilation, s->pad_low, s->pad_high,
                                                                hint, attr);
  default:
    return dnnl_convolution_backward_weights_primitive_desc_create(out, dn_engine, alg, md[DN_X], md[DN_W], md[DN_B],
                                                                   md[DN_Y], s->stride, s->dilation, s->pad_low,
                                                                   s->pad_high, hint, attr);
  }
}

dnnl_status_t dn_product_pd(const dn_spec *s, const md_own *md, dnnl_primitive_desc_t hint,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  switch (s->kind) {
  case DN_MATMUL:
    return dnnl_matmul_primitive_desc_create(out, dn_engine, md[DN_X], md[DN_W], md[DN_B], md[DN_Y], attr);
  case DN_LINEAR:
    return dnnl_inner_product_forward_primitive_desc_create(out, dn_engine, dnnl_forward_training, md[DN_X], md[DN_W],
                                                            md[DN_B], md[DN_Y], attr);
  case DN_LINEAR_GRAD_X:
    return dnnl_inner_product_backward_data_primitive_desc_create(out, dn_engine, md[DN_X], md[DN_W], md[DN_Y], hint,
                                                                  attr);
  default:
    return dnnl_inner_product_backward_weights_primitive_desc_create(out, dn_engine, md[DN_X], md[DN_W], md[DN_B],
                                                                     md[DN_Y], hint, attr);
  }
}

#else

void dn_md_free(md_own md)
{
  free(md);
}

static dnnl_status_t md_alloc(md_own *out)
{
  *out = calloc(1, sizeof **out);
  return *out ? dnnl_success : dnnl_out_of_memory;
}

dnnl_status_t dn_md_strided(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type,
                            const int64_t *stride)
{
  dnnl_status_t status = md_alloc(out);
  return status ? status : dnnl_memory_desc_init_by_strides(*out, ndim, size, type, stride);
}

dnnl_status_t dn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha)
{
  return dnnl_post_ops_append_eltwise(ops, 1, alg, alpha, 0);
}

bool dn_md_bytes(md_ref md, uint8_t *bytes, size_t *n)
{
  if (*n < sizeof *md) return false;
  *n = sizeof *md;
  memcpy(bytes, md, *n);
  return true;
}

dnnl_status_t dn_md_any(md_own *out, int ndim, const int64_t *size, dnnl_data_type_t type)
{
  dnnl_status_t status = md_alloc(out);
  return status ? status : dnnl_memory_desc_init_by_tag(*out, ndim, size, type, dnnl_format_tag_any);
}

dnnl_status_t dn_conv_pd(const dn_spec *s, dnnl_alg_kind_t alg, const md_own *md, dnnl_primitive_desc_t hint,
                         const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  dnnl_convolution_desc_t desc;
  dnnl_status_t status;
  switch (s->kind) {
  case DN_CONV:
    status = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training, alg, md[DN_X], md[DN_W],
                                                        md[DN_B], md[DN_Y], s->stride, s->dilation, s->pad_low,
                                                        s->pad_high);
    break;
  case DN_CONV_GRAD_X:
    status = dnnl_dilated_convolution_backward_data_desc_init(&desc, alg, md[DN_X], md[DN_W], md[DN_Y], s->stride,
                                                              s->dilation, s->pad_low, s->pad_high);
    break;
  default:
    status = dnnl_dilated_convolution_backward_weights_desc_init(&desc, alg, md[DN_X], md[DN_W], md[DN_B], md[DN_Y],
                                                                 s->stride, s->dilation, s->pad_low, s->pad_high);
  }
  return status ? status : dnnl_primitive_desc_create(out, &desc, attr, dn_engine, hint);
}

dnnl_status_t dn_product_pd(const dn_spec *s, const md_own *md, dnnl_primitive_desc_t hint,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
  dnnl_status_t status;
  if (s->kind == DN_MATMUL) {
    dnnl_matmul_desc_t desc;
    status = dnnl_matmul_desc_init(&desc, md[DN_X], md[DN_W], md[DN_B], md[DN_Y]);
    return status ? status : dnnl_primitive_desc_create(out, &desc, attr, dn_engine, NULL);
  }
  dnnl_inner_product_desc_t desc;
  switch (s->kind) {
  case DN_LINEAR:
    status = dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_training, md[DN_X], md[DN_W], md[DN_B],
                                                  md[DN_Y]);
    break;
  case DN_LINEAR_GRAD_X:
    status = dnnl_inner_product_backward_data_desc_init(&desc, md[DN_X], md[DN_W], md[DN_Y]);
    break;
  default: status = dnnl_inner_product_backward_weights_desc_init(&desc, md[DN_X], md[DN_W], md[DN_B], md[DN_Y]);
  }
  return status ? status : dnnl_primitive_desc_create(out, &desc, attr, dn_engine, hint);
}

#endif
