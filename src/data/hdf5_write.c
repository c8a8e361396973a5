/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing HDF5 files: datasets, growing datasets, strings and attributes (see hdf5.h; the lock is in hdf5.c).
 */
#include <string.h>

#include "base/arena.h"
#include "data/hdf5_lib.h"

/* Creation properties that make missing groups on the way. */
static hid_t with_groups(void) {
  hid_t p = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(p, 1);
  return p;
}

static crn_status check_new(crn_h5 *f, const char *name, int rank, const int64_t *shape, crn_err *err) {
  if (!f->can_write) return crn_fail(err, CRN_E_STATE, "%s: opened for reading only", f->path);
  if (rank < 0 || rank > CRN_H5_MAX_RANK)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: '%s': not implemented: an array of %d axes (at most %d)", f->path,
                    name, rank, CRN_H5_MAX_RANK);
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0) return crn_fail(err, CRN_E_INTERNAL, "%s: '%s': negative size of an axis", f->path, name);
  return CRN_OK;
}

static hid_t make_space(int rank, const int64_t *shape) {
  if (rank == 0) return H5Screate(H5S_SCALAR);
  hsize_t dims[CRN_H5_MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = (hsize_t)shape[i];
  return H5Screate_simple(rank, dims, NULL);
}

static int64_t count_of(int rank, const int64_t *shape) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  return n;
}

