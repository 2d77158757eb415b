/* policy.c -- the list of what a recipe may use, and the answer to a path that is not on it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "sandbox/policy.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/user_dirs.h"

enum { MOST_GRANTS = 512, MOST_PROTECTED = 8, SHOWN = 400,
      WRITES = CAPL_MAY_WRITE | CAPL_MAY_BESIDE | CAPL_MAY_REMOVE };

static struct {
  struct {
    char *path;
    int rights;
  } grants[MOST_GRANTS];
  int count;
  struct {
    char *path;
    const char *what;
  } kept[MOST_PROTECTED]; /* folders that no recipe writes to */
  int kept_count;
  bool closed;
  capl_limits limits;
} policy;

/* ---- granting -------------------------------------------------------------------------------- */

capl_status capl_policy_protect(const char *folder, const char *what)
{
  char real[CAPL_POLICY_PATH];
  CAPL_TRY(capl_policy_resolve(folder, real));
  for (int i = 0; i < policy.kept_count; i++)
    if (strcmp(policy.kept[i].path, real) == 0) return CAPL_OK;
  char *path = policy.kept_count < MOST_PROTECTED ? strdup(real) : NULL;
  if (!path) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to note that no recipe may write there", folder);
  policy.kept[policy.kept_count].path = path;
  policy.kept[policy.kept_count++].what = what;
  return CAPL_OK;
}

/* Who may write beside a file may write to the folder that it lies in. */
static capl_status check_protected(const char *real, int rights)
{
  char folder[CAPL_POLICY_PATH];
  if (!(rights & WRITES)) return CAPL_OK;
  strcpy(folder, real);
  if (rights & CAPL_MAY_BESIDE) strrchr(folder, '/')[strrchr(folder, '/') == folder] = '\0';
  for (int i = 0; i < policy.kept_count; i++) {
    const char *path = policy.kept[i].path;
    if (!capl_policy_is_below(path, folder) && !capl_policy_is_below(folder, path)) continue;
    CAPL_FAIL(CAPL_EVALUE, "%.1000s: no recipe may write to %.1000s, which holds %s", real, path, policy.kept[i].what);
    capl_error_hint("name another folder, or trust the recipe: capl --trust …");
    return CAPL_EVALUE;
  }
  return CAPL_OK;
}

capl_status capl_policy_grant(const char *path, int rights)
{
  char real[CAPL_POLICY_PATH];
  CAPL_TRY(capl_policy_resolve(path, real));
  return capl_policy_grant_resolved(real, rights);
}

capl_status capl_policy_grant_resolved(const char *real, int rights)
{
  if (policy.closed) return CAPL_FAIL(CAPL_ESTATE, "%s: nothing can be allowed to a recipe that runs", real);
  CAPL_TRY(check_protected(real, rights));
  for (int i = 0; i < policy.count; i++)
    if (strcmp(policy.grants[i].path, real) == 0) return policy.grants[i].rights |= rights, CAPL_OK;
  if (policy.count == MOST_GRANTS)
    return CAPL_FAIL(CAPL_EVALUE, "%s: more than %d files and folders for one recipe", real, MOST_GRANTS);
  char *kept = strdup(real);
  if (!kept) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to note that it is allowed", real);
  policy.grants[policy.count].path = kept;
  policy.grants[policy.count++].rights = rights;
  return CAPL_OK;
}

void capl_policy_close(void) { policy.closed = true; }
bool capl_policy_is_closed(void) { return policy.closed; }

void capl_policy_set_limits(const capl_limits *limits)
{
  if (!policy.closed) policy.limits = *limits;
}

const capl_limits *capl_policy_limits(void) { return &policy.limits; }

static atomic_uint_fast64_t written;

bool capl_policy_output_over(void)
{
  uint64_t limit = policy.limits.output_bytes;
  return policy.closed && limit && atomic_load_explicit(&written, memory_order_relaxed) > limit;
}

capl_status capl_policy_wrote(uint64_t bytes)
{
  if (!policy.closed) return CAPL_OK;
  atomic_fetch_add_explicit(&written, bytes, memory_order_relaxed);
  if (!capl_policy_output_over()) return CAPL_OK;
  double limit = (double)policy.limits.output_bytes;
  CAPL_FAIL(CAPL_EIO, "the recipe has printed and written more than %.3g %s", limit / (limit >= 1e9 ? 1e9 : 1e6),
            limit >= 1e9 ? "GB" : "MB");
  capl_error_hint("--- needs: output=SIZE in the recipe's header asks for more");
  return CAPL_EIO;
}

