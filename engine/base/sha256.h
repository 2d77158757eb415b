/* sha256.h -- SHA-256 of many bytes: libmd's, with the processor's own instructions where it has them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_SHA256_H
#define CAPL_BASE_SHA256_H

#include <sha2.h>
#include <stddef.h>

#include "capl/error.h"

enum { SHA256_HEX = 64 };

/* SHA256Update, several times as fast on processors with SHA instructions; begin and end with libmd's SHA256Init, SHA256Final. */
CAPL_API void sha256_add(SHA2_CTX *hash, const void *data, size_t len);
/* Ends a hash as 64 hexadecimal digits and a NUL. */
CAPL_API void sha256_hex(SHA2_CTX *hash, char *out);

#endif
