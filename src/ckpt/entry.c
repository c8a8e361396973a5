/* SPDX-License-Identifier: Apache-2.0
 *
 * Header and variable messages through protobuf-c. Whatever an index says is checked here once, so that the rest of
 * the reader can trust shapes and sizes.
 */
#include "ckpt/entry.h"

#include "ckpt/bundle.pb-c.h"

#include <string.h>

typedef Crn__Ckpt__BundleHeaderProto header_proto;
typedef Crn__Ckpt__BundleEntryProto entry_proto;
typedef Crn__Ckpt__TensorShapeProto shape_proto;
typedef Crn__Ckpt__TensorShapeProto__Dim dim_proto;
typedef Crn__Ckpt__TensorSliceProto slice_proto;
typedef Crn__Ckpt__TensorSliceProto__Extent extent_proto;

static void *proto_alloc(void *user, size_t n) {
  (void)user;
  return crn_malloc(n ? n : 1);
}

static void proto_free(void *user, void *p) {
  (void)user;
  crn_free(p);
}

static ProtobufCAllocator proto_allocator(void) { return (ProtobufCAllocator){proto_alloc, proto_free, NULL}; }

crn_status crn_header_parse(const crn_table_item *item, crn_bundle_header *out, crn_err *err) {
  ProtobufCAllocator alloc = proto_allocator();
  header_proto *h = crn__ckpt__bundle_header_proto__unpack(&alloc, item->value_len, item->value);
  if (!h) return crn_fail(err, CRN_E_FORMAT, "damaged header of the index");
  *out = (crn_bundle_header){h->num_shards, h->endianness != 0};
  int min_consumer = h->version ? h->version->min_consumer : 0;
  crn__ckpt__bundle_header_proto__free_unpacked(h, &alloc);
  if (min_consumer > 1)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "not implemented: checkpoint format of version %d (known: 1)",
                    min_consumer);
  if (out->n_shards < 0) return crn_fail(err, CRN_E_FORMAT, "damaged header of the index: %d shards", out->n_shards);
  return CRN_OK;
}

static crn_status parse_shape(crn_arena *a, const shape_proto *p, crn_bundle_entry *e, crn_err *err) {
  size_t rank = p ? p->n_dim : 0;
  if (p && p->unknown_rank) return crn_fail(err, CRN_E_FORMAT, "damaged entry: shape of unknown rank");
  if (rank > CRN_BUNDLE_MAX_RANK)
    return crn_fail(err, CRN_E_FORMAT, "entry with %zu axes (at most %d)", rank, CRN_BUNDLE_MAX_RANK);
  int64_t *shape = CRN_ARENA_ARRAY(a, int64_t, rank ? rank : 1);
  if (!shape) return crn_err_memory(err);
  e->n_elements = 1;
  for (size_t i = 0; i < rank; i++) {
    shape[i] = p->dim[i]->size;
    if (shape[i] < 0 || __builtin_mul_overflow(e->n_elements, shape[i], &e->n_elements) ||
        e->n_elements > INT64_MAX / 16)
      return crn_fail(err, CRN_E_FORMAT, "damaged entry: impossible shape");
  }
  e->rank = (int)rank;
  e->shape = shape;
  return CRN_OK;
}

static crn_status parse_slice(crn_arena *a, const slice_proto *p, const crn_bundle_entry *e, crn_bundle_slice *out,
                              crn_err *err) {
  if (p->n_extent != (size_t)e->rank) return crn_fail(err, CRN_E_FORMAT, "damaged entry: slice of another rank");
  int64_t *start = CRN_ARENA_ARRAY(a, int64_t, e->rank ? e->rank : 1);
  int64_t *length = CRN_ARENA_ARRAY(a, int64_t, e->rank ? e->rank : 1);
  if (!start || !length) return crn_err_memory(err);
  for (int i = 0; i < e->rank; i++) {
    const extent_proto *x = p->extent[i];
    bool whole = x->has_length_case != CRN__CKPT__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_LENGTH;
    start[i] = x->start;
    length[i] = whole ? -1 : x->length;
    if (whole ? start[i] != 0
              : start[i] < 0 || length[i] < 0 || length[i] > e->shape[i] || start[i] > e->shape[i] - length[i])
      return crn_fail(err, CRN_E_FORMAT, "damaged entry: slice outside the variable");
  }
  *out = (crn_bundle_slice){start, length};
  return CRN_OK;
}

