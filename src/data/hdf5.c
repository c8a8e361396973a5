/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading HDF5 files, and the lock around the library (see hdf5.h). Sizes found in a file are checked against what a
 * file of its length can hold before memory is asked for, so a damaged number gives a message instead of a dead
 * process.
 */
#include "data/hdf5.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/str.h"
#include "data/hdf5_lib.h"

/* The library has process-wide state, so its lock is process-wide too: with the flag below the only
 * globals of this room. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

/* After a damaged file the library can't close its own objects and complains on stderr at exit. We close all files
 * ourselves, so nothing is left for it to do then. */
static void no_closing_at_exit(void) { H5dont_atexit(); }

crn_h5_guard crn_h5_enter(void) {
  crn_h5_guard g = {0};
  pthread_once(&library_once, no_closing_at_exit);
  pthread_mutex_lock(&library_lock);
  H5Eget_auto2(H5E_DEFAULT, &g.print, &g.print_arg);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  return g;
}

void crn_h5_leave(crn_h5_guard g) {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, g.print, g.print_arg);
  pthread_mutex_unlock(&library_lock);
}

/* ---- errors ---- */

static herr_t keep_first(unsigned n, const H5E_error2_t *e, void *user) {
  (void)n;
  char *text = user;
  if (!text[0] && e->desc) snprintf(text, 160, "%s", e->desc);
  return 0;
}

crn_status crn_h5_fail(crn_h5 *f, const char *name, crn_status code, const char *what, crn_err *err) {
  char reason[160] = "";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, reason);
  const char *at = name && *name ? name : "/";
  if (reason[0]) return crn_fail(err, code, "%s: '%s': %s (HDF5: %s)", f->path, at, what, reason);
  return crn_fail(err, code, "%s: '%s': %s", f->path, at, what);
}

/* ---- types and shapes ---- */

static bool is_complex(hid_t type, size_t *bytes) {
  if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2) return false;
  bool ok = true;
  for (unsigned i = 0; i < 2; i++) ok = ok && H5Tget_member_class(type, i) == H5T_FLOAT;
  *bytes = H5Tget_size(type);
  return ok && (*bytes == 8 || *bytes == 16);
}

static crn_ntype int_type(size_t bytes, bool is_signed) {
  switch (bytes) {
  case 1:
    return is_signed ? CRN_NT_I8 : CRN_NT_U8;
  case 2:
    return is_signed ? CRN_NT_I16 : CRN_NT_U16;
  case 4:
    return is_signed ? CRN_NT_I32 : CRN_NT_U32;
  case 8:
    return is_signed ? CRN_NT_I64 : CRN_NT_U64;
  default:
    return CRN_NT_NONE;
  }
}

static crn_ntype stored_type(hid_t type) {
  size_t bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
  case H5T_INTEGER:
    return int_type(bytes, H5Tget_sign(type) == H5T_SGN_2);
  case H5T_FLOAT:
    return bytes <= 4 ? CRN_NT_F32 : CRN_NT_F64;
  case H5T_STRING:
    return CRN_NT_STR;
  case H5T_ENUM:
    return bytes == 1 ? CRN_NT_BOOL : CRN_NT_NONE;
  case H5T_COMPOUND:
    return !is_complex(type, &bytes) ? CRN_NT_NONE : bytes == 8 ? CRN_NT_C64 : CRN_NT_C128;
  default:
    return CRN_NT_NONE;
  }
}

static hid_t bool_type(void) {
  hid_t t = H5Tenum_create(H5T_NATIVE_INT8);
  int8_t no = 0, yes = 1;
  H5Tenum_insert(t, "FALSE", &no);
  H5Tenum_insert(t, "TRUE", &yes);
  return t;
}

static hid_t complex_type(size_t part, hid_t part_type) {
  hid_t t = H5Tcreate(H5T_COMPOUND, 2 * part);
  H5Tinsert(t, "r", 0, part_type);
  H5Tinsert(t, "i", part, part_type);
  return t;
}

