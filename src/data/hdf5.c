/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock around the HDF5 library, opening and closing files, and looking around in them (see hdf5.h).
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

void crn_h5_pack_add(crn_h5_pack *p, const char *s, size_t len) {
  crn_str_addn(&p->bytes, s, len);
  crn_str_addc(&p->bytes, 0);
  p->n++;
}

crn_status crn_h5_pack_finish(crn_h5_pack *p, char ***out, size_t *n, crn_err *err) {
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
  crn_h5_pack pack = {0};
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
      crn_h5_pack_add(&pack, buf, (size_t)len);
  }
  if (o >= 0) H5Oclose(o);
  crn_h5_leave(g);
  if (code == CRN_OK) return crn_h5_pack_finish(&pack, names, n, err);
  crn_str_free(&pack.bytes);
  return code;
}

crn_status crn_h5_members(crn_h5 *f, const char *group, char ***names, size_t *n, crn_err *err) {
  return list_names(f, group, false, names, n, err);
}
crn_status crn_h5_attrs(crn_h5 *f, const char *object, char ***names, size_t *n, crn_err *err) {
  return list_names(f, object, true, names, n, err);
}
