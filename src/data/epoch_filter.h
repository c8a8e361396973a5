/* SPDX-License-Identifier: Apache-2.0
 *
 * The option epoch_wise_filter: in early epochs keep only short sequences.
 */
#ifndef CRN_DATA_EPOCH_FILTER_H
#define CRN_DATA_EPOCH_FILTER_H

#include "data/dataset_class.h"

/* Apply {(first, last): {"max_mean_len": m, …}} to the order that the dataset has made. subdir_of: for the option
 * "subdirs" and the older rule of LibriSpeechCorpus (NULL elsewhere). */
crn_status crn_epoch_filter(crn_dataset *ds, const crn_value *filter,
                            const char *(*subdir_of)(crn_dataset *ds, int64_t seq), crn_err *err);

#endif
