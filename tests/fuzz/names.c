/* names.c -- fuzz target: any names of image files, and any rule for their labels. The input is flags, rule, charset, names,
** with NUL between them. SPDX-License-Identifier: Apache-2.0
*/
#include "library.h"

#include <errno.h>

enum { NAMES = 24, BYTES = 60, TRIES = 4 };

/* What a rule reads of a name is the label, and "auto" finds the same rule again. */
static const char reader[] =
  "local core, require = ...\n"
  "local data, files, guess = require 'data', require 'data.files', require 'data.guess'\n"
  "local folder = FOLDER\n"
  "local dir, list = folder .. '/names', folder .. '/a.txt'\n"
  "local labels = {'auto', false, 'folder', nil, 'auto', false, false}\n"
  "local lengths = {'auto', 4, {1, 8}, {2, 32}}\n"
  "local function options(flags, rule, charset)\n"
  "  local label = labels[flags % 8 + 1]\n"
  "  if label == false then label = rule end\n"
  "  if flags % 8 == 5 then return {label = label, classes = {'a', 'AB'}, several = true} end\n"
  "  if flags % 8 == 6 then return {label = label, classes = {'1'}} end\n"
  "  if flags % 8 == 2 and flags >= 128 then return {label = label, classes = 'auto'} end\n"
  "  if flags >= 128 then core.sys.write(list, charset) end\n"
  "  return {label = label, charset = flags >= 128 and '@' .. list or charset ~= '' and charset or 'auto',\n"
  "    length = lengths[math.floor(flags / 8) % 4 + 1], case = flags % 64 >= 32 and 'lower' or nil, fold_width = flags % 128 >= 64}\n"
  "end\n"
  "local function check(source, o)\n"
  "  local bad, rule = {}, source.label\n"
  "  for _, one in ipairs(source.bad) do bad[one.id] = #one.message > 0 end\n"
  "  for i = 0, source:count() - 1 do\n"
  "    local text, read = source:text(i), guess.text(rule, source:name(i))\n"
  "    if not bad[i] and text ~= read then error(('%s is %s, not %s'):format(source:name(i), text, read), 0) end\n"
  "  end\n"
  "  if source.names and o.charset == 'auto' and guess.rule(source) ~= rule then error('another rule', 0) end\n"
  "end\n"
  "return function(text)\n"
  "  local rule, charset = text:match('^.([^%z]*)%z([^%z]*)')\n"
  "  if text:byte() % 8 == 7 then files.read_texts(data.folder(dir, {}), rule ~= '' and rule or 'any')\n"
  "  else\n"
  "    local o = options(text:byte(), rule, charset)\n"
  "    check(data.folder(dir, o), o)\n"
  "  end\n"
  "end\n";

/* ---- files of these names -------------------------------------------------------------------- */

static struct { char path[NAMES][192]; int count; } made;

static bool is_part(const char *name, size_t bytes)
{
  return bytes > 0 && bytes <= BYTES && !memchr(name, '/', bytes) && !(bytes <= 2 && strncmp(name, "..", bytes) == 0);
}

/* "b/a": the file b/a.png; the rest of a name with more slashes is left out. */
static void make_file(const char *folder, const char *name)
{
  const char *slash = strchr(name, '/'), *base = slash ? slash + 1 : name;
  size_t bytes = strcspn(base, "/");
  char parent[160], first[96];
  if ((slash && !is_part(name, (size_t)(slash - name))) || !is_part(base, bytes)) return;
  snprintf(parent, sizeof parent, "%s/names/%.*s", folder, slash ? (int)(slash - name) : 0, name);
  snprintf(first, sizeof first, "%s/AB_1.png", folder);
  char *path = made.path[made.count];
  snprintf(path, sizeof made.path[0], "%s/%.*s.png", parent, (int)bytes, base);
  mkdir(parent, 0700);
  if (link(first, path) == 0) made.count++;
  else FUZZ_CHECK(errno == EEXIST || errno == ENOTDIR || errno == ENOENT); /* the same again, or below a.png */
}

static void remove_files(const char *folder)
{
  char names[96];
  for (int i = 0; i < made.count; i++) {
    unlink(made.path[i]);
    *strrchr(made.path[i], '/') = '\0';
    rmdir(made.path[i]);
  }
  snprintf(names, sizeof names, "%s/names", folder);
  FUZZ_CHECK(rmdir(names) == 0 || errno == ENOENT);
}

static void make_files(const char *folder, const char *text, const char *end)
{
  char names[96];
  snprintf(names, sizeof names, "%s/names", folder);
  FUZZ_CHECK(mkdir(names, 0700) == 0);
  for (made.count = 0; text < end && made.count < NAMES; text += strlen(text) + 1) make_file(folder, text);
}

static const char *folder_with_image(void)
{
  static const uint8_t pixels[4 * 2];
  char path[96];
  const char *folder = fuzz_folder();
  snprintf(path, sizeof path, "%s/AB_1.png", folder);
  FUZZ_CHECK(capl_png_write(path, pixels, 4, 2, 1) == CAPL_OK);
  return folder;
}

/* A pattern that tries all ways to cut a name takes hours by itself, whoever gives it. */
static bool takes_long(const char *rule)
{
  int tries = 0;
  for (const char *p = rule; *p; p++) tries += strchr("*+-", *p) != NULL;
  return tries > TRIES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static lua_State *L;
  static const char *folder;
  if (!L) L = library_open_in(reader, folder = folder_with_image());
  if (size < 3 || !memchr(data + 1, '\0', size - 1)) return 0;
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  const char *charset = text + 1 + strlen(text + 1) + 1, *end = text + size;
  if (!takes_long(text + 1) && charset < end) {
    make_files(folder, charset + strlen(charset) + 1, end);
    library_call(L, data, size);
    remove_files(folder);
  }
  free(text);
  return 0;
}
