/* embed.c -- a program of the build: writes a C file with every Lua file of the library, as text and as bytecode.
**
** embed OUTPUT ROOT FILE...: capl_embedded[] = {path, text, length, code, code_length}. NAME=FILE is a file that lies
** elsewhere. It is linked with the LuaJIT that capl is linked with, and writes that one's version beside the bytecode,
** which another version may not read. The bytecode keeps its line numbers and names: tracebacks and error_call.c need
** them. Docstrings are read from the text. SPDX-License-Identifier: Apache-2.0
*/
#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

static FILE *out;

static bool fail(const char *file, const char *why)
{
  fprintf(stderr, "embed: %s: %s\n", file, why);
  return false;
}

/* As string literals: gcc reads them ten times as fast as lists of numbers. */
static void write_bytes(const char *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (i % 64 == 0) fputs(i ? "\"\n\"" : "\"", out);
    if (c < ' ' || c > '~' || strchr("\"\\?", c)) fprintf(out, "\\%03o", c);
    else putc(c, out);
  }
  fputs(n ? "\"\n" : "\"\"\n", out);
}

static int write_code(lua_State *L, const void *piece, size_t n, void *user)
{
  (void)L;
  *(size_t *)user += n;
  return write_bytes(piece, n), 0; /* pieces in turn are one literal */
}

/* Leaves the lengths of both in sizes. */
static bool write_arrays(lua_State *L, int number, const char *path, const char *text, size_t sizes[2])
{
  char chunk[288];
  snprintf(chunk, sizeof chunk, "@capl:%s", path);
  fprintf(out, "static const char text_%d[] =\n", number);
  write_bytes(text, sizes[0]);
  if (luaL_loadbufferx(L, text, sizes[0], chunk, "t") != 0) return fail(path, lua_tostring(L, -1));
  fprintf(out, ";\nstatic const char code_%d[] =\n", number);
  lua_dump(L, write_code, &sizes[1]);
  lua_pop(L, 1);
  return fprintf(out, ";\n") > 0;
}

/* Cuts NAME=FILE behind the name. */
static bool read_text(const char *root, char *path, char *text, size_t *n)
{
  char file[4096], *elsewhere = strchr(path, '=');
  if (elsewhere) snprintf(file, sizeof file, "%s", elsewhere + 1), *elsewhere = '\0';
  else snprintf(file, sizeof file, "%s/%s", root, path);
  FILE *f = fopen(file, "rb");
  if (!f) return fail(file, "cannot be read");
  *n = fread(text, 1, MOST, f);
  fclose(f);
  return *n < MOST || fail(file, "is too large");
}

static bool write_all(lua_State *L, const char *root, int n, char **paths, char *text)
{
  size_t (*sizes)[2] = calloc((size_t)n + 1, sizeof *sizes);
  bool good = sizes != NULL;
  fprintf(out, "/* Made by embed.c from lua/capl. */\n#include \"bind/core/embedded.h\"\n\n");
  for (int i = 0; good && i < n; i++)
    good = read_text(root, paths[i], text, &sizes[i][0]) && write_arrays(L, i, paths[i], text, sizes[i]);
  fprintf(out, "const char capl_embedded_luajit[] = \"%s\";\nconst capl_embedded_file capl_embedded[] = {\n",
          LUAJIT_VERSION);
  for (int i = 0; good && i < n; i++)
    fprintf(out, "  {\"%s\", text_%d, %zu, code_%d, %zu},\n", paths[i], i, sizes[i][0], i, sizes[i][1]);
  fprintf(out, "  {0, 0, 0, 0, 0}};\nconst int capl_embedded_count = %d;\n", n);
  free(sizes);
  return good;
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(int argc, char **argv)
{
  if (argc < 4) return fprintf(stderr, "usage: embed OUTPUT ROOT FILE...\n"), 2;
  qsort(argv + 3, (size_t)argc - 3, sizeof *argv, compare);
  char *text = malloc(MOST);
  lua_State *L = luaL_newstate();
  out = fopen(argv[1], "wb");
  /* Not collected: lua_dump of some LuaJIT writes the key of {x = nil}, a string that may have been freed by then. */
  if (L) lua_gc(L, LUA_GCSTOP, 0);
  bool good = text && L && (out || fail(argv[1], "cannot be written"))
      && write_all(L, argv[2], argc - 3, argv + 3, text);
  if (out && fclose(out) != 0) good = fail(argv[1], "cannot be written");
  if (!good && out) remove(argv[1]);
  if (L) lua_close(L);
  free(text);
  return good ? 0 : 1;
}
