/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes that are known, but not implemented: rows without functions, so that a config with them is refused as "not
 * implemented". Written by tools/missing_layers.
 */
#include "layer/layer.h"

static const crn_opt no_opts[] = {CRN_OPT_END};

#define MISSING(class_name)                                                                                            \
  { .name = class_name, .doc = "Is not implemented.", .opts = no_opts }

const crn_layer_desc crn_family_missing[] = {MISSING("hdf_dump"),
                                             MISSING("image_summary"),
                                             MISSING("kenlm"),
                                             MISSING("mask_based_gevbeamforming"),
                                             MISSING("mask_based_mvdrbeamforming"),
                                             MISSING("parametric_wiener_filter"),
                                             MISSING("random_state_init"),
                                             {.name = NULL}};
