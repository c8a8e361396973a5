/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorFlow V2 checkpoints ("tensor bundles"): PREFIX.index, a sorted table from variable names to type, shape and
 * place, and PREFIX.data-SSSSS-of-NNNNN, one or more files with the values. docs/checkpoints.md describes the format.
 *
 *   crn_bundle *b;
 *   CRN_TRY(crn_bundle_open("models/net.012", &b, err));
 *   const crn_bundle_entry *e = crn_bundle_find(b, "fw0/rec/W");
 *   if (e) status = crn_bundle_read(b, e, values, bytes, err);
 *   crn_bundle_free(b);
 *
 * A bundle is constant after opening: threads may read from it at the same time. An overwritten checkpoint stays
 * readable through a bundle that was opened before.
 */
#ifndef CRN_CKPT_BUNDLE_H
#define CRN_CKPT_BUNDLE_H

#include "base/arena.h"
#include "base/log.h"
#include "base/status.h"
#include "base/str.h"
#include "ckpt/dtype.h"
#include "ckpt/fileio.h"

#define CRN_BUNDLE_MAX_RANK 32

typedef struct crn_bundle crn_bundle;

/* A box of a partitioned variable. */
typedef struct crn_bundle_slice {
  const int64_t *start;  /* per axis */
  const int64_t *length; /* per axis; -1: the whole axis */
} crn_bundle_slice;

typedef struct crn_bundle_entry { /* all pointers: owned by the bundle */
  const char *name;
  int dtype; /* crn_tf_dtype, or a number of a newer TensorFlow that isn't known here */
  int rank;
  const int64_t *shape;
  int64_t n_elements;
  int32_t shard;
  int64_t offset, size_bytes; /* in the shard's file; 0 for a partitioned variable */
  uint32_t masked_crc;
  int n_slices; /* > 0: partitioned */
  const crn_bundle_slice *slices;
} crn_bundle_entry;

/* Open a checkpoint. path: its prefix, or one of its files (PREFIX.index, PREFIX.meta, PREFIX.data-…), or a directory
 * with a `checkpoint` file. Errors: CRN_E_FILE (names every path tried), CRN_E_FORMAT, CRN_E_NOT_IMPLEMENTED (V1
 * format, big-endian). */
crn_status crn_bundle_open(const char *path, crn_bundle **out, crn_err *err) CRN_MUST_CHECK;
void crn_bundle_free(crn_bundle *b);
const char *crn_bundle_prefix(const crn_bundle *b); /* as found, without suffix */
int crn_bundle_shards(const crn_bundle *b);
size_t crn_bundle_count(const crn_bundle *b);
const crn_bundle_entry *crn_bundle_at(const crn_bundle *b, size_t i);           /* sorted by name */
const crn_bundle_entry *crn_bundle_find(const crn_bundle *b, const char *name); /* NULL if absent */
/* First entry whose name begins with prefix, and how many there are (they are neighbours). */
const crn_bundle_entry *crn_bundle_find_prefix(const crn_bundle *b, const char *prefix, size_t *n);
/* "float32 [3,4]" */
const char *crn_bundle_describe(const crn_bundle_entry *e, crn_str *buffer);

/* Values of a variable (also a partitioned one, joined), row-major, into dst; dst_bytes must be n_elements times the
 * element size. The checksum is checked. Not for strings. */
crn_status crn_bundle_read(const crn_bundle *b, const crn_bundle_entry *e, void *dst, size_t dst_bytes,
                           crn_err *err) CRN_MUST_CHECK;
/* Strings of a variable of dtype string: n_elements of them, NUL-terminated, in the arena; lengths too (NULL: not
 * wanted). */
crn_status crn_bundle_read_strings(const crn_bundle *b, const crn_bundle_entry *e, crn_arena *a, const char ***out,
                                   size_t **lengths, crn_err *err) CRN_MUST_CHECK;
/* Check that every variable can be read. */
crn_status crn_bundle_verify(const crn_bundle *b, crn_err *err) CRN_MUST_CHECK;

/* Finding and deleting by prefix. */
bool crn_bundle_exists(const char *prefix); /* PREFIX.index is there */
/* Delete PREFIX.index (first, so that no half checkpoint is ever seen), PREFIX.meta and PREFIX.data-*. Files that are
 * not there are no error. */
crn_status crn_bundle_remove(const char *prefix, crn_err *err);

/* ---- writing ---- */

typedef struct crn_bundle_writer crn_bundle_writer;

typedef struct crn_save_opts {
  const crn_log *log;                    /* NULL: silent */
  int64_t retry_delay_ms;                /* between tries after a passing error (disk full, quota, busy, I/O) */
  bool (*sleep)(void *user, int64_t ms); /* waits; false: give up (CRN_E_INTERRUPTED). NULL: waits, never gives up */
  void *sleep_user;
  const crn_fileops *ops; /* NULL: the system's */
} crn_save_opts;

crn_save_opts crn_save_defaults(void); /* 10 s */

/* Begin a checkpoint; nothing is written before crn_bundle_finish. opts NULL: defaults. */
crn_status crn_bundle_begin(const char *prefix, const crn_save_opts *opts, crn_bundle_writer **out,
                            crn_err *err) CRN_MUST_CHECK;
/* Add a variable. data stays the caller's and must be valid until finish. A name twice is an error. */
crn_status crn_bundle_add(crn_bundle_writer *w, const char *name, int dtype, int rank, const int64_t *shape,
                          const void *data, crn_err *err) CRN_MUST_CHECK;
/* Write everything, sorted by name, and put it in place: at every instant PREFIX is the old checkpoint or the new one,
 * whole. Parent directories are made. After a failure no partial files are left. */
crn_status crn_bundle_finish(crn_bundle_writer *w, crn_err *err) CRN_MUST_CHECK;
void crn_bundle_writer_free(crn_bundle_writer *w);

#endif
