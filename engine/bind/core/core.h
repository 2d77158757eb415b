/* core.h -- what the binding's own files share: handles, argument checks, raising errors.
**
** A binding function has three beats: check the arguments, call the engine, push the result. Whatever it
** owns in between is declared OWNED, so that a Lua error unwinding through the frame releases it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_L_BIND_H
#define CAPL_BIND_L_BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "bind/bind.h"
#include "capl/capl.h"
#include "sandbox/policy.h"

/* ---- tensor handles (tensor.c) ------------------------------------------------------------- */

/* What a Lua tensor is: one reference to an engine tensor. In a scope it is also in the scope's list. */
typedef struct capl_handle {
  capl_tensor *t; /* NULL after :free() or the end of its scope, and beside later */
  struct bind_later *later; /* what its tensor can be computed from, peephole.c; NULL for most */
  struct capl_handle *previous, *next;
} capl_handle;

static inline void owned_release(capl_tensor **t) { capl_tensor_unref(*t); }
#define OWNED __attribute__((cleanup(owned_release))) capl_tensor

#define TENSOR_TYPE "capl.tensor"

/* Pushes a handle that takes over the reference t, also when it raises. */
void bind_push_tensor(lua_State *L, capl_tensor *t);
/* The handle at i, or NULL if there is no tensor. Nothing waits afterwards (peephole.c). */
capl_handle *bind_to_handle(lua_State *L, int i);
/* The same for who does not look at any tensor's values or fields. */
capl_handle *bind_peek_handle(lua_State *L, int i);
/* Lets the engine's tensor go; the handle stays as "released". */
void bind_handle_release(capl_handle *h);
/* Takes h out of its scope. */
void bind_handle_keep(capl_handle *h);
/* Collects Lua's garbage when tensors that only garbage may hold have grown large. */
void bind_collect_if_due(lua_State *L);

/* ---- scopes (scope.c) ---------------------------------------------------------------------- */

/* Puts a fresh handle into the innermost scope, if any. */
void bind_scope_add(capl_handle *h);
/* Opens a scope, false when they are nested too deep; and closes it: handles made meanwhile are released. */
bool bind_scope_begin(int *mine);
void bind_scope_end(int mine);
/* What is made from now on belongs to no scope that is open; until bind_scope_return with what this gave. */
int bind_scope_leave_all(void);
void bind_scope_return(int former);

/* ---- settings of the process (misc.c) ------------------------------------------------------ */

typedef struct {
  lua_State *L;        /* the thread of Lua that called last, alive: bind_use sets it; NULL between states */
  capl_device *device; /* where tensors are made unless said otherwise */
  uint64_t seed;       /* of capl.manual_seed */
  uint64_t streams;    /* random streams opened since */
  uint64_t stream_owner; /* the rank or shard that opens them, in its place above their numbers: bind_next_stream */
  uint64_t structure;  /* grows when parameters are exchanged, frozen or let go: captured steps are then recorded
                       ** anew */
} bind_settings;

extern bind_settings bind_current;

/* L calls the engine: what the engine needs of Lua from here on (to collect, to call back, to say where) is done on it.
** It lives until another thread calls: a coroutine may be garbage before what it recorded is let go. */
void bind_use(lua_State *L);

/* The number of a random stream that nobody has used: another one for each owner, all of which count alike. */
uint64_t bind_next_stream(void);

/* The device at i: a name; nil or none = the default device. */
capl_device *bind_opt_device(lua_State *L, int i);

/* ---- functions being fused (fuse.c) -------------------------------------------------------- */

/* All of these do nothing unless a function is being traced. An op about to be called: raises if it cannot be fused. */
void bind_fuse_check(lua_State *L, const capl_op *op, capl_tensor *const *in, int n);
/* The op was called. */
void bind_fuse_note(lua_State *L, capl_op_id id, capl_tensor *const *in, const capl_attr *attr, capl_tensor *out);
/* For functions that write into tensors. */
void bind_fuse_refuse(lua_State *L);

/* ---- a batch norm that waits for its activation (peephole.c) ---------------------------------- */

bool bind_is_waiting(void);
/* Runs what waits, and what the tensor of h (or NULL) can be computed from. */
void bind_settle(lua_State *L, capl_handle *h);
/* Forgets how the tensor of h can be computed; of one that waits the running statistics are written first. */
void bind_later_drop(capl_handle *h);
/* An op is about to be called with what is on the stack: true if it ran with what waits, its result on top. */
bool bind_peephole(lua_State *L, capl_op_id id);

/* ---- arguments (args.c) -------------------------------------------------------------------- */

const char *bind_typename(lua_State *L, int i); /* "tensor" for tensors */
capl_tensor *bind_check_tensor(lua_State *L, int i);
/* Likewise, and memory the CPU can read: where it is not, a copy takes the value's place on the stack. On meta: as
** is. */
capl_tensor *bind_on_host(lua_State *L, int i);
int64_t bind_check_int(lua_State *L, int i);
double bind_check_number(lua_State *L, int i);
bool bind_check_bool(lua_State *L, int i);
const char *bind_check_string(lua_State *L, int i);
/* A string that is the path of a file or folder: every path that Lua hands over comes through here, and may be used for
** rights (CAPL_MAY_READ, CAPL_MAY_WRITE) by the policy of the sandbox, or raises what is allowed. */
const char *bind_check_path(lua_State *L, int i, int rights);
const char *bind_check_product(lua_State *L, int i); /* the same for a file that the recipe fills itself */
void bind_check_table(lua_State *L, int i);
bool bind_is_callable(lua_State *L, int i); /* functions, and tables like modules */
void bind_check_function(lua_State *L, int i);
capl_dtype bind_check_dtype(lua_State *L, int i);
/* Raises for a named entry of the list at i, which would be dropped. */
void bind_refuse_names(lua_State *L, int i, const char *hint);
/* Sizes as numbers from argument first on, or as one table there. Returns their number; *next = the
** argument after them. */
int bind_check_sizes(lua_State *L, int first, int64_t *size, int *next);

