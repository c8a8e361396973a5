/* SPDX-License-Identifier: Apache-2.0
 *
 * Construction that goes on after a fault, so that all faults of a network are told: a layer that has one counts as
 * lost, and so do, silently, the layers that depend on it.
 */
#include "net/build.h"

crn_status crn_build_recover(crn_build *b, crn_layer *l, crn_status st) {
  if (st == CRN_OK || !b->problem || st == CRN_E_MEMORY) return st;
  if (l) l->failed = true;
  const char *text = crn_err_text(b->err);
  if (text[0]) b->problem(b->problem_user, text);
  crn_err_clear(b->err);
  *b->err = (crn_err){0};
  b->n_problems++;
  return CRN_OK;
}

bool crn_build_lost(const crn_build *b, crn_layer *l) {
  for (int i = 0; b->n_problems && i < l->n_edges && !l->failed; i++) l->failed = l->edges[i].to->failed;
  return l->failed;
}

crn_status crn_build_was_told(crn_build *b) { return crn_fail(b->err, CRN_E_CONFIG, "%s", ""); }
