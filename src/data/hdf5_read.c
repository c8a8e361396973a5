/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading datasets and attributes of HDF5 files (see hdf5.h). Sizes found in a file are checked against what a file of
 * its length can hold before memory is asked for, so a damaged number gives a message instead of a dead process.
 */
#include <string.h>

#include "base/arena.h"
#include "data/hdf5_lib.h"

/* ---- a dataset and an attribute differ only in these few calls ---- */

typedef struct source {
  hid_t id, owner; /* the dataset (kept open by the handle) or attribute; the attribute's object */
  hid_t type, space;
  bool is_attr;
  const char *name;
  crn_h5_info info;
} source;

hid_t crn_h5_dataset(crn_h5 *f, const char *name, crn_err *err) {
  for (size_t i = 0; i < f->n_sets; i++)
    if (!strcmp(f->sets[i].name, name)) return f->sets[i].set;
  if (!crn_h5_exists(f->file, name)) {
    crn_h5_fail(f, name, CRN_E_FORMAT, "is missing in this file", err);
    return -1;
  }
  hid_t set = H5Dopen2(f->file, name, H5P_DEFAULT);
  if (set < 0) {
    crn_h5_fail(f, name, CRN_E_FORMAT, "can't be opened as a dataset", err);
    return -1;
  }
  if (f->n_sets == f->cap_sets) {
    size_t cap = f->cap_sets ? 2 * f->cap_sets : 8;
    crn_h5_open_set *grown = crn_realloc(f->sets, cap * sizeof *grown);
    if (!grown) goto no_memory;
    f->sets = grown;
    f->cap_sets = cap;
  }
  char *copy = crn_strdup(name);
  if (!copy) goto no_memory;
  f->sets[f->n_sets++] = (crn_h5_open_set){.name = copy, .set = set};
  return set;
no_memory:
  H5Dclose(set);
  crn_err_memory(err);
  return -1;
}

/* The library trusts the stored size of unchunked data and would read past its buffer if that is too small. */
static bool storage_is_sound(hid_t set, hid_t type, const crn_h5_info *info) {
  hid_t props = H5Dget_create_plist(set);
  if (props < 0) return false;
  H5D_layout_t layout = H5Pget_layout(props);
  bool elsewhere = layout == H5D_CONTIGUOUS && H5Pget_external_count(props) > 0;
  H5Pclose(props);
  if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) return layout >= 0;
  if (elsewhere) return true;
  if (layout == H5D_CONTIGUOUS && H5Dget_offset(set) == HADDR_UNDEF) return true; /* nothing written yet */
  int64_t wanted;
  if (__builtin_mul_overflow(info->n, (int64_t)H5Tget_size(type), &wanted)) return false;
  return (int64_t)H5Dget_storage_size(set) >= wanted;
}

static void source_close(source *s) {
  if (s->type >= 0) H5Tclose(s->type);
  if (s->space >= 0) H5Sclose(s->space);
  if (s->is_attr && s->id >= 0) H5Aclose(s->id);
  if (s->owner >= 0) H5Oclose(s->owner);
}

/* Open a dataset (attr NULL) or an attribute; inside the guard. On failure nothing stays open. */
static crn_status source_open(crn_h5 *f, const char *name, const char *attr, source *s, crn_err *err) {
  *s = (source){.id = -1, .owner = -1, .type = -1, .space = -1, .is_attr = attr != NULL, .name = attr ? attr : name};
  crn_status code = CRN_OK;
  if (attr) {
    s->owner = crn_h5_object(f, name);
    if (s->owner < 0) return crn_h5_fail(f, name, CRN_E_FORMAT, "is missing in this file", err);
    s->id = H5Aexists(s->owner, attr) > 0 ? H5Aopen(s->owner, attr, H5P_DEFAULT) : -1;
    if (s->id < 0) code = crn_h5_fail(f, attr, CRN_E_FORMAT, "this attribute is missing or can't be read", err);
  } else {
    s->id = crn_h5_dataset(f, name, err);
    if (s->id < 0) return err ? err->code : CRN_E_FORMAT;
  }
  if (code == CRN_OK) {
    s->type = attr ? H5Aget_type(s->id) : H5Dget_type(s->id);
    s->space = attr ? H5Aget_space(s->id) : H5Dget_space(s->id);
    if (s->type < 0 || s->space < 0)
      code = crn_h5_fail(f, s->name, CRN_E_FORMAT, "its type or shape can't be read", err);
    else
      code = crn_h5_describe(f, s->name, s->type, s->space, &s->info, err);
    if (code == CRN_OK && !attr && !storage_is_sound(s->id, s->type, &s->info))
      code = crn_h5_fail(f, s->name, CRN_E_FORMAT, "has less stored than its shape says; damaged?", err);
  }
  if (code != CRN_OK) source_close(s);
  return code;
}