/* The table {name = tensor} at i as a list that borrows names and tensors; lives in a userdata pushed on the stack.
** Sorted by name, so that equal models give equal files. */
capl_named_tensor *bind_check_named(lua_State *L, int i, int *n);
/* The same; or the tensor at i, as one without a name, in *one. */
capl_named_tensor *bind_check_ports(lua_State *L, int i, int *n, capl_named_tensor *one);
/* Pushes the list as such a table and frees it. */
void bind_push_named(lua_State *L, capl_named_tensor *list, int n);

/* ---- errors (error.c) ---------------------------------------------------------------------- */

/* All of these raise a Lua error table and never return; int for `return bind_...`. */
int bind_raise(lua_State *L, const char *op); /* from the thread's error record; op may be NULL */
int bind_fail(lua_State *L, capl_status code, const char *op, const char *hint, const char *fmt, ...)
    CAPL_PRINTF(5, 6);
int bind_arg_error(lua_State *L, int i, const char *fmt, ...) CAPL_PRINTF(3, 4);
int bind_type_error(lua_State *L, int i, const char *expected);
/* Rewrites the error table on top when text is Lua's own complaint about a line of the library (error_call.c). */
void bind_error_add_call(lua_State *L, const char *text);
/* "recipe.lua:41" into buf, "" when no recipe is running. */
void bind_where(lua_State *L, char *buf, size_t len);

static inline void bind_check(lua_State *L, capl_status status, const char *op)
{
  if (status != CAPL_OK) bind_raise(L, op);
}

/* ---- limits (limits.c) ----------------------------------------------------------------------- */

/* So many bytes were printed or written; beyond the policy's limit Lua is stopped. */
void bind_count_output(size_t bytes);
/* The most bytes of tensors that the policy leaves a device; 0 = as many as there are. */
uint64_t bind_tensor_limit(const capl_device *device);
/* Before the state is closed. */
void bind_unlimit(lua_State *L);

/* ---- environments (environment.c, require.c) ---------------------------------------------- */

/* While a part of the library is loaded, nothing is collected, since all of it stays, and nothing is compiled, since it
** runs once. BIND_LOADING(L): until the block ends, by an error too; within another one nothing. */
lua_State *bind_begin_loading(lua_State *L);
void bind_end_loading(lua_State **L);
#define BIND_LOADING(L) __attribute__((cleanup(bind_end_loading), unused)) lua_State *loading_ = bind_begin_loading(L)

/* Pushes the environment of recipes with all its parts loaded, as who looks through it must see it. */
void bind_whole_environment(lua_State *L);
/* Makes the library's environment, and pushes it. */
void bind_open_environments(lua_State *L);
void bind_push_library(lua_State *L);
/* Gives it the pairs and next of lua/capl/pairs.lua, once core is there. */
void bind_set_iterators(lua_State *L);
/* The library's require: of its own modules (state.c). And the recipe's: of files beside it. */
int bind_library_require(lua_State *L);
int bind_recipe_require(lua_State *L);

/* Notes a path that the recipe reads, and the text of a module, which raises where the recipe was asked for by its hash
** and does not name the module's own (used.c). */
void bind_used_path(lua_State *L, const char *path);
void bind_used_module(lua_State *L, const char *file, const char *text, size_t size);

/* ---- parts of the core table ----------------------------------------------------------------- */

/* Each adds its functions to the core table on top of the stack. */
void bind_open_errors(lua_State *L);
void bind_open_tensors(lua_State *L);
void bind_open_create(lua_State *L);
void bind_open_show(lua_State *L);
void bind_open_ops(lua_State *L);
void bind_open_fuse(lua_State *L);
void bind_open_peephole(lua_State *L);
void bind_open_scopes(lua_State *L);
void bind_open_misc(lua_State *L);
void bind_open_finite(lua_State *L);
void bind_open_range(lua_State *L);
/* The value at a place of a tensor in host memory, counted in elements. */
double bind_value_at(const capl_tensor *t, int64_t place);
void bind_open_text(lua_State *L);
void bind_open_recompute(lua_State *L);
void bind_open_data(lua_State *L);
void bind_open_io(lua_State *L);
void bind_open_json(lua_State *L);
void bind_open_checkpoint(lua_State *L);
void bind_open_plot(lua_State *L);
void bind_open_events(lua_State *L);
void bind_open_model(lua_State *L);
void bind_open_capture(lua_State *L);
void bind_open_monitor(lua_State *L);
void bind_open_dist(lua_State *L);
void bind_open_buckets(lua_State *L);
void bind_open_gradient(lua_State *L);

/* Lets captured steps go, whose memory nobody else can use; they are recorded anew when they are next called. Returns
** whether there were any (capture.c). */
bool bind_release_captures(lua_State *L);

/* core.model_save with the graph at 2 (model.c). */
int bind_model_save(lua_State *L, const capl_graph *graph);

#endif
