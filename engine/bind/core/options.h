/* options.h -- named options of a function: declared in a table, and read by it into a structure.
**
**   static const bind_option_spec options[] = {
**     {"batch", BIND_WHOLE(capl_loader_options, batch), .min = 1, .max = 1 << 20},
**     {"cache", BIND_WORD(capl_loader_options, cache), .words = caches},
**     {"augment", BIND_OTHER},
**     BIND_END};
**   capl_loader_options o = {.batch = 64};
**   bind_read_options(L, "data.loader", 2, options, &o);
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_CORE_OPTIONS_H
#define CAPL_BIND_CORE_OPTIONS_H

#include "bind/core/core.h"

typedef enum { OPTION_OTHER, OPTION_WHOLE, OPTION_NUMBER, OPTION_BOOL, OPTION_TEXT, OPTION_PATH,
              OPTION_WORD } bind_option_kind;

typedef struct {
  const char *name;
  bind_option_kind kind;
  size_t at, size;          /* the member that takes the value */
  double min, max;          /* of numbers */
  const char *const *words; /* of a word, ended by NULL, in the order of the member's enum */
  int rights;               /* of a path (CAPL_MAY_READ, CAPL_MAY_WRITE) */
} bind_option_spec;         /* a list is ended by BIND_END */

#define BIND_MEMBER(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* integers of any size, from min to max */
#define BIND_WHOLE(type, member) .kind = OPTION_WHOLE, BIND_MEMBER(type, member)
/* float or double, from min to max */
#define BIND_NUMBER(type, member) .kind = OPTION_NUMBER, BIND_MEMBER(type, member)
#define BIND_BOOL(type, member) .kind = OPTION_BOOL, BIND_MEMBER(type, member)
/* const char *, borrowed from the table */
#define BIND_TEXT(type, member) .kind = OPTION_TEXT, BIND_MEMBER(type, member)
#define BIND_PATH(type, member) .kind = OPTION_PATH, BIND_MEMBER(type, member)     /* likewise */
/* an enum: the word's position in words */
#define BIND_WORD(type, member) .kind = OPTION_WORD, BIND_MEMBER(type, member)
/* known by name; its reader is elsewhere */
#define BIND_OTHER .kind = OPTION_OTHER
#define BIND_END {.name = NULL}

/* Reads the options table at i, which may be absent, into the structure at out; what is not given stays as it is there.
** Raises for other names, types and ranges: "data.loader: batch must be a whole number from 1 to 1048576, got 0". */
void bind_read_options(lua_State *L, const char *op, int i, const bind_option_spec *spec, void *out);
/* One of them, without a look at other names. */
void bind_read_option(lua_State *L, const char *op, int i, const bind_option_spec *spec, void *out);
/* Raises unless every key of the options table at i is in the list. */
void bind_check_options(lua_State *L, const char *op, int i, const bind_option_spec *spec);
/* Looks up key in the options table at i and pushes it; returns whether it was there. i may be absent. */
bool bind_option(lua_State *L, int i, const char *key);

#endif
