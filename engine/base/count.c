/* count.c -- the numbers of dims and places in messages.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/count.h"

static int first_; /* set once, before the first op */

void capl_count_from(int first)
{
  first_ = first;
}

int64_t capl_counted(int64_t place)
{
  return place < 0 ? place : place + first_;
}
