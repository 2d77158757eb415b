/* grants.c -- the policy of a recipe: what it gets unasked, what the user's own words add, and what its header asks for.
**
** Unasked: to read the folder it lies in, fonts, and what the words of the command line name; to write the runs below the
** working folder, the file of --out, and a cache of its own. A folder that holds the user's home is never given away
** as a whole: who keeps a recipe there gives it itself, and the recipes beside it.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "grants.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/places.h"
#include "base/text.h"
#include "sandbox/policy.h"

enum { READ_WRITE = CAPL_MAY_READ | CAPL_MAY_WRITE, BESIDES = 64 };
static const double GB = 1e9, DAY = 86400;

static bool made_runs; /* here, for this job */
static char own_cache[CAPL_POLICY_PATH]; /* of the recipe */

/* ---- paths ------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether a resolved folder has the home of the user, or what everybody has put down for a while. */
static bool is_too_wide(const char *real)
{
  char other[CAPL_POLICY_PATH];
  const char *home = getenv("HOME"), *shared[] = {"/tmp", "/var/tmp", "/dev/shm"};
  if (home && *home && capl_policy_resolve(home, other) == CAPL_OK && capl_policy_is_below(other, real)) return true;
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
    if (capl_policy_is_below(shared[i], real)) return true;
  return false;
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
  const char *home = getenv("HOME");
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
  if (!is_too_wide(folder)) return capl_policy_grant(folder, CAPL_MAY_READ);
  CAPL_TRY(capl_policy_grant(recipe, CAPL_MAY_READ));
  return give_recipes_of(folder);
}

/* What tells of the machine: run's headers and monitors are drawn from it, and it tells of nobody. */
static capl_status give_machine(void)
{
  static const char *const files[] = {"/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/stat", "/proc/driver/nvidia",
                                      "/sys/devices", "/sys/class", "/sys/fs/cgroup", "/dev/null",
                                      "/proc/sys/kernel/random/boot_id"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) CAPL_TRY(capl_policy_grant(files[i], CAPL_MAY_READ | CAPL_MAY_QUIETLY));
  return CAPL_OK;
}