static crn_status parse_fields(crn_arena *a, const entry_proto *p, crn_bundle_entry *e, crn_err *err) {
  CRN_TRY(parse_shape(a, p->shape, e, err));
  e->dtype = p->dtype;
  e->shard = p->shard_id;
  e->offset = p->offset;
  e->size_bytes = p->size;
  e->masked_crc = p->crc32c;
  if (e->shard < 0 || e->offset < 0 || e->size_bytes < 0 || e->offset > INT64_MAX - e->size_bytes)
    return crn_fail(err, CRN_E_FORMAT, "damaged entry: impossible place in the file");
  if (p->n_slices > INT32_MAX) return crn_fail(err, CRN_E_FORMAT, "damaged entry: too many slices");
  int64_t element_bytes = (int64_t)crn_tf_dtype_bytes(e->dtype);
  if (p->n_slices == 0 && element_bytes > 0 && e->size_bytes != e->n_elements * element_bytes)
    return crn_fail(err, CRN_E_FORMAT, "damaged entry: %lld bytes for %lld values of %s", (long long)e->size_bytes,
                    (long long)e->n_elements, crn_tf_dtype_name(e->dtype));
  crn_bundle_slice *slices = CRN_ARENA_ARRAY(a, crn_bundle_slice, p->n_slices ? p->n_slices : 1);
  if (!slices) return crn_err_memory(err);
  for (size_t i = 0; i < p->n_slices; i++) CRN_TRY(parse_slice(a, p->slices[i], e, &slices[i], err));
  e->n_slices = (int)p->n_slices;
  e->slices = slices;
  return CRN_OK;
}

crn_status crn_entry_parse(crn_arena *a, const crn_table_item *item, crn_bundle_entry *out, crn_err *err) {
  ProtobufCAllocator alloc = proto_allocator();
  *out = (crn_bundle_entry){.name = item->key};
  entry_proto *p = crn__ckpt__bundle_entry_proto__unpack(&alloc, item->value_len, item->value);
  if (!p) return crn_fail(err, CRN_E_FORMAT, "damaged entry of the index");
  crn_status status = parse_fields(a, p, out, err);
  crn__ckpt__bundle_entry_proto__free_unpacked(p, &alloc);
  return status;
}

static void append_message(const ProtobufCMessage *m, crn_str *out) {
  size_t n = protobuf_c_message_get_packed_size(m);
  uint8_t *bytes = crn_malloc(n ? n : 1);
  if (!bytes) {
    out->failed = true;
    return;
  }
  protobuf_c_message_pack(m, bytes);
  crn_str_addn(out, (const char *)bytes, n);
  crn_free(bytes);
}

void crn_header_pack(int32_t n_shards, crn_str *out) {
  Crn__Ckpt__VersionDef version = CRN__CKPT__VERSION_DEF__INIT;
  header_proto h = CRN__CKPT__BUNDLE_HEADER_PROTO__INIT;
  version.producer = 1;
  h.num_shards = n_shards;
  h.version = &version;
  append_message(&h.base, out);
}

void crn_entry_pack(const crn_bundle_entry *e, crn_str *out) {
  shape_proto shape = CRN__CKPT__TENSOR_SHAPE_PROTO__INIT;
  dim_proto dims[CRN_BUNDLE_MAX_RANK];
  dim_proto *dim_pointers[CRN_BUNDLE_MAX_RANK];
  for (int i = 0; i < e->rank; i++) {
    dims[i] = (dim_proto)CRN__CKPT__TENSOR_SHAPE_PROTO__DIM__INIT;
    dims[i].size = e->shape[i];
    dim_pointers[i] = &dims[i];
  }
  shape.n_dim = (size_t)e->rank;
  shape.dim = dim_pointers;
  entry_proto p = CRN__CKPT__BUNDLE_ENTRY_PROTO__INIT;
  p.dtype = e->dtype;
  p.shape = &shape;
  p.shard_id = e->shard;
  p.offset = e->offset;
  p.size = e->size_bytes;
  p.crc32c = e->masked_crc;
  append_message(&p.base, out);
}