void capl_policy_each(void (*f)(void *user, const char *path, int rights), void *user)
{
  for (int i = 0; i < policy.count; i++) f(user, policy.grants[i].path, policy.grants[i].rights);
}

/* ---- checking -------------------------------------------------------------------------------- */

bool capl_policy_is_below(const char *path, const char *folder)
{
  size_t n = strlen(folder);
  if (strcmp(folder, "/") == 0) return true;
  return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

bool capl_policy_is_too_wide(const char *real)
{
  const char *const homes[] = {capl_home_named(), capl_home_listed()},
  *const shared[] = {"/tmp", "/var/tmp", "/dev/shm"};
  char home[CAPL_POLICY_PATH];
  for (int i = 0; i < 2; i++)
    if (homes[i] && capl_policy_resolve(homes[i], home) == CAPL_OK && capl_policy_is_below(home, real)) return true;
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
    if (capl_policy_is_below(shared[i], real)) return true;
  return false;
}

static int rights_to(const char *real)
{
  int rights = 0;
  for (int i = 0; i < policy.count; i++)
    if (capl_policy_is_below(real, policy.grants[i].path)) rights |= policy.grants[i].rights;
  return rights;
}

bool capl_policy_would_allow(const char *real, int rights) { return (rights & ~rights_to(real)) == 0; }

/* "a, b, c" of what may be read or written; what does not fit is counted. */
static void list_allowed(int right, char *to, size_t room)
{
  size_t used = 0;
  int left = 0;
  to[0] = '\0';
  for (int i = 0; i < policy.count; i++) {
    const char *path = policy.grants[i].path;
    if (!(policy.grants[i].rights & right) || policy.grants[i].rights & CAPL_MAY_QUIETLY) continue;
    if (left > 0 || used + strlen(path) + 24 > room) left++;
    else used += (size_t)snprintf(to + used, room - used, "%s%s", used ? ", " : "", path);
  }
  if (left > 0) snprintf(to + used, room - used, "%s%d more", used ? " and " : "", left);
  if (!*to) snprintf(to, room, "nothing");
}

static capl_status refuse(const char *path, const char *real, int wanted)
{
  char allowed[SHOWN];
  bool writes = wanted & CAPL_MAY_WRITE, leads = strcmp(path, real) != 0;
  list_allowed(writes ? CAPL_MAY_WRITE : CAPL_MAY_READ, allowed, sizeof allowed);
  CAPL_FAIL(CAPL_EIO, "this recipe may not %s %.300s%s%.300s%s", writes ? "write" : "read", path,
            leads ? " (that is " : "", leads ? real : "", leads ? ")" : "");
  capl_error_context("it may %s: %s", writes ? "write" : "read", allowed);
  if (writes) capl_error_hint("write into the run's folder, which capl.run_folder() names; --out=FILE on the command "
                              "line names another "
                              "place where a command has it; --trust before the command runs your own recipe without "
                              "the sandbox");
  else capl_error_hint("name the folder on the command line, as in --data=DIR, or in the recipe's header: --- needs: "
                       "read=FOLDER; "
                       "--trust before the command runs your own recipe without the sandbox");
  return CAPL_EIO;
}

capl_status capl_policy_opened(int fd, const char *path)
{
  char name[40], real[CAPL_POLICY_PATH];
  int cause = errno;
  if (!policy.closed) return CAPL_OK;
  if (fd < 0) { /* who is not let in learns why */
    capl_status status = cause == EACCES ? capl_policy_check(path, CAPL_MAY_READ) : CAPL_OK;
    return errno = cause, status;
  }
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(name, real, sizeof real);
  if (n <= 0 || n == sizeof real) return capl_policy_check(path, CAPL_MAY_READ);
  real[n] = '\0';
  return rights_to(real) & CAPL_MAY_READ ? CAPL_OK : refuse(path, real, CAPL_MAY_READ);
}

capl_status capl_policy_check(const char *path, int rights)
{
  char real[CAPL_POLICY_PATH];
  if (!policy.closed) return CAPL_OK;
  CAPL_TRY(capl_policy_resolve(path, real));
  int missing = rights & ~rights_to(real);
  return missing ? refuse(path, real, missing) : CAPL_OK;
}