static capl_status give_fonts(void)
{
  static const char *const places[] = {"/usr/share/fonts", "/usr/local/share/fonts"}, *const names[] = {"CAPL_FONT", "CAPL_FONTS"};
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

/* Whether the job leaves a run: capl run, and capl bench --logging, which measures a whole one. */
static bool makes_run(const capl_job *job)
{
  if (strcmp(job->command, "run") == 0) return true;
  for (int i = 0; strcmp(job->command, "bench") == 0 && i < job->argc; i++)
    if (strcmp(job->argv[i], "--logging") == 0) return true;
  return false;
}

/* What a recipe gets unasked is what its name says: a link may have come with the recipe, and lead into the user's home. */
static capl_status no_link(const char *name)
{
  struct stat st;
  char real[CAPL_POLICY_PATH], here[CAPL_POLICY_PATH];
  if (lstat(name, &st) != 0 || !S_ISLNK(st.st_mode)) return CAPL_OK;
  CAPL_TRY(capl_policy_resolve(name, real));
  CAPL_TRY(capl_policy_resolve(".", here));
  if (capl_policy_is_below(real, here) && strcmp(real, here) != 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "%s is a link that leads to %s: a recipe would write there", name, real);
  capl_error_hint("take it away if you have not made it; run where %s is none, or trust the recipe: capl --trust …", name);
  return CAPL_EVALUE;
}

/* The folder of all runs. A run makes it; behind the wall it has to be there. */
static capl_status give_runs(const capl_job *job)
{
  const char *given = getenv("CAPL_RUN_FOLDER"), *arm = getenv("CAPL_BENCH_ARM");
  char folder[CAPL_POLICY_PATH];
  if (makes_run(job) && !given && mkdir("runs", 0777) == 0) made_runs = true;
  CAPL_TRY(no_link("runs"));
  CAPL_TRY(capl_policy_grant("runs", READ_WRITE));
  if (given && *given) CAPL_TRY(capl_policy_grant(given, READ_WRITE | CAPL_MAY_BESIDE)); /* of a trial, which a sweep has chosen */
  if (!arm || !*arm) return CAPL_OK;
  CAPL_TRY(folder_of(arm, folder)); /* where capl bench --ab talks with its arms */
  return capl_policy_grant(folder, READ_WRITE);
}

/* A folder of its own for each recipe: what one leaves there no other one is trained with. By its place, not by its text: it
** stays the same recipe while it is written. */
static capl_status give_cache(const char *recipe)
{
  char real[CAPL_POLICY_PATH], name[32], path[CAPL_POLICY_PATH];
  uint64_t hash = 14695981039346656037u;
  CAPL_TRY(capl_policy_resolve(recipe, real));
  for (const char *p = real; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
  snprintf(name, sizeof name, "recipes/%016" PRIx64, hash);
  if (!capl_place("XDG_CACHE_HOME", ".cache", name, path, sizeof path)) return CAPL_OK;
  capl_place_make_above(path);
  mkdir(path, 0700);
  strcpy(own_cache, path);
  setenv("CAPL_RECIPE_CACHE", path, 1);
  return capl_policy_grant(path, READ_WRITE | CAPL_MAY_QUIETLY);
}

/* Files without a name, which are gone when they are closed: the user's own folder among those of others. */
static capl_status give_temporary(void)
{
  char path[CAPL_POLICY_PATH];
  struct stat st;
  const char *base = getenv("TMPDIR");
  snprintf(path, sizeof path, "%.4000s/capl-%u", base && *base ? base : "/var/tmp", (unsigned)geteuid());
  mkdir(path, 0700);
  bool own = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
  if (!own) return CAPL_OK;
  setenv("CAPL_TEMPORARY", path, 1);
  return capl_policy_grant(path, READ_WRITE | CAPL_MAY_QUIETLY);
}

/* ---- the user's words -------------------------------------------------------------------------- */

/* Each part of a value that is there: a folder, or files of a list; what is not there, too, where it can only be a path: that
** it is missing is to be said, not that it is forbidden. */
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

/* A list of files that the user names is of a set that lies around it. Lines that lead elsewhere are the list's word, not
** the user's. */
static capl_status give_set_of(const char *list)
{
  static const char *const ends[] = {".txt", ".tsv", ".csv", ".jsonl", ".ndjson"};
  char folder[CAPL_POLICY_PATH];
  const char *end = strrchr(list, '.');
  for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++) {
    if (strcasecmp(end, ends[i]) != 0 || access(list, R_OK) != 0 || is_folder(list)) continue;
    CAPL_TRY(folder_of(list, folder));
    return is_too_wide(folder) ? CAPL_OK : capl_policy_grant(folder, CAPL_MAY_READ);
  }
  return CAPL_OK;
}

static capl_status give_output(const char *path)
{
  char folder[CAPL_POLICY_PATH];
  if (is_folder(path)) return capl_policy_grant(path, READ_WRITE);
  CAPL_TRY(folder_of(path, folder));
  if (!is_too_wide(folder)) return capl_policy_grant(path, READ_WRITE | CAPL_MAY_BESIDE);
  CAPL_FAIL(CAPL_EVALUE, "%s would be written into %s itself, where a recipe may not make files", path, folder);
  capl_error_hint("name a folder below it, as in --out=pictures/NAME.png, or trust the recipe: capl --trust …");
  return CAPL_EVALUE;
}

/* A run elsewhere that goes on, or one of its checkpoints: runs/NAME/checkpoints/FILE. */
static capl_status give_resumed(const char *path)
{
  char folder[CAPL_POLICY_PATH];
  if (is_folder(path)) return is_too_wide(path) ? CAPL_OK : capl_policy_grant(path, READ_WRITE);
  if (access(path, F_OK) != 0) return CAPL_OK;
  CAPL_TRY(folder_of(path, folder));
  char *last = strrchr(folder, '/');
  if (strcmp(last, "/checkpoints") == 0 && last > folder) *last = '\0';
  return is_too_wide(folder) ? CAPL_OK : capl_policy_grant(folder, READ_WRITE);
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
  if (n == 6 && strncmp(key, "resume", n) == 0) CAPL_TRY(give_resumed(value));
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
  const char *name = strcmp(job->command, "preview") == 0 ? "preview.png" : strcmp(job->command, "lr") == 0 ? "lr.png" : NULL;
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

typedef struct {
  char *text;
  size_t room, used;
  int count;
} words;

static capl_status add_foreign(void *user, const char *path)
{
  words *w = user;
  char real[CAPL_POLICY_PATH], shown[512];
  CAPL_TRY(capl_policy_resolve(path, real));
  if (capl_policy_would_allow(real, CAPL_MAY_READ)) return CAPL_OK;
  capl_text_show(shown, sizeof shown, real, false);
  int n = snprintf(w->text + w->used, w->room - w->used, "%s%s", w->count++ ? ", " : "to read ", shown);
  w->used += (size_t)n < w->room - w->used ? (size_t)n : w->room - w->used - 1;
  return CAPL_OK;
}

static void add(words *w, const char *fmt, double amount)
{
  if (w->used + 64 > w->room) return;
  if (w->count++) w->used += (size_t)snprintf(w->text + w->used, w->room - w->used, "; ");
  w->used += (size_t)snprintf(w->text + w->used, w->room - w->used, fmt, amount);
}

bool grants_exceed(const capl_job *job, char *needs, size_t room)
{
  words w = {.text = needs, .room = room};
  *needs = '\0';
  if (each_read(job, add_foreign, &w) != CAPL_OK) add(&w, "to read folders whose names cannot be resolved", 0);
  if (job->header.minutes * 60 > CAPL_LIMIT_DAYS * DAY) add(&w, "to run for %.3g days", job->header.minutes * 60 / DAY);
  if (job->header.output > CAPL_LIMIT_OUTPUT_GB * GB) add(&w, "to write up to %.4g GB", job->header.output / GB);
  return w.count > 0;
}

static capl_status give_read(void *user, const char *path)
{
  (void)user;
  return capl_policy_grant(path, CAPL_MAY_READ);
}

static void set_limits(const capl_job *job, bool header)
{
  double output = CAPL_LIMIT_OUTPUT_GB * GB, memory = job->header.memory, lua = CAPL_LIMIT_LUA_GB * GB;
  if (job->header.output > 0 && (header || job->header.output < output)) output = job->header.output;
  if (memory > 0 && memory < lua) lua = memory;
  capl_policy_set_limits(&(capl_limits){.lua_bytes = (uint64_t)lua, .tensor_bytes = (uint64_t)memory,
                                        .seconds = job->header.minutes * 60, .output_bytes = (uint64_t)output});
}

/* ---- all of it --------------------------------------------------------------------------------- */

bool grants_wanted(const capl_job *job)
{
  const char *said = getenv("CAPL_SANDBOX"); /* what the capl that starts this one was told */
  return job->recipe && !job->trusted && !(said && strcmp(said, "trust") == 0);
}

capl_status grants_give(const capl_job *job, bool header)
{
  if (header) return set_limits(job, true), each_read(job, give_read, NULL);
  CAPL_TRY(give_recipe(job->recipe));
  CAPL_TRY(give_runs(job));
  CAPL_TRY(give_words(job));
  CAPL_TRY(give_fonts());
  CAPL_TRY(give_library());
  CAPL_TRY(give_machine());
  CAPL_TRY(give_cache(job->recipe));
  CAPL_TRY(give_temporary());
  set_limits(job, false);
  return CAPL_OK;
}

void grants_tidy(void)
{
  if (made_runs) rmdir("runs"); /* only empty ones go */
  if (*own_cache) rmdir(own_cache);
}
