/* SPDX-License-Identifier: Apache-2.0
 *
 * Little-endian numbers and varints in byte buffers. A cursor never leaves its buffer: a read past the end gives 0 and
 * sets `bad`, which the caller looks at once at the end of a record.
 */
#ifndef CRN_CKPT_WIRE_H
#define CRN_CKPT_WIRE_H

#include "base/str.h"

#include <string.h>

typedef struct crn_cursor {
  const uint8_t *p, *end;
  bool bad; /* a read went past the end, or a varint is malformed */
} crn_cursor;

static inline uint32_t crn_get_fixed32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t crn_get_fixed64(const uint8_t *p) {
  return (uint64_t)crn_get_fixed32(p) | (uint64_t)crn_get_fixed32(p + 4) << 32;
}

static inline size_t crn_cursor_left(const crn_cursor *c) { return (size_t)(c->end - c->p); }

static inline uint64_t crn_cursor_varint(crn_cursor *c) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (c->bad || c->p == c->end) break;
    uint8_t byte = *c->p++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  c->bad = true;
  return 0;
}

/* The next n bytes, or NULL (and bad). */
static inline const uint8_t *crn_cursor_bytes(crn_cursor *c, uint64_t n) {
  if (c->bad || n > crn_cursor_left(c)) {
    c->bad = true;
    return NULL;
  }
  const uint8_t *p = c->p;
  c->p += n;
  return p;
}

static inline void crn_put_varint(crn_str *s, uint64_t value) {
  for (; value >= 0x80; value >>= 7) crn_str_addc(s, (char)(uint8_t)(value | 0x80));
  crn_str_addc(s, (char)(uint8_t)value);
}

static inline void crn_put_fixed32(crn_str *s, uint32_t value) {
  for (int i = 0; i < 4; i++) crn_str_addc(s, (char)(uint8_t)(value >> (8 * i)));
}

static inline void crn_put_fixed64(crn_str *s, uint64_t value) {
  crn_put_fixed32(s, (uint32_t)value);
  crn_put_fixed32(s, (uint32_t)(value >> 32));
}

#endif
