/* hash.c -- SHA-256 of files, for capl's own Lua library: without following links, and without holding a file in
** memory. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sha256.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "bind/core/core.h"
#include "bind/core/sys.h"
#include "sandbox/policy.h"

enum { PIECE = 1 << 16 };

static int refuse(lua_State *L, const char *why)
{
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* Opens a/b/c step by step below a folder; no step may be a link. -1 with errno: ELOOP for a link. */
static int open_below(const char *folder, const char *name)
{
  char part[NAME_MAX + 1];
  int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (const char *slash; at >= 0; name = slash + 1) {
    slash = strchrnul(name, '/');
    size_t n = (size_t)(slash - name);
    if (n > NAME_MAX) return close(at), errno = ENAMETOOLONG, -1;
    memcpy(part, name, n), part[n] = '\0';
    int flags = *slash ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    struct stat info;
    bool link = fstatat(at, part, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
    int next = link ? -1 : openat(at, part, flags | O_NOFOLLOW | O_CLOEXEC), cause = link ? ELOOP : errno;
    close(at);
    at = next, errno = cause;
    if (!*slash) return at;
  }
  return -1;
}

/* Why reading ended, NULL = at the end of the file. */
static const char *hash_file(int fd, SHA256_CTX *hash, double *bytes)
{
  static uint8_t piece[PIECE]; /* one thread runs Lua */
  for (ssize_t n; (n = read(fd, piece, sizeof piece)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return capl_errno_text(errno);
    if (capl_interrupt_pending()) return "stopped";
    SHA256Update(hash, piece, (size_t)n);
    *bytes += (double)n;
  }
  return NULL;
}

/* sha256_file(folder, name) -> 64 hexadecimal digits, bytes of the file below the folder; or nil and why not: it "is
** missing", "is a link" … */
static int sys_sha256_file(lua_State *L)
{
  const char *folder = bind_check_path(L, 1, CAPL_MAY_READ), *name = bind_check_string(L, 2);
  struct stat info;
  int fd = open_below(folder, name);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return refuse(L, "is missing");
  if (fd < 0) return refuse(L, errno == ELOOP ? "is a link, or is behind one" : capl_errno_text(errno));
  SHA256_CTX hash;
  char digest[SHA256_DIGEST_STRING_LENGTH];
  double bytes = 0;
  SHA256Init(&hash);
  const char *why = fstat(fd, &info) != 0 ? capl_errno_text(errno) : S_ISDIR(info.st_mode) ? "is a folder"
      : !S_ISREG(info.st_mode) ? "is no file" : NULL;
  if (!why) why = hash_file(fd, &hash, &bytes);
  close(fd);
  if (why) return refuse(L, why);
  SHA256End(&hash, digest);
  lua_pushstring(L, digest);
  lua_pushnumber(L, bytes);
  return 2;
}

/* real(path) -> the path without links, "." and ".."; nil when there is nothing */
static int sys_real(lua_State *L)
{
  char *path = realpath(bind_check_path(L, 1, CAPL_MAY_READ), NULL);
  if (!path) return 0;
  lua_pushstring(L, path);
  free(path);
  return 1;
}

void capl_sys_add_hashes(lua_State *L)
{
  static const luaL_Reg functions[] = {{"sha256_file", sys_sha256_file}, {"real", sys_real}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
