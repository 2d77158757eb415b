/* libcuda_stub.c -- stands in for the driver, so that cuDNN finishes plans of runtime-compiled engines without a GPU.
**
** cuDNN asks it one question: how many devices there are. None, and then it compiles but loads nothing. The other
** functions only have to exist; they fail (CUDA_ERROR_NO_DEVICE). Loaded before cuDNN looks for libcuda.so.1.
** SPDX-License-Identifier: Apache-2.0
*/
enum { SUCCESS = 0, NO_DEVICE = 100 };

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
  *count = 0;
  return SUCCESS;
}

#define NONE(name) \
  int name(void);  \
  int name(void) { return NO_DEVICE; }
NONE(cuCtxGetCurrent)
NONE(cuCtxGetLimit)
NONE(cuCtxPopCurrent)
NONE(cuCtxPushCurrent)
NONE(cuDeviceGet)
NONE(cuDriverGetVersion)
NONE(cuGetErrorName)
NONE(cuGetErrorString)
NONE(cuInit)
NONE(cuKernelGetAttribute)
NONE(cuKernelGetFunction)
NONE(cuKernelSetAttribute)
NONE(cuLaunchCooperativeKernel)
NONE(cuLaunchKernel)
NONE(cuLaunchKernelEx)
NONE(cuLibraryGetKernel)
NONE(cuLibraryLoadData)
NONE(cuLibraryLoadFromFile)
NONE(cuLibraryUnload)
NONE(cuLinkAddData)
NONE(cuLinkComplete)
NONE(cuLinkCreate)
NONE(cuLinkDestroy)
NONE(cuModuleGetFunction)
NONE(cuModuleLoadData)
NONE(cuModuleUnload)
NONE(cuOccupancyMaxPotentialClusterSize)
NONE(cuStreamGetCtx)
NONE(cuTensorMapEncodeIm2col)
NONE(cuTensorMapEncodeTiled)
