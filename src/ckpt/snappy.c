/* SPDX-License-Identifier: Apache-2.0
 *
 * A snappy block is the decompressed length (varint) and then elements. The low two bits of an element's first byte say
 * which: 0 literal bytes, 1..3 a copy of bytes written before, with an offset of 11, 16 or 32 bits.
 */
#include "ckpt/snappy.h"

#include "ckpt/wire.h"

/* No element makes more than 64 bytes from 3, so a longer claim is damage and must not decide how much is allocated. */
#define MAX_RATIO 24

static uint32_t get_little_endian(crn_cursor *c, unsigned n_bytes) {
  const uint8_t *p = crn_cursor_bytes(c, n_bytes);
  uint32_t value = 0;
  for (unsigned i = 0; p && i < n_bytes; i++) value |= (uint32_t)p[i] << (8 * i);
  return value;
}

static bool copy_literal(crn_cursor *c, uint8_t tag, uint8_t *out, size_t *done, size_t size) {
  uint64_t length = tag >> 2;
  if (length >= 60) length = get_little_endian(c, (unsigned)length - 59);
  length++;
  const uint8_t *p = crn_cursor_bytes(c, length);
  if (!p || length > size - *done) return false;
  memcpy(out + *done, p, length);
  *done += length;
  return true;
}

static bool copy_earlier(crn_cursor *c, uint8_t tag, uint8_t *out, size_t *done, size_t size) {
  size_t length, offset;
  if ((tag & 3) == 1) {
    length = 4 + ((tag >> 2) & 7u);
    offset = (size_t)(tag >> 5) << 8 | get_little_endian(c, 1);
  } else {
    length = 1 + (size_t)(tag >> 2);
    offset = get_little_endian(c, (tag & 3) == 2 ? 2 : 4);
  }
  if (c->bad || offset == 0 || offset > *done || length > size - *done) return false;
  for (size_t i = 0; i < length; i++) out[*done + i] = out[*done + i - offset]; /* the ranges may overlap */
  *done += length;
  return true;
}

crn_status crn_snappy_read(crn_arena *a, const uint8_t *bytes, size_t n, const uint8_t **out, size_t *out_n,
                           crn_err *err) {
  crn_cursor c = {bytes, bytes + n, false};
  uint64_t size = crn_cursor_varint(&c);
  if (c.bad || size > (uint64_t)n * MAX_RATIO) return crn_fail(err, CRN_E_FORMAT, "damaged snappy block (length)");
  uint8_t *dst = crn_arena_alloc(a, size ? size : 1);
  if (!dst) return crn_err_memory(err);
  size_t done = 0;
  while (crn_cursor_left(&c) > 0) {
    uint8_t tag = *c.p++;
    bool good = (tag & 3) == 0 ? copy_literal(&c, tag, dst, &done, size) : copy_earlier(&c, tag, dst, &done, size);
    if (!good) return crn_fail(err, CRN_E_FORMAT, "damaged snappy block (at byte %zu)", (size_t)(c.p - bytes));
  }
  if (done != size) return crn_fail(err, CRN_E_FORMAT, "damaged snappy block (too short)");
  *out = dst;
  *out_n = size;
  return CRN_OK;
}