hid_t crn_h5_memory_type(crn_ntype t) {
  switch (t) {
  case CRN_NT_BOOL:
    return bool_type();
  case CRN_NT_I8:
    return H5Tcopy(H5T_NATIVE_INT8);
  case CRN_NT_U8:
    return H5Tcopy(H5T_NATIVE_UINT8);
  case CRN_NT_I16:
    return H5Tcopy(H5T_NATIVE_INT16);
  case CRN_NT_U16:
    return H5Tcopy(H5T_NATIVE_UINT16);
  case CRN_NT_I32:
    return H5Tcopy(H5T_NATIVE_INT32);
  case CRN_NT_U32:
    return H5Tcopy(H5T_NATIVE_UINT32);
  case CRN_NT_I64:
    return H5Tcopy(H5T_NATIVE_INT64);
  case CRN_NT_U64:
    return H5Tcopy(H5T_NATIVE_UINT64);
  case CRN_NT_F32:
    return H5Tcopy(H5T_NATIVE_FLOAT);
  case CRN_NT_F64:
    return H5Tcopy(H5T_NATIVE_DOUBLE);
  case CRN_NT_C64:
    return complex_type(sizeof(float), H5T_NATIVE_FLOAT);
  case CRN_NT_C128:
    return complex_type(sizeof(double), H5T_NATIVE_DOUBLE);
  case CRN_NT_STR: {
    hid_t s = H5Tcopy(H5T_C_S1);
    H5Tset_size(s, H5T_VARIABLE);
    H5Tset_cset(s, H5T_CSET_UTF8);
    return s;
  }
  default:
    return -1;
  }
}

/* Bytes that a damaged size may make us ask for: a file can be packed about 1000-fold, not more. */
static bool plausible(const crn_h5 *f, int64_t n, size_t bytes) {
  double want = (double)n * (double)bytes;
  double limit = f->can_write ? 1e15 : 1100.0 * (double)f->file_bytes + 65536;
  return want <= limit;
}

crn_status crn_h5_describe(crn_h5 *f, const char *name, hid_t type, hid_t space, crn_h5_info *info, crn_err *err) {
  memset(info, 0, sizeof *info);
  info->type = stored_type(type);
  if (H5Sget_simple_extent_type(space) == H5S_NULL) { /* h5py's Empty */
    info->rank = 1;
    return CRN_OK;
  }
  int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0) return crn_h5_fail(f, name, CRN_E_FORMAT, "its shape can't be read", err);
  if (rank > CRN_H5_MAX_RANK) return crn_h5_fail(f, name, CRN_E_NOT_IMPLEMENTED, "more than 8 axes", err);
  hsize_t dims[CRN_H5_MAX_RANK];
  if (rank && H5Sget_simple_extent_dims(space, dims, NULL) < 0)
    return crn_h5_fail(f, name, CRN_E_FORMAT, "its shape can't be read", err);
  info->rank = rank;
  info->n = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] > INT64_MAX) return crn_h5_fail(f, name, CRN_E_FORMAT, "impossible size of an axis", err);
    info->shape[i] = (int64_t)dims[i];
    if (__builtin_mul_overflow(info->n, info->shape[i], &info->n))
      return crn_h5_fail(f, name, CRN_E_FORMAT, "impossible number of elements", err);
  }
  size_t bytes = H5Tget_class(type) == H5T_STRING ? 1 : H5Tget_size(type);
  if (!plausible(f, info->n, bytes))
    return crn_h5_fail(f, name, CRN_E_FORMAT, "says that it is larger than the file can hold; damaged?", err);
  return CRN_OK;
}

/* ---- files ---- */

static crn_status new_handle(const char *path, hid_t file, bool can_write, crn_h5 **out, crn_err *err) {
  crn_h5 *f = crn_calloc(1, sizeof *f);
  char *copy = crn_strdup(path);
  if (!f || !copy) {
    crn_free(f);
    crn_free(copy);
    H5Fclose(file);
    return crn_err_memory(err);
  }
  struct stat st;
  *f = (crn_h5){.file = file, .path = copy, .can_write = can_write};
  f->file_bytes = stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
  *out = f;
  return CRN_OK;
}

static hid_t access_list(void) {
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE == 0)
  H5Pset_file_locking(fapl, 0, 1); /* several readers of one file, also on file systems without locks */
#endif
  return fapl;
}

