/* graphs.c -- what the real cuDNN makes of the engine's records on a GPU that is not there.
**
** usage: graphs STUB DEVICE.json types|kinds|alone RECORDS...
** Every record of the lists becomes a graph, by the backend's own builder, then candidates by cuDNN's heuristics for
** the described GPU, then a finished plan, saved and loaded again; what can be read back is compared with the record. A
** process of its own does a few records at a time, since cuDNN may crash; then the record is named and the next process
** goes on. "alone" is for libraries before 9.8, to which no GPU can be described: graphs without plans. Plans of
** runtime-compiled engines take up to a second, so one of each kind, or of each kind and type, is finished; of the
** others the candidates count. A line for every failure, then a summary. In a list, N stands for each of the batch
** sizes; text after # is for people. SPDX-License-Identifier: Apache-2.0
*/
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/cuda/dnn_plan.h"
#include "expect.h"

cu_context cu; /* the records' switches come from the lists */

enum { SKIPPED = 77, FILE_MAX = 1 << 20, RECORDS_MAX = 8192, OLD_CAPABILITY = 80 };

static const int batches[] = {64, 512, 1024};
enum { BATCHES = sizeof batches / sizeof *batches };

/* ---- what one record came to ------------------------------------------------------------------------- */

typedef enum { FAILED, NO_ENGINE, CANDIDATES_ONLY, PLANNED } outcome;

typedef struct {
  outcome outcome;
  bool compiled; /* the plan's engine was compiled at run time */
  int candidates;
  findings found;
} result;

static void failed(result *r, const char *what)
{
  r->outcome = FAILED;
  if (!r->found.wrong[0]) snprintf(r->found.wrong, sizeof r->found.wrong, "%s", what);
}

/* ---- one record ---------------------------------------------------------------------------------------- */

static bool is_compiled(const dnn_candidate *c) { return c->behavior & 1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION; }

