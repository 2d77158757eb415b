/* dnn_plan.c -- choosing among cuDNN's engines, and making, saving and loading plans.
**
** There is no switch for tf32 in cuDNN's graphs: an engine says by its notes how it computes, so a switch that is off
** means leaving engines out.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn_plan.h"

typedef cudnnBackendDescriptor_t descriptor;

static capl_status make(cudnnBackendDescriptorType_t type, descriptor *out)
{
  *out = NULL;
  return dnn_status(cudnnBackendCreateDescriptor(type, out), "making a descriptor");
}

static void destroy(descriptor *d)
{
  if (*d) cudnnBackendDestroyDescriptor(*d);
  *d = NULL;
}

static capl_status set_part(descriptor d, cudnnBackendAttributeName_t name, descriptor part, const char *doing)
{
  return dnn_status(cudnnBackendSetAttribute(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part), doing);
}

/* ---- targets ----------------------------------------------------------------------------------------- */

static capl_status set_description(descriptor d, const char *json)
{
  DNN_TRY(cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                   (int64_t)strlen(json) + 1, json),
          "reading the description of a GPU");
  return dnn_status(cudnnBackendFinalize(d), "reading the description of a GPU");
}

capl_status dnn_target_describe(const char *json, dnn_target *out)
{
  *out = (dnn_target){0};
  CAPL_TRY(make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &out->device));
  capl_status status = set_description(out->device, json);
  if (status != CAPL_OK) dnn_target_free(out);
  return status;
}

capl_status dnn_target_of_gpu(int index, dnn_target *out)
{
  *out = (dnn_target){0};
  CAPL_TRY(make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &out->device));
  int32_t id = index;
  capl_status status = dnn_status(cudnnBackendSetAttribute(out->device, CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                                                           CUDNN_TYPE_INT32, 1, &id),
                                  "describing a GPU");
  if (status == CAPL_OK) status = dnn_status(cudnnBackendFinalize(out->device), "describing a GPU");
  if (status != CAPL_OK) dnn_target_free(out);
  return status;
}

/* An attribute that is a text, in memory of its own. */
static capl_status read_text(descriptor d, cudnnBackendAttributeName_t name, size_t head, char **text,
                             const char *doing)
{
  int64_t len = 0;
  *text = NULL;
  DNN_TRY(cudnnBackendGetAttribute(d, name, CUDNN_TYPE_CHAR, 0, &len, NULL), doing);
  char *buf = calloc(1, head + (size_t)len + 1);
  if (!buf) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %" PRId64 " bytes of text (%s)", len, doing);
  capl_status status = dnn_status(cudnnBackendGetAttribute(d, name, CUDNN_TYPE_CHAR, len, &len, buf + head), doing);
  if (status != CAPL_OK) free(buf);
  else *text = buf;
  return status;
}

capl_status dnn_target_text(const dnn_target *target, char **json)
{
  return read_text(target->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 0, json, "describing a GPU");
}

void dnn_target_free(dnn_target *target)
{
  destroy(&target->device);
}

/* ---- notes ------------------------------------------------------------------------------------------- */

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

bool dnn_uses_tensor_cores(uint32_t numerical)
{
  return numerical & NOTE(TENSOR_CORE);
}

bool dnn_allows(const dnn_record *r, uint32_t numerical)
{
  bool product = r->kind <= DNN_CONV_GRAD_W;
  if (r->deterministic && numerical & NOTE(NONDETERMINISTIC)) return false;
  if (!product) return true;
  /* asked for by nobody */
  if (numerical & (NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(DOWN_CONVERT_INPUTS))) return false;
  return r->dtype != CAPL_F32 || r->tf32 || !(numerical & NOTE(TENSOR_CORE));
}

/* Bits of a list of notes. */
static capl_status read_notes(descriptor engine, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              uint32_t *bits)
{
  enum { NOTES = 32 };
  int notes[NOTES]; /* cuDNN's enums have the size of int */
  int64_t count = 0;
  *bits = 0;
  DNN_TRY(cudnnBackendGetAttribute(engine, name, type, NOTES, &count, notes), "reading an engine's notes");
  for (int i = 0; i < count && i < NOTES; i++) *bits |= 1u << notes[i];
  return CAPL_OK;
}

static capl_status read_engine(dnn_candidate *c, descriptor engine)
{
  int64_t count = 0;
  DNN_TRY(cudnnBackendGetAttribute(c->config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                   &engine),
          "reading an engine");
  DNN_TRY(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &c->engine),
          "reading an engine's number");
  CAPL_TRY(read_notes(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, &c->numerical));
  return read_notes(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, &c->behavior);
}

static capl_status read_candidate(dnn_candidate *c)
{
  descriptor engine;
  CAPL_TRY(make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
  capl_status status = read_engine(c, engine);
  destroy(&engine);
  return status;
}

/* ---- heuristics -------------------------------------------------------------------------------------- */

static capl_status ask(descriptor heuristics, const dnn_graph *g, const dnn_target *target, cudnnBackendHeurMode_t mode)
{
  CAPL_TRY(set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph, "asking for engines"));
  DNN_TRY(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode),
          "asking for engines");
  if (target->device)
    CAPL_TRY(set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->device, "asking for engines"));
  return dnn_status(cudnnBackendFinalize(heuristics), "asking for engines");
}

