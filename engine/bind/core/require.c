/* require.c -- require "name" in recipes: the text file name.lua beside the recipe or below, read once.
**
** Files are opened beneath the recipe's folder by the system itself, so that no link in it leads elsewhere. A module's
** value, true without one, is kept by name. Registry: "capl.folder" the folder, "capl.required" the values.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "bind/core/core.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

#define FOLDER "capl.folder"
#define REQUIRED "capl.required"

enum { NAME_MOST = 200, TEXT_MOST = 16 << 20 };

void capl_bind_recipe_folder(lua_State *L, const char *recipe)
{
  const char *slash = recipe ? strrchr(recipe, '/') : NULL;
  if (slash) lua_pushlstring(L, recipe, slash == recipe ? 1 : (size_t)(slash - recipe));
  else lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, FOLDER);
}

/* The folder as the user wrote it, "" when files are beside where capl was started. Pushed. */
static const char *push_folder(lua_State *L)
{
  lua_getfield(L, LUA_REGISTRYINDEX, FOLDER);
  if (lua_isnil(L, -1)) lua_pop(L, 1), lua_pushliteral(L, "");
  return lua_tostring(L, -1);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Letters, digits, _ and -, in parts joined by single dots. */
static bool is_name(const char *name)
{
  if (strlen(name) > NAME_MOST) return false;
  for (const char *p = name; *p; p++) {
    bool part = isalnum((unsigned char)*p) || *p == '_' || *p == '-';
    if (!part && (*p != '.' || p == name || p[1] == '.' || !p[1])) return false;
  }
  return *name != '\0';
}

static int bad_name(lua_State *L, const char *name)
{
  return bind_fail(L, CAPL_EVALUE, "require", "require \"parts.net\" reads parts/net.lua beside the recipe",
                   "'%.*s' is no name of a module: letters, digits, _ and -, parts joined by dots", NAME_MOST, name);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Where this system has no openat2: every link is refused. */
static int open_without_links(int folder, const char *file)
{
  char part[NAME_MOST + 16];
  int at = dup(folder);
  for (const char *slash; at >= 0 && (slash = strchr(file, '/')); file = slash + 1) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - file), file);
    int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), cause = errno;
    close(at);
    at = next, errno = cause;
  }
  if (at < 0) return -1;
  int fd = openat(at, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), cause = errno;
  close(at);
  errno = cause;
  return fd;
}

static int open_beneath(const char *folder, const char *file)
{
  int at = open(*folder ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) return -1;
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  int fd = (int)syscall(SYS_openat2, at, file, &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = open_without_links(at, file);
  int cause = errno;
  close(at);
  errno = cause;
  return fd;
}

static int cannot_read(lua_State *L, const char *folder, const char *file, const char *why)
{
  return bind_fail(L, CAPL_EIO, "require", NULL, "cannot read %s%s%s: %s", folder, *folder ? "/" : "", file, why);
}

/* Pushes all of an open file; closes it. */
static void push_text(lua_State *L, int fd, const char *folder, const char *file)
{
  struct stat info;
  const char *why = NULL;
  size_t n = 0;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) why = "it is no file";
  else if (info.st_size > TEXT_MOST) why = "it is too large for a text of Lua";
  if (why) close(fd), cannot_read(L, folder, file, why);
  char *text = lua_newuserdata(L, (size_t)info.st_size + 1);
  for (ssize_t got; n < (size_t)info.st_size && (got = read(fd, text + n, (size_t)info.st_size - n)) > 0;)
    n += (size_t)got;
  close(fd);
  lua_pushlstring(L, text, n);
  lua_remove(L, -2);
}

/* Pushes the text of the module and sets file: "a.b" is a/b.lua or a/b/init.lua. */
static void find_text(lua_State *L, const char *folder, const char *name, char *file, size_t room)
{
  static const char *const forms[] = {"%s.lua", "%s/init.lua"};
  char path[NAME_MOST + 1];
  snprintf(path, sizeof path, "%s", name);
  for (char *p = path; *p; p++)
    if (*p == '.') *p = '/';
  for (int i = 0; i < 2; i++) {
    snprintf(file, room, forms[i], path);
    int fd = open_beneath(folder, file);
    if (fd >= 0) return push_text(L, fd, folder, file);
    if (errno == EXDEV || errno == ELOOP) cannot_read(L, folder, file, "a link in it leads out of the recipe's folder");
    if (errno != ENOENT && errno != ENOTDIR) cannot_read(L, folder, file, capl_errno_text(errno));
  }
  bind_fail(L, CAPL_EIO, "require",
            "a recipe's modules are text files beside it; io, os, ffi and debug do not exist in recipes",
            "there is no module '%s': neither %s.lua nor %s/init.lua is in %s", name, path, path,
            *folder ? folder : "this folder");
}

/* ---- require --------------------------------------------------------------------------------- */

/* Runs the text on top in the recipe's environment; pushes its value. */
static void run_text(lua_State *L, const char *folder, const char *file, const char *name)
{
  size_t n;
  const char *text = lua_tolstring(L, -1, &n);
  bind_used_module(L, file, text, n);
  lua_pushfstring(L, *folder ? "@%s/%s" : "@%s%s", folder, file);
  if (luaL_loadbufferx(L, text, n, lua_tostring(L, -1), "t") != 0) lua_error(L);
  capl_bind_environment(L);
  lua_setfenv(L, -2);
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

/* Pushes the table of values. */
static void push_required(lua_State *L)
{
  lua_getfield(L, LUA_REGISTRYINDEX, REQUIRED);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, REQUIRED);
}

/* The name of a module while it runs: whoever requires it then requires himself. A light userdata is no value of
** Lua's. */
static void set_running(lua_State *L, const char *name, bool running)
{
  if (running) lua_pushlightuserdata(L, (void *)REQUIRED);
  else lua_pushnil(L);
  lua_setfield(L, 2, name);
}

static int run_protected(lua_State *L, const char *name)
{
  char file[NAME_MOST + 16];
  const char *folder = push_folder(L);
  find_text(L, folder, name, file, sizeof file);
  run_text(L, folder, file, name);
  return 1;
}

static int call_run(lua_State *L) { return run_protected(L, lua_tostring(L, 1)); }

int bind_recipe_require(lua_State *L)
{
  const char *name = bind_check_string(L, 1);
  lua_settop(L, 1);
  if (strcmp(name, "capl") == 0) return capl_bind_environment(L), lua_getfield(L, -1, "capl"), 1;
  if (!is_name(name)) return bad_name(L, name);
  push_required(L);
  lua_getfield(L, 2, name);
  if (lua_islightuserdata(L, -1))
    return bind_fail(L, CAPL_ESTATE, "require", NULL, "module '%s' requires itself", name);
  if (!lua_isnil(L, -1)) return 1;
  set_running(L, name, true);
  lua_pushcfunction(L, call_run);
  lua_pushvalue(L, 1);
  int failed = lua_pcall(L, 1, 1, 0);
  set_running(L, name, false);
  if (failed) return lua_error(L);
  if (lua_isnil(L, -1)) lua_pop(L, 1), lua_pushboolean(L, true);
  lua_pushvalue(L, -1);
  lua_setfield(L, 2, name);
  return 1;
}
