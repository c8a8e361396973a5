/* SPDX-License-Identifier: Apache-2.0
 *
 * Audio features as the data sets' option `audio` describes them: mfcc, mel filter banks, spectrogram, raw samples;
 * with deltas, normalisation and joined frames.
 */
#ifndef CRN_DATA_FEATURES_H
#define CRN_DATA_FEATURES_H

#include "data/audio_file.h"
#include "data/dataset.h"

typedef struct crn_features crn_features;

/* path(user, file): where a file of the options lies; NULL: as it is. */
crn_status crn_features_new(const crn_value *options, const char *(*path)(void *user, const char *file), void *user,
                            crn_features **out, crn_err *err);
void crn_features_free(crn_features *f);
int64_t crn_features_dim(const crn_features *f);
/* float32 [frames, dim] of the samples, which are changed on the way. name: for messages. */
crn_status crn_features_compute(crn_features *f, crn_audio *audio, const char *name, crn_array *out, crn_err *err);

#endif
