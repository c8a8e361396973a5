/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer: any bytes are read as JSON or refused with a message; what was read can be copied, compared and printed.
 */
#include "value/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *v = NULL;
  crn_status status = crn_v_parse_json(&a, (const char *)data, size, "fuzz", &v, &err);
  if ((status == CRN_OK) != (v != NULL) || (status == CRN_OK) != (crn_err_text(&err)[0] == '\0')) abort();
  if (v) {
    crn_str s = {0};
    if (!crn_v_copy(&a, v)) abort();
    crn_v_equal(v, v);
    crn_v_repr(v, &s, 1000);
    crn_str_free(&s);
  }
  crn_err_clear(&err);
  crn_arena_free(&a);
  return 0;
}
