/* lmdb_stream.c -- fuzz target: any bytes as what the reader of LMDB files says, in pieces of any size.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields.h"
#include "fuzz.h"

#include "base/text.h"
#include "data/lmdb_stream.h"

/* Complete records are sound, whatever came after them. */
static void check_records(const lmdb_stream *s)
{
  for (uint32_t i = 0; i < s->count; i++) {
    const uint64_t *at = s->at + LMDB_KEPT * i;
    FUZZ_CHECK(at[0] < at[1] && at[1] <= at[2] && at[2] <= at[3] && at[3] <= s->bytes.size &&
               (s->wanted || at[1] == at[3]));
    for (const char *p = texts_get(&s->label, i); p && *p; p += capl_text_char(p)) FUZZ_CHECK(capl_text_char(p) > 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1) return 0;
  size_t piece = 1 + data[0] % 64;
  file_fields fields = {0};
  lmdb_stream s = {.where = "fuzz"};
  if (data[0] & 0x40) fuzz_fields(s.wanted = &fields);
  s.bytes.limit = data[0] & 0x80 ? 64 : 1 << 20; /* some go through the temporary file */
  capl_status status = CAPL_OK;
  for (size_t at = 1; status == CAPL_OK && at < size; at += piece)
    status = lmdb_stream_feed(&s, data + at, size - at < piece ? size - at : piece);
  fuzz_status(status);
  check_records(&s);
  if (s.ended && status == CAPL_OK) {
    FUZZ_CHECK(s.count == s.promised && byte_store_seal(&s.bytes) == CAPL_OK);
    uint32_t sum = 0;
    for (uint64_t i = 0; i < s.at[LMDB_KEPT * s.count]; i++) sum += s.bytes.at[i];
    FUZZ_CHECK(sum != 0xffffffff);
  }
  if (s.ended && status == CAPL_OK && s.wanted) fuzz_check_fields(&fields, s.count);
  lmdb_stream_fini(&s);
  file_fields_fini(&fields);
  return 0;
}
