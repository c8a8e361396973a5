/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes that are known, but not implemented: rows without functions, so that a config with them is refused as "not
 * implemented". Written by tools/missing_layers.
 */
#include "layer/layer.h"

static const crn_opt no_opts[] = {CRN_OPT_END};

#define MISSING(class_name)                                                                                            \
  { .name = class_name, .doc = "Is not implemented.", .opts = no_opts }

const crn_layer_desc crn_family_missing[] = {MISSING("alternating_real_to_complex"),
                                             MISSING("apply_length_distribution"),
                                             MISSING("batch_median_pooling"),
                                             MISSING("batch_softmax"),
                                             MISSING("classes_to_length_distribution"),
                                             MISSING("classes_to_length_distribution_global"),
                                             MISSING("classes_to_segments"),
                                             MISSING("complex_to_alternating_real"),
                                             MISSING("flatten_time"),
                                             MISSING("fold"),
                                             MISSING("hdf_dump"),
                                             MISSING("image_summary"),
                                             MISSING("istft"),
                                             MISSING("kenlm"),
                                             MISSING("mask_based_gevbeamforming"),
                                             MISSING("mask_based_mvdrbeamforming"),
                                             MISSING("parametric_wiener_filter"),
                                             MISSING("random_state_init"),
                                             MISSING("remove"),
                                             MISSING("segment_alignment"),
                                             MISSING("segment_input"),
                                             MISSING("split_concatenated_multichannel"),
                                             MISSING("swap_time_feature"),
                                             MISSING("unsegment_input"),
                                             {.name = NULL}};
