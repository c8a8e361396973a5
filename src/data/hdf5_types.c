/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and shapes of HDF5 files (see hdf5.h): which of our types a stored one is, and the reverse.
 */
#include <string.h>

#include "data/hdf5_lib.h"

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
bool crn_h5_plausible(const crn_h5 *f, int64_t n, size_t bytes) {
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
  if (!crn_h5_plausible(f, info->n, bytes))
    return crn_h5_fail(f, name, CRN_E_FORMAT, "says that it is larger than the file can hold; damaged?", err);
  return CRN_OK;
}
