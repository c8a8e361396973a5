/* SPDX-License-Identifier: Apache-2.0
 *
 * Zip files: the directory at the end is read once, members when asked for (PKWARE's APPNOTE 6.3). Sizes are checked
 * against the file before memory is asked for, contents by their CRC.
 */
#include "data/zip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/map.h"

typedef struct member {
  const char *name;
  uint64_t packed, size, offset; /* bytes; offset of the local header */
  uint32_t crc;
  unsigned method, flags;
} member;

struct crn_zip {
  crn_arena arena;
  FILE *file;
  const char *path;
  uint64_t bytes; /* of the file */
  member *members;
  size_t n;
  crn_map by_name; /* name -> index + 1 */
};

static uint64_t little(const unsigned char *p, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static bool read_at(crn_zip *z, uint64_t at, void *buf, size_t n) {
  return at <= z->bytes && n <= z->bytes - at && fseeko(z->file, (off_t)at, SEEK_SET) == 0 &&
         fread(buf, 1, n, z->file) == n;
}

static crn_status damaged(const crn_zip *z, const char *what, crn_err *err) {
  return crn_fail(err, CRN_E_FORMAT, "%s: %s; no zip file, or damaged", z->path, what);
}

/* Place and size of the directory, from the record at the end of the file. */
static crn_status find_directory(crn_zip *z, uint64_t *at, uint64_t *size, uint64_t *count, crn_err *err) {
  enum { END = 22, MAX_COMMENT = 65535 };
  size_t n = (size_t)(z->bytes < END + MAX_COMMENT ? z->bytes : END + MAX_COMMENT);
  unsigned char *tail = crn_malloc(n + 1), big[56];
  if (!tail) return crn_err_memory(err);
  crn_status code = read_at(z, z->bytes - n, tail, n) ? CRN_OK : damaged(z, "can't be read", err);
  size_t end = n;
  for (size_t i = n >= END ? n - END + 1 : 0; i > 0 && end == n && code == CRN_OK; i--)
    if (!memcmp(tail + i - 1, "PK\5\6", 4)) end = i - 1;
  if (code == CRN_OK && end == n) code = damaged(z, "it has no directory", err);
  if (code == CRN_OK) {
    *count = little(tail + end + 10, 2);
    *size = little(tail + end + 12, 4);
    *at = little(tail + end + 16, 4);
    if ((*at == UINT32_MAX || *count == UINT16_MAX || *size == UINT32_MAX) && end >= 20 &&
        !memcmp(tail + end - 20, "PK\6\7", 4)) { /* zip64: a locator stands before */
      uint64_t where = little(tail + end - 20 + 8, 8);
      if (!read_at(z, where, big, sizeof big) || memcmp(big, "PK\6\6", 4) != 0)
        code = damaged(z, "its zip64 record is missing", err);
      *count = little(big + 32, 8);
      *size = little(big + 40, 8);
      *at = little(big + 48, 8);
    }
  }
  crn_free(tail);
  if (code == CRN_OK && (*at > z->bytes || *size > z->bytes - *at || *count > *size / 46))
    code = damaged(z, "its directory lies outside of it", err);
  return code;
}

/* Sizes that don't fit into 32 bits stand in an extra field. */
static void read_extra(const unsigned char *p, size_t n, member *m) {
  while (n >= 4) {
    size_t size = (size_t)little(p + 2, 2);
    if (size > n - 4) return;
    if (little(p, 2) == 1) {
      const unsigned char *q = p + 4, *end = q + size;
      uint64_t *const fields[] = {&m->size, &m->packed, &m->offset};
      for (int i = 0; i < 3; i++)
        if (*fields[i] == UINT32_MAX && end - q >= 8) {
          *fields[i] = little(q, 8);
          q += 8;
        }
      return;
    }
    p += 4 + size;
    n -= 4 + size;
  }
}

static crn_status read_directory(crn_zip *z, crn_err *err) {
  uint64_t at = 0, size = 0, count = 0;
  CRN_TRY(find_directory(z, &at, &size, &count, err));
  unsigned char *dir = crn_malloc((size_t)size + 1);
  z->members = CRN_ARENA_ARRAY(&z->arena, member, count + 1);
  crn_status code = dir && z->members ? CRN_OK : crn_err_memory(err);
  if (code == CRN_OK && !read_at(z, at, dir, (size_t)size)) code = damaged(z, "its directory can't be read", err);
  size_t pos = 0;
  for (uint64_t i = 0; i < count && code == CRN_OK; i++) {
    if (size - pos < 46 || memcmp(dir + pos, "PK\1\2", 4) != 0) {
      code = damaged(z, "an entry of its directory is wrong", err);
      break;
    }
    const unsigned char *p = dir + pos;
    size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2), comment = (size_t)little(p + 32, 2);
    if (name + extra + comment > size - pos - 46) {
      code = damaged(z, "an entry of its directory is wrong", err);
      break;
    }
    member *m = &z->members[z->n];
    *m = (member){.name = crn_arena_strndup(&z->arena, (const char *)p + 46, name),
                  .packed = little(p + 20, 4),
                  .size = little(p + 24, 4),
                  .offset = little(p + 42, 4),
                  .crc = (uint32_t)little(p + 16, 4),
                  .flags = (unsigned)little(p + 8, 2),
                  .method = (unsigned)little(p + 10, 2)};
    read_extra(p + 46 + name, extra, m);
    pos += 46 + name + extra + comment;
    if (!m->name || crn_map_set(&z->by_name, m->name, (void *)(intptr_t)(++z->n)) != CRN_OK) code = crn_err_memory(err);
  }
  crn_free(dir);
  return code;
}