/* Create a dataset of this type and fill it; inside the guard. Closes type. */
static crn_status create_and_fill(crn_h5 *f, const char *name, hid_t type, int rank, const int64_t *shape,
                                  const void *data, crn_err *err) {
  hid_t links = with_groups(), space = make_space(rank, shape);
  hid_t set = H5Dcreate2(f->file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
  crn_status code = CRN_OK;
  if (set < 0)
    code = crn_h5_fail(f, name, CRN_E_FILE, "can't be created", err);
  else if (count_of(rank, shape) && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    code = crn_h5_fail(f, name, CRN_E_FILE, "can't be written", err);
  if (set >= 0) H5Dclose(set);
  H5Sclose(space);
  H5Pclose(links);
  H5Tclose(type);
  return code;
}

crn_status crn_h5_make_group(crn_h5 *f, const char *name, crn_err *err) {
  CRN_TRY(check_new(f, name, 0, NULL, err));
  crn_h5_guard g = crn_h5_enter();
  crn_status code = CRN_OK;
  if (!crn_h5_exists(f->file, name)) {
    hid_t links = with_groups();
    hid_t group = H5Gcreate2(f->file, name, links, H5P_DEFAULT, H5P_DEFAULT);
    if (group < 0)
      code = crn_h5_fail(f, name, CRN_E_FILE, "the group can't be made", err);
    else
      H5Gclose(group);
    H5Pclose(links);
  }
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_write(crn_h5 *f, const char *name, crn_ntype type, int rank, const int64_t *shape, const void *data,
                        crn_err *err) {
  CRN_TRY(check_new(f, name, rank, shape, err));
  crn_h5_guard g = crn_h5_enter();
  crn_status code = create_and_fill(f, name, crn_h5_memory_type(type), rank, shape, data, err);
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_write_strings(crn_h5 *f, const char *name, crn_h5_strkind kind, const char *const *strings, size_t n,
                                crn_err *err) {
  int64_t shape[1] = {(int64_t)n};
  if (kind == CRN_H5_VARIABLE) return crn_h5_write(f, name, CRN_NT_STR, 1, shape, strings, err);
  CRN_TRY(check_new(f, name, 1, shape, err));
  size_t width = 1;
  for (size_t i = 0; i < n; i++) width = strlen(strings[i]) > width ? strlen(strings[i]) : width;
  char *bytes = crn_calloc(n ? n : 1, width);
  if (!bytes) return crn_err_memory(err);
  for (size_t i = 0; i < n; i++) memcpy(bytes + i * width, strings[i], strlen(strings[i]));
  crn_h5_guard g = crn_h5_enter();
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, width);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  crn_status code = create_and_fill(f, name, type, 1, shape, bytes, err);
  crn_h5_leave(g);
  crn_free(bytes);
  return code;
}

/* Rows in a chunk of a growing dataset: about 64 KiB. */
static hsize_t chunk_rows(size_t row_bytes) {
  size_t rows = row_bytes ? 65536 / row_bytes : 1024;
  return rows < 1 ? 1 : rows > 16384 ? 16384 : rows;
}

crn_status crn_h5_make_growing(crn_h5 *f, const char *name, crn_ntype type, int rank, const int64_t *shape,
                               crn_err *err) {
  CRN_TRY(check_new(f, name, rank, shape, err));
  if (rank < 1) return crn_fail(err, CRN_E_INTERNAL, "%s: '%s': a scalar can't grow", f->path, name);
  hsize_t size[CRN_H5_MAX_RANK], max[CRN_H5_MAX_RANK], chunk[CRN_H5_MAX_RANK];
  size_t row_bytes = crn_ntype_bytes(type);
  for (int i = 1; i < rank; i++) {
    size[i] = max[i] = (hsize_t)shape[i];
    chunk[i] = shape[i] ? (hsize_t)shape[i] : 1;
    row_bytes *= (size_t)shape[i];
  }
  size[0] = 0;
  max[0] = H5S_UNLIMITED;
  chunk[0] = chunk_rows(row_bytes);
  crn_h5_guard g = crn_h5_enter();
  hid_t links = with_groups(), props = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(rank, size, max), t = crn_h5_memory_type(type);
  H5Pset_chunk(props, rank, chunk);
  hid_t set = H5Dcreate2(f->file, name, t, space, links, props, H5P_DEFAULT);
  crn_status code = CRN_OK;
  if (set < 0)
    code = crn_h5_fail(f, name, CRN_E_FILE, "can't be created", err);
  else
    H5Dclose(set);
  H5Tclose(t);
  H5Sclose(space);
  H5Pclose(props);
  H5Pclose(links);
  crn_h5_leave(g);
  return code;
}

/* Extend the dataset by count rows and write them there; inside the guard. */
static crn_status add_rows(crn_h5 *f, const char *name, crn_ntype type, int64_t count, const void *data, crn_err *err) {
  hid_t set = crn_h5_dataset(f, name, err);
  if (set < 0) return err ? err->code : CRN_E_FORMAT;
  hsize_t size[CRN_H5_MAX_RANK], from[CRN_H5_MAX_RANK] = {0};
  hid_t space = H5Dget_space(set);
  int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  bool ok = rank >= 1 && rank <= CRN_H5_MAX_RANK && H5Sget_simple_extent_dims(space, size, NULL) >= 0;
  if (space >= 0) H5Sclose(space);
  if (!ok) return crn_h5_fail(f, name, CRN_E_FORMAT, "can't grow", err);
  from[0] = size[0];
  size[0] += (hsize_t)count;
  if (H5Dset_extent(set, size) < 0) return crn_h5_fail(f, name, CRN_E_FILE, "can't grow", err);
  size[0] = (hsize_t)count;
  hid_t mem = H5Screate_simple(rank, size, NULL), t = crn_h5_memory_type(type);
  space = H5Dget_space(set);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, size, NULL);
  herr_t rc = H5Dwrite(set, t, mem, space, H5P_DEFAULT, data);
  H5Tclose(t);
  H5Sclose(mem);
  H5Sclose(space);
  return rc < 0 ? crn_h5_fail(f, name, CRN_E_FILE, "can't be written", err) : CRN_OK;
}

crn_status crn_h5_add_rows(crn_h5 *f, const char *name, crn_ntype type, int64_t count, const void *data, crn_err *err) {
  CRN_TRY(check_new(f, name, 0, NULL, err));
  if (count <= 0) return CRN_OK;
  crn_h5_guard g = crn_h5_enter();
  crn_status code = add_rows(f, name, type, count, data, err);
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_write_attr(crn_h5 *f, const char *object, const char *attr, crn_ntype type, int rank,
                             const int64_t *shape, const void *data, crn_err *err) {
  CRN_TRY(check_new(f, attr, rank, shape, err));
  crn_h5_guard g = crn_h5_enter();
  crn_status code = CRN_OK;
  hid_t o = crn_h5_object(f, object);
  if (o < 0) {
    code = crn_h5_fail(f, object, CRN_E_FORMAT, "is missing in this file", err);
  } else {
    if (H5Aexists(o, attr) > 0) H5Adelete(o, attr);
    hid_t t = crn_h5_memory_type(type), space = make_space(rank, shape);
    hid_t a = H5Acreate2(o, attr, t, space, H5P_DEFAULT, H5P_DEFAULT);
    if (a < 0 || (count_of(rank, shape) && H5Awrite(a, t, data) < 0))
      code = crn_h5_fail(f, attr, CRN_E_FILE, "this attribute can't be written", err);
    if (a >= 0) H5Aclose(a);
    H5Sclose(space);
    H5Tclose(t);
    H5Oclose(o);
  }
  crn_h5_leave(g);
  return code;
}

crn_status crn_h5_write_attr_int(crn_h5 *f, const char *object, const char *attr, int64_t value, crn_err *err) {
  return crn_h5_write_attr(f, object, attr, CRN_NT_I64, 0, NULL, &value, err);
}

crn_status crn_h5_write_attr_string(crn_h5 *f, const char *object, const char *attr, const char *text, crn_err *err) {
  return crn_h5_write_attr(f, object, attr, CRN_NT_STR, 0, NULL, &text, err);
}
