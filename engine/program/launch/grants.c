/* grants.c -- the policy of a recipe: what it gets unasked, what the user's own words add, and what its header asks
** for.
**
** Unasked: to read the folder it lies in, runs, fonts, and what the words of the command line name; to write the folder
** of its own run, the file of --out, a cache and temporary files of its own. A folder that holds the user's home is
** never given away as a whole: who keeps a recipe there gives it itself, and the recipes beside it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/launch/grants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sha256.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/text.h"
#include "program/attach/socket.h"
#include "sandbox/policy.h"

enum { READ_WRITE = CAPL_MAY_READ | CAPL_MAY_WRITE, BESIDES = 64 };
static const double GB = 1e9, DAY = 86400;

static char own_cache[CAPL_POLICY_PATH];     /* of the recipe */
static char own_temporary[CAPL_POLICY_PATH]; /* of the job */

/* ---- paths ------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of a path, resolved. */
static capl_status folder_of(const char *path, char *real)
{
  CAPL_TRY(capl_policy_resolve(path, real));
  char *slash = strrchr(real, '/');
  slash[slash == real] = '\0';
  return CAPL_OK;
}

/* "~/data" of a header is below the home. */
static const char *expanded(const char *path, char *room)
{
  const char *home = capl_home();
  if (strncmp(path, "~/", 2) != 0 || !home) return path;
  snprintf(room, CAPL_POLICY_PATH, "%s%s", home, path + 1);
  return room;
}

/* ---- what it gets unasked ---------------------------------------------------------------------- */

/* Of a recipe in the home itself: it, and the recipes it may require. */
static capl_status give_recipes_of(const char *folder)
{
  char path[CAPL_POLICY_PATH + 256];
  DIR *list = opendir(folder);
  int given = 0;
  for (struct dirent *e; list && given < BESIDES && (e = readdir(list));) {
    size_t n = strlen(e->d_name);
    if (e->d_name[0] == '.' || n < 5 || strcmp(e->d_name + n - 4, ".lua") != 0 || e->d_type != DT_REG) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    capl_policy_grant(path, CAPL_MAY_READ);
    given++;
  }
  if (list) closedir(list);
  return CAPL_OK;
}

static capl_status give_recipe(const char *recipe)
{
  char folder[CAPL_POLICY_PATH];
  CAPL_TRY(folder_of(recipe, folder));
  if (!capl_policy_is_too_wide(folder)) return capl_policy_grant(folder, CAPL_MAY_READ);
  CAPL_TRY(capl_policy_grant(recipe, CAPL_MAY_READ));
  return give_recipes_of(folder);
}

/* Facts about the machine, for the headers and monitors of runs; they identify no user. */
static capl_status give_machine(void)
{
  static const char *const files[] = {"/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/stat",
                                      "/proc/driver/nvidia", "/sys/devices", "/sys/class", "/sys/fs/cgroup",
                                      "/dev/null", "/proc/sys/kernel/random/boot_id"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    CAPL_TRY(capl_policy_grant(files[i], CAPL_MAY_READ | CAPL_MAY_QUIETLY));
  return CAPL_OK;
}

static capl_status give_fonts(void)
{
  static const char *const places[] = {"/usr/share/fonts", "/usr/local/share/fonts"},
  *const names[] = {"CAPL_FONT", "CAPL_FONTS"};
  for (int i = 0; i < 2; i++) {
    const char *own = getenv(names[i]);
    CAPL_TRY(capl_policy_grant(places[i], CAPL_MAY_READ | CAPL_MAY_QUIETLY));
    if (own && *own) CAPL_TRY(capl_policy_grant(own, CAPL_MAY_READ));
  }
  return CAPL_OK;
}

/* The library's own text, where somebody works on it: its modules are loaded when they are first used. */
static capl_status give_library(void)
{
  const char *own = getenv("CAPL_LUA_PATH");
  return own && *own ? capl_policy_grant(own, CAPL_MAY_READ | CAPL_MAY_QUIETLY) : CAPL_OK;
}

/* What a recipe gets unasked is what its name says: a link may have come with the recipe, and lead into the user's
** home. */
static capl_status no_link(const char *name)
{
  struct stat st;
  char real[CAPL_POLICY_PATH], here[CAPL_POLICY_PATH];
  if (lstat(name, &st) != 0 || !S_ISLNK(st.st_mode)) return CAPL_OK;
  CAPL_TRY(capl_policy_resolve(name, real));
  CAPL_TRY(capl_policy_resolve(".", here));
  if (capl_policy_is_below(real, here) && strcmp(real, here) != 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "%s is a link that leads to %s: a recipe would write there", name, real);
  capl_error_hint("take it away if you have not made it; run where %s is none, or trust the recipe: capl --trust …",
                  name);
  return CAPL_EVALUE;
}

/* Lists of GPU engines, which the user's environment names (backend/cuda/dnn.h). They are made here, since a file is
** granted by what it is, not by its name. */
static capl_status give_lists(void)
{
  static const char *const names[] = {"CAPL_DNN_ENGINES", "CAPL_DNN_PLANS", "CAPL_DNN_DEVICE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *file = getenv(names[i]);
    if (!file || !*file) continue;
    int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) close(fd);
    CAPL_TRY(capl_policy_grant(file, READ_WRITE | CAPL_MAY_QUIETLY));
  }
  return CAPL_OK;
}