static crn_status open_existing(const char *path, bool can_write, crn_h5 **out, crn_err *err) {
  *out = NULL;
  struct stat st;
  if (stat(path, &st) != 0) return crn_fail(err, CRN_E_FILE, "%s: no such file", path);
  if (S_ISDIR(st.st_mode)) return crn_fail(err, CRN_E_FILE, "%s: is a directory, expected an HDF5 file", path);
  crn_h5_guard g = crn_h5_enter();
  hid_t fapl = access_list();
  hid_t file = H5Fopen(path, can_write ? H5F_ACC_RDWR : H5F_ACC_RDONLY, fapl);
  H5Pclose(fapl);
  crn_status st_code;
  if (file < 0) {
    crn_h5 dummy = {.path = (char *)path};
    st_code = crn_h5_fail(&dummy, "", CRN_E_FORMAT, "can't be opened as HDF5 file", err);
  } else {
    st_code = new_handle(path, file, can_write, out, err);
  }
  crn_h5_leave(g);
  return st_code;
}

crn_status crn_h5_open(const char *path, crn_h5 **out, crn_err *err) { return open_existing(path, false, out, err); }
crn_status crn_h5_append(const char *path, crn_h5 **out, crn_err *err) { return open_existing(path, true, out, err); }

crn_status crn_h5_create(const char *path, crn_h5 **out, crn_err *err) {
  *out = NULL;
  struct stat st;
  if (stat(path, &st) == 0) return crn_fail(err, CRN_E_FILE, "%s: exists already and isn't overwritten", path);
  crn_h5_guard g = crn_h5_enter();
  hid_t fapl = access_list();
  hid_t file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, fapl);
  H5Pclose(fapl);
  crn_status code;
  if (file < 0) {
    crn_h5 dummy = {.path = (char *)path};
    code = crn_h5_fail(&dummy, "", CRN_E_FILE, "can't be created", err);
  } else {
    code = new_handle(path, file, true, out, err);
  }
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_close(crn_h5 *f, crn_err *err) {
  if (!f) return CRN_OK;
  crn_h5_guard g = crn_h5_enter();
  crn_status code = CRN_OK;
  bool ok = !f->can_write || H5Fflush(f->file, H5F_SCOPE_LOCAL) >= 0;
  for (size_t i = 0; i < f->n_sets; i++) {
    ok = H5Dclose(f->sets[i].set) >= 0 && ok;
    crn_free(f->sets[i].name);
  }
  ok = H5Fclose(f->file) >= 0 && ok;
  if (!ok && f->can_write) code = crn_h5_fail(f, "", CRN_E_FILE, "writing failed; disk full?", err);
  crn_h5_leave(g);
  crn_free(f->sets);
  crn_free(f->path);
  crn_free(f);
  return code;
}

const char *crn_h5_path(const crn_h5 *f) { return f->path; }

/* ---- looking around ---- */

bool crn_h5_exists(hid_t file, const char *name) {
  char part[1024];
  size_t n = strlen(name);
  if (n >= sizeof part) return false;
  for (size_t i = 1; i <= n; i++) {
    if (name[i] != '/' && name[i] != 0) continue;
    memcpy(part, name, i);
    part[i] = 0;
    if (strcmp(part, "/") != 0 && H5Lexists(file, part, H5P_DEFAULT) <= 0) return false;
  }
  return n == 0 || !strcmp(name, "/") || H5Oexists_by_name(file, name, H5P_DEFAULT) > 0;
}

hid_t crn_h5_object(crn_h5 *f, const char *object) {
  if (!object[0] || !strcmp(object, "/")) return H5Gopen2(f->file, "/", H5P_DEFAULT);
  return crn_h5_exists(f->file, object) ? H5Oopen(f->file, object, H5P_DEFAULT) : -1;
}

bool crn_h5_has(crn_h5 *f, const char *name) {
  crn_h5_guard g = crn_h5_enter();
  bool yes = crn_h5_exists(f->file, name);
  crn_h5_leave(g);
  return yes;
}

bool crn_h5_is_dataset(crn_h5 *f, const char *name) {
  crn_h5_guard g = crn_h5_enter();
  hid_t o = crn_h5_object(f, name);
  bool yes = o >= 0 && H5Iget_type(o) == H5I_DATASET;
  if (o >= 0) H5Oclose(o);
  crn_h5_leave(g);
  return yes;
}

bool crn_h5_has_attr(crn_h5 *f, const char *object, const char *attr) {
  crn_h5_guard g = crn_h5_enter();
  hid_t o = crn_h5_object(f, object);
  bool yes = o >= 0 && H5Aexists(o, attr) > 0;
  if (o >= 0) H5Oclose(o);
  crn_h5_leave(g);
  return yes;
}

