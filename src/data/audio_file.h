/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding audio from memory. WAV is read here; all else (flac, ogg vorbis, …) by libsndfile, which is opened when the
 * first such file comes, so that nothing else needs it.
 */
#ifndef CRN_DATA_AUDIO_FILE_H
#define CRN_DATA_AUDIO_FILE_H

#include "base/status.h"

typedef struct crn_audio {
  double *samples; /* by crn_malloc; interleaved channels, in [-1, 1] */
  int64_t n;       /* samples per channel */
  int channels;
  int64_t rate; /* samples per second */
} crn_audio;

/* name: for messages. */
crn_status crn_audio_decode(const char *bytes, size_t len, const char *name, crn_audio *out, crn_err *err);
void crn_audio_free(crn_audio *a);

#endif
