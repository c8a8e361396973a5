/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioned variables. The variable's own entry lists boxes ("slices"); each box is an entry of its own under a key
 * that is made from name and box in an order-preserving code:
 *   number 0, name, rank, then start and length of each axis (length -1: whole axis)
 *   unsigned number: count of bytes, then these, highest first;  string: 00 -> 00 FF, FF -> FF 00, end 00 01
 *   signed number x: highest byte first in n bytes of 7 bits; the first bits, n ones and a zero, xor the sign's copies
 */
#include "ckpt/bundle_internal.h"

#include "ckpt/crc32c.h"
#include "ckpt/wire.h"

/* Pieces are compared pairwise for overlap. */
enum { MAX_SLICES = 4096 };

static void put_unsigned(crn_str *s, uint64_t x) {
  int n = 0;
  while (n < 8 && x >> (8 * n)) n++;
  crn_str_addc(s, (char)n);
  for (int i = n - 1; i >= 0; i--) crn_str_addc(s, (char)(uint8_t)(x >> (8 * i)));
}

static void put_text(crn_str *s, const char *text) {
  for (const char *p = text; *p; p++) {
    crn_str_addc(s, *p);
    if ((uint8_t)*p == 0xff) crn_str_addc(s, 0);
  }
  crn_str_addn(s, "\0\1", 2);
}

static void put_signed(crn_str *s, int64_t x) {
  uint64_t magnitude = x < 0 ? ~(uint64_t)x : (uint64_t)x;
  int bits = magnitude ? 64 - __builtin_clzll(magnitude) : 0;
  int n = bits / 7 + 1; /* bytes: 7 bits each, one of all bits for the sign */
  uint8_t bytes[10];
  for (int i = 0; i < 10; i++) bytes[i] = i < 2 ? (uint8_t)(x < 0 ? 0xff : 0) : (uint8_t)((uint64_t)x >> (8 * (9 - i)));
  uint8_t *first = bytes + 10 - n;
  first[0] ^= n >= 8 ? 0xff : (uint8_t)(0xff00u >> n);
  if (n == 9) first[1] ^= 0x80;
  if (n == 10) first[1] ^= 0xc0;
  crn_str_addn(s, (const char *)first, (size_t)n);
}

static void put_slice_key(crn_str *s, const crn_bundle_entry *e, const crn_bundle_slice *slice) {
  crn_str_clear(s);
  put_unsigned(s, 0);
  put_text(s, e->name);
  put_unsigned(s, (uint64_t)e->rank);
  for (int i = 0; i < e->rank; i++) {
    put_signed(s, slice->start[i]);
    put_signed(s, slice->length[i]);
  }
}

static const crn_bundle_entry *find_piece(const crn_bundle *b, const crn_str *key) {
  size_t low = 0, high = b->n_pieces;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const crn_table_item *k = &b->piece_keys[middle];
    size_t n = k->key_len < key->len ? k->key_len : key->len;
    int order = memcmp(k->key, key->p, n);
    if (order == 0) order = (k->key_len > key->len) - (k->key_len < key->len);
    if (order == 0) return &b->pieces[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static int64_t slice_length(const crn_bundle_entry *e, const crn_bundle_slice *s, int axis) {
  return s->length[axis] < 0 ? e->shape[axis] : s->length[axis];
}

static bool slices_overlap(const crn_bundle_entry *e, const crn_bundle_slice *x, const crn_bundle_slice *y) {
  for (int i = 0; i < e->rank; i++)
    if (x->start[i] + slice_length(e, x, i) <= y->start[i] || y->start[i] + slice_length(e, y, i) <= x->start[i])
      return false;
  return true;
}

/* Boxes that don't overlap and have as many elements as the variable cover it. */
static crn_status check_cover(const crn_bundle_entry *e, crn_err *err) {
  if (e->n_slices > MAX_SLICES)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: variable of more than %d parts", MAX_SLICES);
  int64_t covered = 0;
  for (int i = 0; i < e->n_slices; i++) {
    int64_t n = 1;
    for (int k = 0; k < e->rank; k++) n *= slice_length(e, &e->slices[i], k);
    if (__builtin_add_overflow(covered, n, &covered)) covered = -1;
    for (int j = 0; n > 0 && j < i; j++)
      if (slices_overlap(e, &e->slices[i], &e->slices[j]))
        return crn_fail(err, CRN_E_FORMAT, "damaged index: parts of the variable overlap");
  }
  if (covered != e->n_elements) return crn_fail(err, CRN_E_FORMAT, "parts of the variable are missing in the index");
  return CRN_OK;
}

/* Copy a piece's rows (runs along the last axis) to their places. */
static void place_piece(const crn_bundle_entry *e, const crn_bundle_slice *s, const char *piece, char *dst,
                        size_t element_bytes) {
  int64_t at[CRN_BUNDLE_MAX_RANK] = {0};
  int last = e->rank - 1;
  size_t row_bytes = (last < 0 ? 1 : (size_t)slice_length(e, s, last)) * element_bytes;
  for (;;) {
    int64_t index = 0;
    for (int i = 0; i < e->rank; i++) index = index * e->shape[i] + s->start[i] + (i < last ? at[i] : 0);
    memcpy(dst + (size_t)index * element_bytes, piece, row_bytes);
    piece += row_bytes;
    int axis = last - 1;
    while (axis >= 0 && ++at[axis] == slice_length(e, s, axis)) at[axis--] = 0;
    if (axis < 0) return;
  }
}

static crn_status read_piece(const crn_bundle *b, const crn_bundle_entry *e, const crn_bundle_slice *s, void *dst,
                             crn_str *key, crn_err *err) {
  size_t element_bytes = crn_tf_dtype_bytes(e->dtype);
  put_slice_key(key, e, s);
  if (!crn_str_ok(key)) return crn_err_memory(err);
  const crn_bundle_entry *piece = find_piece(b, key);
  if (!piece) return crn_fail(err, CRN_E_FORMAT, "a part of the variable is missing in the index");
  bool fits = piece->rank == e->rank && piece->dtype == e->dtype && piece->n_slices == 0;
  for (int i = 0; i < e->rank && fits; i++) fits = piece->shape[i] == slice_length(e, s, i);
  if (!fits) return crn_fail(err, CRN_E_FORMAT, "a part of the variable has another type or shape than its slice");
  if (piece->n_elements == 0) return CRN_OK;
  CRN_TRY(crn_bundle_check_place(b, piece, err));
  void *values = crn_malloc((size_t)piece->size_bytes);
  if (!values) return crn_err_memory(err);
  crn_status status = crn_bundle_read_plain(b, piece, values, err);
  if (status == CRN_OK) place_piece(e, s, values, dst, element_bytes);
  crn_free(values);
  return status;
}

crn_status crn_bundle_read_sliced(const crn_bundle *b, const crn_bundle_entry *e, void *dst, crn_err *err) {
  CRN_TRY(check_cover(e, err));
  crn_str key = {0};
  crn_status status = CRN_OK;
  for (int i = 0; i < e->n_slices && status == CRN_OK; i++) status = read_piece(b, e, &e->slices[i], dst, &key, err);
  crn_str_free(&key);
  return status;
}
