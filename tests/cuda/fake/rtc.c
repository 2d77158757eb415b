/* rtc.c -- rtc.h for tests without NVRTC: the system's C++ compiler makes a shared object of the same source.
**
** The prelude gives the source what it may use of CUDA, from the shim, with as few headers as can be: so a kernel takes
** the compiler 40 ms. Objects are kept in the folder CAPL_FAKE_RTC and found again by their source, so that only the
** first run of the tests compiles; without CAPL_FAKE_RTC nothing is compiled and programs run op by op. With
** CAPL_FAKE_RTC_RACE=1 they are built for the search for races (../shim/race.cc); the folder then must be another.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/rtc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char before[] =
  "typedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\ntypedef int int32_t;\ntypedef unsigned int "
  "uint32_t;\n"
  "typedef long int64_t;\ntypedef unsigned long uint64_t;\ntypedef unsigned long size_t;\n"
  "#define RTC_KERNEL static\n#define __device__\n#define __forceinline__ inline\n"
  "struct shim_place { unsigned x, y, z; };\n"
  "struct shim_kernel { void (*call)(const void *); size_t bytes; const void *code; };\n"
  "extern \"C\" {\n"
  "extern shim_place threadIdx, blockIdx, blockDim, gridDim;\n"
  "float expf(float), logf(float), powf(float, float), sqrtf(float), tanhf(float), fabsf(float), erff(float), "
  "erfcf(float);\n"
  "float sinf(float), cosf(float), expm1f(float), log1pf(float);\n"
  "}\n"
  "static float __int_as_float(int bits) { float v; __builtin_memcpy(&v, &bits, 4); return v; }\n"
  "struct cu_f16 { uint16_t bits; };\nstruct cu_bf16 { uint16_t bits; };\n"
  "#include \"base/float16.h\"\n"
  "static float cu_float(float v) { return v; }\n"
  "static float cu_float(cu_f16 v) { return capl_f16_to_float(v.bits); }\n"
  "static float cu_float(cu_bf16 v) { return capl_bf16_to_float(v.bits); }\n"
  "template <class T> static T cu_as(float v);\n"
  "template <> float cu_as<float>(float v) { return v; }\n"
  "template <> cu_f16 cu_as<cu_f16>(float v) { return {capl_f16_from_float(v)}; }\n"
  "template <> cu_bf16 cu_as<cu_bf16>(float v) { return {capl_bf16_from_float(v)}; }\n"
  "#line 1 \"generated\"\n";

/* NAME and ARGS are replaced by the preprocessor. */
static const char after[] =
  "static void rtc_call(const void *args) { RTC_NAME(*(const RTC_ARGS *)args); }\n"
  "extern \"C\" const shim_kernel rtc_entry = {rtc_call, sizeof(RTC_ARGS), (const void *)RTC_NAME};\n";

/* ---- the compiler ----------------------------------------------------------------------------- */

static const char *folder(void)
{
  const char *path = getenv("CAPL_FAKE_RTC");
  return path && *path ? path : NULL;
}

static capl_status fail_compile(const char *log)
{
  char words[600] = "";
  FILE *f = fopen(log, "r");
  if (f) {
    words[fread(words, 1, sizeof words - 1, f)] = 0;
    fclose(f);
  }
  return CAPL_FAIL(CAPL_EINTERNAL, "the C++ compiler refuses a generated kernel: %s", words);
}

static capl_status run(char *const *command, const char *log)
{
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int status = -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int error = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error || waitpid(pid, &status, 0) != pid) return CAPL_FAIL(CAPL_EIO, "%s cannot be started", command[0]);
  return status == 0 ? CAPL_OK : fail_compile(log);
}

/* The library that has the shim's threadIdx and so on. */
static const char *shim_library(void)
{
  static Dl_info info;
  return dladdr((const void *)(uintptr_t)&cudaLaunchKernel, &info) ? info.dli_fname : "";
}

static capl_status write_source(const char *path, const char *source, const char *name)
{
  FILE *f = fopen(path, "w");
  if (!f) return CAPL_FAIL(CAPL_EIO, "%s cannot be written", path);
  fprintf(f, "#define RTC_NAME %s\n#define RTC_ARGS %s_args\n%s%s\n%s", name, name, before, source, after);
  return fclose(f) == 0 ? CAPL_OK : CAPL_FAIL(CAPL_EIO, "%s cannot be written", path);
}

/* Makes object from source; complete or not at all, as several tests may make it at once. */
static capl_status compile(const char *name, const char *source, const char *object)
{
  char text[512], made[512], log[512];
  snprintf(text, sizeof text, "%s.%d.cc", object, (int)getpid());
  snprintf(made, sizeof made, "%s.%d.so", object, (int)getpid());
  snprintf(log, sizeof log, "%s.%d.log", object, (int)getpid());
  CAPL_TRY(write_source(text, source, name));
  const char *race = getenv("CAPL_FAKE_RTC_RACE");
  char *command[] = {(char *)FAKE_RTC_CXX, "-std=c++17", "-O0", "-fPIC", "-shared", "-w", "-I" FAKE_RTC_INCLUDE, "-o",
                     made, text,
                     (char *)shim_library(), race ? "-fsanitize=thread" : NULL, "-nodefaultlibs" /* no libtsan */,
                     NULL};
  capl_status status = run(command, log);
  if (status == CAPL_OK && rename(made, object) != 0) status = CAPL_FAIL(CAPL_EIO, "%s cannot be written", object);
  unlink(text);
  unlink(log);
  return status;
}

/* ---- rtc.h ------------------------------------------------------------------------------------ */

bool rtc_available(void)
{
  return folder() != NULL;
}

static uint64_t hash(uint64_t h, const char *text)
{
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
  return h;
}

capl_status rtc_kernel(const char *name, const char *source, cu_entry *out)
{
  char object[400];
  if (cu.capturing)
    return CAPL_FAIL(CAPL_ESTATE, "a captured step has a fused kernel that the steps before it had not");
  mkdir(folder(), 0700);
  uint64_t key = hash(hash(hash(14695981039346656037u, before), after), source);
  snprintf(object, sizeof object, "%s/%s-%016llx.so", folder(), name, (unsigned long long)hash(key, shim_library()));
  if (access(object, R_OK) != 0) CAPL_TRY(compile(name, source, object));
  void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
  out->kernel = library ? dlsym(library, "rtc_entry") : NULL;
  if (out->kernel) return CAPL_OK;
  return CAPL_FAIL(CAPL_EIO, "%s cannot be loaded: %s", object, dlerror());
}

const char *rtc_version(void)
{
  return "the system's C++ compiler";
}