/* Collects strings and packs them into one block: the pointers, then the bytes. */
typedef struct string_pack {
  crn_str bytes;
  size_t n;
} string_pack;

static void pack_add(string_pack *p, const char *s, size_t len) {
  crn_str_addn(&p->bytes, s, len);
  crn_str_addc(&p->bytes, 0);
  p->n++;
}

static crn_status pack_finish(string_pack *p, char ***out, size_t *n, crn_err *err) {
  size_t head = sizeof(char *) * (p->n ? p->n : 1);
  char **block = crn_str_ok(&p->bytes) ? crn_malloc(head + p->bytes.len + 1) : NULL;
  if (block) {
    char *at = (char *)block + head;
    if (p->bytes.len) memcpy(at, p->bytes.p, p->bytes.len);
    for (size_t i = 0; i < p->n; i++) {
      block[i] = at;
      at += strlen(at) + 1;
    }
    *out = block;
    *n = p->n;
  }
  crn_str_free(&p->bytes);
  return block ? CRN_OK : crn_err_memory(err);
}

static ssize_t name_at(hid_t o, bool attrs, hsize_t i, char *buf, size_t size) {
  if (attrs) return H5Aget_name_by_idx(o, ".", H5_INDEX_NAME, H5_ITER_INC, i, buf, size, H5P_DEFAULT);
  return H5Lget_name_by_idx(o, ".", H5_INDEX_NAME, H5_ITER_INC, i, buf, size, H5P_DEFAULT);
}

static crn_status list_names(crn_h5 *f, const char *object, bool attrs, char ***names, size_t *n, crn_err *err) {
  *names = NULL;
  *n = 0;
  crn_h5_guard g = crn_h5_enter();
  crn_status code = CRN_OK;
  string_pack pack = {0};
  hid_t o = crn_h5_object(f, object);
  H5G_info_t group;
  H5O_info_t info;
  hsize_t count = 0;
  if (o < 0) {
    code = crn_h5_fail(f, object, CRN_E_FORMAT, "is missing in this file", err);
  } else if (attrs) {
    if (H5Oget_info2(o, &info, H5O_INFO_NUM_ATTRS) < 0)
      code = crn_h5_fail(f, object, CRN_E_FORMAT, "its attributes can't be listed", err);
    else
      count = info.num_attrs;
  } else if (H5Iget_type(o) != H5I_GROUP || H5Gget_info(o, &group) < 0) {
    code = crn_h5_fail(f, object, CRN_E_FORMAT, "is not a group that can be listed", err);
  } else {
    count = group.nlinks;
  }
  for (hsize_t i = 0; i < count && code == CRN_OK; i++) {
    char buf[1024];
    ssize_t len = name_at(o, attrs, i, buf, sizeof buf);
    if (len < 0 || (size_t)len >= sizeof buf)
      code = crn_h5_fail(f, object, CRN_E_FORMAT, "the name of a member can't be read", err);
    else
      pack_add(&pack, buf, (size_t)len);
  }
  if (o >= 0) H5Oclose(o);
  crn_h5_leave(g);
  if (code == CRN_OK) return pack_finish(&pack, names, n, err);
  crn_str_free(&pack.bytes);
  return code;
}

crn_status crn_h5_members(crn_h5 *f, const char *group, char ***names, size_t *n, crn_err *err) {
  return list_names(f, group, false, names, n, err);
}
crn_status crn_h5_attrs(crn_h5 *f, const char *object, char ***names, size_t *n, crn_err *err) {
  return list_names(f, object, true, names, n, err);
}

/* ---- reading: a dataset and an attribute differ only in these few calls ---- */

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

static crn_status read_fixed_strings(crn_h5 *f, const source *s, string_pack *pack, crn_err *err) {
  size_t width = H5Tget_size(s->type), n = (size_t)s->info.n;
  if (!width || !plausible(f, s->info.n, width))
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
    pack_add(pack, at, len);
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

static crn_status read_variable_strings(crn_h5 *f, const source *s, string_pack *pack, crn_err *err) {
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
    for (size_t i = 0; i < n; i++) pack_add(pack, buf[i] ? buf[i] : "", buf[i] ? strlen(buf[i]) : 0);
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
  string_pack pack = {0};
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
  if (code == CRN_OK) return pack_finish(&pack, strings, n, err);
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
