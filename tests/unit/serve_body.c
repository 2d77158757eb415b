/* serve_body.c -- bodies of HTTP requests: base64, forms, JSON, images as they are; what is wrong with one.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "program/serve/base64.h"
#include "program/serve/body.h"

static const body_rules image_only = {.image = "photo"};
static const body_rules both = {.image = "image", .n_inputs = 2, .inputs = {{"level", 1}, {"series", 4}}};
static const char jpeg[] = "\xff\xd8\xff\xe0 12345";
static const char jpeg64[] = "/9j/4CAxMjM0NQ==";

/* Of a body in memory that is exactly as long. */
static int read_body(const body_rules *rules, const char *type, const char *text, size_t n, body_parts *parts,
                     char *why)
{
  char *body = malloc(n + 1);
  memcpy(body, text, n);
  char *exact = realloc(body, n ? n : 1);
  int status = body_read(rules, type, exact, n, parts, why);
  if (status == 0 && rules->image) {
    assert_int_equal(parts->image_bytes, sizeof jpeg - 1);
    assert_memory_equal(parts->image, jpeg, sizeof jpeg - 1);
  }
  free(exact);
  return status;
}

static void reads(const char *type, const char *text)
{
  char why[BODY_WHY];
  body_parts parts = {0};
  if (read_body(&image_only, type, text, strlen(text), &parts, why) != 0) fail_msg("%s: %s", text, why);
  body_free(&parts);
}

static void fails(const body_rules *rules, const char *type, const char *text, int status, const char *expected)
{
  char why[BODY_WHY];
  body_parts parts = {0};
  assert_int_equal(read_body(rules, type, text, strlen(text), &parts, why), status);
  assert_string_equal(why, expected);
  body_free(&parts);
}

/* ---- base64 -------------------------------------------------------------------------------------------- */

static void codes(void **state)
{
  uint8_t bytes[64], again[128];
  size_t n, wrong;
  (void)state;
  for (int i = 0; i < 64; i++) bytes[i] = (uint8_t)(i * 67 + 5);
  for (size_t size = 0; size <= 64; size++) {
    char *text = base64_encode(bytes, size);
    assert_int_equal(strlen(text), (size + 2) / 3 * 4);
    for (int ends = 0; ends < 2; ends++) { /* with '=' and without */
      size_t length = ends ? strcspn(text, "=") : strlen(text);
      assert_true(base64_decode(text, length, again, &n, &wrong));
      assert_int_equal(n, size);
      assert_memory_equal(again, bytes, size);
    }
    free(text);
  }
}

static void code_fails(const char *text, size_t place)
{
  uint8_t out[64];
  size_t n, wrong = 99;
  assert_false(base64_decode(text, strlen(text), out, &n, &wrong));
  assert_int_equal(wrong, place);
}

static void bad_codes(void **state)
{
  uint8_t out[64];
  size_t n, wrong;
  (void)state;
  assert_true(base64_decode(" T W\r\nF\tu", 9, out, &n, &wrong) && n == 3 && memcmp(out, "Man", 3) == 0);
  assert_true(base64_decode("TQ = =\n", 7, out, &n, &wrong) && n == 1);
  code_fails("TWFu*A==", 4);
  code_fails("TWFu-_==", 4);
  code_fails("TQ=x", 3);
  code_fails("TQ===", 4);
  code_fails("TWFu=", 4);
  code_fails("TQ=", 3);
  code_fails("TWFuT", 5);
  code_fails("====", 0);
}

/* ---- forms --------------------------------------------------------------------------------------------- */

#define PART(disposition, data) "--b\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" data "\r\n"

static void parameters(void **state)
{
  char out[16];
  (void)state;
#define VALUE(header, key) header_parameter(header, strlen(header), key, out, sizeof out)
  assert_true(VALUE("form-data; name=\"a; name=b\"; filename=\"x\\\"y\"", "filename") && strcmp(out, "x\"y") == 0);
  assert_true(VALUE("form-data; name=\"a; filename=b\"", "name") && strcmp(out, "a; filename=b") == 0);
  assert_true(VALUE("form-data;NAME=b ;c=d", "name") && strcmp(out, "b") == 0);
  assert_true(VALUE("a; flag; boundary=xyz", "boundary") && strcmp(out, "xyz") == 0);
  assert_false(VALUE("form-data; name=\"a\"", "filename") || *out);
  assert_false(VALUE("form-data", "name") || VALUE("", "name") || VALUE("a;", "name") || VALUE("a;name", "name"));
  assert_false(VALUE("a; name=12345678901234567890", "name"));
  assert_int_equal(strlen(out), 15);
  assert_true(VALUE("a; name=\"open", "name") && strcmp(out, "open") == 0);
}

