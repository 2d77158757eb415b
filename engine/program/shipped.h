/* shipped.h -- the recipes and models that come with the program, named without their folder: capl captcha.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SHIPPED_H
#define CAPL_SHIPPED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/names.h"

/* Folder of the recipes: $CAPL_RECIPES, share/capl/recipes of an installed program, recipes of a build. false = there
** is none. */
bool shipped_folder(char *path, size_t room);

/* Likewise of the models: $CAPL_MODELS, share/capl/models. */
bool shipped_models(char *path, size_t room);

/* Path of the recipe that a word names: captcha, captcha.lua or recipes/captcha.lua. false = none is called so. */
bool shipped_find(const char *word, char *path, size_t room);

/* Adds their names to a suggestion, which then points into memory of this file. */
void shipped_suggest(capl_suggestion *s);

#endif
