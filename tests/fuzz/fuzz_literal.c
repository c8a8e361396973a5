/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer: any text is read as a literal or refused with a message; what was read survives repr and reading again.
 */
#include "value/value.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(crn_arena *a, const crn_value *v) {
  crn_str s = {0};
  crn_err err = {0};
  crn_value *again = NULL;
  crn_v_repr(v, &s, 0);
  crn_status status = crn_v_parse_literal(a, crn_str_get(&s), "repr", &again, &err);
  /* texts with a NUL or bytes that are no UTF-8 pass too; only the smallest integer has no literal of its own */
  if (status != CRN_OK && !strstr(crn_str_get(&s), "-9223372036854775808")) abort();
  crn_err_clear(&err);
  crn_str_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v = NULL;
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  crn_status status = crn_v_parse_literal(&a, text, "fuzz", &v, &err);
  if ((status == CRN_OK) != (v != NULL) || (status == CRN_OK) != (crn_err_text(&err)[0] == '\0')) abort();
  if (v) read_back(&a, v);
  crn_err_clear(&err);
  status = crn_v_parse_literal_calls(&a, text, "fuzz", &v, &err);
  if ((status == CRN_OK) != (v != NULL)) abort();
  crn_err_clear(&err);
  crn_arena_free(&a);
  free(text);
  return 0;
}
