/* environment.c -- takes passwords and keys out of the environment.
**
** People keep them there: for clouds, for package indexes, for agents. What stays is named here, whole or by how it
** begins. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "sandbox/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;

static const char *const whole[] = {
  "HOME", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR", "COLUMNS", "LINES", "TZ", "TMPDIR",
  "PATH", "USER", "LOGNAME", "PWD", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
  "MASTER_PORT", "KITTY_WINDOW_ID", "LD_LIBRARY_PATH", "LD_PRELOAD", NULL};
static const char *const begins[] = {
  "LC_", "XDG_", "CAPL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "CUDA_", "CUDNN_", "CUBLAS", "NVIDIA_", "NCCL_",
  "OMPI_", "OPAL_", "PMIX_", "PMI_", "PRTE_", "HWLOC_", "UCX_", "FI_", "PSM", "SLURM_", "PBS_", "LSB_", "TORCHELASTIC_",
  "MALLOC_", "GLIBC_", "FONTCONFIG_", "ASAN_", "UBSAN_", "LSAN_", "TSAN_", NULL};
/* In the names of those, too: SLURM_JWT logs in as the user. */
static const char *const secret[] = {"TOKEN", "SECRET", "PASS", "JWT", "CREDENTIAL", "API_KEY", "ACCESS_KEY", "PRIVATE",
                                     NULL};

/* Of the whole name, however long; what its value holds is not looked at. */
static bool has_secret_name(const char *entry)
{
  size_t n = strcspn(entry, "=");
  for (int i = 0; secret[i]; i++) {
    const char *at = strcasestr(entry, secret[i]);
    if (at && (size_t)(at - entry) < n) return true;
  }
  return false;
}

bool capl_environment_keeps(const char *entry)
{
  size_t n = strcspn(entry, "=");
  for (int i = 0; whole[i]; i++)
    if (strlen(whole[i]) == n && strncmp(entry, whole[i], n) == 0) return true;
  for (int i = 0; begins[i]; i++)
    if (strncmp(entry, begins[i], strlen(begins[i])) == 0) return !has_secret_name(entry);
  return false;
}

/* Where the kernel has put the environment that this program was started with. */
static bool find_area(char **begin, char **end)
{
  char text[2048];
  unsigned long from = 0, to = 0;
  FILE *file = fopen("/proc/self/stat", "re");
  if (!file) return false;
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = '\0';
  char *at = strrchr(text, ')'); /* field 2 may hold blanks */
  for (int field = 2; at && field < 50; field++) at = strchr(at + 1, ' ');
  if (!at || sscanf(at, " %lu %lu", &from, &to) != 2 || from == 0 || to <= from) return false;
  *begin = (char *)from;
  *end = (char *)to;
  return true;
}

static void forget(char *entry)
{
  if (!capl_environment_keeps(entry)) explicit_bzero(entry, strlen(entry));
}

void capl_environment_clean(void)
{
  size_t kept = 0;
  char *begin, *end;
  for (size_t i = 0; environ && environ[i]; i++) {
    if (capl_environment_keeps(environ[i])) environ[kept++] = environ[i];
    else forget(environ[i]);
  }
  if (environ) environ[kept] = NULL;
  if (!find_area(&begin, &end)) return;
  for (char *entry = begin; entry < end; entry += strlen(entry) + 1) forget(entry); /* also what was taken out before */
}