static crn_status get_info(crn_h5 *f, const char *name, const char *attr, crn_h5_info *info, crn_err *err) {
  crn_h5_guard g = crn_h5_enter();
  source s;
  crn_status code = source_open(f, name, attr, &s, err);
  if (code == CRN_OK) {
    *info = s.info;
    source_close(&s);
  }
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_get_info(crn_h5 *f, const char *name, crn_h5_info *info, crn_err *err) {
  return get_info(f, name, NULL, info, err);
}
crn_status crn_h5_get_attr_info(crn_h5 *f, const char *object, const char *attr, crn_h5_info *info, crn_err *err) {
  return get_info(f, object, attr, info, err);
}

/* The type to read as: checked to be a number that the stored type converts to. */
static crn_status choose_type(crn_h5 *f, const source *s, crn_ntype *want, crn_err *err) {
  crn_ntype have = s->info.type;
  if (*want == CRN_NT_NONE) *want = have;
  bool complex_have = have == CRN_NT_C64 || have == CRN_NT_C128;
  bool complex_want = *want == CRN_NT_C64 || *want == CRN_NT_C128;
  if (have == CRN_NT_NONE) return crn_h5_fail(f, s->name, CRN_E_NOT_IMPLEMENTED, "not implemented: its HDF5 type", err);
  if (have == CRN_NT_STR || *want == CRN_NT_STR || complex_have != complex_want)
    return crn_fail(err, CRN_E_FORMAT, "%s: '%s': expected %s, got %s", f->path, s->name,
                    *want == CRN_NT_STR || *want == have ? "numbers" : crn_ntype_name(*want), crn_ntype_name(have));
  return CRN_OK;
}

/* Read all elements (mem_space H5S_ALL) or a selection into buf. Booleans are stored as an enumeration, which the
 * library doesn't convert to numbers: they are read as they are and converted here. */
static crn_status read_numbers(crn_h5 *f, const source *s, crn_ntype want, int64_t n, hid_t mem_space, hid_t file_space,
                               void *buf, crn_err *err) {
  bool by_hand = (s->info.type == CRN_NT_BOOL) != (want == CRN_NT_BOOL);
  crn_ntype as = by_hand ? s->info.type : want;
  void *to = by_hand ? crn_malloc((size_t)(n ? n : 1) * crn_ntype_bytes(as)) : buf;
  if (!to) return crn_err_memory(err);
  hid_t type = as == CRN_NT_BOOL ? H5Tcopy(s->type) : crn_h5_memory_type(as);
  herr_t rc = s->is_attr ? H5Aread(s->id, type, to) : H5Dread(s->id, type, mem_space, file_space, H5P_DEFAULT, to);
  H5Tclose(type);
  crn_status code = rc < 0 ? crn_h5_fail(f, s->name, CRN_E_FORMAT, "its content can't be read", err) : CRN_OK;
  if (by_hand && code == CRN_OK) crn_ntype_convert(as, to, want, buf, (size_t)n);
  if (by_hand) crn_free(to);
  return code;
}

static crn_status read_all(crn_h5 *f, const char *name, const char *attr, crn_ntype type, void **data,
                           crn_h5_info *info, crn_err *err) {
  *data = NULL;
  crn_h5_guard g = crn_h5_enter();
  source s;
  crn_status code = source_open(f, name, attr, &s, err);
  if (code == CRN_OK) {
    void *buf = NULL;
    code = choose_type(f, &s, &type, err);
    if (code == CRN_OK) {
      buf = crn_malloc((size_t)(s.info.n ? s.info.n : 1) * crn_ntype_bytes(type));
      if (!buf) code = crn_err_memory(err);
    }
    if (code == CRN_OK && s.info.n) code = read_numbers(f, &s, type, s.info.n, H5S_ALL, H5S_ALL, buf, err);
    if (code == CRN_OK && info) *info = s.info;
    if (code == CRN_OK)
      *data = buf;
    else
      crn_free(buf);
    source_close(&s);
  }
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_read(crn_h5 *f, const char *name, crn_ntype type, void **data, crn_h5_info *info, crn_err *err) {
  return read_all(f, name, NULL, type, data, info, err);
}
crn_status crn_h5_read_attr(crn_h5 *f, const char *object, const char *attr, crn_ntype type, void **data,
                            crn_h5_info *info, crn_err *err) {
  return read_all(f, object, attr, type, data, info, err);
}

crn_status crn_h5_read_rows(crn_h5 *f, const char *name, crn_ntype type, int64_t start, int64_t count, void *buf,
                            crn_err *err) {
  crn_h5_guard g = crn_h5_enter();
  source s;
  crn_status code = source_open(f, name, NULL, &s, err);
  if (code == CRN_OK) {
    code = choose_type(f, &s, &type, err);
    if (code == CRN_OK && (s.info.rank < 1 || start < 0 || count < 0 || count > s.info.shape[0] - start))
      code = crn_fail(err, CRN_E_FORMAT, "%s: '%s': rows %lld to %lld wanted, it has %lld", f->path, name,
                      (long long)start, (long long)(start + count), (long long)s.info.shape[0]);
    if (code == CRN_OK && count && s.info.n) {
      hsize_t from[CRN_H5_MAX_RANK] = {0}, size[CRN_H5_MAX_RANK];
      for (int i = 0; i < s.info.rank; i++) size[i] = (hsize_t)s.info.shape[i];
      from[0] = (hsize_t)start;
      size[0] = (hsize_t)count;
      hid_t mem = H5Screate_simple(s.info.rank, size, NULL);
      H5Sselect_hyperslab(s.space, H5S_SELECT_SET, from, NULL, size, NULL);
      code = read_numbers(f, &s, type, s.info.n / s.info.shape[0] * count, mem, s.space, buf, err);
      H5Sclose(mem);
    }
    source_close(&s);
  }
  crn_h5_leave(g);
  return code;
}

/* ---- strings ---- */

static herr_t read_raw(const source *s, hid_t type, void *buf) {
  return s->is_attr ? H5Aread(s->id, type, buf) : H5Dread(s->id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buf);
}

static crn_status read_fixed_strings(crn_h5 *f, const source *s, crn_h5_pack *pack, crn_err *err) {
  size_t width = H5Tget_size(s->type), n = (size_t)s->info.n;
  if (!width || !crn_h5_plausible(f, s->info.n, width))
    return crn_h5_fail(f, s->name, CRN_E_FORMAT, "strings longer than the file can hold; damaged?", err);
  char *buf = crn_malloc(n * width);
  if (!buf) return crn_err_memory(err);
  crn_status code = CRN_OK;
  if (read_raw(s, s->type, buf) < 0) code = crn_h5_fail(f, s->name, CRN_E_FORMAT, "its content can't be read", err);
  bool spaces = H5Tget_strpad(s->type) == H5T_STR_SPACEPAD;
  for (size_t i = 0; i < n && code == CRN_OK; i++) {
    const char *at = buf + i * width;
    size_t len = strnlen(at, width);
    while (spaces && len && at[len - 1] == ' ') len--;
    crn_h5_pack_add(pack, at, len);
  }
  crn_free(buf);
  return code;
}

/* A string of variable length is a sequence of single bytes; a damaged element size would make the library ask for
 * that many times its length. */
static bool has_byte_elements(hid_t type) {
  hid_t element = H5Tget_super(type);
  bool ok = element >= 0 && H5Tget_size(element) == 1;
  if (element >= 0) H5Tclose(element);
  return ok;
}

static crn_status read_variable_strings(crn_h5 *f, const source *s, crn_h5_pack *pack, crn_err *err) {
  size_t n = (size_t)s->info.n;
  if (!has_byte_elements(s->type) || (!s->is_attr && !crn_h5_strings_are_sound(f, s->id, s->info.n)))
    return crn_h5_fail(f, s->name, CRN_E_FORMAT, "its strings are damaged", err);
  char **buf = crn_calloc(n, sizeof *buf);
  if (!buf) return crn_err_memory(err);
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5Tget_cset(s->type));
  crn_status code = CRN_OK;
  if (read_raw(s, type, buf) < 0) {
    code = crn_h5_fail(f, s->name, CRN_E_FORMAT, "its content can't be read", err);
  } else {
    for (size_t i = 0; i < n; i++) crn_h5_pack_add(pack, buf[i] ? buf[i] : "", buf[i] ? strlen(buf[i]) : 0);
    H5Dvlen_reclaim(type, s->space, H5P_DEFAULT, buf);
  }
  H5Tclose(type);
  crn_free(buf);
  return code;
}

static crn_status read_strings(crn_h5 *f, const char *name, const char *attr, char ***strings, size_t *n,
                               crn_err *err) {
  *strings = NULL;
  *n = 0;
  crn_h5_guard g = crn_h5_enter();
  source s;
  crn_h5_pack pack = {0};
  crn_status code = source_open(f, name, attr, &s, err);
  if (code == CRN_OK) {
    if (s.info.n == 0)
      ; /* h5py stores an empty list of strings as numbers */
    else if (s.info.type != CRN_NT_STR)
      code = crn_fail(err, CRN_E_FORMAT, "%s: '%s': expected strings, got %s", f->path, s.name,
                      crn_ntype_name(s.info.type));
    else if (H5Tis_variable_str(s.type) > 0)
      code = read_variable_strings(f, &s, &pack, err);
    else
      code = read_fixed_strings(f, &s, &pack, err);
    source_close(&s);
  }
  crn_h5_leave(g);
  if (code == CRN_OK) return crn_h5_pack_finish(&pack, strings, n, err);
  crn_str_free(&pack.bytes);
  return code;
}

crn_status crn_h5_read_strings(crn_h5 *f, const char *name, char ***strings, size_t *n, crn_err *err) {
  return read_strings(f, name, NULL, strings, n, err);
}
crn_status crn_h5_read_attr_strings(crn_h5 *f, const char *object, const char *attr, char ***strings, size_t *n,
                                    crn_err *err) {
  return read_strings(f, object, attr, strings, n, err);
}

static crn_status attr_number(crn_h5 *f, const char *object, const char *attr, crn_ntype type, void *out,
                              crn_err *err) {
  void *data;
  crn_h5_info info;
  CRN_TRY(crn_h5_read_attr(f, object, attr, type, &data, &info, err));
  if (info.n == 1) memcpy(out, data, crn_ntype_bytes(type));
  crn_free(data);
  if (info.n != 1)
    return crn_fail(err, CRN_E_FORMAT, "%s: attribute '%s': expected one number, got %lld", f->path, attr,
                    (long long)info.n);
  return CRN_OK;
}

crn_status crn_h5_attr_int(crn_h5 *f, const char *object, const char *attr, int64_t *out, crn_err *err) {
  return attr_number(f, object, attr, CRN_NT_I64, out, err);
}
crn_status crn_h5_attr_double(crn_h5 *f, const char *object, const char *attr, double *out, crn_err *err) {
  return attr_number(f, object, attr, CRN_NT_F64, out, err);
}
