/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files hdf5*.c share: the handle, the lock, types, and errors. Not for other files.
 */
#ifndef CRN_DATA_HDF5_LIB_H
#define CRN_DATA_HDF5_LIB_H

#include <hdf5.h>

#include "base/str.h"
#include "data/hdf5.h"

typedef struct crn_h5_open_set { /* a dataset that stays open, as opening costs more than reading a few rows */
  char *name;
  hid_t set;
} crn_h5_open_set;

struct crn_h5 {
  hid_t file;
  char *path;
  int64_t file_bytes; /* size when opened, 0 for a new file */
  bool can_write;
  crn_h5_open_set *sets;
  size_t n_sets, cap_sets;
};

/* Enter and leave the library: takes the process-wide lock and turns its printing off, or back to what it was. */
typedef struct crn_h5_guard {
  H5E_auto2_t print;
  void *print_arg;
} crn_h5_guard;
crn_h5_guard crn_h5_enter(void);
void crn_h5_leave(crn_h5_guard g);

/* Record "PATH: NAME: what (the library's innermost message)"; call it inside the guard. */
crn_status crn_h5_fail(crn_h5 *f, const char *name, crn_status code, const char *what, crn_err *err);
/* The memory type that belongs to an element type (a new handle to close), or a negative one. */
hid_t crn_h5_memory_type(crn_ntype t);
/* The dataset, opened once and kept; negative on failure, which is recorded. */
hid_t crn_h5_dataset(crn_h5 *f, const char *name, crn_err *err);
/* Whether the path exists, link by link. */
bool crn_h5_exists(hid_t file, const char *name);
/* The object "" / "/" / path, to close with H5Oclose. */
hid_t crn_h5_object(crn_h5 *f, const char *object);
/* Shape and type; fails for more than CRN_H5_MAX_RANK axes or an impossible size. */
crn_status crn_h5_describe(crn_h5 *f, const char *name, hid_t type, hid_t space, crn_h5_info *info, crn_err *err);

/* Whether a damaged size would make us ask for absurd amounts of memory. */
bool crn_h5_plausible(const crn_h5 *f, int64_t n, size_t bytes);

/* Collects strings and packs them into one block: the pointers, then the bytes. */
typedef struct crn_h5_pack {
  crn_str bytes;
  size_t n;
} crn_h5_pack;
void crn_h5_pack_add(crn_h5_pack *p, const char *s, size_t len);
crn_status crn_h5_pack_finish(crn_h5_pack *p, char ***out, size_t *n, crn_err *err); /* frees p's memory */

/* Whether the n variable-length strings of this dataset can be read without harm (hdf5_heap.c). */
bool crn_h5_strings_are_sound(crn_h5 *f, hid_t set, int64_t n);

#endif
