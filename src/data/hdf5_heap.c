/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at variable-length strings before the library reads them. Each is stored as a reference {length, address of a
 * heap collection, index} into the file's global heap; the library (1.10) follows damaged references out of its
 * buffers or without end. So the references of a dataset and the collections that they name are checked here from the
 * file's bytes (HDF5 File Format Specification, III.E "Global Heap"). References that can't be found from outside (in
 * attributes, in filtered chunks) are left to the library.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "data/hdf5_lib.h"

enum { REF_BYTES = 16, COLLECTION_HEADER = 16, OBJECT_HEADER = 16, MAX_INDEX = 65536 };

typedef struct heap_reader {
  crn_h5 *f;
  FILE *file;
  int64_t user_block; /* addresses in the file count from its end */
  uint64_t present;   /* address of the collection in sizes; UINT64_MAX: none */
  int64_t *sizes;     /* bytes of each object by index, -1 = no such object */
} heap_reader;

static uint64_t little(const unsigned char *p, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static bool read_at(heap_reader *r, int64_t at, void *buf, size_t n) {
  return at >= 0 && at <= r->f->file_bytes - (int64_t)n && fseek(r->file, (long)at, SEEK_SET) == 0 &&
         fread(buf, 1, n, r->file) == n;
}

/* Walk through one collection and note its objects. False if it is damaged. */
static bool load_collection(heap_reader *r, uint64_t address) {
  unsigned char head[COLLECTION_HEADER], object[OBJECT_HEADER];
  r->present = UINT64_MAX;
  if (address > (uint64_t)r->f->file_bytes) return false;
  int64_t at = (int64_t)address + r->user_block;
  if (!read_at(r, at, head, sizeof head) || memcmp(head, "GCOL\1", 5) != 0) return false;
  uint64_t size = little(head + 8, 8);
  if (size < COLLECTION_HEADER || size > (uint64_t)(r->f->file_bytes - at)) return false;
  for (int i = 0; i < MAX_INDEX; i++) r->sizes[i] = -1;
  uint64_t pos = COLLECTION_HEADER;
  while (pos + OBJECT_HEADER <= size) {
    if (!read_at(r, at + (int64_t)pos, object, sizeof object)) return false;
    uint64_t index = little(object, 2), bytes = little(object + 8, 8);
    if (index == 0) { /* the free space at the end; its size counts its own header */
      if (bytes != size - pos) return false;
      break;
    }
    if (bytes > size - pos - OBJECT_HEADER || r->sizes[index] >= 0) return false;
    r->sizes[index] = (int64_t)bytes;
    pos += OBJECT_HEADER + ((bytes + 7) & ~(uint64_t)7);
  }
  r->present = address;
  return true;
}

static bool ref_is_sound(heap_reader *r, const unsigned char *ref) {
  uint64_t length = little(ref, 4), address = little(ref + 4, 8), index = little(ref + 12, 4);
  if (length == 0 && address == 0) return true; /* never written: an empty string */
  if (address == 0 || index == 0 || index >= MAX_INDEX) return false;
  if (address != r->present && !load_collection(r, address)) return false;
  return r->sizes[index] >= (int64_t)length;
}

static bool refs_are_sound(heap_reader *r, int64_t at, int64_t n) {
  unsigned char block[REF_BYTES * 256];
  while (n > 0) {
    int64_t now = n < 256 ? n : 256;
    if (!read_at(r, at, block, (size_t)now * REF_BYTES)) return false;
    for (int64_t i = 0; i < now; i++) {
      if (!ref_is_sound(r, block + i * REF_BYTES)) return false;
    }
    /* loading a collection moved the file's position; the next read seeks anew */
    at += now * REF_BYTES;
    n -= now;
  }
  return true;
}

static bool chunks_are_sound(heap_reader *r, hid_t set) {
  hsize_t n = 0, offset[CRN_H5_MAX_RANK], size;
  hid_t space = H5Dget_space(set);
  bool ok = space >= 0 && H5Dget_num_chunks(set, space, &n) >= 0;
  for (hsize_t i = 0; i < n && ok; i++) {
    unsigned mask;
    haddr_t at;
    ok = H5Dget_chunk_info(set, space, i, offset, &mask, &at, &size) >= 0;
    if (!ok || at == HADDR_UNDEF) continue;
    ok = at <= (haddr_t)r->f->file_bytes && size <= (hsize_t)r->f->file_bytes &&
         refs_are_sound(r, (int64_t)at, (int64_t)size / REF_BYTES);
  }
  if (space >= 0) H5Sclose(space);
  return ok;
}

/* Sizes that this check knows: 8-byte addresses, no filters. *user_block: as stated by the file. */
static bool can_check(crn_h5 *f, hid_t props, int64_t *user_block) {
  hid_t file_props = H5Fget_create_plist(f->file);
  size_t address_bytes = 0, length_bytes = 0;
  hsize_t block = 0;
  bool ok = file_props >= 0 && H5Pget_sizes(file_props, &address_bytes, &length_bytes) >= 0 &&
            H5Pget_userblock(file_props, &block) >= 0 && address_bytes == 8 && length_bytes == 8;
  if (file_props >= 0) H5Pclose(file_props);
  *user_block = (int64_t)block;
  return ok && !f->can_write && H5Pget_external_count(props) == 0 &&
         (H5Pget_layout(props) != H5D_CHUNKED || H5Pget_nfilters(props) == 0);
}

bool crn_h5_strings_are_sound(crn_h5 *f, hid_t set, int64_t n) {
  hid_t props = H5Dget_create_plist(set);
  if (props < 0) return false;
  heap_reader r = {.f = f, .present = UINT64_MAX};
  bool ok = true, known = can_check(f, props, &r.user_block);
  H5D_layout_t layout = H5Pget_layout(props);
  H5Pclose(props);
  if (!known) return true;
  r.file = fopen(f->path, "rb");
  r.sizes = crn_malloc(MAX_INDEX * sizeof *r.sizes);
  if (r.file && r.sizes) {
    haddr_t at = layout == H5D_CONTIGUOUS ? H5Dget_offset(set) : HADDR_UNDEF;
    if (layout == H5D_CHUNKED)
      ok = chunks_are_sound(&r, set);
    else if (at != HADDR_UNDEF)
      ok = at <= (haddr_t)f->file_bytes && n <= f->file_bytes / REF_BYTES && refs_are_sound(&r, (int64_t)at, n);
  }
  if (r.file) fclose(r.file);
  crn_free(r.sizes);
  return ok;
}
