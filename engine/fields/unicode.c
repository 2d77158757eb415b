/* unicode.c -- texts in Unicode's normal form C, with case and width folded where that is asked for.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fields/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/text.h"

int32_t unicode_at(const char *p, int *bytes)
{
  utf8proc_int32_t code;
  *bytes = capl_text_char(p);
  if (*bytes == 0) return -1;
  return utf8proc_iterate((const utf8proc_uint8_t *)p, *bytes, &code) > 0 ? code : -1;
}

int unicode_write(int32_t code, char to[UNICODE_BYTES + 1])
{
  int n = utf8proc_codepoint_valid(code) ? (int)utf8proc_encode_char(code, (utf8proc_uint8_t *)to) : 0;
  to[n] = '\0';
  return n;
}

bool unicode_is_visible(int32_t code)
{
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZS: case UTF8PROC_CATEGORY_ZL: case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}

int unicode_count(const char *text)
{
  int n = 0;
  for (int bytes; *text; text += bytes, n++)
    if (!(bytes = capl_text_char(text))) bytes = 1;
  return n;
}

/* ---- normal form --------------------------------------------------------------------------------------- */

static utf8proc_int32_t to_case(utf8proc_int32_t code, capl_case letters)
{
  if (letters == CAPL_CASE_KEEP) return code;
  return letters == CAPL_CASE_UPPER ? utf8proc_toupper(code) : utf8proc_tolower(code);
}

/* Of a full-width or half-width form the usual one; any other code point itself. */
static utf8proc_int32_t to_usual_width(utf8proc_int32_t code)
{
  const utf8proc_property_t *of = utf8proc_get_property(code);
  utf8proc_int32_t usual[8];
  if (of->decomp_type != UTF8PROC_DECOMP_TYPE_WIDE && of->decomp_type != UTF8PROC_DECOMP_TYPE_NARROW) return code;
  int last = UTF8PROC_BOUNDCLASS_START;
  utf8proc_ssize_t n = utf8proc_decompose_char(code, usual, 8, UTF8PROC_COMPAT | UTF8PROC_COMPOSE, &last);
  return n == 1 ? usual[0] : code;
}

static utf8proc_int32_t fold_one(utf8proc_int32_t code, void *data)
{
  const capl_folding *folding = data;
  return to_case(folding->width ? to_usual_width(code) : code, folding->letters);
}

static bool is_ascii(const char *text)
{
  for (; *text; text++)
    if ((unsigned char)*text >= 0x80) return false;
  return true;
}

static capl_status refuse_bytes(const char *text)
{
  const char *p = text;
  int at = 1;
  for (int n; *p && (n = capl_text_char(p)) > 0; p += n) at++;
  char shown[256];
  capl_text_show(shown, sizeof shown, text, false);
  CAPL_FAIL(CAPL_EVALUE, "\"%s\" is not UTF-8: byte 0x%02x at position %d", shown, (unsigned char)*p, at);
  capl_error_hint("convert the names or the file to UTF-8, e.g. with convmv or iconv");
  return CAPL_EVALUE;
}

capl_status capl_text_normalize(const char *text, const capl_folding *folding, char **out)
{
  static const capl_folding keep = {CAPL_CASE_KEEP, false};
  capl_folding f = folding ? *folding : keep;
  *out = NULL;
  if (is_ascii(text) && f.letters == CAPL_CASE_KEEP) {
    *out = strdup(text); /* by far the most, and they are as they should be */
  } else if (!capl_text_is_utf8(text)) {
    return refuse_bytes(text);
  } else {
    utf8proc_uint8_t *made = NULL;
    utf8proc_map_custom((const utf8proc_uint8_t *)text, 0, &made,
                        UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE, fold_one, &f);
    *out = (char *)made;
  }
  return *out ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a text");
}
