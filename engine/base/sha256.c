/* sha256.c -- whole blocks by the processor's SHA instructions, the rest by libmd.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/sha256.h"

#include "base/isa.h"

enum { BLOCK = SHA256_BLOCK_LENGTH };

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static const uint32_t constants[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
  0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
  0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
  0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
  0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#define WITH_SHA __attribute__((target("sha,sse4.1")))

/* Words 4i..4i+3 of the schedule from the sixteen words before them, which w holds in a ring. */
WITH_SHA static inline __m128i next_words(const __m128i *w, int i)
{
  __m128i first = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
  __m128i middle = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
  return _mm_sha256msg2_epu32(_mm_add_epi32(first, middle), w[(i + 3) & 3]);
}

/* One block; the state as the instructions want it: abef, cdgh. */
WITH_SHA static inline void add_block(__m128i *abef, __m128i *cdgh, const uint8_t *data)
{
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i w[4], s = *abef, t = *cdgh;
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    if (i < 4) w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), big_endian);
    else w[i & 3] = next_words(w, i);
    __m128i words = _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)(constants + 4 * i)));
    t = _mm_sha256rnds2_epu32(t, s, words);
    s = _mm_sha256rnds2_epu32(s, t, _mm_shuffle_epi32(words, 0x0e));
  }
  *abef = _mm_add_epi32(*abef, s);
  *cdgh = _mm_add_epi32(*cdgh, t);
}

WITH_SHA static void add_blocks(uint32_t *state, const uint8_t *data, size_t blocks)
{
  __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
  __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (size_t i = 0; i < blocks; i++) add_block(&abef, &cdgh, data + i * BLOCK);
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static bool has_sha(void)
{
  unsigned a, b = 0, c, d;
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* CAPL_ISA=portable leaves all of it to libmd. */
static bool use_sha(void)
{
  static int known = -1; /* asked by several threads: each finds the same */
  int use = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (use >= 0) return use;
  capl_isa isa;
  use = has_sha() && capl_isa_choose(&isa) == CAPL_OK && isa != CAPL_ISA_PORTABLE;
  __atomic_store_n(&known, use, __ATOMIC_RELAXED);
  return use;
}

#else

static void add_blocks(uint32_t *state, const uint8_t *data, size_t blocks)
{
  for (size_t i = 0; i < blocks; i++) SHA256Transform(state, data + i * BLOCK);
}

static bool use_sha(void)
{
  return false;
}

#endif

void sha256_add(SHA2_CTX *hash, const void *data, size_t len)
{
  const uint8_t *bytes = data;
  size_t begun = hash->bitcount[0] / 8 % BLOCK, head = begun ? BLOCK - begun : 0;
  if (!use_sha() || len < head + BLOCK) {
    SHA256Update(hash, bytes, len);
    return;
  }
  size_t blocks = (len - head) / BLOCK;
  if (head) SHA256Update(hash, bytes, head);
  add_blocks(hash->state.st32, bytes + head, blocks);
  hash->bitcount[0] += (uint64_t)blocks * BLOCK * 8;
  SHA256Update(hash, bytes + head + blocks * BLOCK, len - head - blocks * BLOCK);
}

void sha256_hex(SHA2_CTX *hash, char *out)
{
  static const char digits[] = "0123456789abcdef";
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256Final(digest, hash);
  for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
    out[2 * i] = digits[digest[i] >> 4];
    out[2 * i + 1] = digits[digest[i] & 15];
  }
  out[SHA256_HEX] = '\0';
}