/* Takes over those of count configurations that the record allows, destroys the others. */
static capl_status keep_allowed(const dnn_record *record, descriptor *configs, int64_t count, dnn_candidates *out)
{
  capl_status status = CAPL_OK;
  for (int64_t i = 0; i < count; i++) {
    dnn_candidate c = {.config = configs[i]};
    if (status == CAPL_OK) status = read_candidate(&c);
    bool keep = status == CAPL_OK && out->count < DNN_CANDIDATES && dnn_allows(record, c.numerical);
    if (keep) out->list[out->count++] = c;
    else destroy(&c.config), out->refused++;
  }
  return status;
}

static capl_status take_results(const dnn_record *record, descriptor heuristics, dnn_candidates *out)
{
  descriptor configs[DNN_CANDIDATES] = {NULL};
  int64_t count = 0;
  capl_status status = CAPL_OK;
  for (int i = 0; i < DNN_CANDIDATES && status == CAPL_OK; i++)
    status = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
  if (status == CAPL_OK)
    status = dnn_status(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, DNN_CANDIDATES, &count, configs),
                        "reading the engines");
  if (status != CAPL_OK || count > DNN_CANDIDATES) count = status == CAPL_OK ? DNN_CANDIDATES : 0;
  for (int64_t i = count; i < DNN_CANDIDATES; i++) destroy(&configs[i]);
  return status == CAPL_OK ? keep_allowed(record, configs, count, out) : status;
}

static capl_status add_candidates(const dnn_record *record, const dnn_graph *g, const dnn_target *target,
                                  cudnnBackendHeurMode_t mode, dnn_candidates *out)
{
  descriptor heuristics;
  CAPL_TRY(make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
  capl_status status = ask(heuristics, g, target, mode);
  if (status == CAPL_OK) status = take_results(record, heuristics, out);
  destroy(&heuristics);
  return status == CAPL_EUNSUPPORTED ? CAPL_OK : status; /* that is: no engine of this list */
}

capl_status dnn_candidates_get(const dnn_record *record, const dnn_graph *g, const dnn_target *target,
                               dnn_candidates *out)
{
  memset(out, 0, sizeof *out);
  capl_status status = add_candidates(record, g, target, CUDNN_HEUR_MODE_A, out);
  if (status == CAPL_OK) status = add_candidates(record, g, target, CUDNN_HEUR_MODE_FALLBACK, out);
  if (status != CAPL_OK) dnn_candidates_free(out);
  return status;
}

void dnn_candidates_free(dnn_candidates *list)
{
  while (list->count) destroy(&list->list[--list->count].config);
}

/* ---- plans ------------------------------------------------------------------------------------------- */

static capl_status set_target(descriptor plan, const dnn_target *target)
{
  if (target->handle)
    return dnn_status(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                               &target->handle),
                      "making a plan");
  return set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target->device, "making a plan");
}

static capl_status finish(dnn_plan *plan)
{
  int64_t count = 0;
  DNN_TRY(cudnnBackendFinalize(plan->plan), "making a plan");
  return dnn_status(cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                             &count, &plan->workspace),
                    "reading a plan's workspace");
}

static capl_status make_into(const dnn_candidate *candidate, const dnn_target *target, dnn_plan *out)
{
  CAPL_TRY(set_part(out->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate->config, "making a plan"));
  CAPL_TRY(set_target(out->plan, target));
  return finish(out);
}

capl_status dnn_plan_make(const dnn_candidate *candidate, const dnn_target *target, dnn_plan *out)
{
  *out = (dnn_plan){.engine = candidate->engine, .numerical = candidate->numerical};
  CAPL_TRY(make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &out->plan));
  capl_status status = make_into(candidate, target, out);
  if (status != CAPL_OK) dnn_plan_free(out);
  return status;
}

void dnn_plan_free(dnn_plan *plan)
{
  destroy(&plan->plan);
}

/* ---- plans as text ----------------------------------------------------------------------------------- */

enum { HEAD = 64 };

capl_status dnn_plan_save(const dnn_plan *plan, char **text)
{
  CAPL_TRY(read_text(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, HEAD, text, "writing a plan down"));
  char head[HEAD];
  int len = snprintf(head, sizeof head, "engine=%" PRId64 " notes=%" PRIu32 "\n", plan->engine, plan->numerical);
  memmove(*text + len, *text + HEAD, strlen(*text + HEAD) + 1);
  memcpy(*text, head, (size_t)len);
  return CAPL_OK;
}

static capl_status load_into(const char *json, const dnn_target *target, dnn_plan *out)
{
  CAPL_TRY(set_target(out->plan, target));
  DNN_TRY(cudnnBackendSetAttribute(out->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                   (int64_t)strlen(json), json),
          "reading a plan");
  return finish(out);
}

capl_status dnn_plan_load(const char *text, const dnn_target *target, dnn_plan *out)
{
  *out = (dnn_plan){0};
  const char *json = strchr(text, '\n');
  if (!json || sscanf(text, "engine=%" SCNd64 " notes=%" SCNu32, &out->engine, &out->numerical) != 2)
    return CAPL_FAIL(CAPL_EFORMAT, "a plan does not start with its engine");
  CAPL_TRY(make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &out->plan));
  capl_status status = load_into(json + 1, target, out);
  if (status != CAPL_OK) dnn_plan_free(out);
  return status;
}