/* All runs, to read: to write there is only the recipe's own, which the worker makes and grants (confine.c). */
static capl_status give_runs(void)
{
  const char *given = getenv("CAPL_RUN_FOLDER"), *variant = getenv("CAPL_BENCH_VARIANT");
  char folder[CAPL_POLICY_PATH];
  CAPL_TRY(no_link("runs"));
  CAPL_TRY(capl_policy_grant("runs", CAPL_MAY_READ));
  if (given && *given) CAPL_TRY(capl_policy_grant(given, CAPL_MAY_READ)); /* of a trial, which a sweep has chosen */
  if (!variant || !*variant) return CAPL_OK;
  CAPL_TRY(folder_of(variant, folder)); /* where capl bench --ab talks with its variants */
  return capl_policy_grant(folder, READ_WRITE);
}

/* A folder of its own for each recipe: what one leaves there no other one is trained with. By its place, not by its
** text: it stays the same recipe while it is written. */
static capl_status give_cache(const char *recipe)
{
  char real[CAPL_POLICY_PATH], name[80] = "recipes/", path[CAPL_POLICY_PATH];
  CAPL_TRY(capl_policy_resolve(recipe, real));
  /* a path that shares it with another cannot be made up */
  SHA256Data((const uint8_t *)real, strlen(real), name + strlen(name));
  unsetenv("CAPL_RECIPE_CACHE"); /* of the capl that starts this one */
  if (!capl_user_path("XDG_CACHE_HOME", ".cache", name, path, sizeof path)) return CAPL_OK;
  capl_make_parent_dirs(path);
  mkdir(path, 0700);
  strcpy(own_cache, path);
  setenv("CAPL_RECIPE_CACHE", path, 1);
  return capl_policy_grant(path, READ_WRITE | CAPL_MAY_QUIETLY);
}

/* Held by the job that made the folder, its supervisor and its workers, as long as one of them lives; where a file
** system knows no locks nobody removes it. */
static bool lock_folder(const char *path)
{
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  bool held = fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
  if (held && fstat(fd, &st) == 0 && st.st_nlink > 0 && st.st_uid == geteuid()) return true;
  if (fd >= 0) close(fd);
  return false;
}

/* What jobs have left whose supervisor was killed: folders of this kind that are empty and that nobody holds. */
static void remove_left(const char *base)
{
  char path[CAPL_POLICY_PATH + 256];
  DIR *list = opendir(base);
  for (struct dirent *e; list && (e = readdir(list));) {
    if (strncmp(e->d_name, "capl-", 5) != 0 || strlen(e->d_name) != 11) continue;
    snprintf(path, sizeof path, "%.*s/%s", CAPL_POLICY_PATH - 1, base, e->d_name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) rmdir(path);
    if (fd >= 0) close(fd);
  }
  if (list) closedir(list);
}

