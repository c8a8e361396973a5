/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: parameters of all networks of a config, by path, with their values.
 */
#include <string.h>

#include "net/net.h"

crn_store *crn_store_new(crn_dtype real) {
  crn_store *s = crn_calloc(1, sizeof(*s));
  if (s) s->real = real;
  return s;
}

void crn_store_free(crn_store *s) {
  if (!s) return;
  for (size_t i = 0; i < s->by_path.n; i++) {
    crn_param *p = s->by_path.entries[i].value;
    if (!p) continue;
    crn_weight_free(&p->st);
    crn_free(p->st.data);
    crn_free(p->st.grad);
  }
  crn_map_free(&s->by_path);
  crn_arena_free(&s->arena);
  crn_free(s);
}

crn_param *crn_store_find(const crn_store *s, const char *path) { return path ? crn_map_get(&s->by_path, path) : NULL; }

void crn_store_read_only(crn_store *s) {
  for (size_t i = 0; i < s->by_path.n; i++) {
    crn_param *p = s->by_path.entries[i].value;
    if (p && crn_dtype_is_float(p->dtype) && p->spec.rank >= 2) p->st.packed_only = true;
  }
}

static void convert(void *dst, crn_dtype to, const void *src, crn_dtype from, int64_t n) {
  crn_storage st = {.data = NULL};
  union {
    const void *c;
    void *m;
  } u = {.c = src};
  st.data = u.m;
  crn_tensor t = {.st = &st, .dtype = from, .rank = 1, .shape = {n}};
  for (int64_t i = 0; i < n; i++) {
    if (to == CRN_F32) ((float *)dst)[i] = (float)crn_t_get(&t, i);
    else if (to == CRN_F64) ((double *)dst)[i] = crn_t_get(&t, i);
    else if (to == CRN_I32) ((int32_t *)dst)[i] = (int32_t)crn_t_get(&t, i);
    else if (to == CRN_I64) ((int64_t *)dst)[i] = from == CRN_I64 ? ((const int64_t *)src)[i] : (int64_t)crn_t_get(&t, i);
    else if (to == CRN_BOOL) ((uint8_t *)dst)[i] = crn_t_get(&t, i) != 0;
  }
}

crn_status crn_param_set(crn_param *p, crn_dtype dtype, int rank, const int64_t *shape, const void *data, crn_err *err) {
  bool same = rank == p->spec.rank;
  for (int i = 0; same && i < rank; i++) same = shape[i] == p->spec.shape[i];
  if (!same) {
    crn_str s = {0};
    for (int i = 0; i < p->spec.rank; i++) crn_str_addf(&s, i ? ", %lld" : "%lld", (long long)p->spec.shape[i]);
    crn_str_add(&s, "), got (");
    for (int i = 0; i < rank; i++) crn_str_addf(&s, i ? ", %lld" : "%lld", (long long)shape[i]);
    crn_status st =
        crn_fail(err, CRN_E_DATA, "parameter '%s': expected shape (%s)", p->path, crn_str_get(&s));
    crn_str_free(&s);
    return st;
  }
  CRN_TRY(crn_weight_unpack(&p->st, err));
  if (dtype == p->dtype) memcpy(p->st.data, data, (size_t)p->size * crn_dtype_bytes(dtype));
  else convert(p->st.data, p->dtype, data, dtype, p->size);
  p->initialised = true;
  crn_weight_changed(&p->st);
  return CRN_OK;
}
