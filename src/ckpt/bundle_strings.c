/* SPDX-License-Identifier: Apache-2.0
 *
 * String variables. Their bytes are: the lengths as varints, a masked CRC-32C over the lengths (each as u32, or u64
 * when longer), then all characters. The entry's checksum is over lengths (in that form), their checksum and
 * characters.
 */
#include "ckpt/bundle_internal.h"

#include "ckpt/crc32c.h"
#include "ckpt/wire.h"

static uint32_t extend_by_length(uint32_t crc, uint64_t length) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> (8 * i));
  return crn_crc32c_extend(crc, bytes, length <= UINT32_MAX ? 4 : 8);
}

static crn_status parse_strings(const crn_bundle_entry *e, const uint8_t *bytes, const char **out, size_t *lengths,
                                crn_arena *a, crn_err *err) {
  crn_cursor c = {bytes, bytes + e->size_bytes, false};
  uint32_t crc = 0;
  for (int64_t i = 0; i < e->n_elements; i++) {
    uint64_t length = crn_cursor_varint(&c);
    if (c.bad || length > (uint64_t)e->size_bytes) return crn_fail(err, CRN_E_FORMAT, "damaged string lengths");
    lengths[i] = (size_t)length;
    crc = extend_by_length(crc, length);
  }
  const uint8_t *stored = crn_cursor_bytes(&c, 4);
  if (!stored || crn_get_fixed32(stored) != crn_crc32c_mask(crc))
    return crn_fail(err, CRN_E_FORMAT, "wrong checksum of string lengths");
  crc = crn_crc32c_extend(crc, stored, 4);
  for (int64_t i = 0; i < e->n_elements; i++) {
    const uint8_t *text = crn_cursor_bytes(&c, lengths[i]);
    if (!text) return crn_fail(err, CRN_E_FORMAT, "strings are cut");
    crc = crn_crc32c_extend(crc, text, lengths[i]);
    out[i] = crn_arena_strndup(a, (const char *)text, lengths[i]);
    if (!out[i]) return crn_err_memory(err);
  }
  if (crn_cursor_left(&c) != 0 || crc != crn_crc32c_unmask(e->masked_crc))
    return crn_fail(err, CRN_E_FORMAT, "wrong checksum of strings");
  return CRN_OK;
}

static crn_status read_strings(const crn_bundle *b, const crn_bundle_entry *e, crn_arena *a, const char ***out,
                               size_t **lengths, crn_err *err) {
  if (e->dtype != CRN_TF_STRING)
    return crn_fail(err, CRN_E_FORMAT, "no strings but %s values", crn_tf_dtype_name(e->dtype));
  if (e->n_slices > 0) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: partitioned string variable");
  if (e->n_elements > e->size_bytes) return crn_fail(err, CRN_E_FORMAT, "damaged entry: too few bytes for its strings");
  CRN_TRY(crn_bundle_check_place(b, e, err));
  *out = CRN_ARENA_ARRAY(a, const char *, e->n_elements);
  size_t *all = CRN_ARENA_ARRAY(a, size_t, e->n_elements);
  if (lengths) *lengths = all;
  uint8_t *bytes = crn_malloc((size_t)e->size_bytes + 1);
  if (!*out || !all || !bytes) {
    crn_free(bytes);
    return crn_err_memory(err);
  }
  crn_status status = crn_bundle_read_bytes(b, e, bytes, err);
  if (status == CRN_OK) status = parse_strings(e, bytes, *out, all, a, err);
  crn_free(bytes);
  return status;
}

crn_status crn_bundle_read_strings(const crn_bundle *b, const crn_bundle_entry *e, crn_arena *a, const char ***out,
                                   size_t **lengths, crn_err *err) {
  if (read_strings(b, e, a, out, lengths, err) != CRN_OK) return crn_err_where(err, "variable '%s'", e->name);
  return CRN_OK;
}

static crn_status verify_entry(const crn_bundle *b, const crn_bundle_entry *e, crn_err *err) {
  if (e->dtype == CRN_TF_STRING) {
    crn_arena a = {0};
    const char **strings;
    crn_status status = crn_bundle_read_strings(b, e, &a, &strings, NULL, err);
    crn_arena_free(&a);
    return status;
  }
  size_t bytes = (size_t)e->n_elements * crn_tf_dtype_bytes(e->dtype);
  if (e->n_slices == 0 && crn_bundle_check_place(b, e, err) != CRN_OK)
    return crn_err_where(err, "variable '%s'", e->name);
  void *values = crn_malloc(bytes ? bytes : 1);
  if (!values) return crn_err_memory(err);
  crn_status status = crn_bundle_read(b, e, values, bytes, err);
  crn_free(values);
  return status;
}

crn_status crn_bundle_verify(const crn_bundle *b, crn_err *err) {
  for (size_t i = 0; i < b->n_entries; i++) CRN_TRY(verify_entry(b, &b->entries[i], err));
  return CRN_OK;
}