/* Files that are gone when they are closed: a folder that was not there before, and that no other recipe is given. */
static capl_status give_temporary(void)
{
  const char *named = getenv("TMPDIR"), *base = named && *named ? named : "/var/tmp";
  unsetenv("CAPL_TEMPORARY"); /* of the capl that starts this one */
  remove_left(base);
  for (int tries = 3; tries > 0; tries--) { /* another job may remove it before it is held */
    int n = snprintf(own_temporary, sizeof own_temporary, "%s/capl-XXXXXX", base);
    if (n >= (int)sizeof own_temporary || !mkdtemp(own_temporary)) return *own_temporary = '\0', CAPL_OK;
    if (lock_folder(own_temporary)) break;
    rmdir(own_temporary);
    *own_temporary = '\0';
  }
  if (!*own_temporary) return CAPL_OK;
  setenv("CAPL_TEMPORARY", own_temporary, 1);
  return capl_policy_grant(own_temporary, READ_WRITE | CAPL_MAY_QUIETLY);
}

/* Where another program of the user would meet what a recipe has left: other runs' sockets, and the answers to what is
** asked. */
static capl_status protect_own_folders(void)
{
  char path[CAPL_POLICY_PATH], why[ATTACH_WHY];
  for (int i = 0; i < ATTACH_FOLDERS; i++) {
    *path = '\0';
    attach_folder(i, path, false, why);
    if (*path) CAPL_TRY(capl_policy_protect(path, "the sockets of capl attach"));
  }
  if (!capl_user_path("XDG_STATE_HOME", ".local/state", "", path, sizeof path)) return CAPL_OK;
  return capl_policy_protect(path, "what was allowed to recipes");
}

/* ---- the user's words -------------------------------------------------------------------------- */

/* Each part of a value that is there: a folder, or files of a list; what is not there, too, where it can only be a
** path: that it is missing is to be said, not that it is forbidden. */
static capl_status give_value(const char *value, bool path)
{
  char list[CAPL_POLICY_PATH];
  if (!*value || strlen(value) >= sizeof list) return CAPL_OK;
  if (path || strchr(value, '/') || access(value, F_OK) == 0) return capl_policy_grant(value, CAPL_MAY_READ);
  strcpy(list, value);
  for (char *save = NULL, *part = strtok_r(list, ",;{}[]\"'", &save); part; part = strtok_r(NULL, ",;{}[]\"'", &save)) {
    part += strspn(part, " ");
    if (*part && access(part, F_OK) == 0) CAPL_TRY(capl_policy_grant(part, CAPL_MAY_READ));
  }
  return CAPL_OK;
}

/* A list of files that the user names is of a set that lies around it. Lines that lead elsewhere are the list's word,
** not the user's. */
static capl_status give_set_of(const char *list)
{
  static const char *const ends[] = {".txt", ".tsv", ".csv", ".jsonl", ".ndjson"};
  char folder[CAPL_POLICY_PATH];
  const char *end = strrchr(list, '.');
  for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++) {
    if (strcasecmp(end, ends[i]) != 0 || access(list, R_OK) != 0 || is_folder(list)) continue;
    CAPL_TRY(folder_of(list, folder));
    return capl_policy_is_too_wide(folder) ? CAPL_OK : capl_policy_grant(folder, CAPL_MAY_READ);
  }
  return CAPL_OK;
}

static capl_status give_output(const char *path)
{
  char folder[CAPL_POLICY_PATH];
  if (is_folder(path)) return capl_policy_grant(path, READ_WRITE);
  CAPL_TRY(folder_of(path, folder));
  if (!capl_policy_is_too_wide(folder)) return capl_policy_grant(path, READ_WRITE | CAPL_MAY_BESIDE);
  CAPL_FAIL(CAPL_EVALUE, "%s would be written into %s itself, where a recipe may not make files", path, folder);
  capl_error_hint("name a folder below it, as in --out=pictures/NAME.png, or trust the recipe: capl --trust …");
  return CAPL_EVALUE;
}