crn_status crn_zip_open(const char *path, crn_zip **out, crn_err *err) {
  *out = NULL;
  errno = 0;
  FILE *file = fopen(path, "rb");
  if (!file) return crn_fail(err, CRN_E_FILE, "%s: %s", path, strerror(errno));
  crn_zip *z = crn_calloc(1, sizeof *z);
  if (!z) {
    fclose(file);
    return crn_err_memory(err);
  }
  z->file = file;
  z->path = crn_arena_strdup(&z->arena, path);
  off_t bytes = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
  crn_status code = !z->path ? crn_err_memory(err) : bytes < 0 ? damaged(z, "can't be read", err) : CRN_OK;
  z->bytes = (uint64_t)bytes;
  if (code == CRN_OK) code = read_directory(z, err);
  if (code == CRN_OK)
    *out = z;
  else
    crn_zip_close(z);
  return code;
}

void crn_zip_close(crn_zip *z) {
  if (!z) return;
  fclose(z->file);
  crn_map_free(&z->by_name);
  crn_arena_free(&z->arena);
  crn_free(z);
}

const char *crn_zip_path(const crn_zip *z) { return z->path; }
size_t crn_zip_count(const crn_zip *z) { return z->n; }
const char *crn_zip_name(const crn_zip *z, size_t i) { return z->members[i].name; }
bool crn_zip_has(const crn_zip *z, const char *name) { return crn_map_has(&z->by_name, name); }

/* Unpack a deflated member; packed data are without header. */
static bool inflate_all(const unsigned char *packed, size_t n_packed, unsigned char *out, size_t n) {
  z_stream s = {0};
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return false;
  int rc = Z_OK;
  size_t in_left = n_packed, out_left = n;
  s.next_in = (unsigned char *)(uintptr_t)packed;
  s.next_out = out;
  while (rc == Z_OK) {
    uInt in = (uInt)(in_left < UINT32_MAX / 2 ? in_left : UINT32_MAX / 2);
    uInt room = (uInt)(out_left < UINT32_MAX / 2 ? out_left : UINT32_MAX / 2);
    s.avail_in = in;
    s.avail_out = room;
    rc = inflate(&s, Z_NO_FLUSH);
    in_left -= in - s.avail_in;
    out_left -= room - s.avail_out;
    if (rc == Z_OK && s.avail_in == in && s.avail_out == room) break; /* no progress */
  }
  inflateEnd(&s);
  return rc == Z_STREAM_END && out_left == 0;
}

crn_status crn_zip_read(crn_zip *z, const char *name, char **data, size_t *len, crn_err *err) {
  intptr_t at = (intptr_t)crn_map_get(&z->by_name, name);
  if (!at) return crn_fail(err, CRN_E_FILE, "%s: has no member '%s'", z->path, name);
  const member *m = &z->members[at - 1];
  unsigned char head[30];
  if (m->flags & 1) return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: '%s': not implemented: encryption", z->path, name);
  if (m->method != 0 && m->method != 8)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: '%s': not implemented: compression method %u", z->path, name,
                    m->method);
  if (!read_at(z, m->offset, head, sizeof head) || memcmp(head, "PK\3\4", 4) != 0)
    return damaged(z, "the header of a member is wrong", err);
  uint64_t start = m->offset + sizeof head + little(head + 26, 2) + little(head + 28, 2);
  bool fits = start <= z->bytes && m->packed <= z->bytes - start;
  fits = fits && (m->method == 0 ? m->size == m->packed : m->size / 1100 <= m->packed + 1);
  if (!fits) return damaged(z, "the size of a member is wrong", err);
  unsigned char *packed = crn_malloc((size_t)m->packed + 1), *out = packed;
  crn_status code = packed ? CRN_OK : crn_err_memory(err);
  if (code == CRN_OK && !read_at(z, start, packed, (size_t)m->packed)) code = damaged(z, "a member can't be read", err);
  if (code == CRN_OK && m->method == 8) {
    out = crn_malloc((size_t)m->size + 1);
    if (!out)
      code = crn_err_memory(err);
    else if (!inflate_all(packed, (size_t)m->packed, out, (size_t)m->size))
      code = damaged(z, "a member can't be unpacked", err);
    crn_free(packed);
  }
  if (code == CRN_OK && (uint32_t)crc32_z(0, out, (z_size_t)m->size) != m->crc)
    code = damaged(z, "the checksum of a member is wrong", err);
  if (code != CRN_OK) {
    crn_free(out);
    return code;
  }
  out[m->size] = 0;
  *data = (char *)out;
  *len = (size_t)m->size;
  return CRN_OK;
}
