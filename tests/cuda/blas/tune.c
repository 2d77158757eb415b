/* tune.c -- tests of how blas.c chooses an algorithm, with cuBLASLt and CUDA played by this file.
**
** An algorithm is a number. One that fails may leave CUDA an error behind, as a kernel that cannot be launched does.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <cublasLt.h>
#include <unistd.h>

#include "backend/cuda/blas.h"

cu_context cu = {.index = 0, .capability = 90, .autotune = true};

enum { ALGORITHMS = 3 };
static const cudaError_t LOST = cudaErrorIllegalAddress;

static struct {
  bool fails[ALGORITHMS], leaves_error[ALGORITHMS]; /* when it is run */
  float ms[ALGORITHMS];
  int ran;        /* the last */
  float now;
  cudaError_t error; /* what the runtime would say next */
} played;

/* ---- cuBLASLt ------------------------------------------------------------------------------------------------- */

static int thing;
#define MADE(out) (*(void **)(out) = &thing, CUBLAS_STATUS_SUCCESS)

size_t cublasLtGetVersion(void) { return 130100; }
const char *cublasLtGetStatusString(cublasStatus_t status) { return status ? "failed" : "ok"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) { return MADE(out); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return (void)h, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t c, cudaDataType_t s)
{
  return (void)c, (void)s, MADE(out);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return (void)d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t n)
{
  return (void)d, (void)a, (void)v, (void)n, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, void *v,
                                              size_t n, size_t *w)
{
  return (void)d, (void)a, (void)v, (void)n, (void)w, CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType t, uint64_t r, uint64_t c,
                                          int64_t ld)
{
  return (void)t, (void)r, (void)c, (void)ld, MADE(out);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return (void)l, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a,
                                                const void *v, size_t n)
{
  return (void)l, (void)a, (void)v, (void)n, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a, void *v,
                                                size_t n, size_t *w)
{
  return (void)l, (void)a, (void)v, (void)n, (void)w, CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) { return MADE(out); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return (void)p, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a, const void *v, size_t n)
{
  return (void)p, (void)a, (void)v, (void)n, CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t y, cublasLtMatmulPreference_t p, int want,
                                              cublasLtMatmulHeuristicResult_t list[], int *returned)
{
  (void)h, (void)d, (void)a, (void)b, (void)c, (void)y, (void)p;
  assert_true(want >= ALGORITHMS);
  for (int i = 0; i < ALGORITHMS; i++) {
    memset(&list[i], 0, sizeof list[i]);
    list[i].algo.data[0] = (uint64_t)i;
  }
  return *returned = ALGORITHMS, CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
  (void)h, (void)d, (void)a, (void)b, (void)c, (void)y, (void)algo;
  return memset(result, 0, sizeof *result), CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *y, cublasLtMatrixLayout_t ly,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream)
{
  (void)h, (void)d, (void)alpha, (void)a, (void)la, (void)b, (void)lb, (void)beta, (void)c, (void)lc, (void)y, (void)ly;
  (void)workspace, (void)bytes, (void)stream;
  played.ran = (int)algo->data[0];
  played.now += played.ms[played.ran];
  if (played.leaves_error[played.ran]) played.error = cudaErrorInvalidConfiguration;
  return played.fails[played.ran] ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* ---- CUDA ----------------------------------------------------------------------------------------------------- */

static float times[2];
static int events;

cudaError_t cudaMalloc(void **p, size_t bytes) { return *p = malloc(bytes), cudaSuccess; }
cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = (cudaEvent_t)&times[events++ % 2], cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return (void)s, *(float *)(void *)e = played.now,
                                                            cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
  return *ms = *(float *)(void *)end - *(float *)(void *)start, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
  return (void)device, memset(p, 0, sizeof *p), cudaSuccess;
}

/* An error that loses the GPU stays; others are met once. */
cudaError_t cudaGetLastError(void)
{
  cudaError_t error = played.error;
  if (error != LOST) played.error = cudaSuccess;
  return error;
}

capl_status cu_status(cudaError_t error, const char *doing)
{
  return error == cudaSuccess ? CAPL_OK : CAPL_FAIL(CAPL_EDEVICE, "%s: CUDA error %d", doing, (int)error);
}

/* ---- tests ---------------------------------------------------------------------------------------------------- */

static capl_status run(void)
{
  static _Alignas(64) float a[16], b[16], y[16];
  blas_pointers p = {a, b, y, NULL};
  blas_record record = blas_begin(CAPL_F32, 4, 4, 4, false, false);
  blas_align(&record, &p);
  return blas_run(&record, &p);
}

static void the_fastest_runs(void **state)
{
  (void)state;
  assert_ok(run());
  assert_int_equal(played.ran, 1);
}

static void a_candidate_that_fails_does_not_fail_the_product(void **state)
{
  (void)state;
  played.fails[1] = played.leaves_error[1] = true;
  assert_ok(run());
  assert_int_equal(played.ran, 2);
  assert_int_equal(played.error, cudaSuccess); /* nor the next call */
}

static void one_that_fails_silently_is_passed_over(void **state)
{
  (void)state;
  played.leaves_error[1] = true; /* the library says it went well */
  assert_ok(run());
  assert_int_equal(played.ran, 2);
}

static void a_gpu_that_is_lost_is_an_error(void **state)
{
  (void)state;
  played.error = LOST;
  assert_fails(run(), CAPL_EDEVICE, "timing products: CUDA error 700");
}

static char folder[64];

static int begin(void **state)
{
  (void)state;
  memset(&played, 0, sizeof played);
  played.ms[0] = 5, played.ms[1] = 1, played.ms[2] = 3;
  snprintf(folder, sizeof folder, "/tmp/capl-blas-tune-XXXXXX");
  return mkdtemp(folder) ? setenv("XDG_CACHE_HOME", folder, 1) : -1;
}

static int end(void **state)
{
  (void)state;
  char command[128];
  blas_close();
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(the_fastest_runs),
    TEST(a_candidate_that_fails_does_not_fail_the_product),
    TEST(one_that_fails_silently_is_passed_over),
    TEST(a_gpu_that_is_lost_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
