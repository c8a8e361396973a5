/* SPDX-License-Identifier: Apache-2.0
 *
 * rewrite FROM TO: read a checkpoint whole and write it again, with the state file. For tools/check_tf.
 */
#include "ckpt/bundle.h"
#include "ckpt/state_file.h"

#include <stdio.h>
#include <stdlib.h>

static crn_status rewrite(const crn_bundle *b, crn_bundle_writer *w, crn_arena *a, crn_err *err) {
  for (size_t i = 0; i < crn_bundle_count(b); i++) {
    const crn_bundle_entry *e = crn_bundle_at(b, i);
    if (e->dtype == CRN_TF_STRING) continue;
    size_t bytes = (size_t)e->n_elements * crn_tf_dtype_bytes(e->dtype);
    void *values = crn_arena_alloc(a, bytes);
    if (!values) return crn_err_memory(err);
    CRN_TRY(crn_bundle_read(b, e, values, bytes, err));
    CRN_TRY(crn_bundle_add(w, e->name, e->dtype, e->rank, e->shape, values, err));
  }
  return crn_bundle_finish(w, err);
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: rewrite FROM TO\n"), 2;
  crn_err err = {0};
  crn_arena a = {0};
  crn_bundle *b = NULL;
  crn_bundle_writer *w = NULL;
  crn_status s = crn_bundle_open(argv[1], &b, &err);
  if (s == CRN_OK) s = crn_bundle_begin(argv[2], NULL, &w, &err);
  if (s == CRN_OK) s = rewrite(b, w, &a, &err);
  if (s == CRN_OK) s = crn_ckpt_state_write(argv[2], NULL, &err);
  if (s != CRN_OK) fprintf(stderr, "%s\n", crn_err_text(&err));
  crn_bundle_writer_free(w);
  crn_bundle_free(b);
  crn_arena_free(&a);
  crn_err_clear(&err);
  return s == CRN_OK ? 0 : 1;
}
