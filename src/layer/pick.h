/* SPDX-License-Identifier: Apache-2.0
 *
 * Picking entries along an axis by positions that may themselves have axes: the rule of axes shared by gather and
 * slice_nd. Axes that both have come first, then what stood before the picked axis, the position's own axes in its
 * place, and the rest.
 */
#ifndef CRN_LAYER_PICK_H
#define CRN_LAYER_PICK_H

#include "layer/layer.h"

typedef struct crn_pick {
  int axis;                                           /* of the input */
  int common_x[CRN_MAX_RANK], common_p[CRN_MAX_RANK]; /* axes that both have, by the input's order */
  int before[CRN_MAX_RANK], after[CRN_MAX_RANK];      /* other axes of the input */
  int own[CRN_MAX_RANK];                              /* other axes of the position */
  int n_common, n_before, n_after, n_own;
} crn_pick;

void crn_pick_plan(const crn_tmpl *in, const crn_tmpl *pos, int axis, int version, crn_pick *plan);
/* Template of the result: dtype and sparse dim of in. */
crn_status crn_pick_tmpl(const crn_pick *plan, const crn_tmpl *in, const crn_tmpl *pos, crn_tmpl *out, crn_err *err);
/* Value and lengths of out (its template is set). Positions out of range fail. */
crn_status crn_pick_run(crn_exec *x, const crn_pick *plan, const crn_data *in, const crn_data *pos, crn_data *out);

#endif