/* Settings that name files and folders by the habit of all recipes. */
static bool is_path(const char *key, size_t n)
{
  static const char *const keys[] = {"data", "train", "val", "test", "init_from", "resume", NULL};
  for (int i = 0; keys[i]; i++)
    if (strlen(keys[i]) == n && strncmp(key, keys[i], n) == 0) return true;
  return false;
}

static capl_status give_word(const char *key, size_t n, const char *value)
{
  if (n == 3 && strncmp(key, "out", n) == 0) return give_output(value);
  if (is_path(key, n)) CAPL_TRY(give_set_of(value));
  return give_value(value, is_path(key, n));
}

/* --key=value, --key value, value. */
static capl_status give_words(const capl_job *job)
{
  bool out = false;
  for (int i = 0; i < job->argc; i++) {
    const char *word = job->argv[i], *value = strchr(word, '=');
    if (strncmp(word, "--", 2) != 0) {
      CAPL_TRY(give_value(word, false));
      continue;
    }
    if (!value && (i + 1 == job->argc || strncmp(job->argv[i + 1], "--", 2) == 0)) continue;
    size_t n = value ? (size_t)(value - word) - 2 : strlen(word) - 2;
    CAPL_TRY(give_word(word + 2, n, value ? value + 1 : job->argv[i + 1]));
    out = out || (n == 3 && strncmp(word + 2, "out", n) == 0);
  }
  const char *name = strcmp(job->command, "preview") == 0 ? "preview.png" : strcmp(job->command, "lr") == 0 ? "lr.png"
      : NULL;
  if (out || !name) return CAPL_OK;
  CAPL_TRY(no_link(name));
  return give_output(name);
}

/* ---- the header -------------------------------------------------------------------------------- */

/* Calls f with every folder that the header names, as it is to be opened. */
static capl_status each_read(const capl_job *job, capl_status (*f)(void *user, const char *path), void *user)
{
  char list[CAPL_HEADER_TEXT], home[CAPL_POLICY_PATH];
  strcpy(list, job->header.read);
  for (char *save = NULL, *part = strtok_r(list, ",", &save); part; part = strtok_r(NULL, ",", &save))
    CAPL_TRY(f(user, expanded(part, home)));
  return CAPL_OK;
}

/* A place that the user has named, or that every recipe gets, is not asked for; one that is named twice is asked for
** once. */
static capl_status add_foreign(void *user, const char *path)
{
  grants_asked *a = user;
  char real[CAPL_POLICY_PATH];
  CAPL_TRY(capl_policy_resolve(path, real));
  if (capl_policy_would_allow(real, CAPL_MAY_READ)) return CAPL_OK;
  for (int i = 0; i < a->count; i++)
    if (strcmp(a->paths[i], real) == 0) return CAPL_OK;
  a->paths[a->count] = strdup(real); /* a header has room for fewer than GRANTS_MOST */
  return a->paths[a->count++] ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the places that the recipe asks for");
}

/* A line for each, as a terminal may show it. */
static void write_lines(const grants_asked *a, FILE *text)
{
  char shown[4 * CAPL_POLICY_PATH + 16];
  for (int i = 0; i < a->count; i++) {
    capl_text_show(shown, sizeof shown, a->paths[i], false);
    fprintf(text, "  to read %s\n", shown);
  }
  if (a->seconds > 0) fprintf(text, "  to run for %.3g days\n", a->seconds / DAY);
  if (a->output > 0) fprintf(text, "  to write up to %.4g GB\n", a->output / GB);
}

/* Of what is asked for itself, whatever of it a text shows. */
static void take_hash(grants_asked *a)
{
  SHA2_CTX context;
  SHA256Init(&context);
  for (int i = 0; i < a->count; i++) SHA256Update(&context, (const uint8_t *)a->paths[i], strlen(a->paths[i]) + 1);
  SHA256Update(&context, (const uint8_t *)&a->seconds, sizeof a->seconds);
  SHA256Update(&context, (const uint8_t *)&a->output, sizeof a->output);
  SHA256End(&context, a->sha256);
}