static void forms(void **state)
{
  const char type[] = "multipart/form-data; boundary=b";
  (void)state;
#define JPEG "\xff\xd8\xff\xe0 12345"
  reads(type, PART("name=\"image\"", JPEG) "--b--\r\n");
  reads("Multipart/Form-Data; Boundary=\"b\"", PART("name=\"x\"; filename=\"\"", JPEG) "--b--");
  reads(type, "a preamble\r\n" PART("name=z", "other") PART("name=photo", JPEG) PART("name=y", "") "--b--\r\nan epilogue");
  reads(type, "--b  \r\nX: y\r\ncontent-disposition:form-data; name=file\r\nContent-Type: a/b\r\n\r\n" JPEG "\r\n--b--");
  fails(&image_only, type, PART("name=z", "other") "--b--", 400,
        "multipart/form-data: no part is a file or has the name \"image\": curl -F image=@FILE URL");
  fails(&image_only, type, PART("name=image", JPEG) PART("name=file", JPEG) "--b--", 400,
        "multipart/form-data: two images; a request has one");
  fails(&image_only, type, "--b\r\n\r\n--b--", 400,
        "multipart/form-data: no part is a file or has the name \"image\": curl -F image=@FILE URL");
  fails(&image_only, type, PART("name=image", "") "--b--", 400, "the image is empty");
  fails(&image_only, type, "--bb\r\n", 400, "multipart/form-data: a boundary is not followed by a line break");
  fails(&image_only, type, "--b\r\nA: b\r\n", 400, "multipart/form-data: a part has no blank line behind its headers");
  fails(&image_only, type, PART("name=image", JPEG), 400,
        "multipart/form-data: it ends without the closing boundary; was the upload cut?");
  fails(&image_only, type, "x", 400, "multipart/form-data: the boundary that Content-Type names is not in the body");
  fails(&image_only, "multipart/form-data; boundary=", "x", 400,
        "multipart/form-data: Content-Type has no boundary of 1 to 70 characters");
}

/* ---- JSON and images as they are ------------------------------------------------------------------------ */

static void json(void **state)
{
  char why[BODY_WHY], text[200];
  body_parts parts = {0};
  (void)state;
  snprintf(text, sizeof text, "{\"photo\": \"data:image/jpeg;base64,%s\"}", jpeg64);
  reads("application/json; charset=utf-8", text);
  snprintf(text, sizeof text, "{\"level\": 3, \"series\": [[1, 2], [[3], -4.5]], \"image\": \"%s\"}", jpeg64);
  assert_int_equal(read_body(&both, "text/json", text, strlen(text), &parts, why), 0);
  assert_true(parts.numbers[0][0] == 3 && parts.numbers[1][0] == 1 && parts.numbers[1][3] == -4.5f);
  body_free(&parts);
  fails(&both, "application/json", "{\"level\": [1, 2]}", 400, "level has 2 numbers; the model takes 1");
  fails(&both, "application/json", "{\"level\": {}}", 400, "level is to be a list of numbers");
  fails(&both, "application/json", "{\"level\": 1}", 400,
        "the model takes 4 numbers as series: send JSON, {\"series\": [1, 2]}");
  fails(&both, "application/json", "{\"levels\": 1}", 400, "unknown key 'levels'; the model takes image, level, series");
  fails(&both, NULL, jpeg, 415, "the model takes 1 numbers as level: send JSON, {\"level\": [1, 2]}");
  fails(&image_only, "application/json", "{\"image\": \"/9j/\", \"photo\": \"\"}", 400, "two images; a request has one");
  fails(&image_only, "application/json", "{\"image\": \"data:,A\"}", 400,
        "image: the base64 ends in the middle of a group of four characters");
  fails(&image_only, "application/json", "{}", 400, "there is no image: {\"image\": \"base64\"}");
}

static void raw(void **state)
{
  (void)state;
  reads(NULL, jpeg);
  reads("application/octet-stream", jpeg);
  fails(&image_only, NULL, "", 400, "the body of the request is empty");
  fails(&image_only, "application/jsonp", "{}", 415,
        "the image is neither a PNG nor a JPEG file; it is sent as it is, as multipart/form-data, or as base64 in JSON");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(codes), cmocka_unit_test(bad_codes), cmocka_unit_test(parameters),
                                     cmocka_unit_test(forms), cmocka_unit_test(json), cmocka_unit_test(raw)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
