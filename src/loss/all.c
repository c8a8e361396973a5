/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of loss families.
 */
#include <string.h>

#include "loss/loss.h"

/* ORDER LOSSES: declared here, listed below */
extern const crn_loss_desc crn_losses_frame[];
extern const crn_loss_desc crn_losses_regression[];
extern const crn_loss_desc crn_losses_ctc[];
extern const crn_loss_desc crn_losses_sequence[];
extern const crn_loss_desc crn_losses_search[];
extern const crn_loss_desc crn_losses_sampling[];
extern const crn_loss_desc crn_losses_other[];

static const crn_loss_desc *const families[] = {crn_losses_frame,    crn_losses_regression, crn_losses_ctc,
                                                crn_losses_sequence, crn_losses_search,     crn_losses_sampling,
                                                crn_losses_other};

const crn_loss_desc *crn_loss_class_at(size_t i) {
  for (size_t f = 0; f < sizeof(families) / sizeof(*families); f++)
    for (const crn_loss_desc *d = families[f]; d->name; d++)
      if (i-- == 0) return d;
  return NULL;
}

const crn_loss_desc *crn_loss_class_find(const char *name) {
  for (size_t i = 0;; i++) {
    const crn_loss_desc *d = crn_loss_class_at(i);
    if (!d || !strcmp(d->name, name)) return d;
  }
}