/* The switches, from the engines' notes as cuDNN documents them. */
static void check_switches(const dnn_record *record, const dnn_candidates *list, result *r)
{
  bool product = record->kind == DNN_CONV || record->kind == DNN_CONV_GRAD_X || record->kind == DNN_CONV_GRAD_W;
  for (int i = 0; i < list->count; i++) {
    uint32_t notes = list->list[i].numerical;
    if (product && record->dtype == CAPL_F32 && !record->tf32 && notes & (1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE))
      failed(r, "an engine with tensor cores for f32 without tf32");
    if (record->deterministic && notes & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
      failed(r, "an engine that changes its sums for a deterministic record");
    if (product && notes & 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
      failed(r, "an engine that sums in less than f32");
    if (product && notes & 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
      failed(r, "an engine that rounds what it reads");
  }
}

/* deterministic = true must leave an engine for whatever a recipe asks. */
static void check_deterministic(const dnn_candidates *list, result *r)
{
  int steady = 0;
  for (int i = 0; i < list->count; i++)
    steady += !(list->list[i].numerical & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (list->count > 0 && steady == 0) failed(r, "every engine changes its sums: none is left for deterministic = true");
}

/* Alpha is a float, as the compute type is: cuDNN takes a double, too, and reads half of it as a float, which is 0. */
static void check_scales(const dnn_record *record, const dnn_graph *g, result *r)
{
  static const cudnnBackendAttributeName_t alpha[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA};
  if (record->kind > DNN_CONV_GRAD_W) return;
  int64_t count = 0;
  float value = 0;
  if (cudnnBackendGetAttribute(g->ops[0], alpha[record->kind], CUDNN_TYPE_FLOAT, 1, &count, &value) !=
      CUDNN_STATUS_SUCCESS || count != 1 || value != 1)
    failed(r, "alpha is no float of 1");
}

/* The plan's text says what the graph is; loaded again it is the same plan. */
static void check_text(const dnn_record *record, const dnn_target *target, const dnn_plan *plan, result *r)
{
  char *text;
  dnn_plan again;
  if (dnn_plan_save(plan, &text) != CAPL_OK) {
    failed(r, capl_error_last()->message);
    return;
  }
  expect_plan(record, strchr(text, '\n') + 1, &r->found);
  if (dnn_plan_load(text, target, &again) != CAPL_OK) failed(r, capl_error_last()->message);
  else {
    if (again.workspace != plan->workspace || again.engine != plan->engine || again.numerical != plan->numerical)
      failed(r, "a plan that was saved and loaded is another one");
    dnn_plan_free(&again);
  }
  free(text);
}

static int64_t workspace_max; /* as dnn_run.c has it on the described GPU */

static void left_out_for_workspace(const dnn_plan *plan, result *r)
{
  char text[128];
  snprintf(text, sizeof text, "engine %" PRId64 " is left out: its workspace of %" PRId64 " MiB is more than %" PRId64,
           plan->engine, plan->workspace >> 20, workspace_max >> 20);
  failed(r, text);
}

/* As dnn_run.c does it without timing: the first engine that takes the record. Its workspace must be one that dnn_run.c
** gives: what comes after it is slower, up to the fallback engines without tensor cores. */
static void finish_plan(const dnn_record *record, const dnn_candidates *list, const dnn_target *target,
                        bool may_compile, result *r)
{
  bool left_out = false;
  for (int i = 0; i < list->count; i++) {
    dnn_plan plan;
    if (is_compiled(&list->list[i]) && !may_compile) {
      left_out = true;
      continue;
    }
    if (dnn_plan_make(&list->list[i], target, &plan) != CAPL_OK) continue;
    check_text(record, target, &plan, r);
    r->outcome = PLANNED;
    r->compiled = is_compiled(&list->list[i]);
    if (plan.workspace > workspace_max) left_out_for_workspace(&plan, r);
    dnn_plan_free(&plan);
    return;
  }
  if (left_out) r->outcome = CANDIDATES_ONLY;
  else failed(r, list->count ? capl_error_last()->message : "no engine");
}

/* Before sm_80 there is no engine for norms, and next to none for bf16; the own kernels run there. */
static bool never_an_engine(const dnn_record *record, int capability)
{
  return capability < OLD_CAPABILITY && (record->kind == DNN_NORM || record->kind == DNN_NORM_GRAD);
}

static bool may_lack_engine(const dnn_record *record, int capability)
{
  return capability < OLD_CAPABILITY && record->dtype == CAPL_BF16;
}

static void check_record(const dnn_record *record, const dnn_target *target, int capability, bool may_compile,
                         result *r)
{
  dnn_graph g;
  dnn_candidates list;
  if (!dnn_supports(record)) {
    failed(r, dnn_refusal(record));
    return;
  }
  if (dnn_graph_build(&g, record, NULL) != CAPL_OK) {
    failed(r, capl_error_last()->message);
    return;
  }
  expect_descriptors(record, &g, &r->found);
  check_scales(record, &g, r);
  if (dnn_candidates_get(record, &g, target, &list) != CAPL_OK) {
    failed(r, capl_error_last()->message);
    return;
  }
  r->candidates = list.count;
  check_switches(record, &list, r);
  check_deterministic(&list, r);
  bool none = never_an_engine(record, capability);
  if (list.count == 0 && (none || may_lack_engine(record, capability))) r->outcome = NO_ENGINE;
  else if (none) failed(r, "there is an engine, which dnn_run.c does not ask for");
  else finish_plan(record, &list, target, may_compile, r);
  dnn_candidates_free(&list);
  dnn_graph_free(&g);
}

/* ---- lists ---------------------------------------------------------------------------------------------- */

static char *read_text(const char *path)
{
  FILE *f = fopen(path, "rb");
  char *text = f ? calloc(1, FILE_MAX) : NULL;
  if (!text) {
    printf("%s: %s\n", path, strerror(errno));
    exit(1);
  }
  size_t n = fread(text, 1, FILE_MAX - 1, f);
  fclose(f);
  if (n == FILE_MAX - 1) {
    printf("%s is too long\n", path);
    exit(1);
  }
  return text;
}

static dnn_record records[RECORDS_MAX];
static int n_records;

static void add_record(const char *path, const char *text)
{
  dnn_record record;
  if (dnn_parse(text, &record) != CAPL_OK) {
    printf("%s: %s: %s\n", path, text, capl_error_last()->message);
    exit(1);
  }
  for (int i = 0; i < n_records; i++)
    if (dnn_same(&records[i], &record)) return;
  if (n_records == RECORDS_MAX) {
    printf("more than %d records\n", RECORDS_MAX);
    exit(1);
  }
  records[n_records++] = record;
}

/* The line with every "=N," as a number. */
static void add_with_batch(const char *path, const char *line, int batch)
{
  char text[DNN_TEXT] = "";
  const char *at;
  while ((at = strstr(line, "=N,"))) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%.*s=%d,", (int)(at - line), line, batch);
    line = at + 3;
  }
  strncat(text, line, sizeof text - strlen(text) - 1);
  add_record(path, text);
}

static void add_list(const char *path)
{
  char *text = read_text(path), *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    line[strcspn(line, "#")] = '\0';
    if (line[strspn(line, " ")] == '\0') continue;
    if (!strstr(line, "=N,")) add_record(path, line);
    else
      for (int i = 0; i < BATCHES; i++) add_with_batch(path, line, batches[i]);
  }
  free(text);
}

/* ---- what must be refused --------------------------------------------------------------------------------- */

/* Where and in what words: by the graph's own checks, or by having no engine. rule: dnn_refusal knows it, too. */
static const struct {
  const char *text, *graph_says;
  bool rule;
} refusals[] = {
  /* an output that is a row too short; channels that do not fit; a window beyond the image */
  {"conv2d bf16 x=8,64,32,32 y=8,64,31,32 kernel=3,3 padding=1,1", "CUDNN_STATUS_BAD_PARAM", false},
  {"conv2d_grad_x f32 x=8,64,32,32 y=8,64,31,32 kernel=3,3 padding=1,1", "CUDNN_STATUS_BAD_PARAM", false},
  {"conv2d_grad_w f32 x=8,64,32,32 y=7,64,32,32 kernel=3,3 padding=1,1", "CUDNN_STATUS_BAD_PARAM", false},
  {"conv2d f32 x=8,6,8,8 y=8,4,8,8 groups=4", "", true},
  {"max_pool2d f32 x=8,8,8,8 y=8,8,3,4 kernel=2,2 stride=2,2", "CUDNN_STATUS_BAD_PARAM", false},
  /* the rules of dnn_refusal are those of the library */
  {"batch_norm bf16 x=8,20,8,8 y=8,20,8,8 running", NULL, true},
  {"batch_norm f32 x=8,10,8,8 y=8,10,8,8 running", NULL, true},
  {"batch_norm_grad f16 x=8,12,8,8 y=8,12,8,8", NULL, true},
  {"batch_norm_grad f32 x=8,33,8,8 y=8,33,8,8", NULL, true},
};

/* Kinds and types that must not get as far as cuDNN. */
static const char *const never_asked[] = {
  "conv2d f64 x=8,8,8,8 y=8,8,8,8",
  "batch_norm f64 x=8,8,8,8 y=8,8,8,8",
  "conv2d i32 x=8,8,8,8 y=8,8,8,8",
  "conv2d f32 x=0,8,8,8 y=0,8,8,8",
  "avg_pool2d f32 x=1,3,7,7 y=1,3,4,4 kernel=2,2 stride=2,2 count_pad",
};

/* Takes the place of found.wrong where cuDNN took what it must not. */
static void check_refusal(const dnn_record *record, const dnn_target *target, const char *graph_says, result *r)
{
  dnn_graph g;
  dnn_candidates list;
  capl_status status = dnn_graph_build(&g, record, NULL);
  r->outcome = NO_ENGINE;
  if (status != CAPL_OK && graph_says && strstr(capl_error_last()->message, graph_says)) return;
  if (status != CAPL_OK && !graph_says) return; /* a check of the graph came before the engines: refused all the same */
  if (status != CAPL_OK) return failed(r, capl_error_last()->message);
  if (graph_says && *graph_says) return failed(r, "the graph was taken, it must be refused");
  status = dnn_candidates_get(record, &g, target, &list);
  if (status == CAPL_OK && list.count > 0) failed(r, "there are engines, there must be none");
}

static int run_refusals(const dnn_target *target)
{
  int wrong = 0;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    dnn_record record;
    result r = {.outcome = FAILED};
    if (dnn_parse(refusals[i].text, &record) != CAPL_OK) failed(&r, capl_error_last()->message);
    else if (dnn_supports(&record) == refusals[i].rule) failed(&r, "dnn_supports says otherwise");
    else check_refusal(&record, target, refusals[i].graph_says, &r);
    if (r.outcome != FAILED) continue;
    printf("REFUSAL %s\n   %s\n", refusals[i].text, r.found.wrong);
    wrong++;
  }
  for (size_t i = 0; i < sizeof never_asked / sizeof *never_asked; i++) {
    dnn_record record;
    if (dnn_parse(never_asked[i], &record) == CAPL_OK && dnn_refusal(&record)) continue;
    printf("REFUSAL %s\n   must be refused before cuDNN is asked\n", never_asked[i]);
    wrong++;
  }
  return wrong;
}

/* ---- without a description --------------------------------------------------------------------------------- */

/* What a library before 9.8 can be asked without a GPU: it takes every graph, whose descriptors read back as they
** should, and has engines for graphs of this form. Whether one takes the sizes on a certain GPU only that GPU tells. */
static bool takes_graph(const dnn_record *record)
{
  dnn_graph g;
  findings f = {0};
  int64_t engines = 0, count = 0;
  char text[DNN_TEXT];
  capl_status status = dnn_graph_build(&g, record, NULL);
  if (status == CAPL_OK) {
    expect_descriptors(record, &g, &f);
    cudnnBackendGetAttribute(g.graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &count,
                             &engines);
  }
  dnn_graph_free(&g);
  bool ok = status == CAPL_OK && !f.wrong[0] && engines > 0;
  if (!ok)
    printf("FAILED %s\n   %s\n", dnn_describe(record, text, sizeof text),
           status != CAPL_OK ? capl_error_last()->message : f.wrong[0] ? f.wrong : "no engine");
  return ok;
}

static int run_graphs_alone(void)
{
  int taken = 0;
  for (int i = 0; i < n_records; i++) taken += takes_graph(&records[i]);
  printf("cuDNN %zu: %d of %d graphs taken, each with engines of its form; no GPU can be described to it\n",
         cudnnGetVersion(), taken, n_records);
  return taken != n_records;
}

/* ---- everything --------------------------------------------------------------------------------------------- */

typedef struct {
  int failed, no_engine, candidates_only, planned, compiled, compared;
  char others[512];
} totals;

static void count(totals *t, const dnn_record *record, const result *r)
{
  char text[DNN_TEXT];
  t->compared += r->found.compared;
  if (strlen(r->found.others) > strlen(t->others)) memcpy(t->others, r->found.others, sizeof t->others);
  switch (r->outcome) {
    case NO_ENGINE: t->no_engine++; break;
    case CANDIDATES_ONLY: t->candidates_only++; break;
    case PLANNED: t->planned++, t->compiled += r->compiled; break;
    default:
      t->failed++;
      printf("FAILED %s\n   %s\n", dnn_describe(record, text, sizeof text), r->found.wrong);
  }
}

/* What a run of records is checked for. */
typedef struct {
  const dnn_target *target;
  int capability;
  bool each_type;                              /* compile one plan of each kind and type, not only of each kind */
  bool compiled[DNN_KINDS][CAPL_DTYPE_COUNT]; /* where that has been done */
} job;

static bool *compiled_of(job *j, const dnn_record *record)
{
  return &j->compiled[record->kind][j->each_type ? record->dtype : CAPL_F32];
}

/* Checks records first to end - 1 and sends what they came to. */
static bool check_group(job *j, int first, int end, int to)
{
  for (int i = first; i < end; i++) {
    result r;
    memset(&r, 0, sizeof r);
    bool *once = compiled_of(j, &records[i]);
    check_record(&records[i], j->target, j->capability, !*once, &r);
    if (r.found.wrong[0]) r.outcome = FAILED;
    *once |= r.outcome == PLANNED && r.compiled;
    if (write(to, &r, sizeof r) != sizeof r) return false;
  }
  return true;
}

static bool read_result(int from, result *r)
{
  size_t got = 0;
  while (got < sizeof *r) {
    ssize_t n = read(from, (char *)r + got, sizeof *r - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += (size_t)n;
  }
  return true;
}

static void say_how_it_ended(int status, result *r)
{
  char text[64];
  snprintf(text, sizeof text, WIFSIGNALED(status) ? "cuDNN crashed by signal %d" : "the process ended with %d",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  memset(r, 0, sizeof *r);
  failed(r, text);
}

/* Returns the first record that this process did not get to. */
static int run_group(job *j, int first, int end, totals *t)
{
  int ends[2], status = 0, i = first;
  result r;
  pid_t child = pipe(ends) == 0 ? fork() : -1;
  if (child < 0) {
    printf("no process: %s\n", strerror(errno));
    exit(1);
  }
  if (child == 0) _exit(check_group(j, first, end, ends[1]) ? 0 : 1);
  close(ends[1]);
  while (i < end && read_result(ends[0], &r)) {
    *compiled_of(j, &records[i]) |= r.outcome == PLANNED && r.compiled;
    count(t, &records[i++], &r);
  }
  close(ends[0]);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (i == end) return end;
  say_how_it_ended(status, &r);
  count(t, &records[i], &r);
  return i + 1;
}

static void run_all(job *j, totals *t)
{
  enum { GROUP = 24 };
  for (int i = 0; i < n_records;) i = run_group(j, i, i + GROUP < n_records ? i + GROUP : n_records, t);
}

/* The description comes back as it was given: what a real GPU's looks like to this program. */
static int check_description(const dnn_target *target, const char *json)
{
  char *text = NULL;
  cJSON *given = cJSON_Parse(json), *got = NULL;
  bool same = dnn_target_text(target, &text) == CAPL_OK && (got = cJSON_Parse(text)) && cJSON_Compare(given, got, true);
  if (!same) printf("DESCRIPTION is given back as %s\n", text ? text : capl_error_last()->message);
  cJSON_Delete(given);
  cJSON_Delete(got);
  free(text);
  return !same;
}

/* "deviceVer": 900 of the description -> 900 */
static int64_t number_of(const char *json, const char *name)
{
  char key[64];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(json, key);
  return at ? strtoll(at + strlen(key), NULL, 10) : 0;
}

/* Heuristics load their tables at the first question: asked here, no child does it again. */
static void warm_up(const dnn_target *target)
{
  dnn_record record;
  dnn_graph g;
  dnn_candidates list;
  if (dnn_parse("conv2d f32 x=8,8,8,8 y=8,8,8,8", &record) != CAPL_OK) return;
  if (dnn_graph_build(&g, &record, NULL) == CAPL_OK && dnn_candidates_get(&record, &g, target, &list) == CAPL_OK)
    dnn_candidates_free(&list);
  dnn_graph_free(&g);
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
  if (argc < 5) return printf("usage: graphs STUB DEVICE.json types|kinds|alone RECORDS...\n"), 2;
  setvbuf(stdout, NULL, _IOLBF, 0); /* nothing is left in it for children to write again */
  double start = now();
  if (!dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) return printf("%s\n", dlerror()), 1;
  for (int i = 4; i < argc; i++) add_list(argv[i]);
  if (strcmp(argv[3], "alone") == 0) return run_graphs_alone();
  char *json = read_text(argv[2]);
  dnn_target target;
  if (dnn_target_describe(json, &target) != CAPL_OK)
    return printf("skipped: this cuDNN does not read %s: %s\n", argv[2], capl_error_last()->message), SKIPPED;
  workspace_max = dnn_workspace_share((size_t)number_of(json, "totalGlobalMem"));
  warm_up(&target);
  totals t = {0};
  job j = {.target = &target, .capability = (int)number_of(json, "deviceVer") / 10,
           .each_type = strcmp(argv[3], "types") == 0};
  run_all(&j, &t);
  int refusals_wrong = run_refusals(&target) + check_description(&target, json);
  printf("%s: %d records: %d plans finished (%d compiled), %d with candidates, %d without engine as expected, %d "
         "failed; "
         "%d attributes compared; not compared:%s; %.1f s\n",
         argv[2], n_records, t.planned, t.compiled, t.candidates_only, t.no_engine, t.failed, t.compared,
         t.others[0] ? t.others : " none", now() - start);
  dnn_target_free(&target);
  free(json);
  return t.failed || refusals_wrong || t.planned == 0;
}
