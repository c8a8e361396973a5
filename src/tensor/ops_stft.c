/* SPDX-License-Identifier: Apache-2.0
 *
 * Short-time Fourier transform of real signals, with its gradient. A direct sum over the frame: frames are short, and
 * nothing depends on sizes being powers of two.
 */
#include <math.h>
#include <string.h>

#include "tensor/bcast.h"
#include "tensor/ops.h"

enum { FRAME, FFT, SHIFT, N_FRAMES }; /* attributes; p: window, frame doubles */

typedef struct stft_job {
  crn_node *n;
  int64_t T, C, frame, fft, shift, frames, bins;
  const double *window, *cosine, *sine; /* tables of fft entries */
  const void *grad;                     /* of the output */
  void *dx;
} stft_job;

static double value_at(const crn_tensor *x, int64_t i) {
  return x->dtype == CRN_F32 ? (double)crn_t_f32(x)[i] : crn_t_f64(x)[i];
}

static crn_status stft_infer(crn_run *r, crn_node *n) {
  n->complex_grad = true;
  const crn_tensor *x = n->in[0];
  if (x->rank != 3 || !crn_dtype_is_float(x->dtype))
    return crn_op_fail(r, n, "a real signal [batch, time, channels] is needed");
  const int64_t last = (n->a.i[N_FRAMES] - 1) * n->a.i[SHIFT] + n->a.i[FRAME];
  if (n->a.i[FRAME] > n->a.i[FFT] || n->a.i[FRAME] < 1 || n->a.i[SHIFT] < 1)
    return crn_op_fail(r, n, "frame size %lld, FFT size %lld, shift %lld", (long long)n->a.i[FRAME],
                       (long long)n->a.i[FFT], (long long)n->a.i[SHIFT]);
  if (n->a.i[N_FRAMES] > 0 && last > x->shape[1])
    return crn_op_fail(r, n, "%lld frames need %lld samples, there are %lld", (long long)n->a.i[N_FRAMES],
                       (long long)last, (long long)x->shape[1]);
  const int64_t shape[3] = {x->shape[0], n->a.i[N_FRAMES], x->shape[2] * (n->a.i[FFT] / 2 + 1)};
  return crn_node_output(r, n, 0, CRN_C64, 3, shape);
}

static crn_status prepare(crn_run *r, crn_node *n, stft_job *j) {
  const crn_tensor *x = n->in[0];
  *j = (stft_job){.n = n,
                  .T = x->shape[1],
                  .C = x->shape[2],
                  .frame = n->a.i[FRAME],
                  .fft = n->a.i[FFT],
                  .shift = n->a.i[SHIFT],
                  .frames = n->a.i[N_FRAMES],
                  .bins = n->a.i[FFT] / 2 + 1,
                  .window = n->a.p};
  double *table = crn_scratch(r, (size_t)(2 * j->fft) * sizeof(double));
  if (!table) return r->err->code;
  for (int64_t i = 0; i < j->fft; i++) {
    const double angle = 2 * 3.14159265358979323846 * (double)i / (double)j->fft;
    table[i] = cos(angle);
    table[j->fft + i] = sin(angle);
  }
  j->cosine = table;
  j->sine = table + j->fft;
  return CRN_OK;
}

/* Frames [begin, end) of all sequences: forward. */
static void stft_frames(void *arg, int64_t begin, int64_t end) {
  const stft_job *j = arg;
  const crn_tensor *x = j->n->in[0];
  float *out = crn_t_data(j->n->out[0]);
  for (int64_t f = begin; f < end; f++)
    for (int64_t c = 0; c < j->C; c++)
      for (int64_t k = 0; k < j->bins; k++) {
        const int64_t from = (f / j->frames * j->T + f % j->frames * j->shift) * j->C + c;
        double re = 0, im = 0;
        for (int64_t i = 0, angle = 0; i < j->frame; i++, angle = (angle + k) % j->fft) {
          const double v = value_at(x, from + i * j->C) * j->window[i];
          re += v * j->cosine[angle];
          im -= v * j->sine[angle];
        }
        float *at = out + 2 * ((f * j->C + c) * j->bins + k);
        at[0] = (float)re;
        at[1] = (float)im;
      }
}

static crn_status stft_run(crn_run *r, crn_node *n) {
  stft_job j;
  CRN_TRY(prepare(r, n, &j));
  const int64_t rows = n->in[0]->shape[0] * j.frames;
  crn_for_ranges(r, rows, rows * j.C * j.bins * j.frame, stft_frames, &j);
  return CRN_OK;
}

/* Sequences [begin, end): frames overlap, so one sequence is one piece of work. */
static void stft_sequences(void *arg, int64_t begin, int64_t end) {
  const stft_job *j = arg;
  const float *g = j->grad;
  for (int64_t b = begin; b < end; b++)
    for (int64_t f = 0; f < j->frames; f++)
      for (int64_t c = 0; c < j->C; c++)
        for (int64_t i = 0; i < j->frame; i++) {
          const float *row = g + 2 * (((b * j->frames + f) * j->C + c) * j->bins);
          double sum = 0;
          for (int64_t k = 0, angle = 0; k < j->bins; k++, angle = (angle + i) % j->fft)
            sum += (double)row[2 * k] * j->cosine[angle] - (double)row[2 * k + 1] * j->sine[angle];
          const int64_t at = (b * j->T + f * j->shift + i) * j->C + c;
          if (j->n->in[0]->dtype == CRN_F32)
            ((float *)j->dx)[at] += (float)(sum * j->window[i]);
          else
            ((double *)j->dx)[at] += sum * j->window[i];
        }
}

static crn_status stft_grad(crn_run *r, crn_node *n) {
  stft_job j;
  const void *g = crn_grad_out(n, 0);
  void *dx = g ? crn_grad_in(r, n, 0) : NULL;
  if (!dx) return CRN_OK;
  CRN_TRY(prepare(r, n, &j));
  j.grad = g;
  j.dx = dx;
  const int64_t B = n->in[0]->shape[0];
  crn_for_ranges(r, B, B * j.frames * j.C * j.bins * j.frame, stft_sequences, &j);
  return CRN_OK;
}

static const crn_opdef stft_op = {.name = "stft", .infer = stft_infer, .run = stft_run, .grad = stft_grad};

crn_tensor *crn_stft(crn_run *r, crn_tensor *x, const double *window, int64_t frame_size, int64_t fft_size,
                     int64_t shift, int64_t n_frames) {
  if (!x || crn_run_failed(r)) return NULL;
  double *w = CRN_ARENA_ARRAY(&r->arena, double, frame_size > 0 ? frame_size : 1);
  if (!w) return (void)crn_err_memory(r->err), NULL;
  memcpy(w, window, (size_t)(frame_size > 0 ? frame_size : 0) * sizeof(double));
  return crn_op_call(r, &stft_op, 1, 1, &x, &(crn_attrs){.i = {frame_size, fft_size, shift, n_frames}, .p = w}, NULL);
}
