/* SPDX-License-Identifier: Apache-2.0
 *
 * Between features.c and features_kinds.c; not for other files.
 */
#ifndef CRN_DATA_FEATURES_KINDS_H
#define CRN_DATA_FEATURES_KINDS_H

#include "base/arena.h"
#include "data/fft.h"
#include "data/features.h"

typedef struct crn_feature_spec {
  int64_t filters;   /* features per frame */
  int64_t n_mels;    /* filters below the cosine transform of mfcc */
  double fmin, fmax; /* Hz; fmax -1: half the sample rate */
  double min_amp;
  bool center;  /* frames are centred at multiples of the step, with padding */
  bool reflect; /* the padding mirrors the signal; else zeros */
} crn_feature_spec;

typedef struct crn_feature_kind crn_feature_kind;

/* Sizes and tables for one sample rate. Zero-initialised = none yet. */
typedef struct crn_feature_plan {
  const crn_feature_kind *kind;
  crn_feature_spec spec;
  int64_t rate, window, step, size; /* samples; size: of the transform */
  crn_fft fft;
  double *hann;    /* window samples */
  double *bank;    /* [n_filters][size/2+1] */
  double *cosines; /* [filters][n_filters], for mfcc */
  double *frame;   /* size samples, then size/2+1 powers, then n_filters */
  int64_t n_filters;
} crn_feature_plan;

struct crn_feature_kind {
  const char *name;
  int64_t filters; /* default of num_feature_filters */
  bool raw;        /* samples are the frames */
  bool twice;      /* the transform has twice as many points as there are features */
  bool mel;
  bool cosine; /* mfcc: the bank has n_mels filters, a cosine transform follows */
  /* From the powers (or mel energies) of all frames to features; in place where there are as many. */
  double (*map)(const crn_feature_spec *s, double energy);
  double dynamic_range; /* lowest value below the sequence's greatest one; 0: no limit */
};

typedef enum crn_norm_kind { CRN_NORM_NONE, CRN_NORM_FIXED, CRN_NORM_PER_SEQ } crn_norm_kind;
typedef struct crn_norm {
  crn_norm_kind kind;
  double *values; /* dim */
} crn_norm;

struct crn_features {
  crn_arena arena;
  const crn_feature_kind *kind;
  crn_feature_spec spec;
  double window_len, step_len; /* seconds */
  double preemphasis;
  bool peak;
  int64_t deltas, join, channels, rate;
  int64_t base_dim, dim; /* of the feature; of what comes out */
  crn_norm mean, std_dev;
  crn_feature_plan plan;
  double *frames;
};

crn_status crn_feature_kind_find(const char *name, const crn_feature_kind **out, crn_err *err);
/* Make the plan for this rate, unless it is there already. */
crn_status crn_feature_plan_set(crn_feature_plan *p, const crn_feature_kind *kind, const crn_feature_spec *spec,
                                double window_len, double step_len, int64_t rate, crn_err *err);
void crn_feature_plan_free(crn_feature_plan *p);
int64_t crn_feature_frames(const crn_feature_plan *p, int64_t n_samples);
/* T frames into rows of `width` numbers, of which the first spec.filters are written. */
crn_status crn_feature_fill(crn_feature_plan *p, const double *samples, int64_t n, double *frames, int64_t T,
                            int64_t width, crn_err *err);

#endif