/* Whoever is asked must be able to see all of it at once. */
static capl_status check_readable(const capl_job *job, const grants_asked *a)
{
  if (a->count <= GRANTS_SHOWN && strlen(a->text) <= GRANTS_TEXT) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "%.1000s needs: its header asks for %d places outside its folder, more than can be shown in "
                         "one question",
            job->recipe, a->count);
  capl_error_hint("at most %d places whose paths have %d characters together are asked for; name a folder that holds "
                  "them, as in "
                  "--data=DIR, or trust the recipe: capl --trust …", GRANTS_SHOWN, GRANTS_TEXT);
  return CAPL_EVALUE;
}

static void set_limits(const capl_job *job, bool header)
{
  double output = CAPL_LIMIT_OUTPUT_GB * GB, memory = job->header.memory, lua = CAPL_LIMIT_LUA_GB * GB;
  if (job->header.output > 0 && (header || job->header.output < output)) output = job->header.output;
  if (memory > 0 && memory < lua) lua = memory;
  capl_policy_set_limits(&(capl_limits){.lua_bytes = (uint64_t)lua, .tensor_bytes = (uint64_t)memory,
                                        .seconds = job->header.minutes * 60, .output_bytes = (uint64_t)output});
}

capl_status grants_ask(const capl_job *job, grants_asked *a)
{
  size_t n;
  *a = (grants_asked){0};
  CAPL_TRY(each_read(job, add_foreign, a));
  if (job->header.minutes * 60 > CAPL_LIMIT_DAYS * DAY) a->seconds = job->header.minutes * 60;
  if (job->header.output > CAPL_LIMIT_OUTPUT_GB * GB) a->output = job->header.output;
  FILE *text = open_memstream(&a->text, &n);
  if (text) write_lines(a, text);
  if (!text || fclose(text) != 0 || !a->text)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the question what the recipe may do");
  take_hash(a);
  return check_readable(job, a);
}

capl_status grants_give_asked(const capl_job *job, const grants_asked *a)
{
  for (int i = 0; i < a->count; i++) CAPL_TRY(capl_policy_grant_resolved(a->paths[i], CAPL_MAY_READ));
  set_limits(job, true);
  return CAPL_OK;
}

void grants_forget(grants_asked *a)
{
  for (int i = 0; i < a->count; i++) free(a->paths[i]);
  free(a->text);
  *a = (grants_asked){0};
}

/* ---- all of it --------------------------------------------------------------------------------- */

bool grants_wanted(const capl_job *job)
{
  const char *said = getenv("CAPL_SANDBOX"); /* the setting of the capl that starts this one */
  return (job->recipe || job->exposed) && !job->trusted && !(said && strcmp(said, "trust") == 0);
}

capl_status grants_give(const capl_job *job)
{
  if (!job->recipe) return give_library(); /* what the command needs it opens before */
  CAPL_TRY(protect_own_folders());
  CAPL_TRY(give_recipe(job->recipe));
  CAPL_TRY(give_runs());
  CAPL_TRY(give_words(job));
  CAPL_TRY(give_fonts());
  CAPL_TRY(give_library());
  CAPL_TRY(give_lists());
  CAPL_TRY(give_machine());
  CAPL_TRY(give_cache(job->recipe));
  CAPL_TRY(give_temporary());
  set_limits(job, false);
  return CAPL_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
  (void)st, (void)kind, (void)place;
  remove(path);
  return 0;
}

/* Of a worker's word only what can be true: runs/NAME. */
static bool is_of_runs(const char *path)
{
  return strncmp(path, "runs/", 5) == 0 && path[5] != '.' && path[5] && !strchr(path + 5, '/');
}

void grants_tidy(const capl_job *job)
{
  char made[CAPL_POLICY_PATH] = "";
  if (job->run_folder) memcpy(made, job->run_folder, sizeof made - 1);
  if (is_of_runs(made) && rmdir(made) == 0) rmdir("runs"); /* only empty ones go */
  if (*own_cache) rmdir(own_cache);
  if (*own_temporary) nftw(own_temporary, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
